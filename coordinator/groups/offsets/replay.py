"""What the log records of offsets do to the state, live and at a load alike (`OffsetMetadataManager.replay`).

An offset of an unknown group creates a *simple* group (Empty, no protocol type), as in Kafka: either its consumers do not use
groups, or the group's record follows later in the log. A simple group without a record of its own ends with its last offset:
after compaction nothing in the log would bring it back.

A pending offset creates the group too. After an abort the group stays, Empty and without offsets, until the next expiry, as
in Kafka. A tombstone deletes pending offsets along with the committed one.
"""

from collections.abc import Collection

from coordinator.groups.offsets.pending import Partition
from coordinator.groups.offsets.value import StoredOffset, encode
from coordinator.groups.state import Groups
from coordinator.protocol.messages import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coordinator.runtime.result import Marker, Producer


def replay_offset_commit(groups: Groups, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
    """Stores the offset; a tombstone deletes it."""
    group_id = key.group
    if value is None:
        replay_offset_tombstones(groups, group_id, ((key.topic, key.partition),))
        return
    replay_offsets(groups, group_id, key.topic, ((key.partition, encode(value)),))


def replay_offset_tombstones(groups: Groups, group_id: str, partitions: Collection[Partition]) -> None:
    """Deletes the offsets of some partitions."""
    offsets = groups.offsets
    offsets.remove(group_id, partitions)
    if group_id in offsets.pending.by_group:
        for partition in partitions:
            offsets.pending.drop(group_id, partition)
    groups.remove_if_unknown(group_id)


def replay_offsets(groups: Groups, group_id: str, topic: str, committed: Collection[tuple[int, StoredOffset]]) -> None:
    """Stores offsets of one topic by partition index."""
    offsets = groups.offsets
    if group_id not in offsets.by_group:
        groups.get_or_simple(group_id)
    if group_id in offsets.pending.by_group:
        for partition, _ in committed:
            offsets.pending.supersede(group_id, (topic, partition))
    offsets.put(group_id, topic, committed)


def replay_pending_offset(groups: Groups, key: OffsetCommitKey, value: OffsetCommitValue, producer: Producer) -> None:
    """Keeps the offset until the producer's marker (KIP-98)."""
    replay_pending_offsets(groups, key.group, key.topic, ((key.partition, encode(value)),), producer)


def replay_pending_offsets(
    groups: Groups, group_id: str, topic: str, committed: Collection[tuple[int, StoredOffset]], producer: Producer
) -> None:
    """Keeps offsets of one topic by partition index."""
    groups.get_or_simple(group_id)
    groups.offsets.pending.add(producer, group_id, topic, committed)


def replay_marker(groups: Groups, marker: Marker) -> None:
    """Commits or discards the producer's pending offsets (`OffsetMetadataManager.replayEndTransactionMarker`)."""
    for group_id, (topic, partition), committed in groups.offsets.pending.end(marker):
        groups.offsets.put(group_id, topic, ((partition, committed),))


def replay_legacy_offset_commit(
    groups: Groups, key: LegacyOffsetCommitKey, value: LegacyOffsetCommitValue | None
) -> None:
    """Replays a record of type 0, which Kafka wrote before 0.9: it has fewer fields."""
    replay_offset_commit(
        groups,
        OffsetCommitKey(key.group, key.topic, key.partition),
        None
        if value is None
        else OffsetCommitValue(offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp),
    )
