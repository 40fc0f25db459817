"""Reads the groups of one partition of `__consumer_offsets`, by replaying its batches into a state as a load does.

So offsets of transactions, conversions of groups and obsolete records mean what they mean at a start, and memory holds the
state of one partition, not its history. Offsets are taken from the state. Records of groups and members are kept as they are,
the last one of each key.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from coordinator.fastpath.bulk_replay import bulk_replayers
from coordinator.groups.catalog import NO_DELETIONS
from coordinator.groups.classic.group import ClassicGroup
from coordinator.groups.classic.records import VERSION
from coordinator.groups.group import Group
from coordinator.groups.kinds import Kind
from coordinator.groups.machine import RECORD_KEYS, REPLAY, GroupMachine
from coordinator.groups.offsets import value as values
from coordinator.groups.offsets.store import Offsets
from coordinator.groups.settings import GroupsConfig
from coordinator.groups.share.group import ShareGroup
from coordinator.groups.share.initialized import StatePartitions
from coordinator.log.batch import BatchHeader, CorruptBatch, UnsupportedCompression
from coordinator.operations.fork import ForkFailed
from coordinator.protocol.codec import Codec, DecodeError
from coordinator.protocol.messages import (
    ConsumerGroupMetadataKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    Message,
    OffsetCommitKey,
    OffsetCommitValue,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMetadataKey,
    StreamsGroupMetadataKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTopologyKey,
)
from coordinator.runtime.loader import BatchReplayer, Loaded
from coordinator.runtime.result import Record
from coordinator.runtime.serde import Serde, UnknownRecordVersion

_OFFSETS = (OffsetCommitKey, LegacyOffsetCommitKey)
_OF_GROUPS = (
    ConsumerGroupMetadataKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    StreamsGroupMetadataKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTopologyKey,
    ShareGroupMetadataKey,
    ShareGroupTargetAssignmentMetadataKey,
)
"""The records of a modern group that are not about a member. Those of a classic group are all in one record."""
_WRITTEN_LATER = (ShareGroupStatePartitionMetadataKey,)
"""A share group's share partitions: share_states.py says which have a state."""


class GroupRecord(NamedTuple):
    """A record for the log of groups."""

    group_id: str
    key: bytes
    value: bytes


class PendingOffset(NamedTuple):
    """An offset of a transaction that was not decided when the source was read."""

    group_id: str
    topic: str
    partition: int
    producer_id: int


class _NoTopics:
    """A catalog without topics: a replay does not ask for any."""

    version = 0
    deletions = NO_DELETIONS

    def topic_names(self) -> Sequence[str]:
        return ()

    def topic_id(self, _name: str) -> bytes | None:
        return None

    def topic_name(self, _topic_id: bytes) -> str | None:
        return None

    def partition_count(self, _name: str) -> int | None:
        return None


class _NotingSerde(Serde):
    """Keeps the last record of each key, except those of offsets, and counts records of unknown types."""

    def __init__(self, kept: Collection[type[Message]]) -> None:
        super().__init__(Codec.of(None), RECORD_KEYS)
        self._kept = kept
        self.last: dict[bytes, GroupRecord] = {}
        self.unknown_types: dict[int, int] = {}
        """Record type -> number of records."""

    def decode(self, key: bytes, value: bytes | None) -> Record | None:
        record = super().decode(key, value)
        if record is None:
            number = int.from_bytes(key[:2], signed=True)
            self.unknown_types[number] = self.unknown_types.get(number, 0) + 1
        elif type(record.key) in self._kept:
            self.last.pop(key, None)  # the last one counts, also for the order
            if value is not None:
                self.last[key] = GroupRecord(_group_of(record.key), key, value)
        return record


def _group_of(key: Any) -> str:
    """The group that a record is about."""
    group_id: str = key.group if hasattr(key, "group") else key.group_id
    return group_id


