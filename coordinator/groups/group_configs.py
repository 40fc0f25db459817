"""Settings of single groups: Kafka's configs of resource type GROUP, by which one group differs from the others.

A setting that a group does not override has the server's value. Which values are allowed depends on the server, too, through
the `min.` and `max.` siblings of the server's setting. The group need not exist, so that it can be configured before its
first member joins.

Overrides are kept with the topics' settings (in the metadata log), not with the group. This module says how they are named,
which values are allowed, and which values are in force.
"""

from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeVar

from coordinator.groups.settings import (
    FENCING_POLICIES,
    VALIDATION_POLICIES,
    ClassicSettings,
    ConsumerSettings,
    GroupsConfig,
    StreamsSettings,
)
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.java import parse_long

RESOURCE_TYPE = 32
"""Kafka's number for the resource type GROUP."""

REBALANCE_INTERVAL = "group.rebalance.interval.ms"

BOOLEAN, STRING, INT, LONG, LIST = 1, 2, 3, 5, 7
"""Types of values, in the numbers of DescribeConfigs."""

Overrides = Mapping[str, str]
"""The overrides of one group: name -> value, as the client sent them."""

_Settings = TypeVar("_Settings")

_MAX = {INT: 2**31 - 1, LONG: 2**63 - 1}


class Bounds(NamedTuple):
    """The range that the server allows for a number; None means no bound."""

    low: int | None = None
    high: int | None = None


class GroupConfig(NamedTuple):
    """One setting that a group may override."""

    name: str
    kind: int
    server_name: str
    """The server's setting that applies to groups without an override."""
    server_value: Callable[[GroupsConfig], str]
    bounds: Callable[[GroupsConfig], Bounds] | None
    about: str
    least: int = 0
    """The least valid number, whatever the server's bounds are."""
    zero_is_off: bool = False
    """Whether 0 is valid, whatever the server's bounds are."""
    is_internal: bool = False
    """Only shown if the group overrides it, as in Kafka."""


def _text(value: bool) -> str:
    return "true" if value else "false"


