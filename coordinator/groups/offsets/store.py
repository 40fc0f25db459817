"""The committed offsets of one shard: group -> (topic, partition) -> the value of the offset's record.

An offset outlives the members of its group and may exist without a group record. So offsets are not part of a group object:
groups are deleted, reloaded and converted, and their offsets stay where they are.

A server holds a million of them for weeks, so a value is the bytes of its record (value.py), and the key of a partition is one
object, however many groups mention it. The offsets are counted as they come and go, so that a gauge need not walk them. Only
replay.py changes this object.

Offsets of open transactions are kept apart (`pending`): no response contains them before their marker is in the log.
"""

from collections.abc import Collection, Container, Iterator
from sys import intern

from coordinator.groups.offsets import value as values
from coordinator.groups.offsets.pending import Partition, PendingOffsets
from coordinator.groups.offsets.value import StoredOffset
from coordinator.protocol.bounded_cache import BoundedCache
from coordinator.protocol.messages import OffsetCommitValue

SHARED_PARTITIONS: BoundedCache = BoundedCache(lambda partition: partition)
"""Each partition by itself: keys that are equal become one object."""


class Offsets:
    """All committed offsets of a shard."""

    __slots__ = ("by_group", "count", "pending")

    def __init__(self) -> None:
        self.by_group: dict[str, dict[Partition, StoredOffset]] = {}
        """A group that has no offsets has no entry."""
        self.count = 0
        """Offsets in all groups."""
        self.pending = PendingOffsets()

    def knows(self, group_id: str) -> bool:
        """Whether the group has offsets, committed or pending."""
        return group_id in self.by_group or group_id in self.pending.by_group

    def get(self, group_id: str, topic: str, partition: int) -> OffsetCommitValue | None:
        """A committed offset."""
        committed = self.by_group.get(group_id, {}).get((topic, partition))
        return None if committed is None else values.decode(committed)

    def of(self, group_id: str) -> Iterator[tuple[Partition, OffsetCommitValue]]:
        """The committed offsets of a group."""
        for partition, committed in self.by_group.get(group_id, {}).items():
            yield partition, values.decode(committed)

    def of_topics(self, group_id: str, topics: Container[str]) -> Iterator[tuple[Partition, OffsetCommitValue]]:
        """The committed offsets that a group has of some topics. Those of others are not decoded."""
        for partition, committed in self.by_group.get(group_id, {}).items():
            if partition[0] in topics:
                yield partition, values.decode(committed)

    def put(self, group_id: str, topic: str, committed: Collection[tuple[int, StoredOffset]]) -> None:
        """Stores offsets of one topic by partition index."""
        offsets = self.by_group.get(group_id)
        if offsets is None:
            offsets = self.by_group[intern(group_id)] = {}
        count = len(offsets)
        for index, value in committed:
            partition = topic, index
            if partition in offsets:
                offsets[partition] = value
            else:
                offsets[shared_partition(topic, index)] = value
        self.count += len(offsets) - count

    def remove(self, group_id: str, partitions: Collection[Partition]) -> None:
        """Forgets the offsets of some partitions, those that there are."""
        offsets = self.by_group.get(group_id)
        if offsets is None:
            return
        count = len(offsets)
        for partition in partitions:
            offsets.pop(partition, None)
        self.count -= count - len(offsets)
        if not offsets:
            del self.by_group[group_id]


def shared_partition(topic: str, index: int) -> Partition:
    """The key of a partition, which is the same object for all groups."""
    partition: Partition = SHARED_PARTITIONS[intern(topic), index]
    return partition
