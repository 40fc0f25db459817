"""Committed offsets of one shard: group -> (topic, partition) -> what was committed.

An offset outlives its group's members and may exist without a group record at all, so offsets are not part of a group
object: a group is deleted, rebuilt or changes its kind, and its offsets stay where they are.

What is kept of an offset is the value of its record, as it is in the log (a group keeps its record, too). Nobody may change
it. A million of these live in a server for weeks, so a topic's name and id are stored once, however many groups and
partitions mention it; and the offsets are counted as they come and go, for nobody should walk a million of them for a
gauge. Only `replay.py` changes this object.

Offsets of open transactions are kept apart (`pending`): they are returned to nobody before their marker is in the log.
"""

from collections.abc import Iterable
from sys import intern

from coordinator.groups.offsets.pending import Partition, PendingOffsets
from coordinator.protocol.messages import OffsetCommitValue


class Offsets:
    """All committed offsets of a shard."""

    __slots__ = ("by_group", "count", "pending", "topic_ids")

    def __init__(self) -> None:
        self.by_group: dict[str, dict[Partition, OffsetCommitValue]] = {}
        """A group that has no offsets has no entry."""
        self.count = 0
        """Offsets in all groups."""
        self.pending = PendingOffsets()
        self.topic_ids: dict[bytes, bytes] = {}
        """Each topic's id, once."""

    def knows(self, group_id: str) -> bool:
        """Whether the group has offsets, if only pending ones."""
        return group_id in self.by_group or group_id in self.pending.by_group

    def get(self, group_id: str, topic: str, partition: int) -> OffsetCommitValue | None:
        committed = self.by_group.get(group_id)
        return None if committed is None else committed.get((topic, partition))

    def put(
        self, group_id: str, topic: str, topic_id: bytes, committed: Iterable[tuple[int, OffsetCommitValue]]
    ) -> None:
        """Offsets of one topic by partition index; `topic_id`: what all of them say."""
        offsets = self.by_group.get(group_id)
        if offsets is None:
            offsets = self.by_group[intern(group_id)] = {}
        topic, topic_id = intern(topic), self.topic_ids.setdefault(topic_id, topic_id)
        count = len(offsets)
        for partition, value in committed:
            value.topic_id = topic_id
            offsets[topic, partition] = value
        self.count += len(offsets) - count

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Forgets one offset; one that is not there is no matter."""
        offsets = self.by_group.get(group_id)
        if offsets is None or offsets.pop((topic, partition), None) is None:
            return
        self.count -= 1
        if not offsets:
            del self.by_group[group_id]
