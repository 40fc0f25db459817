"""Events about the records of a share group: who got them, and what became of each delivery (topics/share/outcomes.py).

The leader of the share partition decides these things, and the group's shard only writes them down, beside the group's other
events. It adds the client of the member, which the leader does not know.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from coordinator.groups.events import NO_FIELDS
from coordinator.groups.kinds import Kind
from coordinator.groups.share.group import find_share_group
from coordinator.groups.share.initialized import Topics
from coordinator.groups.state import Groups
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    AcquisitionLockExpiredKey,
    AcquisitionLockExpiredValue,
    Message,
    RecordsAcknowledgedKey,
    RecordsAcknowledgedValue,
    RecordsAcquiredKey,
    RecordsAcquiredValue,
    RecordsArchivedKey,
    RecordsArchivedValue,
    RecordsDeadLetteredKey,
    RecordsDeadLetteredValue,
    RecordsReleasedKey,
    RecordsReleasedValue,
    SharePartitionsInitializedKey,
    SharePartitionsInitializedValue,
)
from coordinator.runtime.result import Event, Fact, MessageEvent, Result

_MESSAGES: dict[str, tuple[str, Any, Any]] = {
    "acquired": ("", RecordsAcquiredKey, RecordsAcquiredValue),
    "acknowledged": ("", RecordsAcknowledgedKey, RecordsAcknowledgedValue),
    "lock_expired": ("acquisition_lock_expired", AcquisitionLockExpiredKey, AcquisitionLockExpiredValue),
    "archived": ("records_archived", RecordsArchivedKey, RecordsArchivedValue),
    "released": ("records_released", RecordsReleasedKey, RecordsReleasedValue),
    "dead_lettered": ("", RecordsDeadLetteredKey, RecordsDeadLetteredValue),
}
"""Outcome -> name of the fact, key and value of the event. What is frequent, or has another fact, has no name."""
NO_QUEUE = ("", -1, -1, None)


class Deliveries(NamedTuple):
    """Records of one partition that one member held."""

    outcome: str
    group_id: str
    member_id: str
    topic: str
    topic_id: bytes
    partition: int
    cause: str
    records: int
    ranges: Sequence[tuple[int, int, int, int]]
    """First offset, last offset, delivery count, and the type of the acknowledgement (-1: it is about none)."""
    loaded_ms: int
    """When the leader loaded the share partition."""
    number: int
    """Grows with each of the same load."""
    queue: tuple[str, int, int, str | None] = NO_QUEUE
    """Of dead letters: topic, partition and first offset, and why they could not be written."""


def note_deliveries(groups: Groups, _now_ms: int, *, deliveries: Deliveries) -> Result:
    """The fact, with its event. The group may be gone."""
    name = _MESSAGES[deliveries.outcome][0]
    group = find_share_group(groups, deliveries.group_id)
    member = None if group is None else group.members.get(deliveries.member_id)
    client_id = None if member is None else member.client_id
    fields = _fields(deliveries, client_id) if name else NO_FIELDS
    key, value = as_messages(deliveries)
    value.client_id = client_id
    value.client_host = None if member is None else member.client_host
    return Result(facts=(Fact(name, fields, MessageEvent(key, value)),))


def as_messages(deliveries: Deliveries) -> tuple[Message, Any]:
    """Key and value of the event, without the client of the member."""
    _, key, value = _MESSAGES[deliveries.outcome]
    width = len(value.OffsetRange.__slots__)
    event = value(
        group_kind=Kind.SHARE,
        member_id=deliveries.member_id,
        topic_name=deliveries.topic,
        topic_id=deliveries.topic_id,
        partition=deliveries.partition,
        records=deliveries.records,
        ranges=[value.OffsetRange(*each[:width]) for each in deliveries.ranges],
        loaded_ms=deliveries.loaded_ms,
        number=deliveries.number,
    )
    if deliveries.cause:
        event.cause = deliveries.cause
    if value is RecordsDeadLetteredValue:
        event.queue_topic, event.queue_partition, event.queue_offset, event.reason = deliveries.queue
    return key(deliveries.group_id), event


def of_messages(key: Any, value: Any) -> Deliveries | None:
    """The reverse; None for an event that is about something else."""
    outcome = next((outcome for outcome, (_, kind, _) in _MESSAGES.items() if isinstance(key, kind)), None)
    if outcome is None or not value.ranges:
        return None
    return Deliveries(
        outcome,
        key.group,
        value.member_id,
        value.topic_name,
        value.topic_id,
        value.partition,
        getattr(value, "cause", ""),
        value.records,
        [
            (each.first_offset, each.last_offset, each.delivery_count, getattr(each, "acknowledge_type", -1))
            for each in value.ranges
        ],
        value.loaded_ms,
        value.number,
        (value.queue_topic, value.queue_partition, value.queue_offset, value.reason)
        if isinstance(value, RecordsDeadLetteredValue)
        else NO_QUEUE,
    )


def _fields(deliveries: Deliveries, client_id: str | None) -> dict[str, Any]:
    return {
        "group_id": deliveries.group_id,
        "member": deliveries.member_id,
        "client": client_id,
        "topic": deliveries.topic,
        "partition": deliveries.partition,
        "records": deliveries.records,
        "first_offset": deliveries.ranges[0][0],
        "delivery_count": max(count for _, _, count, _ in deliveries.ranges),
        "cause": deliveries.cause,
    }


class AlteredBy(NamedTuple):
    """The client that altered start offsets."""

    principal: str
    client_id: str | None


THE_GROUP = AlteredBy("", None)
"""No client: the group has partitions that were new to it."""


def initialized_event(
    group_id: str,
    topics: Topics,
    start_offsets: Mapping[tuple[bytes, int], int],
    error: ErrorCode,
    by: AlteredBy,
) -> Event:
    """SharePartitionsInitialized."""
    value = SharePartitionsInitializedValue
    entries = [
        value.TopicPartitions(
            topic.name,
            topic_id,
            [value.PartitionStart(each, start_offsets[topic_id, each]) for each in sorted(topic.partitions)],
        )
        for topic_id, topic in topics.items()
    ]
    event = value(
        group_kind=Kind.SHARE, principal=by.principal, client_id=by.client_id, error_code=error, topics=entries
    )
    return MessageEvent(SharePartitionsInitializedKey(group_id), event)
