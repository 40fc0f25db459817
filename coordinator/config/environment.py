"""Settings in environment variables, for containers, where a file or a command line is inconvenient.

    COORDINATOR_SET_group_max_size=100            any setting, with underscores for dots, in upper or lower case
    COORDINATOR_LISTEN=0.0.0.0:9092               the flag --listen; likewise for _ADVERTISE, _ADMIN, _DATA_DIR and _NODES
    KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS=0      a setting as Kafka's images name it, if this server has it
    KAFKA_LISTENERS=IN://0.0.0.0:9092,OUT://0.0.0.0:29092
    KAFKA_ADVERTISED_LISTENERS=IN://coordinator:9092,OUT://localhost:29092

A variable that starts with COORDINATOR_SET_ is for this server, so its name must be that of a setting. Other variables
count only if the name matches exactly, because people have unrelated ones: Kafka's tools use KAFKA_HOME, and a compose file for
Kafka's image sets up controllers and replication. `without_effect` lists those for a warning, which shows typos. It leaves out
what Kubernetes makes from the name of a service, such as COORDINATOR_PORT.

As in Kafka, the security protocol of a listener is in KAFKA_LISTENER_SECURITY_PROTOCOL_MAP, or it is the listener's name. Where
Kafka refuses a name that is neither, the listener is PLAINTEXT here. KAFKA_LISTENER_NAME_... are settings of one listener.

This module maps names to names and texts to texts; load.py checks them.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

SET_PREFIX = "COORDINATOR_SET_"
KAFKA_PREFIX = "KAFKA_"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - in Kafka, an address without a host
FLAG_VARIABLES = {
    "COORDINATOR_LISTEN": "listen",
    "COORDINATOR_ADVERTISE": "advertise",
    "COORDINATOR_ADMIN": "admin",
    "COORDINATOR_DATA_DIR": "data_dir",
    "COORDINATOR_JOURNAL": "journal",
    "COORDINATOR_NODES": "nodes",
    "COORDINATOR_EMULATE": "emulate",
}
_LISTENER_VARIABLES = ("KAFKA_LISTENERS", "KAFKA_ADVERTISED_LISTENERS", "KAFKA_CONTROLLER_LISTENER_NAMES")
_OTHER_VARIABLES = ("COORDINATOR_CACHE_DIR",)
"""Variables that other parts read."""
_PREFIXES = ("COORDINATOR_", KAFKA_PREFIX)
_OF_KUBERNETES = re.compile(r"[A-Z0-9_]+_(SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)|PORT(_[0-9]+_(TCP|UDP|SCTP)(_[A-Z]+)?)?)")
_SIMILAR = 0.9
"""How similar a name must be to be suggested. Kafka's own names are rarely that similar to each other."""


class Assignment(NamedTuple):
    """A setting, and the variable that it comes from."""

    variable: str
    key: str
    text: str


