"""Reads record batches from a chunk of a file, checks and decompresses them.

Headers are walked one by one, because only a batch's length leads to the next one, and are then processed as columns.
Compressed batches are decompressed here, so that later stages see one buffer of plain records.

Memory is bounded: a batch never exceeds DECOMPRESSED_BYTES_MAX however small it was on disk, and several batches are split
into pieces of about _PIECE_BYTES.
"""

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Any

import numpy as np
import numpy.typing as npt
from google_crc32c import value as crc32c

from coordinator.log.batch import (
    CHECKSUM_FROM,
    COMPRESSION,
    CONTROL,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    PREFIX_BYTES,
    TRANSACTIONAL,
)
from coordinator.log.codecs import DECOMPRESSED_BYTES_MAX, NAMES, BadCompression, decompress
from pyspark_coordinator_log.buffers import PADDING, Buffer, Ints, Mask

_LENGTH = Struct(">8xi4xB")
_LEAST = HEADER_BYTES - PREFIX_BYTES
_RECORD_BYTES_LEAST = 7
"""Length, attributes, two deltas, two lengths and a count: one byte each."""
_LAYOUT = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "u1"),
        ("checksum", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("count", ">i4"),
    ]
)
_PIECE_BYTES = 16 * 1024 * 1024


class BadBatch(ValueError):
    """An invalid batch; `position` is where it begins in the given buffer."""

    def __init__(self, position: int, reason: str) -> None:
        self.position = position
        self.reason = reason
        super().__init__(f"{reason} (at byte {position})")


def walk(buffer: bytes | memoryview, end: int) -> tuple[list[int], int]:
    """Returns the positions of the complete batches before `end`, and the position of the first incomplete one.

    Raises BadBatch where no version 2 batch can begin. The batches found before it are not returned; the caller walks again,
    up to that position.
    """
    found: list[int] = []
    note, unpack, position = found.append, _LENGTH.unpack_from, 0
    last = end - _LENGTH.size
    while position <= last:
        length, magic = unpack(buffer, position)
        if magic != MAGIC or length < _LEAST:
            raise BadBatch(position, _wrong_start(length, magic))
        after = position + length + PREFIX_BYTES
        if after > end:
            break
        note(position)
        position = after
    return found, position


def _wrong_start(length: int, magic: int) -> str:
    if magic < MAGIC and length >= _LEAST:
        return f"a batch of version {magic}, from before Kafka 0.11; only version {MAGIC} is supported"
    if magic > MAGIC and length >= _LEAST:
        return f"a batch of the unknown version {magic} (only {MAGIC} is supported), or damage"
    return f"no batch begins here (magic {magic}, length {length})"


class Headers:
    """The headers of the batches in a chunk, one column per field. `start` and `end` delimit the records."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_timestamp",
        "checksum",
        "count",
        "end",
        "last_offset_delta",
        "leader_epoch",
        "max_timestamp",
        "position",
        "producer_epoch",
        "producer_id",
        "start",
    )

    def __init__(self, source: Buffer, position: Ints) -> None:
        raw = source.structs(_LAYOUT, position)
        self.position = position
        self.base_offset: Ints = raw["base_offset"].astype(np.int64)
        self.leader_epoch: npt.NDArray[np.int32] = raw["leader_epoch"].astype(np.int32)
        self.checksum: npt.NDArray[np.uint32] = raw["checksum"].astype(np.uint32)
        self.attributes: npt.NDArray[np.int16] = raw["attributes"].astype(np.int16)
        self.last_offset_delta: npt.NDArray[np.int32] = raw["last_offset_delta"].astype(np.int32)
        self.base_timestamp: Ints = raw["base_timestamp"].astype(np.int64)
        self.max_timestamp: Ints = raw["max_timestamp"].astype(np.int64)
        self.producer_id: Ints = raw["producer_id"].astype(np.int64)
        self.producer_epoch: npt.NDArray[np.int16] = raw["producer_epoch"].astype(np.int16)
        self.count: Ints = raw["count"].astype(np.int64)
        self.start: Ints = position + HEADER_BYTES
        self.end: Ints = position + PREFIX_BYTES + raw["length"]

    def select(self, chosen: Any) -> "Headers":
        """The headers selected by a mask, a slice or a list of indexes."""
        out = Headers.__new__(Headers)
        for name in Headers.__slots__:
            setattr(out, name, getattr(self, name)[chosen])
        return out

    def __len__(self) -> int:
        return len(self.position)

    @property
    def is_control(self) -> Mask:
        """Contains a transaction marker instead of data."""
        return _has(self.attributes, CONTROL)

    @property
    def is_transactional(self) -> Mask:
        """Belongs to a transaction, whose marker follows later."""
        return _has(self.attributes, TRANSACTIONAL)

    @property
    def has_append_time(self) -> Mask:
        """Every record has the batch's max timestamp."""
        return _has(self.attributes, LOG_APPEND_TIME)


