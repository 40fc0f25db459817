"""The log records of committed offsets: key type 1, OffsetCommit. Their values are described in value.py.

The records of a commit are one object. Those of a topic have most of their bytes in common, and they change the state in one
call; record by record, it took three times as long. test_offset_records.py compares the two.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from struct import Struct
from typing import Any

from coordinator.groups.offsets import value as values
from coordinator.groups.offsets.pending import Partition
from coordinator.groups.offsets.replay import replay_offset_tombstones, replay_offsets, replay_pending_offsets
from coordinator.groups.offsets.value import VERSION, VERSION_WITH_EXPIRY, StoredOffset
from coordinator.groups.state import Groups
from coordinator.log.batch_builder import BatchBuilder
from coordinator.protocol.codec import Codec
from coordinator.protocol.messages import Message, OffsetCommitKey
from coordinator.runtime.result import Producer, Record, Records

_NAMES_REMEMBERED = 4_096
_PARTITION = Struct(">i").pack


class OffsetCommits(Records):
    """The records of one commit, by topic."""

    __slots__ = ("_ahead", "_count", "group_id", "topics", "version")

    def __init__(self, group_id: str, *, with_expiry: bool) -> None:
        """`with_expiry`: the offsets have expiry times of their own."""
        self.group_id = group_id
        self.version = VERSION_WITH_EXPIRY if with_expiry else VERSION
        self._count = 0
        self.topics: list[tuple[str, Sequence[tuple[int, StoredOffset]]]] = []
        """Topics with their offsets by partition index."""
        self._ahead: BatchBuilder | None = None
        """The records as they begin a batch, if they were encoded in advance."""

    def add(self, topic: str, offsets: Sequence[tuple[int, StoredOffset]]) -> None:
        """Adds offsets by partition index."""
        self._count += len(offsets)
        self.topics.append((topic, offsets))

    def add_ahead(self, others: "OffsetCommits") -> None:
        """Adds other records of the same commit, and encodes them. Either all records are added so, or none."""
        if self._ahead is None:
            self._ahead = BatchBuilder()
        others.add_to(self._ahead)
        self._count += len(others)
        self.topics += others.topics

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Record]:
        for topic, offsets in self.topics:
            for index, stored in offsets:
                yield Record(OffsetCommitKey(self.group_id, topic, index), values.decode(stored), self.version)

    def replay(self, state: Groups) -> None:
        group_id, committed = self.group_id, state.offsets
        # A group that has offsets and no transactions needs nothing but the new ones.
        if group_id in committed.by_group and group_id not in committed.pending.by_group:
            for topic, offsets in self.topics:
                committed.put(group_id, topic, offsets)
        else:
            for topic, offsets in self.topics:
                replay_offsets(state, group_id, topic, offsets)

    def replay_pending(self, state: Groups, producer: Producer) -> None:
        for topic, offsets in self.topics:
            replay_pending_offsets(state, self.group_id, topic, offsets, producer)

    def add_to(self, batch: BatchBuilder) -> None:
        if self._ahead is not None and not batch.count:
            batch.add_encoded(self._ahead.records(), self._count)
        else:
            batch.add_all(self.encoded())

    def encoded(self) -> list[tuple[bytes, bytes]]:
        out = []
        for topic, offsets in self.topics:
            head = _key_head(self.group_id, topic)
            out += [(head + _PARTITION(index), stored) for index, stored in offsets]
        return out


class GroupTombstones(Records):
    """The tombstones of all offsets of some groups, each followed by the other tombstones of the group.

    The deletion of a group is never split: a member that joined in between would find some of its offsets gone.
    """

    __slots__ = ("_count", "_groups")

    def __init__(self) -> None:
        self._count = 0
        self._groups: list[tuple[str, Collection[Partition], Sequence[Record]]] = []

    def add(self, group_id: str, partitions: Collection[Partition], others: Sequence[Record]) -> None:
        self._count += len(partitions) + len(others)
        self._groups.append((group_id, partitions, others))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Record]:
        for group_id, partitions, others in self._groups:
            for topic, index in partitions:
                yield offset_commit_tombstone(group_id, topic, index)
            yield from others

    def replay(self, state: Any) -> None:
        for group_id, partitions, others in self._groups:
            replay_offset_tombstones(state, group_id, partitions)
            for record in others:
                state.replay(record)

    def add_to(self, batch: BatchBuilder) -> None:
        for group_id, partitions, others in self._groups:
            for topic, of_topic in groupby(partitions, itemgetter(0)):
                head = _key_head(group_id, topic)
                batch.add_tombstones([head + _PARTITION(index) for _, index in of_topic])
            batch.add_tombstones([_encoded_key(record.key) for record in others])


@lru_cache(_NAMES_REMEMBERED)
def _key_head(group_id: str, topic: str) -> bytes:
    """The key without the partition."""
    return _encoded_key(OffsetCommitKey(group_id, topic, 0))[: -len(_PARTITION(0))]


def _encoded_key(key: Message) -> bytes:
    assert key.API_KEY is not None
    return key.API_KEY.to_bytes(2) + Codec.of().encoder(key.NAME, 0)(key)


def offset_commit_tombstone(group_id: str, topic: str, partition: int) -> Record:
    return Record(OffsetCommitKey(group_id, topic, partition), None)
