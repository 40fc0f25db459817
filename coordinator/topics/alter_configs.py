"""Changes settings: a request becomes the new settings of a resource, and these become records.

Two requests do this. IncrementalAlterConfigs names the changes; AlterConfigs, its predecessor, names all settings that shall
be set, and everything else falls back to the server's value. Both are a `Plan` here: a function from the present settings to
the changes. It is called when its turn comes (`MetadataLog.in_turn`), so that two changes at the same time both count.

The changes of one resource are one batch of the metadata log: all of them apply or none, once they are durable.

This is Kafka's ConfigurationControlManager.incrementalAlterConfigs and legacyAlterConfigs.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ConfigRecord
from coordinator.topics import names, topic_settings
from coordinator.topics.metadata_records import TOPIC_RESOURCE
from coordinator.topics.topics import Topics

Changes = dict[str, str | None]
"""Name -> new value. None removes the resource's own value."""
Plan = Callable[[Mapping[str, str]], Changes]
Done = Callable[[KafkaError | None], None]


WhyNot = Callable[[str, str], str]
"""Why APPEND or SUBTRACT (its name) to a config (its name) that is no list is refused."""


def not_a_list(operation: str, name: str) -> str:
    """As Kafka's controller says it."""
    return f"Can't {operation} to key {name} because its type is not LIST."


class ConfigOp(IntEnum):
    """The kinds of changes of one setting (Kafka's AlterConfigOp.OpType)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


OPERATIONS = frozenset(ConfigOp)


class ConfigChange(NamedTuple):
    """One entry of an incremental change."""

    name: str
    operation: int
    value: str | None


def check_entries(entries: Iterable[ConfigChange]) -> None:
    """Checks that hold for every kind of resource. Raises INVALID_REQUEST."""
    entries = list(entries)
    if len({entry.name for entry in entries}) < len(entries):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [entry.name for entry in entries if entry.value is None and entry.operation != ConfigOp.DELETE]
    if nulls:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")


def incremental(entries: Sequence[ConfigChange], lists: Mapping[str, str], why_not: WhyNot = not_a_list) -> Plan:
    """The plan of IncrementalAlterConfigs. `lists`: the settings of type LIST, with their defaults.

    The plan raises INVALID_REQUEST for an unknown operation, and INVALID_CONFIG for an APPEND or SUBTRACT to another type.
    """

    def plan(current: Mapping[str, str]) -> Changes:
        for entry in entries:
            if entry.operation not in OPERATIONS:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {entry.operation}")
        return {entry.name: _changed(current.get(entry.name), entry, lists, why_not) for entry in entries}

    return plan


def replacing(values: Mapping[str, str]) -> Plan:
    """The plan of AlterConfigs: afterwards these are all settings that the resource overrides."""

    def plan(current: Mapping[str, str]) -> Changes:
        return dict.fromkeys(current) | dict(values)

    return plan


def _changed(current: str | None, entry: ConfigChange, lists: Mapping[str, str], why_not: WhyNot) -> str | None:
    if entry.operation == ConfigOp.SET:
        return entry.value
    if entry.operation == ConfigOp.DELETE or entry.value is None:
        return None
    if entry.name not in lists:
        raise KafkaError(ErrorCode.INVALID_CONFIG, why_not(ConfigOp(entry.operation).name, entry.name))
    items = [item for item in (lists[entry.name] if current is None else current).split(",") if item]
    named = entry.value.split(",")
    # A list may have ten thousand items: looking each one up in the other list would take seconds.
    if entry.operation == ConfigOp.SUBTRACT:
        return ",".join(_without(items, named))
    present = set(items)
    return ",".join([*items, *(item for item in dict.fromkeys(named) if item not in present)])


def _without(items: Iterable[str], removed: Iterable[str]) -> Iterator[str]:
    """The items, without one for each that is removed, as Java's `List.remove` takes them out: the first one first."""
    left = Counter(removed)
    for item in items:
        if left[item]:
            left[item] -= 1
        else:
            yield item


def alter_topic(topics: Topics, name: str, plan: Plan, done: Done, *, validate_only: bool) -> None:
    """Changes a topic's settings. Calls `done` with None when they apply, or with a KafkaError:

    INVALID_REQUEST               the empty name, which stands for defaults of all topics
    INVALID_TOPIC_EXCEPTION, UNKNOWN_TOPIC_OR_PARTITION
    INVALID_CONFIG
    POLICY_VIOLATION              the topic's partitions are the logs of shards
    KAFKA_STORAGE_ERROR           the metadata log cannot be written
    NOT_CONTROLLER                another server may have written what this one has not read
    """

    def check(after: Mapping[str, str]) -> None:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        reason = names.why_invalid(name)
        if reason is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")
        topic_settings.check(after.items())
        topic = topics.registry.topics.get(name)
        if topic is None or names.collision_key(name) in topics.claimed:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        if topics.is_served_by_shards(name):
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION, f"The settings of the internal topic '{name}' are the server's own."
            )

    alter(topics, TOPIC_RESOURCE, name, plan, check, done, validate_only=validate_only)


def alter(
    topics: Topics,
    resource_type: int,
    name: str,
    plan: Plan,
    check: Callable[[Mapping[str, str]], None],
    done: Done,
    *,
    validate_only: bool,
) -> None:
    """Changes the settings of any resource that has them in the registry. Calls `done` as `alter_topic` does.

    `check` gets the settings that the resource would override, and raises KafkaError if they are not valid.
    """

    def turn() -> None:
        current = topics.registry.configs_of(resource_type, name)
        try:
            changes = {key: value for key, value in plan(current).items() if current.get(key) != value}
            after = {key: value for key, value in (dict(current) | changes).items() if value is not None}
            check(after)
        except KafkaError as error:
            done(error)
            return
        if validate_only or not changes:
            done(None)
            return
        topics.metadata.commit(
            [
                ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value)
                for key, value in changes.items()
            ],
            lambda error: done(None if error is ErrorCode.NONE else KafkaError(error)),
        )

    topics.metadata.in_turn(turn, lambda error: done(KafkaError(error)))
