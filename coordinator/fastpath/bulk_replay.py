"""Bulk replay: offset records go from the bytes of a log into the state without becoming messages.

A load reads a million of them in a few seconds. A log repeats the same groups and topics, and everything in a key but its last
four bytes is such a pair of names: it is looked up and leads to the place where the offset belongs. A value without metadata
has a fixed size and is unpacked in one call. Every other record is decoded and replayed like the records of other types.
"""

from collections.abc import Callable, Mapping
from struct import Struct
from sys import intern
from typing import cast

from coordinator.groups.machine import GroupMachine
from coordinator.groups.offsets.pending import Partition
from coordinator.groups.offsets.records import EMPTY, NO_TIMESTAMP, TOPIC_ID_TAG, VERSION
from coordinator.protocol.messages import OffsetCommitKey, OffsetCommitValue
from coordinator.runtime.serde import Serde

OFFSET_COMMIT_TYPE = cast(int, OffsetCommitKey.API_KEY).to_bytes(2)
"""The first two bytes of a key."""
_VALUE = Struct(f">hqiBq{len(TOPIC_ID_TAG)}s16s")
"""A value in our version, without metadata and with a topic id."""
_VALUE_BYTES = _VALUE.size
_read_value = _VALUE.unpack
_new = object.__new__


def bulk_replayers(groups: GroupMachine, serde: Serde) -> Mapping[bytes, Callable[[bytes, bytes | None], None]]:
    """For one load: the first two bytes of a key -> what replays such a record from its key and value."""
    return {OFFSET_COMMIT_TYPE: OffsetReplayer(groups, serde).replay}


class _Partitions(dict[bytes, int]):
    """Partition indexes by their four bytes."""

    def __missing__(self, encoded: bytes) -> int:
        index = self[encoded] = int.from_bytes(encoded, signed=True)
        return index


class OffsetReplayer:
    """Replays offset records for one load; it is dropped afterwards, with everything that it has cached."""

    __slots__ = ("_groups", "_known", "_offsets", "_partitions", "_pending", "_serde", "_topic_ids")

    def __init__(self, groups: GroupMachine, serde: Serde) -> None:
        self._groups = groups
        self._serde = serde
        self._offsets = groups.offsets
        self._pending = groups.offsets.pending.by_group
        self._topic_ids = groups.offsets.topic_ids
        self._known: dict[bytes, tuple[str, dict[Partition, OffsetCommitValue]]] = {}
        """A key without its partition -> the topic's name, and the offsets of the group."""
        self._partitions = _Partitions()

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Replays one record. Raises DecodeError and UnknownRecordVersion like `Serde.decode`."""
        known = self._known.get(key[:-4])
        if known is None or value is None or len(value) != _VALUE_BYTES or self._pending:
            self._replay_decoded(key, value)
            return
        version, offset, leader_epoch, metadata_size, timestamp_ms, tag, topic_id = _read_value(value)
        if version != VERSION or metadata_size != EMPTY or tag != TOPIC_ID_TAG:
            self._replay_decoded(key, value)
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

    def _replay_decoded(self, key: bytes, value: bytes | None) -> None:
        """Replays a record the ordinary way, and remembers where the next offsets of its group and topic belong."""
        record = self._serde.decode(key, value)
        assert record is not None
        self._groups.replay(record)
        named = cast(OffsetCommitKey, record.key)
        offsets = self._offsets.by_group.get(named.group)
        if offsets is None:
            # The group lost its last offset: the dictionaries that are cached may no longer be part of the state.
            self._known.clear()
        elif len(key) == _key_bytes(key):
            self._known[key[:-4]] = intern(named.topic), offsets


def _key_bytes(key: bytes) -> int:
    """The size of a key that ends with its partition: nothing follows the fields that it announces."""
    topic_at = 4 + int.from_bytes(key[2:4])
    return topic_at + 2 + int.from_bytes(key[topic_at : topic_at + 2]) + 4