GROUP_CONFIGS: dict[str, GroupConfig] = {
    row.name: row
    for row in (
        GroupConfig(
            "classic.validate.assignments",
            STRING,
            "group.classic.validate.assignments",
            lambda config: config.group_classic_validate_assignments,
            None,
            "What becomes of an invalid assignment of a classic group's leader. Not a Kafka setting.",
        ),
        GroupConfig(
            "consumer.session.timeout.ms",
            INT,
            "group.consumer.session.timeout.ms",
            lambda config: str(config.group_consumer_session_timeout_ms),
            lambda config: Bounds(
                config.group_consumer_min_session_timeout_ms,
                config.group_consumer_max_session_timeout_ms,
            ),
            "A member that sends no heartbeat for this long is removed.",
            1,
        ),
        GroupConfig(
            "consumer.heartbeat.interval.ms",
            INT,
            "group.consumer.heartbeat.interval.ms",
            lambda config: str(config.group_consumer_heartbeat_interval_ms),
            lambda config: Bounds(
                config.group_consumer_min_heartbeat_interval_ms,
                config.group_consumer_max_heartbeat_interval_ms,
            ),
            "The interval at which members send heartbeats; the server reports it to them.",
            1,
        ),
        GroupConfig(
            "consumer.assignment.interval.ms",
            INT,
            "group.consumer.assignment.interval.ms",
            lambda config: str(config.group_consumer_assignment_interval_ms),
            lambda config: Bounds(
                config.group_consumer_min_assignment_interval_ms,
                config.group_consumer_max_assignment_interval_ms,
            ),
            "The shortest time between two target assignments.",
        ),
        GroupConfig(
            "consumer.fencing.policy",
            STRING,
            "group.consumer.fencing.policy",
            lambda config: config.group_consumer_fencing_policy,
            None,
            "Which earlier member epochs may commit offsets. Not a Kafka setting.",
        ),
        GroupConfig(
            "consumer.fencing.require.ownership",
            BOOLEAN,
            "fencing.require.ownership",
            lambda config: _text(config.fencing_require_ownership),
            None,
            "Refuse commits at the current epoch for partitions that the member does not own. Not a Kafka setting.",
        ),
        GroupConfig(
            "fencing.require.member",
            BOOLEAN,
            "fencing.require.member",
            lambda config: _text(config.fencing_require_member),
            None,
            "Refuse commits in a transaction that name no member. Not a Kafka setting.",
        ),
        GroupConfig(
            REBALANCE_INTERVAL,
            INT,
            REBALANCE_INTERVAL,
            lambda config: str(config.group_rebalance_interval_ms),
            lambda config: Bounds(low=config.group_min_rebalance_interval_ms),
            "The group rebalances when this time has passed since its last rebalance; 0: never. Not a Kafka setting.",
            zero_is_off=True,
        ),
        GroupConfig(
            "streams.session.timeout.ms",
            INT,
            "group.streams.session.timeout.ms",
            lambda config: str(config.group_streams_session_timeout_ms),
            lambda config: Bounds(
                config.group_streams_min_session_timeout_ms,
                config.group_streams_max_session_timeout_ms,
            ),
            "A member of a streams group that sends no heartbeat for this long is removed.",
            1,
        ),
        GroupConfig(
            "streams.heartbeat.interval.ms",
            INT,
            "group.streams.heartbeat.interval.ms",
            lambda config: str(config.group_streams_heartbeat_interval_ms),
            lambda config: Bounds(
                config.group_streams_min_heartbeat_interval_ms,
                config.group_streams_max_heartbeat_interval_ms,
            ),
            "The interval at which members of a streams group send heartbeats; the server reports it to them.",
            1,
        ),
        GroupConfig(
            "streams.assignment.interval.ms",
            INT,
            "group.streams.assignment.interval.ms",
            lambda config: str(config.group_streams_assignment_interval_ms),
            lambda config: Bounds(
                config.group_streams_min_assignment_interval_ms,
                config.group_streams_max_assignment_interval_ms,
            ),
            "The shortest time between two target assignments of a streams group.",
        ),
        GroupConfig(
            "streams.initial.rebalance.delay.ms",
            INT,
            "group.streams.initial.rebalance.delay.ms",
            lambda config: str(config.group_streams_initial_rebalance_delay_ms),
            lambda _: Bounds(),
            "How long an empty streams group waits for more members before its first assignment.",
        ),
        GroupConfig(
            "streams.num.standby.replicas",
            INT,
            "group.streams.num.standby.replicas",
            lambda config: str(config.group_streams_num_standby_replicas),
            lambda config: Bounds(high=config.group_streams_max_standby_replicas),
            "The number of standby copies of each task's state.",
        ),
        GroupConfig(
            "streams.rack.aware.assignment.tags",
            LIST,
            "group.streams.rack.aware.assignment.tags",
            lambda config: ",".join(config.group_streams_rack_aware_assignment_tags),
            None,
            "The client tags that every member of a streams group must have.",
        ),
        GroupConfig(
            "streams.assignor.name",
            STRING,
            "group.streams.assignors",
            lambda config: config.group_streams_assignors[0],
            None,
            "The assignor of a streams group's tasks.",
        ),
        GroupConfig(
            "streams.task.offset.interval.ms",
            INT,
            "group.streams.task.offset.interval.ms",
            lambda config: str(config.group_streams_task_offset_interval_ms),
            lambda config: Bounds(low=config.group_streams_min_task_offset_interval_ms),
            "The interval at which members of a streams group report the changelog offsets of their tasks.",
            1,
            is_internal=True,
        ),
        GroupConfig(
            "streams.acceptable.recovery.lag",
            LONG,
            "group.streams.acceptable.recovery.lag",
            lambda config: str(config.group_streams_acceptable_recovery_lag),
            lambda _: Bounds(),
            "The number of records that a copy of a task's state may lack and still count as caught up.",
            is_internal=True,
        ),
        GroupConfig(
            "streams.fencing.policy",
            STRING,
            "group.streams.fencing.policy",
            lambda config: config.group_streams_fencing_policy,
            None,
            "Which earlier member epochs of a streams group may commit offsets. Not a Kafka setting.",
        ),
        GroupConfig(
            "streams.fencing.require.ownership",
            BOOLEAN,
            "fencing.require.ownership",
            lambda config: _text(config.fencing_require_ownership),
            None,
            "Refuse commits at the current epoch for partitions of tasks that the member does not own. Not a Kafka setting.",
        ),
    )
}

