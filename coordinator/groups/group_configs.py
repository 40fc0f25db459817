"""Settings of single groups: Kafka's configs of the resource type GROUP, by which one group differs from the others.

A setting that a group has none of its own for is the server's. Whether a value may be set depends on the server too: its
`min.` and `max.` siblings. The group need not exist, so that it can be set up before its first member comes.

They are kept with the topics' settings (the log of metadata), not with the group; here is what they are called, what they may
be and what they come to.
"""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from coordinator.groups.settings import FENCING_POLICIES, ConsumerSettings, GroupsConfig
from coordinator.protocol.errors import ErrorCode, KafkaError

RESOURCE_TYPE = 32
"""Kafka's number for the resource type GROUP."""

INT, BOOLEAN, STRING = 3, 1, 2
"""Types of values, in the numbers of DescribeConfigs."""

Overrides = Mapping[str, str]
"""The settings that a group has of its own, as text, as the client sent them."""

_NUMBER = re.compile(r"[+-]?[0-9]{1,10}")


class GroupConfig(NamedTuple):
    """One setting that a group may have of its own."""

    name: str
    kind: int
    server_name: str
    """The server's setting of the same meaning."""
    server_value: Callable[[GroupsConfig], str]
    bounds: Callable[[GroupsConfig], tuple[int, int]] | None
    about: str


def _text(value: bool) -> str:
    return "true" if value else "false"


GROUP_CONFIGS: dict[str, GroupConfig] = {
    row.name: row
    for row in (
        GroupConfig(
            "consumer.session.timeout.ms",
            INT,
            "group.consumer.session.timeout.ms",
            lambda config: str(config.group_consumer_session_timeout_ms),
            lambda config: (
                config.group_consumer_min_session_timeout_ms,
                config.group_consumer_max_session_timeout_ms,
            ),
            "A member that is silent so long is removed.",
        ),
        GroupConfig(
            "consumer.heartbeat.interval.ms",
            INT,
            "group.consumer.heartbeat.interval.ms",
            lambda config: str(config.group_consumer_heartbeat_interval_ms),
            lambda config: (
                config.group_consumer_min_heartbeat_interval_ms,
                config.group_consumer_max_heartbeat_interval_ms,
            ),
            "How often members are told to be heard of.",
        ),
        GroupConfig(
            "consumer.assignment.interval.ms",
            INT,
            "group.consumer.assignment.interval.ms",
            lambda config: str(config.group_consumer_assignment_interval_ms),
            lambda config: (
                config.group_consumer_min_assignment_interval_ms,
                config.group_consumer_max_assignment_interval_ms,
            ),
            "A target assignment stands at least so long.",
        ),
        GroupConfig(
            "consumer.fencing.policy",
            STRING,
            "group.consumer.fencing.policy",
            lambda config: config.group_consumer_fencing_policy,
            None,
            "Which earlier epochs a member may commit with (ours).",
        ),
        GroupConfig(
            "consumer.fencing.require.ownership",
            BOOLEAN,
            "fencing.require.ownership",
            lambda config: _text(config.fencing_require_ownership),
            None,
            "A commit at the member's epoch is refused for partitions that it does not own (ours).",
        ),
        GroupConfig(
            "fencing.require.member",
            BOOLEAN,
            "fencing.require.member",
            lambda config: _text(config.fencing_require_member),
            None,
            "A commit in a transaction is refused if it names no member (ours).",
        ),
    )
}


def check(config: GroupsConfig, overrides: Overrides) -> None:
    """Raises INVALID_CONFIG unless a group may have these settings."""
    for name, value in overrides.items():
        row = GROUP_CONFIGS.get(name)
        if row is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {name}")
        _check_value(config, row, value)


def _check_value(config: GroupsConfig, row: GroupConfig, value: str) -> None:
    if row.kind == BOOLEAN:
        if value.strip().lower() not in ("true", "false"):
            raise _invalid(row, value, "Expected value to be either true or false")
    elif row.bounds is None:
        if value not in FENCING_POLICIES:
            raise _invalid(row, value, f"String must be one of: {', '.join(FENCING_POLICIES)}")
    elif not _NUMBER.fullmatch(value.strip()):
        raise _invalid(row, value, "Not a number of type INT")
    else:
        low, high = row.bounds(config)
        if not low <= int(value) <= high:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{row.name} must be in the range {low} to {high} inclusive.")


def _invalid(row: GroupConfig, value: str, why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, f"Invalid value {value} for configuration {row.name}: {why}")


class ConfiguredGroups:
    """The settings of every group. `overrides_of(group_id)` gives the same object as long as nothing is changed."""

    def __init__(self, config: GroupsConfig, overrides_of: Callable[[str], Overrides] | None = None) -> None:
        self._config = config
        self._overrides_of = overrides_of
        self._everybodys = _consumer_settings(config, {})
        self._own: dict[str, tuple[Overrides, ConsumerSettings]] = {}

    def consumer(self, group_id: str) -> ConsumerSettings:
        overrides = None if self._overrides_of is None else self._overrides_of(group_id)
        if not overrides:
            return self._everybodys
        known = self._own.get(group_id)
        if known is None or known[0] is not overrides:
            known = self._own[group_id] = (overrides, _consumer_settings(self._config, overrides))
        return known[1]


def _consumer_settings(config: GroupsConfig, overrides: Overrides) -> ConsumerSettings:
    """What is set by now out of range, because the server's bounds are others than when it was set, is taken into it."""

    def value(name: str) -> str:
        return overrides.get(name) or GROUP_CONFIGS[name].server_value(config)

    def number(name: str) -> int:
        row = GROUP_CONFIGS[name]
        own = overrides.get(name)
        if own is None or row.bounds is None or not _NUMBER.fullmatch(own.strip()):
            return int(row.server_value(config))
        low, high = row.bounds(config)
        return max(low, min(int(own), high))

    policy = value("consumer.fencing.policy")
    return ConsumerSettings(
        session_timeout_ms=number("consumer.session.timeout.ms"),
        heartbeat_interval_ms=number("consumer.heartbeat.interval.ms"),
        assignment_interval_ms=number("consumer.assignment.interval.ms"),
        fencing_policy=policy if policy in FENCING_POLICIES else config.group_consumer_fencing_policy,
        require_ownership=value("consumer.fencing.require.ownership").strip().lower() == "true",
        require_member=value("fencing.require.member").strip().lower() == "true",
    )
