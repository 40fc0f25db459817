"""Settings by environment variables, for containers, where a file or a command line is the harder way.

    COORDINATOR_SET_group_max_size=100            any setting: dots are underscores, upper or lower case
    COORDINATOR_LISTEN=0.0.0.0:9092               as --listen; so COORDINATOR_ADVERTISE, _ADMIN and _DATA_DIR
    KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS=0      as images of Kafka have it, for the settings that are here
    KAFKA_LISTENERS=IN://0.0.0.0:9092,OUT://0.0.0.0:29092
    KAFKA_ADVERTISED_LISTENERS=IN://coordinator:9092,OUT://localhost:29092

What begins with COORDINATOR_SET_ was meant for us and must be right. Of the others only exact names count: whoever runs
Kafka's tools has KAFKA_HOME, a compose file for Kafka's image has variables about controllers and replication, and
Kubernetes makes COORDINATOR_PORT and KAFKA_SERVICE_HOST of the names of services.

This module turns names into names and texts into texts; load.py checks them.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

SET_PREFIX = "COORDINATOR_SET_"
KAFKA_PREFIX = "KAFKA_"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - what an address without a host means to Kafka
FLAG_VARIABLES = {
    "COORDINATOR_LISTEN": "listen",
    "COORDINATOR_ADVERTISE": "advertise",
    "COORDINATOR_ADMIN": "admin",
    "COORDINATOR_DATA_DIR": "data_dir",
}


class Assignment(NamedTuple):
    """A setting that a variable makes."""

    variable: str
    key: str
    text: str


def read_flags(environment: Mapping[str, str]) -> dict[str, str]:
    """Flag -> text, of the variables that stand for flags."""
    return {flag: environment[variable] for variable, flag in FLAG_VARIABLES.items() if environment.get(variable)}


def read_settings(environment: Mapping[str, str], known: Iterable[str]) -> Iterator[Assignment]:
    """The settings that the environment makes; those by COORDINATOR_SET_ last, so that they win.

    `known`: the settings there are. A name under COORDINATOR_SET_ that is none of them is returned as it would be
    written with dots. Raises ValueError for listeners that make no sense.
    """
    by_variable = {name.replace(".", "_").lower(): name for name in known}
    for variable in sorted(environment):
        name = by_variable.get(variable.removeprefix(KAFKA_PREFIX).lower())
        if variable.startswith(KAFKA_PREFIX) and name is not None and name != "listeners":
            yield Assignment(variable, name, environment[variable])
    if environment.get("KAFKA_LISTENERS") or environment.get("KAFKA_ADVERTISED_LISTENERS"):
        yield Assignment("KAFKA_LISTENERS", "listeners", _listeners(environment))
    for variable in sorted(environment):
        if variable.startswith(SET_PREFIX):
            written = variable.removeprefix(SET_PREFIX).lower()
            yield Assignment(variable, by_variable.get(written, written.replace("_", ".")), environment[variable])


def _listeners(environment: Mapping[str, str]) -> str:
    """Kafka's two lists, matched by the listeners' names, as our one. A controller's listener is left out."""
    _refuse_protocols(environment)
    controllers = {name.strip() for name in environment.get("KAFKA_CONTROLLER_LISTENER_NAMES", "").split(",")}
    advertised = dict(_named("KAFKA_ADVERTISED_LISTENERS", environment))
    entries = []
    names = set()
    for name, address in _named("KAFKA_LISTENERS", environment, "PLAINTEXT://:9092"):
        names.add(name)
        if name not in controllers:
            entry = {"address": f"{EVERYWHERE}{address}" if address.startswith(":") else address}
            if name in advertised:
                entry["advertise"] = advertised[name]
            entries.append(entry)
    unknown = advertised.keys() - names
    if unknown:
        raise ValueError(f"KAFKA_ADVERTISED_LISTENERS: {min(unknown)} is not a listener of KAFKA_LISTENERS")
    return json.dumps(entries)


def _named(variable: str, environment: Mapping[str, str], default: str = "") -> Iterator[tuple[str, str]]:
    """NAME and HOST:PORT of "NAME://HOST:PORT,..."."""
    for entry in (environment.get(variable) or default).split(","):
        if entry.strip():
            name, separator, address = entry.strip().partition("://")
            if not separator:
                raise ValueError(f"{variable} = {entry.strip()}: allowed: NAME://HOST:PORT,...")
            yield name, address


def _refuse_protocols(environment: Mapping[str, str]) -> None:
    for entry in environment.get("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP", "").split(","):
        protocol = entry.partition(":")[2].strip()
        if protocol not in {"", "PLAINTEXT"}:
            raise ValueError(f"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: {protocol}: not supported yet; allowed: PLAINTEXT")
