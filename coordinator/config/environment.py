"""Settings in environment variables, for containers, where a file or a command line is inconvenient.

    COORDINATOR_SET_group_max_size=100            any setting, with underscores for dots, in upper or lower case
    COORDINATOR_LISTEN=0.0.0.0:9092               the flag --listen; likewise COORDINATOR_ADVERTISE, _ADMIN and _DATA_DIR
    KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS=0      a setting as Kafka's images name it, if this server has it
    KAFKA_LISTENERS=IN://0.0.0.0:9092,OUT://0.0.0.0:29092
    KAFKA_ADVERTISED_LISTENERS=IN://coordinator:9092,OUT://localhost:29092

A variable that starts with COORDINATOR_SET_ is meant for this server, so its name must be that of a setting. Other variables
count only if the name matches exactly, because people have unrelated ones: Kafka's tools use KAFKA_HOME, a compose file for
Kafka's image sets up controllers and replication, and Kubernetes makes COORDINATOR_PORT from the name of a service.

This module maps names to names and texts to texts; load.py checks them.
"""

import json
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
}


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
    """The value of `listeners` for Kafka's two lists, matched by listener name, without the controllers' listeners."""
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


def _refuse_protocols(environment: Mapping[str, str]) -> None:
    for entry in environment.get("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP", "").split(","):
        protocol = entry.partition(":")[2].strip()
        if protocol not in {"", "PLAINTEXT"}:
            raise ValueError(f"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: {protocol}: not supported yet; allowed: PLAINTEXT")
