"""Committed offsets of one shard: group -> (topic, partition) -> what was committed.

An offset outlives its group's members and may exist without a group record at all, so offsets are not part of a group
object: a group is deleted, rebuilt or changes its kind, and its offsets stay where they are.

A million of these live in a server for weeks. So a committed offset is one small tuple; a topic name is stored once,
however many groups and partitions mention it; so is a topic id. The number of offsets is counted as they come and go,
for nobody should walk a million of them for a gauge. Only `replay.py` changes this object.
"""

from sys import intern
from typing import NamedTuple

Partition = tuple[str, int]
"""Topic name and partition index."""


class OffsetAndMetadata(NamedTuple):
    """One committed offset."""

    offset: int
    leader_epoch: int
    """Of the last record consumed, as the client said it; -1 when it did not."""
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None
    """Set by OffsetCommit v2-4 only, and then the group's retention does not matter."""
    topic_id: bytes
    """16 bytes; all zero in records written before topics had ids and in those with an expiry."""


class Offsets:
    """All committed offsets of a shard."""

    __slots__ = ("_topic_ids", "by_group", "commits", "count")

    def __init__(self) -> None:
        self.by_group: dict[str, dict[Partition, OffsetAndMetadata]] = {}
        """A group that has no offsets has no entry."""
        self.count = 0
        """Offsets in all groups."""
        self.commits = 0
        """Offsets committed since the state was loaded: for metrics, not part of the durable state."""
        self._topic_ids: dict[bytes, bytes] = {}

    def get(self, group_id: str, topic: str, partition: int) -> OffsetAndMetadata | None:
        committed = self.by_group.get(group_id)
        return None if committed is None else committed.get((topic, partition))

    def put(self, group_id: str, topic: str, partition: int, committed: OffsetAndMetadata) -> None:
        offsets = self.by_group.get(group_id)
        if offsets is None:
            offsets = self.by_group[group_id] = {}
        key = (topic, partition)
        if key not in offsets:
            self.count += 1
            key = (intern(topic), partition)
        offsets[key] = committed

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Forgets one offset; one that is not there is no matter."""
        offsets = self.by_group.get(group_id)
        if offsets is None or offsets.pop((topic, partition), None) is None:
            return
        self.count -= 1
        if not offsets:
            del self.by_group[group_id]

    def shared_topic_id(self, topic_id: bytes) -> bytes:
        """The one object that stands for this id, so that a load does not make a million equal ones."""
        return self._topic_ids.setdefault(topic_id, topic_id)
