"""The settings that a replay can change, under Kafka's names."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

from coordinator.groups.settings import FENCING_POLICIES, REVOCATION_EPOCH

CLASSIC, CONSUMER, STREAMS = "classic", "consumer", "streams"
EAGER, COOPERATIVE = "eager", "cooperative"


class WrongSetting(Exception):
    """A setting that does not exist, or a value that it cannot have. The text says what is allowed."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of the consumers and of the server. The defaults are Kafka's."""

    session_timeout_ms: int = 45_000
    max_poll_interval_ms: int = 300_000
    initial_delay_ms: int = 3_000
    is_static: bool = False
    """All consumers have an instance id; else those that are recorded with one."""
    protocol: str = CLASSIC
    rebalance_protocol: str = EAGER
    """Of a classic group."""
    fencing_policy: str = REVOCATION_EPOCH
    """Of a consumer group."""
    streams_fencing_policy: str = REVOCATION_EPOCH
    """Of a streams group."""


def _ms(lowest: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isascii() or not text.isdecimal() or not lowest <= int(text) < 1 << 31:
            raise ValueError(f"milliseconds from {lowest} to {(1 << 31) - 1}")
        return int(text)

    return parse


def _one_of(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"one of {', '.join(allowed)}")
        return text

    return parse


def _static(text: str) -> bool:
    return _one_of("static", "dynamic")(text) == "static"


NAMES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "session.timeout.ms": ("session_timeout_ms", _ms(1)),
    "max.poll.interval.ms": ("max_poll_interval_ms", _ms(1)),
    "group.initial.rebalance.delay.ms": ("initial_delay_ms", _ms(0)),
    "membership": ("is_static", _static),
    "group.protocol": ("protocol", _one_of(CLASSIC, CONSUMER)),
    "rebalance.protocol": ("rebalance_protocol", _one_of(EAGER, COOPERATIVE)),
    "group.consumer.fencing.policy": ("fencing_policy", _one_of(*FENCING_POLICIES)),
    "group.streams.fencing.policy": ("streams_fencing_policy", _one_of(*FENCING_POLICIES)),
}
"""Name -> field of `Settings`, and its parser."""


def changed(settings: Settings, given: Iterable[str]) -> Settings:
    """The settings with these changes (`NAME=VALUE`). Raises WrongSetting."""
    for text in given:
        name, separator, value = text.partition("=")
        if name not in NAMES or not separator:
            raise WrongSetting(f"{text!r} is not NAME=VALUE with one of the names {', '.join(NAMES)}")
        attribute, parse = NAMES[name]
        try:
            settings = replace(settings, **{attribute: parse(value)})
        except ValueError as error:
            raise WrongSetting(f"{name}={value}: the value must be {error}") from None
    return settings


def as_values(settings: Settings) -> dict[str, Any]:
    """The settings by their names."""
    names = {attribute: name for name, (attribute, _) in NAMES.items()}
    values = {names[each.name]: getattr(settings, each.name) for each in fields(settings)}
    values["membership"] = "static" if settings.is_static else "as recorded"
    return values