def read_flags(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that stand for flags, as flag -> text."""
    return {flag: environment[variable] for variable, flag in FLAG_VARIABLES.items() if environment.get(variable)}


def read_settings(environment: Mapping[str, str], known: Iterable[str]) -> Iterator[Assignment]:
    """The settings in the environment, those of COORDINATOR_SET_ last, so that they win.

    `known` has the names of all settings. A name after COORDINATOR_SET_ that is not among them is returned with dots
    for underscores. Raises ValueError if the listeners are wrong.
    """
    by_variable = {name.replace(".", "_").lower(): name for name in known}
    for variable in sorted(environment):
        name = _listener_setting(variable) or by_variable.get(variable.removeprefix(KAFKA_PREFIX).lower())
        if variable.startswith(KAFKA_PREFIX) and name is not None and name != "listeners":
            yield Assignment(variable, name, environment[variable])
    if environment.get("KAFKA_LISTENERS") or environment.get("KAFKA_ADVERTISED_LISTENERS"):
        yield Assignment("KAFKA_LISTENERS", "listeners", _listeners(environment))
    for variable in sorted(environment):
        if variable.startswith(SET_PREFIX):
            written = variable.removeprefix(SET_PREFIX).lower()
            yield Assignment(variable, by_variable.get(written, written.replace("_", ".")), environment[variable])


def _listener_setting(variable: str) -> str | None:
    """The setting of KAFKA_LISTENER_NAME_..., as Apache's image writes it: `.` as _, `_` as __ and `-` as ___."""
    if not variable.upper().startswith(f"{KAFKA_PREFIX}LISTENER_NAME_"):
        return None
    marks = {"_": ".", "__": "_", "___": "-"}
    name = variable[len(KAFKA_PREFIX) :].lower()
    return re.sub("_{1,3}", lambda match: marks[match[0]], name)


def without_effect(environment: Mapping[str, str], known: Iterable[str], renamed: Mapping[str, str]) -> list[str]:
    """The variables with a prefix of this server or of Kafka's images that change nothing here, with advice, sorted by name.

    `known` has the names of all settings, and `renamed` Kafka's names of settings that have another name here.
    """
    settings = {KAFKA_PREFIX + name.replace(".", "_").upper() for name in known} - {"KAFKA_LISTENERS"}
    effective = {*settings, *_LISTENER_VARIABLES, *FLAG_VARIABLES, *_OTHER_VARIABLES}
    moved = {KAFKA_PREFIX + name.replace(".", "_").upper(): instead for name, instead in renamed.items()}
    found = [
        variable
        for variable in sorted(environment)
        if variable.startswith(_PREFIXES)
        and not variable.startswith(SET_PREFIX)
        and _listener_setting(variable) is None
        and _with_upper_key(variable) not in effective
        and not _OF_KUBERNETES.fullmatch(variable)
    ]
    return [f"{variable}{_advice(variable, effective, moved)}" for variable in found]


def _advice(variable: str, effective: Iterable[str], moved: Mapping[str, str]) -> str:
    if variable in moved:
        return f" (use {moved[variable]})"
    import difflib  # noqa: PLC0415 - needed for such variables only

    similar = difflib.get_close_matches(variable.upper(), sorted(effective), n=1, cutoff=_SIMILAR)
    return f" (did you mean {similar[0]}?)" if similar else ""


def _with_upper_key(variable: str) -> str:
    """A variable of Kafka's images in upper case; settings are read in either case."""
    return variable.upper() if variable.startswith(KAFKA_PREFIX) else variable


def _listeners(environment: Mapping[str, str]) -> str:
    """The value of `listeners` for Kafka's two lists, matched by listener name, without the controllers' listeners."""
    controllers = {name.strip() for name in environment.get("KAFKA_CONTROLLER_LISTENER_NAMES", "").split(",")}
    advertised = dict(_named("KAFKA_ADVERTISED_LISTENERS", environment))
    entries = []
    names = set()
    for name, address in _named("KAFKA_LISTENERS", environment, "PLAINTEXT://:9092"):
        names.add(name)
        if name not in controllers:
            entry = {"address": f"{EVERYWHERE}{address}" if address.startswith(":") else address, "name": name}
            if name in advertised:
                entry["advertise"] = advertised[name]
            entries.append(entry)
    unknown = advertised.keys() - names
    if unknown:
        raise ValueError(f"KAFKA_ADVERTISED_LISTENERS: {min(unknown)} is not a listener in KAFKA_LISTENERS")
    return json.dumps(entries)


def _named(variable: str, environment: Mapping[str, str], default: str = "") -> Iterator[tuple[str, str]]:
    """The pairs of NAME and HOST:PORT in "NAME://HOST:PORT,..."."""
    for entry in (environment.get(variable) or default).split(","):
        if entry.strip():
            name, separator, address = entry.strip().partition("://")
            if not separator:
                raise ValueError(f"{variable} = {entry.strip()}: allowed: NAME://HOST:PORT,...")
            yield name, address