_OPTIONS = {
    "classic.validate.assignments": VALIDATION_POLICIES,
    "consumer.fencing.policy": FENCING_POLICIES,
    "streams.fencing.policy": FENCING_POLICIES,
}


def check(config: GroupsConfig, overrides: Overrides) -> None:
    """Raises INVALID_CONFIG unless a group may have these overrides."""
    for name, value in overrides.items():
        row = GROUP_CONFIGS.get(name)
        if row is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {name}")
        if row.bounds is not None:
            _check_number(row, row.bounds(config), value)
        else:
            _check_text(config, row, value)


def _check_number(row: GroupConfig, bounds: Bounds, value: str) -> None:
    number = parse_long(value)
    if number is None or not -_MAX[row.kind] - 1 <= number <= _MAX[row.kind]:
        raise _invalid(row, value, f"Not a number of type {'INT' if row.kind == INT else 'LONG'}")
    if number < row.least:
        raise _invalid(row, value, f"Value must be at least {row.least}")
    if row.zero_is_off and not number:
        return
    low, high = bounds
    if (low is not None and number < low) or (high is not None and number > high):
        if low is None:
            why = f"less than or equal to {high}"
        elif high is None:
            why = f"greater than or equal to {low}"
        else:
            why = f"in the range {low} to {high} inclusive."
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{row.name} must be {why}")


def _check_text(config: GroupsConfig, row: GroupConfig, value: str) -> None:
    if row.kind == BOOLEAN:
        if value.strip().lower() not in ("true", "false"):
            raise _invalid(row, value, "Expected value to be either true or false")
    elif row.kind == LIST:
        names = _names(value)
        if not all(names):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Configuration '{row.name}' values must not be empty.")
        if len(set(names)) < len(names):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{row.name} must not contain duplicate tag keys.")
    elif row.name in _OPTIONS:
        options = _OPTIONS[row.name]
        if value not in options:
            raise _invalid(row, value, f"String must be one of: {', '.join(options)}")
    elif value not in config.group_streams_assignors:
        known = ", ".join(config.group_streams_assignors)
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{row.name} '{value}' is not a registered task assignor. Registered assignors are: [{known}].",
        )


def _names(value: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in value.split(",")) if value.strip() else ()


def _invalid(row: GroupConfig, value: str, why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, f"Invalid value {value} for configuration {row.name}: {why}")


class ConfiguredGroups:
    """The settings in force for every group. `overrides_of(group_id)` returns the same object until an override changes."""

    def __init__(self, config: GroupsConfig, overrides_of: Callable[[str], Overrides] | None = None) -> None:
        self._overrides_of = overrides_of
        self.configure(config)

    def configure(self, config: GroupsConfig) -> None:
        """Changes the server's settings, which those of a group fall back to."""
        self._classic = _Known(config, _classic_settings)
        self._consumer = _Known(config, _consumer_settings)
        self._streams = _Known(config, _streams_settings)
        self._rebalance_interval_ms = _Known(config, lambda values: values.number(REBALANCE_INTERVAL))

    def classic(self, group_id: str) -> ClassicSettings:
        return self._classic.of(group_id, self._overrides(group_id))

    def consumer(self, group_id: str) -> ConsumerSettings:
        return self._consumer.of(group_id, self._overrides(group_id))

    def streams(self, group_id: str) -> StreamsSettings:
        return self._streams.of(group_id, self._overrides(group_id))

    def rebalance_interval_ms(self, group_id: str) -> int:
        return self._rebalance_interval_ms.of(group_id, self._overrides(group_id))

    def _overrides(self, group_id: str) -> Overrides | None:
        return None if self._overrides_of is None else self._overrides_of(group_id)


