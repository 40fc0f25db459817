"""A committed offset as the state keeps it: the bytes of its record's value.

A server holds a million offsets for weeks. As messages, with numbers of their own, they would take three times the memory of
their bytes, which the log needs anyway and a load finds in it. So the state keeps those, and they are decoded to be read.

Values are written in version 4 (flexible, with the topic's id as tagged field 0). An offset with its own retention
(OffsetCommit v2-4) is written in version 1, the only one with a field for an expiry time. That version has no leader epoch and
no topic id, so the record is made without them, and memory never holds what a restart would lose.
"""

from functools import cache
from struct import Struct

from coordinator.protocol.codec import Codec, Decoder, Encoder
from coordinator.protocol.messages import OffsetCommitValue
from coordinator.protocol.wire import SHORT, text_prefix

StoredOffset = bytes
"""The value of an OffsetCommit record as this server writes it, with the version in front."""

FetchedOffset = tuple[int, int, str, bytes]
"""Offset, leader epoch, metadata, topic id."""

VERSION = 4
VERSION_WITH_EXPIRY = 1
NO_TOPIC_ID = bytes(16)
NO_LEADER_EPOCH = -1
NO_TIMESTAMP = -1

EMPTY = SHORT[0][0]
"""The size field of an empty string."""
_NO_TAGS = b"\0"
_TOPIC_ID_TAG = b"\1\0\20"
"""One tagged field: number 0, of 16 bytes."""

TAGS_BYTES = len(_TOPIC_ID_TAG) + len(NO_TOPIC_ID)
"""The size of the tagged fields of a value that has a topic id."""

_HEAD = Struct(">hqi").pack
_HEAD_WITHOUT_METADATA = Struct(">hqiB").pack
_PLAIN = Struct(f">hqiBq{len(_TOPIC_ID_TAG)}s16s")
"""A value without metadata and with a topic id."""
_PLAIN_BYTES = _PLAIN.size
read_offset = Struct(">2xq").unpack_from
"""The offset alone, in a tuple: every version has it in the same place."""
_read_plain = _PLAIN.unpack
_read_times = Struct(f">h12xBq{len(_TOPIC_ID_TAG)}s16x").unpack
_SHAPE = Struct(f">h12xB8x{len(_TOPIC_ID_TAG)}s16x").unpack
"""The fields of a plain value that are the same in all of them."""
_PLAIN_SHAPE = (VERSION, EMPTY, _TOPIC_ID_TAG)
_new = object.__new__


def tail(commit_timestamp_ms: int, topic_id: bytes) -> bytes:
    """The end of a value, which all offsets of one commit and topic share."""
    return commit_timestamp_ms.to_bytes(8, signed=True) + tags(topic_id)


def tags(topic_id: bytes) -> bytes:
    """The tagged fields of a value."""
    return _NO_TAGS if topic_id == NO_TOPIC_ID else _TOPIC_ID_TAG + topic_id


def with_tail(offset: int, leader_epoch: int, metadata: str | None, end: bytes) -> StoredOffset:
    """A value without an expiry time. `end`: from `tail`."""
    if not metadata:
        return _HEAD_WITHOUT_METADATA(VERSION, offset, leader_epoch, EMPTY) + end
    text = metadata.encode()
    size = SHORT[len(text)] if len(text) < len(SHORT) else text_prefix(len(text))
    return b"".join((_HEAD(VERSION, offset, leader_epoch), size, text, end))


def encode(value: OffsetCommitValue) -> StoredOffset:
    """The value as this server writes it; it may come from a record of another version."""
    if value.expire_timestamp == NO_TIMESTAMP:
        end = tail(value.commit_timestamp, value.topic_id)
        return with_tail(value.offset, value.leader_epoch, value.metadata, end)
    return VERSION_WITH_EXPIRY.to_bytes(2) + _codec(VERSION_WITH_EXPIRY)[1](value)


def decode(stored: StoredOffset) -> OffsetCommitValue:
    if len(stored) == _PLAIN_BYTES:
        version, offset, leader_epoch, size, commit_timestamp_ms, tag, topic_id = _read_plain(stored)
        if (version, size, tag) == _PLAIN_SHAPE:
            value = _new(OffsetCommitValue)
            value.offset = offset
            value.leader_epoch = leader_epoch
            value.metadata = ""
            value.commit_timestamp = commit_timestamp_ms
            value.expire_timestamp = NO_TIMESTAMP
            value.topic_id = topic_id
            return value
    other, _ = _codec(int.from_bytes(stored[:2]))[0](stored, 2)
    assert isinstance(other, OffsetCommitValue)
    return other


def fetched(stored: StoredOffset) -> FetchedOffset:
    """What an OffsetFetch needs, without the rest of it."""
    if len(stored) == _PLAIN_BYTES:
        version, offset, leader_epoch, size, _, tag, topic_id = _read_plain(stored)
        if (version, size, tag) == _PLAIN_SHAPE:
            return offset, leader_epoch, "", topic_id
    value = decode(stored)
    return value.offset, value.leader_epoch, value.metadata, value.topic_id


def times(stored: StoredOffset) -> tuple[int, int]:
    """When the offset was committed, and its own expiry time or NO_TIMESTAMP (ms), without the rest of it."""
    if len(stored) == _PLAIN_BYTES:
        version, size, commit_timestamp_ms, tag = _read_times(stored)
        if (version, size, tag) == _PLAIN_SHAPE:
            return commit_timestamp_ms, NO_TIMESTAMP
    value = decode(stored)
    return value.commit_timestamp, value.expire_timestamp


def is_plain(value: bytes) -> bool:
    """Whether these bytes are a value in our version, without metadata and with a topic id."""
    return len(value) == _PLAIN_BYTES and _SHAPE(value) == _PLAIN_SHAPE


@cache
def _codec(version: int) -> tuple[Decoder, Encoder]:
    codec = Codec.of()
    return codec.decoder("OffsetCommitValue", version), codec.encoder("OffsetCommitValue", version)
