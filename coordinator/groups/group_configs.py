"""Settings of single groups: Kafka's configs of resource type GROUP, by which one group differs from the others.

A setting that a group does not override has the server's value. Which values are allowed depends on the server, too, through
the `min.` and `max.` siblings of the server's setting. The group need not exist, so that it can be configured before its
first member joins.

Overrides are kept with the topics' settings (in the metadata log), not with the group. This module says how they are named,
which values are allowed, and which values are in force.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar, cast

from coordinator.groups.settings import (
    FENCING_POLICIES,
    VALIDATION_POLICIES,
    ClassicSettings,
    ConsumerSettings,
    GroupsConfig,
    ShareSettings,
    StreamsSettings,
)
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.java import parse_duration_ms, parse_long

RESOURCE_TYPE = 32
"""Kafka's number for the resource type GROUP."""

REBALANCE_INTERVAL = "group.rebalance.interval.ms"
ASSIGNOR = "streams.assignor.name"
DEAD_LETTER_TOPIC, DEAD_LETTER_COPIES = "errors.deadletterqueue.topic.name", "errors.deadletterqueue.copy.record.enable"
AUTO_OFFSET_RESET = "share.auto.offset.reset"
BY_DURATION = "by_duration:"
"""How a value of this config begins that names a time before now."""

BOOLEAN, STRING, INT, LONG, LIST = 1, 2, 3, 5, 7
"""Types of values, in the numbers of DescribeConfigs."""

Overrides = Mapping[str, str]
"""The overrides of one group: name -> value, as the client sent them."""

_Settings = TypeVar("_Settings")

_KIND = re.compile(r"^(group_(?:consumer_|streams_|share_)?)(?:num_)?")
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
    """The server's setting that applies to groups without an override; "" where there is none."""
    about: str
    least: int = 0
    """The least valid number, whatever the server's bounds are."""
    zero_is_off: bool = False
    """Whether 0 is valid, whatever the server's bounds are."""
    is_internal: bool = False
    """Only shown if it is set, as in Kafka."""
    default: str = ""
    """The value for groups without an override where the server has no setting of its own."""

    most: int | None = None
    """The greatest valid number where the server has no setting for it."""

    def server_value(self, config: GroupsConfig) -> str:
        """The value for groups without an override."""
        if self.default or not self.server_name:
            return self.default
        value = getattr(config, self.fields[0])
        if self.name == ASSIGNOR:
            return str(value[0])
        return ",".join(value) if self.kind == LIST else str(value).lower() if self.kind == BOOLEAN else str(value)

    def bounds(self, config: GroupsConfig) -> Bounds:
        """The values of the server's settings with `min` and `max` in their names, if there are any."""
        _, low, high = self.fields
        return Bounds(getattr(config, low, None), getattr(config, high, self.most))

    @property
    def fields(self) -> tuple[str, str, str]:
        """The fields of `GroupsConfig` that have the server's value and, if they exist, its bounds."""
        own = self.server_name.replace(".", "_")
        return own, _KIND.sub(r"\1min_", own), _KIND.sub(r"\1max_", own)


_OFFLOAD = "Stored but has no effect: the event loop computes assignments."