class GroupsReader:
    """Replays the batches of one partition. `keep_members`: also read the records of members."""

    def __init__(self, config: GroupsConfig, *, keep_members: bool) -> None:
        self._keep_members = keep_members
        kept = REPLAY.keys() - {*_OFFSETS, *_WRITTEN_LATER} if keep_members else set(_OF_GROUPS)
        self._serde = _NotingSerde(kept)
        self._state = GroupMachine(config, _NoTopics())
        self._loaded = Loaded()
        self._replayer = BatchReplayer(self._serde, self._state, self._loaded, bulk_replayers)

    def visit(self, buffer: bytes, position: int, header: BatchHeader, where: str) -> None:
        """Replays a batch. Raises ForkFailed if it cannot be understood."""
        try:
            self._replayer.replay(buffer, position, header)
        except (CorruptBatch, UnsupportedCompression, DecodeError, UnknownRecordVersion) as error:
            raise ForkFailed(f"{where}: a record of the batch at offset {header.base_offset}: {error}") from error

    @property
    def records_read(self) -> int:
        return self._loaded.records

    @property
    def unknown_types(self) -> Mapping[int, int]:
        """How many records of each unknown type there are."""
        return self._serde.unknown_types

    @property
    def share_groups(self) -> Mapping[str, StatePartitions]:
        """The share partitions of each share group."""
        groups = self._state.of_kind(Kind.SHARE)
        return {group.group_id: group.state_partitions for group in groups if isinstance(group, ShareGroup)}

    @property
    def groups(self) -> Collection[Group]:
        """The groups of all kinds, without those that only a transaction which was not decided has made."""
        offsets = self._state.offsets.by_group
        return [group for group in self._state.by_id.values() if group.group_id in offsets or _has_records(group)]

    @property
    def offsets(self) -> Offsets:
        return self._state.offsets

    def pending(self) -> Iterator[PendingOffset]:
        """The offsets of transactions that are not decided."""
        for producer_id, partitions in self._state.offsets.pending.by_producer.items():
            for group_id, (topic, partition) in partitions:
                yield PendingOffset(group_id, topic, partition, producer_id)

    def records(self, now_ms: int) -> Iterator[GroupRecord]:
        """The records that make the groups and their offsets here.

        Offsets, and the state of groups without members, are as old as the fork, so that no offset expires at once.
        """
        yield from self._serde.last.values()
        for group in self._state.of_kind(Kind.CLASSIC):
            is_empty = not self._keep_members or not members_of(group)
            if isinstance(group, ClassicGroup) and group.stored is not None and is_empty:
                yield self._empty_group(group, now_ms)
        for group_id in self._state.offsets.by_group:
            for (topic, partition), committed in self._state.offsets.of(group_id):
                yield self._encoded(
                    group_id, Record(OffsetCommitKey(group_id, topic, partition), _renewed(committed, now_ms), 0)
                )

    def _empty_group(self, group: ClassicGroup, now_ms: int) -> GroupRecord:
        """The group in the generation that its members know, without them."""
        current = group.stored if group.forming is None else group.forming
        assert current is not None
        value = GroupMetadataValue(current.protocol_type, current.generation, None, None, now_ms, [])
        return self._encoded(group.group_id, Record(GroupMetadataKey(group.group_id), value, VERSION))

    def _encoded(self, group_id: str, record: Record) -> GroupRecord:
        if isinstance(record.value, OffsetCommitValue):
            key, _ = self._serde.encode(Record(record.key, None))
            return GroupRecord(group_id, key, values.encode(record.value))
        key, value = self._serde.encode(record)
        assert value is not None
        return GroupRecord(group_id, key, value)


def _renewed(committed: OffsetCommitValue, now_ms: int) -> OffsetCommitValue:
    """The offset as if it were committed now, in the only leader epoch that a partition has here.

    A consumer that knew a later leader epoch would wait for a leader with that one.
    """
    if committed.expire_timestamp != values.NO_TIMESTAMP:
        committed.expire_timestamp += now_ms - committed.commit_timestamp
    committed.commit_timestamp = now_ms
    committed.leader_epoch = values.NO_LEADER_EPOCH
    return committed


def _has_records(group: Group) -> bool:
    return group.kind is not Kind.CLASSIC or (isinstance(group, ClassicGroup) and group.stored is not None)


def members_of(group: Group) -> int:
    """The number of members that the log says a group has."""
    if not isinstance(group, ClassicGroup):
        return len(group.members)
    current = group.stored if group.forming is None else group.forming
    return 0 if current is None else len(current.members)
