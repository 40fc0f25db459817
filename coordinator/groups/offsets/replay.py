"""What a log record of a committed offset does to the state: live and at load, the same.

An offset whose group nobody has heard of makes a *simple* group (Empty, no protocol type), as in Kafka: either its
consumers do not use groups, or its group record comes later in the log. A simple group that loses its last offset and
has no record of its own is gone: nothing in the log would bring it back after compaction either.

A pending offset makes the group, too, and an abort leaves it, Empty and without offsets, to the next expiry, as in Kafka.
A tombstone takes back pending offsets along with the committed one.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING

from coordinator.protocol.messages import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coordinator.runtime.result import Marker, Producer

if TYPE_CHECKING:
    from coordinator.groups.state import Groups


def replay_offset_commit(groups: "Groups", key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
    offsets, group_id = groups.offsets, key.group
    if value is None:
        offsets.remove(group_id, key.topic, key.partition)
        offsets.pending.drop(group_id, (key.topic, key.partition))
        groups.remove_if_unknown(group_id)
        return
    replay_offsets(groups, group_id, key.topic, value.topic_id, ((key.partition, value),))


def replay_offsets(
    groups: "Groups",
    group_id: str,
    topic: str,
    topic_id: bytes,
    committed: Collection[tuple[int, OffsetCommitValue]],
) -> None:
    """Offsets of one topic by partition index, none of them a tombstone; `topic_id`: what all of them say."""
    offsets = groups.offsets
    if group_id not in offsets.by_group:
        groups.get_or_simple(group_id)
    if group_id in offsets.pending.by_group:
        for partition, _ in committed:
            offsets.pending.supersede(group_id, (topic, partition))
    offsets.put(group_id, topic, topic_id, committed)


def replay_pending_offset(groups: "Groups", key: OffsetCommitKey, value: OffsetCommitValue, producer: Producer) -> None:
    groups.get_or_simple(key.group)
    groups.offsets.pending.add(producer, key.group, (key.topic, key.partition), value)


def replay_marker(groups: "Groups", marker: Marker) -> None:
    for group_id, (topic, partition), committed in groups.offsets.pending.end(marker):
        groups.offsets.put(group_id, topic, committed.topic_id, ((partition, committed),))


def replay_legacy_offset_commit(
    groups: "Groups", key: LegacyOffsetCommitKey, value: LegacyOffsetCommitValue | None
) -> None:
    """Records of type 0, written by Kafka before 0.9: the same with fewer fields."""
    replay_offset_commit(
        groups,
        OffsetCommitKey(key.group, key.topic, key.partition),
        None
        if value is None
        else OffsetCommitValue(offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp),
    )