# fmt: off
GROUP_CONFIGS: dict[str, GroupConfig] = {
    row.name: row
    for row in (
        GroupConfig("classic.validate.assignments", STRING, "group.classic.validate.assignments",
            "What becomes of an invalid assignment of a classic group's leader. Not a Kafka setting."),
        GroupConfig("consumer.session.timeout.ms", INT, "group.consumer.session.timeout.ms",
            "A member that sends no heartbeat for this long is removed.", least=1),
        GroupConfig("consumer.heartbeat.interval.ms", INT, "group.consumer.heartbeat.interval.ms",
            "The interval at which members send heartbeats; the server reports it to them.", least=1),
        GroupConfig("consumer.assignment.interval.ms", INT, "group.consumer.assignment.interval.ms",
            "The shortest time between two target assignments."),
        GroupConfig("consumer.assignor.offload.enable", BOOLEAN, "group.consumer.assignor.offload.enable",
            _OFFLOAD, is_internal=True, default="true"),
        GroupConfig("consumer.fencing.policy", STRING, "group.consumer.fencing.policy",
            "Which earlier member epochs may commit offsets. Not a Kafka setting."),
        GroupConfig("consumer.fencing.require.ownership", BOOLEAN, "fencing.require.ownership",
            "Refuse commits at the current epoch for partitions that the member does not own. Not a Kafka setting."),
        GroupConfig("fencing.require.member", BOOLEAN, "fencing.require.member",
            "Refuse commits in a transaction that name no member. Not a Kafka setting."),
        GroupConfig(REBALANCE_INTERVAL, INT, REBALANCE_INTERVAL,
            "The group rebalances when this time has passed since its last rebalance; 0: never. Not a Kafka setting.",
            zero_is_off=True),
        GroupConfig("streams.session.timeout.ms", INT, "group.streams.session.timeout.ms",
            "A member of a streams group that sends no heartbeat for this long is removed.", least=1),
        GroupConfig("streams.heartbeat.interval.ms", INT, "group.streams.heartbeat.interval.ms",
            "The interval at which members of a streams group send heartbeats; the server reports it to them.", least=1),
        GroupConfig("streams.assignment.interval.ms", INT, "group.streams.assignment.interval.ms",
            "The shortest time between two target assignments of a streams group."),
        GroupConfig("streams.initial.rebalance.delay.ms", INT, "group.streams.initial.rebalance.delay.ms",
            "How long an empty streams group waits for more members before its first assignment."),
        GroupConfig("streams.num.standby.replicas", INT, "group.streams.num.standby.replicas",
            "The number of standby copies of each task's state."),
        GroupConfig("streams.num.warmup.replicas", INT, "group.streams.num.warmup.replicas",
            "Stored but has no effect: there are no warm-up tasks.", is_internal=True, default="2", most=20),
        GroupConfig("streams.rack.aware.assignment.tags", LIST, "group.streams.rack.aware.assignment.tags",
            "The client tags that every member of a streams group must have."),
        GroupConfig(ASSIGNOR, STRING, "group.streams.assignors",
            "The assignor of a streams group's tasks."),
        GroupConfig("streams.task.offset.interval.ms", INT, "group.streams.task.offset.interval.ms",
            "The interval at which members of a streams group report the changelog offsets of their tasks.",
            least=1, is_internal=True),
        GroupConfig("streams.acceptable.recovery.lag", LONG, "group.streams.acceptable.recovery.lag",
            "The number of records that a copy of a task's state may lack and still count as caught up.", is_internal=True),
        GroupConfig("streams.assignor.offload.enable", BOOLEAN, "group.streams.assignor.offload.enable",
            _OFFLOAD, is_internal=True, default="true"),
        GroupConfig("streams.fencing.policy", STRING, "group.streams.fencing.policy",
            "Which earlier member epochs of a streams group may commit offsets. Not a Kafka setting."),
        GroupConfig("streams.fencing.require.ownership", BOOLEAN, "fencing.require.ownership",
            "Refuse commits at the current epoch for partitions of tasks that the member does not own. Not a Kafka setting."),
        GroupConfig("share.session.timeout.ms", INT, "group.share.session.timeout.ms",
            "A member of a share group that sends no heartbeat for this long is removed.", least=1),
        GroupConfig("share.heartbeat.interval.ms", INT, "group.share.heartbeat.interval.ms",
            "The interval at which members of a share group send heartbeats; the server reports it to them.", least=1),
        GroupConfig("share.assignment.interval.ms", INT, "group.share.assignment.interval.ms",
            "The shortest time between two target assignments of a share group."),
        GroupConfig("share.assignor.offload.enable", BOOLEAN, "group.share.assignor.offload.enable",
            _OFFLOAD, is_internal=True, default="true"),
        GroupConfig("share.record.lock.duration.ms", INT, "group.share.record.lock.duration.ms",
            "How long a member of a share group has a record to itself.", least=1_000),
        GroupConfig("share.delivery.count.limit", INT, "group.share.delivery.count.limit",
            "How often a record is delivered to a share group, at most.", least=2),
        GroupConfig("share.partition.max.record.locks", INT, "group.share.partition.max.record.locks",
            "How many records of a partition the members of a share group may have at a time.", least=100),
        GroupConfig(AUTO_OFFSET_RESET, STRING, "",
            "Where a share group begins in a partition: latest, earliest, or by_duration:DURATION before now.",
            default="latest"),
        GroupConfig("share.isolation.level", STRING, "",
            "Whether a share group gets the records of transactions that are open or were aborted.",
            default="read_uncommitted"),
        GroupConfig("share.renew.acknowledge.enable", BOOLEAN, "",
            "Whether members of a share group may renew the lock of a record.", default="true"),
        GroupConfig(DEAD_LETTER_TOPIC, STRING, "",
            "The topic for records that a share group rejects or gets too often; blank if there is none."),
        GroupConfig(DEAD_LETTER_COPIES, BOOLEAN, "",
            "Whether that topic gets the keys and values of these records, and not only where they are.", default="false"),
    )
}
# fmt: on
_OPTIONS = {
    "classic.validate.assignments": VALIDATION_POLICIES,
    "consumer.fencing.policy": FENCING_POLICIES,
    "streams.fencing.policy": FENCING_POLICIES,
    "share.isolation.level": ("read_committed", "read_uncommitted"),
}


