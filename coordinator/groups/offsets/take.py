"""Offset records from the bytes of a log into the state, as a load needs it: a million of them in a few seconds.

A log names the same groups and topics over and over, and a key but for its last four bytes is such a pair of names. So it is
looked up, and leads to where the offset belongs; and a value without metadata has a fixed size, and is taken apart in one go.
Everything that is not usual goes the way of all records.
"""

from struct import Struct
from sys import intern
from typing import TYPE_CHECKING, cast

from coordinator.groups.offsets.pending import Partition
from coordinator.groups.offsets.records import EMPTY, NO_TIMESTAMP, TOPIC_ID_TAG, VERSION
from coordinator.protocol.messages import OffsetCommitKey, OffsetCommitValue
from coordinator.runtime.serde import Serde

if TYPE_CHECKING:
    from coordinator.groups.machine import GroupMachine

OFFSET_COMMIT_TYPE = cast(int, OffsetCommitKey.API_KEY).to_bytes(2)
"""The first two bytes of a key."""
_VALUE = Struct(f">hqiBq{len(TOPIC_ID_TAG)}s16s")
"""A value in our version, without metadata and with a topic id."""
_VALUE_BYTES = _VALUE.size
_read_value = _VALUE.unpack
_new = object.__new__


class _Partitions(dict[bytes, int]):
    """Partition indexes by their bytes."""

    def __missing__(self, encoded: bytes) -> int:
        index = self[encoded] = int.from_bytes(encoded, signed=True)
        return index


class OffsetTaker:
    """Used for one load, and then forgotten with what it remembers."""

    __slots__ = ("_groups", "_known", "_offsets", "_partitions", "_pending", "_serde", "_topic_ids")

    def __init__(self, groups: "GroupMachine", serde: Serde) -> None:
        self._groups = groups
        self._serde = serde
        self._offsets = groups.offsets
        self._pending = groups.offsets.pending.by_group
        self._topic_ids = groups.offsets.topic_ids
        self._known: dict[bytes, tuple[str, dict[Partition, OffsetCommitValue]]] = {}
        """By a key but for its partition: the topic's name, and the group's offsets."""
        self._partitions = _Partitions()

    def take(self, key: bytes, value: bytes | None) -> None:
        """Raises DecodeError and UnknownRecordVersion as the serde does."""
        known = self._known.get(key[:-4])
        if known is None or value is None or len(value) != _VALUE_BYTES or self._pending:
            self._take_unusual(key, value)
            return
        version, offset, leader_epoch, metadata_size, timestamp_ms, tag, topic_id = _read_value(value)
        if version != VERSION or metadata_size != EMPTY or tag != TOPIC_ID_TAG:
            self._take_unusual(key, value)
            return
        committed = _new(OffsetCommitValue)
        committed.offset = offset
        committed.leader_epoch = leader_epoch
        committed.metadata = ""
        committed.commit_timestamp = timestamp_ms
        committed.expire_timestamp = NO_TIMESTAMP
        committed.topic_id = self._topic_ids.setdefault(topic_id, topic_id)
        topic, offsets = known
        count = len(offsets)
        offsets[topic, self._partitions[key[-4:]]] = committed
        self._offsets.count += len(offsets) - count

    def _take_unusual(self, key: bytes, value: bytes | None) -> None:
        record = self._serde.decode(key, value)
        assert record is not None
        self._groups.replay(record)
        named = cast(OffsetCommitKey, record.key)
        offsets = self._offsets.by_group.get(named.group)
        if offsets is None:
            # It was the group's last: what is known of the group is no place for offsets any more.
            self._known.clear()
        elif len(key) == _key_bytes(key):
            self._known[key[:-4]] = intern(named.topic), offsets


def _key_bytes(key: bytes) -> int:
    """What a key must have that is no longer than its fields say: the partition is at its end then."""
    topic_at = 4 + int.from_bytes(key[2:4])
    return topic_at + 2 + int.from_bytes(key[topic_at : topic_at + 2]) + 4
