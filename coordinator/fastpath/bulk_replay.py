"""Bulk replay: offset records go from the bytes of a log into the state without becoming messages.

A load reads a million of them in a few seconds. A log repeats the same groups and topics, and everything in a key but its last
four bytes is such a pair of names: it is looked up and leads to the place where the offset belongs. A value without metadata is
what the state keeps, as it is. Every other record is decoded and replayed like the records of other types.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

from coordinator.groups.machine import GroupMachine
from coordinator.groups.offsets.pending import Partition
from coordinator.groups.offsets.replay import replay_offsets
from coordinator.groups.offsets.store import shared_partition
from coordinator.groups.offsets.value import StoredOffset, is_plain
from coordinator.protocol.codec import Codec
from coordinator.protocol.messages import OffsetCommitKey
from coordinator.runtime.serde import Serde

OFFSET_COMMIT_TYPE = cast(int, OffsetCommitKey.API_KEY).to_bytes(2)
"""The first two bytes of a key."""


def bulk_replayers(groups: GroupMachine, serde: Serde) -> Mapping[bytes, Callable[[bytes, bytes | None], None]]:
    """For one load: the first two bytes of a key -> what replays such a record from its key and value."""
    return {OFFSET_COMMIT_TYPE: OffsetReplayer(groups, serde).replay}


class _Partitions(dict[bytes, Partition]):
    """The partitions of one topic by the four bytes of their index."""

    __slots__ = ("_topic",)

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def __missing__(self, encoded: bytes) -> Partition:
        partition = self[encoded] = shared_partition(self._topic, int.from_bytes(encoded, signed=True))
        return partition


class OffsetReplayer:
    """Replays offset records for one load; it is dropped afterwards, with everything that it has cached."""

    __slots__ = ("_decode_key", "_groups", "_known", "_offsets", "_pending", "_serde", "_topics")

    def __init__(self, groups: GroupMachine, serde: Serde) -> None:
        self._decode_key: Callable[[bytes, int], tuple[Any, int]] = Codec.of().decoder("OffsetCommitKey", 0)
        self._groups = groups
        self._serde = serde
        self._offsets = groups.offsets
        self._pending = groups.offsets.pending.by_group
        self._topics: dict[str, _Partitions] = {}
        self._known: dict[bytes, tuple[_Partitions, dict[Partition, StoredOffset]]] = {}
        """A key without its partition -> the partitions of the topic, and the offsets of the group."""

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Replays one record. Raises DecodeError and UnknownRecordVersion like `Serde.decode`."""
        if value is None or not is_plain(value):
            self._replay_decoded(key, value)
            return
        known = self._known.get(key[:-4])
        if known is None or not known[1] or self._pending:  # an empty dictionary is no longer part of the state
            self._replay_named(key, value)
            return
        partitions, offsets = known
        count = len(offsets)
        offsets[partitions[key[-4:]]] = value
        self._offsets.count += len(offsets) - count

    def _replay_decoded(self, key: bytes, value: bytes | None) -> None:
        """Replays a record the ordinary way."""
        record = self._serde.decode(key, value)
        assert record is not None
        self._groups.replay(record)

    def _replay_named(self, key: bytes, value: StoredOffset) -> None:
        """Replays an offset by the names in its key, and remembers where the next offsets of its group and topic belong."""
        named, end = self._decode_key(key, len(OFFSET_COMMIT_TYPE))
        replay_offsets(self._groups, named.group, named.topic, ((named.partition, value),))
        if end == len(key):
            partitions = self._topics.get(named.topic)
            if partitions is None:
                partitions = self._topics[named.topic] = _Partitions(named.topic)
            self._known[key[:-4]] = partitions, self._offsets.by_group[named.group]