class _Known(Generic[_Settings]):
    """A cache of the settings in force, for groups with overrides; all other groups share one object."""

    def __init__(self, config: GroupsConfig, make: Callable[["_Values"], _Settings]) -> None:
        self._config = config
        self._make = make
        self._without_overrides = make(_Values(config, {}))
        self._own: dict[str, tuple[Overrides, _Settings]] = {}

    def of(self, group_id: str, overrides: Overrides | None) -> _Settings:
        if not overrides:
            return self._without_overrides
        known = self._own.get(group_id)
        if known is None or known[0] is not overrides:
            known = self._own[group_id] = (overrides, self._make(_Values(self._config, overrides)))
        return known[1]


class _Values:
    """The settings in force, by name. An override outside the server's bounds, which may have changed since it was set, is
    moved to the nearest bound."""

    def __init__(self, config: GroupsConfig, overrides: Overrides) -> None:
        self._config = config
        self._overrides = overrides

    def text(self, name: str) -> str:
        return self._overrides.get(name) or GROUP_CONFIGS[name].server_value(self._config)

    def is_true(self, name: str) -> bool:
        return self.text(name).strip().lower() == "true"

    def option(self, name: str) -> str:
        value = self.text(name)
        return value if value in _OPTIONS[name] else GROUP_CONFIGS[name].server_value(self._config)

    def number(self, name: str) -> int:
        row = GROUP_CONFIGS[name]
        own = parse_long(self._overrides.get(name, ""))
        if own is None or row.bounds is None:
            return int(row.server_value(self._config))
        if row.zero_is_off and not own:
            return 0
        low, high = row.bounds(self._config)
        value = own if high is None else min(own, high)
        return value if low is None else max(low, value)


def _classic_settings(values: _Values) -> ClassicSettings:
    return ClassicSettings(validate_assignments=values.option("classic.validate.assignments"))


def _consumer_settings(values: _Values) -> ConsumerSettings:
    return ConsumerSettings(
        session_timeout_ms=values.number("consumer.session.timeout.ms"),
        heartbeat_interval_ms=values.number("consumer.heartbeat.interval.ms"),
        assignment_interval_ms=values.number("consumer.assignment.interval.ms"),
        fencing_policy=values.option("consumer.fencing.policy"),
        require_ownership=values.is_true("consumer.fencing.require.ownership"),
        require_member=values.is_true("fencing.require.member"),
    )


def _streams_settings(values: _Values) -> StreamsSettings:
    return StreamsSettings(
        session_timeout_ms=values.number("streams.session.timeout.ms"),
        heartbeat_interval_ms=values.number("streams.heartbeat.interval.ms"),
        assignment_interval_ms=values.number("streams.assignment.interval.ms"),
        initial_rebalance_delay_ms=values.number("streams.initial.rebalance.delay.ms"),
        task_offset_interval_ms=values.number("streams.task.offset.interval.ms"),
        acceptable_recovery_lag=values.number("streams.acceptable.recovery.lag"),
        num_standby_replicas=values.number("streams.num.standby.replicas"),
        rack_aware_assignment_tags=_names(values.text("streams.rack.aware.assignment.tags")),
        assignor_name=values.text("streams.assignor.name"),
        fencing_policy=values.option("streams.fencing.policy"),
        require_ownership=values.is_true("streams.fencing.require.ownership"),
        require_member=values.is_true("fencing.require.member"),
    )
