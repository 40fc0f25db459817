"""The committed offsets of one shard: group -> (topic, partition) -> the value of the offset's record.

An offset outlives the members of its group and may exist without a group record. So offsets are not part of a group object:
groups are deleted, reloaded and converted, and their offsets stay where they are.

The values are the messages of the log records, and nobody may change them. A server holds a million of them for weeks, so a
topic's name and id are stored once, however many groups and partitions mention them; and the offsets are counted as they come
and go, so that a gauge need not walk them. Only replay.py changes this object.

Offsets of open transactions are kept apart (`pending`): no response contains them before their marker is in the log.
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
        """The ids of topics, to store each only once."""

    def knows(self, group_id: str) -> bool:
        """Whether the group has offsets, committed or pending."""
        return group_id in self.by_group or group_id in self.pending.by_group

    def get(self, group_id: str, topic: str, partition: int) -> OffsetCommitValue | None:
        committed = self.by_group.get(group_id)
        return None if committed is None else committed.get((topic, partition))

    def put(
        self, group_id: str, topic: str, topic_id: bytes, committed: Iterable[tuple[int, OffsetCommitValue]]
    ) -> None:
        """Stores offsets of one topic by partition index. All of them have this topic id."""
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
        """Forgets one offset; does nothing if there is none."""
        offsets = self.by_group.get(group_id)
        if offsets is None or offsets.pop((topic, partition), None) is None:
            return
        self.count -= 1
        if not offsets:
            del self.by_group[group_id]
