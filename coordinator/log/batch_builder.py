"""Writing record batches."""

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Any

from google_crc32c import value as crc32c

from coordinator.log import codecs
from coordinator.log.batch import COMPRESSION, DELETE_HORIZON, HEADER_BYTES, LOG_APPEND_TIME, MAGIC, BatchHeader
from coordinator.log.record import LogRecord, varint

_PREFIX = Struct(">qiiBI")
_BODY = Struct(">hiqqqhii")
_NULL = varint(-1)
_TABLED = 4096
"""Lengths and deltas below this are looked up; their varints have one or two bytes."""
NEAR = 64
"""Places in a batch below this have one byte, those behind it two."""
_VARINTS = (
    *(bytes((number << 1,)) for number in range(NEAR)),
    *(bytes((number << 1 & 127 | 128, number >> 6)) for number in range(NEAR, _TABLED)),
)
DELTAS = _VARINTS
"""The places' bytes, as far as they are looked up."""
_SIZES = tuple(number + (1 if number < NEAR else 2) for number in range(_TABLED))
"""Of so many bytes together with their length."""
_BEGINNINGS = tuple(b"\0\0" + delta for delta in _VARINTS)
"""Of a record behind its length: no attributes, no timestamp delta, its offset delta."""
_BEGINNING_SIZES = tuple(len(beginning) + 1 for beginning in _BEGINNINGS)
"""The same in bytes, with the count of headers at the record's end."""


class BatchBuilder:
    """Collects the records of one batch."""

    __slots__ = ("_parts", "count", "size_bytes")

    def __init__(self, count: int = 0) -> None:
        """`count`: the place of the first record, if these are not all that the batch will have."""
        self._parts: list[bytes] = []
        self.count = count
        self.size_bytes = HEADER_BYTES

    def add(self, key: bytes | None, value: bytes | None) -> None:
        """Adds a record, whose offset will be the base offset plus the records before it."""
        self.add_all(((key, value),))

    def add_all(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """The same for many, by key and value."""
        parts: list[Any] = self._parts
        count, size_bytes = self.count, self.size_bytes
        for key, value in records:
            try:
                key_bytes, value_bytes = len(key), len(value)  # type: ignore[arg-type]  # None is for the one below
                length = _SIZES[key_bytes] + _SIZES[value_bytes] + _BEGINNING_SIZES[count]
                # The zero at the end: the count of headers.
                parts += (
                    _VARINTS[length], _BEGINNINGS[count], _VARINTS[key_bytes], key, _VARINTS[value_bytes], value, b"\0",
                )  # fmt: skip
                size_bytes += _SIZES[length]
            except (IndexError, TypeError):
                record = _unusual_record(count, key, value)
                parts.append(record)
                size_bytes += len(record)
            count += 1
        self.count, self.size_bytes = count, size_bytes

    def add_encoded(self, records: bytes, count: int) -> None:
        """Adds `count` records that are encoded already, with the offset deltas that come next in this batch."""
        self._parts.append(records)
        self.count += count
        self.size_bytes += len(records)

    def records(self) -> bytes:
        """The records added so far, in their wire form."""
        return b"".join(self._parts)

    def build(
        self,
        base_offset: int,
        timestamp_ms: int,
        *,
        leader_epoch: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = 0,
        attributes: int = 0,
    ) -> bytes:
        """The batch of all records added, which all bear `timestamp_ms`.

        Plain batches of a coordinator have producer -1, epoch -1 and yet base sequence 0, as Kafka's have.
        """
        count = self.count
        return seal(
            base_offset,
            leader_epoch,
            _BODY.pack(
                attributes, count - 1, timestamp_ms, timestamp_ms, producer_id, producer_epoch, base_sequence, count
            ),
            self._parts,
        )

    def clear(self) -> None:
        """Makes the builder ready for another batch."""
        self._parts = []
        self.count = 0
        self.size_bytes = HEADER_BYTES


def _unusual_record(offset_delta: int, key: bytes | None, value: bytes | None) -> bytes:
    """A record without a key or a value, or with more than the tables know."""
    parts = [b"\0\0", varint(offset_delta)]
    parts += [_NULL if field is None else varint(len(field)) + field for field in (key, value)]
    body = b"".join((*parts, b"\0"))
    return varint(len(body)) + body


def seal(base_offset: int, leader_epoch: int, body_header: bytes, records: Sequence[bytes]) -> bytes:
    """A batch from its parts: `body_header` is the 40 bytes from the attributes on."""
    body = b"".join((body_header, *records))
    return _PREFIX.pack(base_offset, len(body) + 9, leader_epoch, MAGIC, crc32c(body)) + body


def encode_records(records: Sequence[LogRecord], base_offset: int, base_timestamp: int) -> list[bytes]:
    """Records in their wire form, relative to a base; offsets must ascend and may have gaps."""
    out = []
    for record in records:
        parts = [b"\0", varint(record.timestamp - base_timestamp), varint(record.offset - base_offset)]
        parts += [_NULL if field is None else varint(len(field)) + field for field in (record.key, record.value)]
        parts.append(varint(len(record.headers)))
        for name, content in record.headers:
            encoded = name.encode()
            parts.append(varint(len(encoded)) + encoded)
            parts.append(_NULL if content is None else varint(len(content)) + content)
        body = b"".join(parts)
        out.append(varint(len(body)) + body)
    return out


def encode_batch(
    records: Sequence[LogRecord],
    *,
    leader_epoch: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = 0,
    attributes: int = 0,
) -> bytes:
    """A batch of records that have their own timestamps and headers; the first one's offset is the base offset."""
    base_offset, base_timestamp = records[0].offset, records[0].timestamp
    body_header = _BODY.pack(
        attributes,
        records[-1].offset - base_offset,
        base_timestamp,
        max(record.timestamp for record in records),
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    return seal(base_offset, leader_epoch, body_header, encode_records(records, base_offset, base_timestamp))


def reduce_batch(header: BatchHeader, kept: Sequence[LogRecord], delete_horizon_ms: int | None) -> bytes:
    """What compaction leaves of a batch: fewer records, and the same offsets, producer and sequence as before.

    First and last offset stay those of the batch as it was written, so that the log keeps its shape; with a delete
    horizon the base timestamp is the horizon and the records' deltas count from there. Nothing may be left.
    """
    attributes = header.attributes & ~DELETE_HORIZON
    base_timestamp = header.base_timestamp
    if not kept:
        attributes &= ~COMPRESSION
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON
        base_timestamp = delete_horizon_ms
    body_header = _BODY.pack(
        attributes,
        header.last_offset_delta,
        base_timestamp,
        header.max_timestamp if attributes & LOG_APPEND_TIME or not kept else max(record.timestamp for record in kept),
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        len(kept),
    )
    records = encode_records(kept, header.base_offset, base_timestamp)
    if attributes & COMPRESSION:
        records = [codecs.compress(attributes & COMPRESSION, b"".join(records))]
    return seal(header.base_offset, header.leader_epoch, body_header, records)