def check(config: GroupsConfig, overrides: Overrides) -> None:
    """Raises INVALID_CONFIG unless a group may have these overrides."""
    for name, value in overrides.items():
        row = GROUP_CONFIGS.get(name)
        if row is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {name}")
        if row.kind in _MAX:
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
    elif row.name == AUTO_OFFSET_RESET:
        if not _is_reset(value.strip()):
            why = (
                f"Invalid value `{value}` for configuration {row.name}. The value must be either 'earliest', 'latest' or of "
                "the format 'by_duration:<PnDTnHnMn.nS>'."
            )
            raise _invalid(row, value, why)
    elif row.name == DEAD_LETTER_TOPIC:
        if value.strip().startswith("__"):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{row.name}: DLQ topic name must not start with '__'")
    elif value not in config.group_streams_assignors:
        known = ", ".join(config.group_streams_assignors)
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{row.name} '{value}' is not a registered task assignor. Registered assignors are: [{known}].",
        )


def _is_reset(value: str) -> bool:
    if value.startswith(BY_DURATION):
        duration_ms = parse_duration_ms(value.removeprefix(BY_DURATION))
        return duration_ms is not None and duration_ms >= 0
    return value in ("latest", "earliest")


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
        self._classic = _Known(config, lambda values: values.settings(ClassicSettings, "classic"))
        self._consumer = _Known(config, lambda values: values.settings(ConsumerSettings, "consumer"))
        self._streams = _Known(config, lambda values: values.settings(StreamsSettings, "streams"))
        self._share = _Known(config, lambda values: values.settings(ShareSettings, "share"))
        self._rebalance_interval_ms = _Known[int](config, lambda values: values.value(REBALANCE_INTERVAL))

    def classic(self, group_id: str) -> ClassicSettings:
        return self._classic.of(group_id, self._overrides(group_id))

    def consumer(self, group_id: str) -> ConsumerSettings:
        return self._consumer.of(group_id, self._overrides(group_id))

    def streams(self, group_id: str) -> StreamsSettings:
        return self._streams.of(group_id, self._overrides(group_id))

    def share(self, group_id: str) -> ShareSettings:
        return self._share.of(group_id, self._overrides(group_id))

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

    def value(self, name: str) -> Any:
        """The value of one setting, in the type of its kind."""
        row = GROUP_CONFIGS[name]
        own, server_value = self._overrides.get(name), row.server_value(self._config)
        if row.kind in _MAX:
            return self._number(row, own, server_value)
        text = own or server_value
        if row.kind == BOOLEAN:
            return text.strip().lower() == "true"
        if row.kind == LIST:
            return _names(text)
        return text if text in _OPTIONS.get(name, (text,)) else server_value

    def _number(self, row: GroupConfig, own: str | None, server_value: str) -> int:
        number = parse_long(own or "")
        if number is None:
            return int(server_value)
        if row.zero_is_off and not number:
            return 0
        low, high = row.bounds(self._config)
        value = number if high is None else min(number, high)
        return value if low is None else max(low, value)

    def settings(self, kind: type[_Settings], prefix: str) -> _Settings:
        """All settings of a kind of group. Their names are those of the fields, but for what every kind may require."""
        names = {
            "require_ownership": f"{prefix}.fencing.require.ownership",
            "require_member": "fencing.require.member",
            "dead_letter_topic": DEAD_LETTER_TOPIC,
            "dead_letter_copies": DEAD_LETTER_COPIES,
        }
        fields = (field.name for field in dataclasses.fields(cast(Any, kind)))
        return kind(**{each: self.value(names.get(each, f"{prefix}.{each.replace('_', '.')}")) for each in fields})
