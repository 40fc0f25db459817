"""The log records of committed offsets: key type 1, OffsetCommit.

Values are written in version 4 (flexible, with the topic's id as tagged field 0). A commit with its own retention (OffsetCommit
v2-4) is written in version 1, the only one with a field for an expiry time. That version has no leader epoch and no topic id,
so the record is made without them, and memory never holds what a restart would lose.

The records of a commit are one object. Those of a topic have most of their bytes in common, and they change the state in one
call; record by record, it took three times as long. test_offset_records.py compares the two.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from struct import Struct

from coordinator.groups.offsets.replay import replay_offsets
from coordinator.groups.state import Groups
from coordinator.log.batch_builder import BatchBuilder
from coordinator.protocol.codec import Codec
from coordinator.protocol.messages import OffsetCommitKey, OffsetCommitValue
from coordinator.protocol.wire import SHORT, text_prefix
from coordinator.runtime.result import Record, Records

VERSION = 4
VERSION_WITH_EXPIRY = 1
NO_TOPIC_ID = bytes(16)
NO_LEADER_EPOCH = -1
NO_TIMESTAMP = -1

_NAMES_REMEMBERED = 4_096
_PARTITION = Struct(">i").pack
_VALUE = Struct(">hqi").pack
_VALUE_WITHOUT_METADATA = Struct(">hqiB").pack
EMPTY = SHORT[0][0]
"""The size field of an empty string."""
TOPIC_ID_TAG = b"\1\0\20"
"""One tagged field: number 0, of 16 bytes."""


class OffsetCommits(Records):
    """The records of one commit, by topic."""

    __slots__ = ("_count", "_topics", "commit_timestamp_ms", "expire_timestamp_ms", "group_id")

    def __init__(self, group_id: str, commit_timestamp_ms: int, expire_timestamp_ms: int | None) -> None:
        self.group_id = group_id
        self.commit_timestamp_ms = commit_timestamp_ms
        self.expire_timestamp_ms = expire_timestamp_ms
        self._count = 0
        self._topics: list[tuple[str, bytes, Sequence[tuple[int, OffsetCommitValue]]]] = []

    def add(self, topic: str, topic_id: bytes, offsets: Sequence[tuple[int, OffsetCommitValue]]) -> None:
        """Adds offsets by partition index. Their values have the commit's times and this topic id."""
        self._count += len(offsets)
        self._topics.append((topic, topic_id, offsets))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Record]:
        version = VERSION if self.expire_timestamp_ms is None else VERSION_WITH_EXPIRY
        for topic, _, offsets in self._topics:
            for index, value in offsets:
                yield Record(OffsetCommitKey(self.group_id, topic, index), value, version)

    def replay(self, state: Groups) -> None:
        for topic, topic_id, offsets in self._topics:
            replay_offsets(state, self.group_id, topic, topic_id, offsets)

    def add_to(self, batch: BatchBuilder) -> None:
        batch.add_all(self.encoded())

    def encoded(self) -> list[tuple[bytes, bytes]]:
        group_id, out = self.group_id, []
        if self.expire_timestamp_ms is not None:
            encode, version = (
                Codec.of().encoder("OffsetCommitValue", VERSION_WITH_EXPIRY),
                VERSION_WITH_EXPIRY.to_bytes(2),
            )
            return [
                (_key_head(group_id, topic) + _PARTITION(index), version + encode(value))
                for topic, _, offsets in self._topics
                for index, value in offsets
            ]
        time = self.commit_timestamp_ms.to_bytes(8)
        for topic, topic_id, offsets in self._topics:
            head = _key_head(group_id, topic)
            tail = time + (b"\0" if topic_id == NO_TOPIC_ID else TOPIC_ID_TAG + topic_id)
            for index, value in offsets:
                if value.metadata:
                    text = value.metadata.encode()
                    size = SHORT[len(text)] if len(text) < len(SHORT) else text_prefix(len(text))
                    content = b"".join((_VALUE(VERSION, value.offset, value.leader_epoch), size, text, tail))
                else:
                    content = _VALUE_WITHOUT_METADATA(VERSION, value.offset, value.leader_epoch, EMPTY) + tail
                out.append((head + _PARTITION(index), content))
        return out


@lru_cache(_NAMES_REMEMBERED)
def _key_head(group_id: str, topic: str) -> bytes:
    """The key without the partition."""
    assert OffsetCommitKey.API_KEY is not None
    key = Codec.of().encoder("OffsetCommitKey", 0)(OffsetCommitKey(group_id, topic, 0))
    return OffsetCommitKey.API_KEY.to_bytes(2) + key[: -len(_PARTITION(0))]


def offset_commit_tombstone(group_id: str, topic: str, partition: int) -> Record:
    return Record(OffsetCommitKey(group_id, topic, partition), None)