def _has(attributes: npt.NDArray[np.int16], bit: int) -> Mask:
    found: Mask = (attributes & bit) != 0
    return found


def check(source: Buffer, headers: Headers, *, checksums: bool) -> None:
    """Raises BadBatch for the first batch with an impossible header or a wrong checksum."""
    room = headers.end - headers.start
    plain = (headers.attributes & COMPRESSION) == 0
    fits = headers.count * _RECORD_BYTES_LEAST <= np.where(plain, room, DECOMPRESSED_BYTES_MAX)
    wrong = ~fits | (headers.count < 0) | (headers.base_offset < 0) | (headers.last_offset_delta < 0)
    if wrong.any():
        raise BadBatch(int(headers.position[np.flatnonzero(wrong)[0]]), "an impossible count or offset")
    if checksums:
        begins = (headers.position + CHECKSUM_FROM).tolist()
        # A chain of C functions, because batches may be as small as one commit.
        content = memoryview(source.array.data)
        parts = map(memoryview.tobytes, map(content.__getitem__, map(slice, begins, headers.end.tolist())))
        wrong = np.fromiter(map(crc32c, parts), np.uint32, len(headers)) != headers.checksum
        if wrong.any():
            raise BadBatch(int(headers.position[np.flatnonzero(wrong)[0]]), "wrong checksum")


def pieces(source: Buffer, headers: Headers) -> Iterator[tuple[Buffer, Headers]]:
    """The batches with decompressed records: one piece, or several if decompression makes them large."""
    if not (headers.attributes & COMPRESSION).any():
        yield source, headers
        return
    parts: list[bytes | memoryview] = []
    starts: list[int] = []
    ends: list[int] = []
    first = size = 0
    whole = memoryview(source.array.data)
    codecs = (headers.attributes & COMPRESSION).tolist()
    for index, (position, start, end) in enumerate(
        zip(headers.position.tolist(), headers.start.tolist(), headers.end.tolist(), strict=True)
    ):
        part = whole[start:end] if codecs[index] == 0 else _inflate(codecs[index], bytes(whole[start:end]), position)
        if parts and size + len(part) > _PIECE_BYTES:
            yield _joined(parts, size, headers.select(slice(first, index)), starts, ends)
            parts, starts, ends = [], [], []
            first, size = index, 0
        parts.append(part)
        starts.append(size)
        size += len(part)
        ends.append(size)
    if parts:
        yield _joined(parts, size, headers.select(slice(first, None)), starts, ends)


def _joined(
    parts: Sequence[bytes | memoryview], size: int, headers: Headers, starts: list[int], ends: list[int]
) -> tuple[Buffer, Headers]:
    array = np.zeros(size + PADDING, np.uint8)
    for part, start, end in zip(parts, starts, ends, strict=True):
        array[start:end] = np.frombuffer(part, np.uint8)
    headers.start, headers.end = np.array(starts, np.int64), np.array(ends, np.int64)
    wrong = headers.count * _RECORD_BYTES_LEAST > headers.end - headers.start
    if wrong.any():
        raise BadBatch(int(headers.position[np.flatnonzero(wrong)[0]]), "more records than fit into its bytes")
    return Buffer(array), headers


def _inflate(codec: int, content: bytes, position: int) -> bytes:
    """Decompresses the records of a batch. Raises BadBatch."""
    if codec >= len(NAMES):
        raise BadBatch(position, f"unknown compression {codec}")
    try:
        return decompress(codec, content)
    except BadCompression as error:
        raise BadBatch(position, f"invalid {NAMES[codec]} data: {error}") from error
