"""Writing record batches (Kafka: `MemoryRecordsBuilder`, `DefaultRecordBatch.writeHeader`).

`BatchBuilder` is a hot path: it turns the records of one turn of the event loop into one batch, with one `join` and one
checksum. Lengths and offset deltas are varints of one or two bytes nearly always, so their encodings are looked up.
"""

from collections.abc import Sequence
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
"""Lengths and deltas below this are looked up in tables; their varints have one or two bytes."""
NEAR = 64
"""Offset deltas below this are encoded in one byte, those from here to the end of the table in two."""
_TOMBSTONE_BYTES_MAX = 16
"""The size of a tombstone without its key."""
_VARINTS = (
    *(bytes((number << 1,)) for number in range(NEAR)),
    *(bytes((number << 1 & 127 | 128, number >> 6)) for number in range(NEAR, _TABLED)),
)
DELTAS = _VARINTS
"""Encodings of the offset deltas in the table."""
_SIZES = tuple(number + (1 if number < NEAR else 2) for number in range(_TABLED))
"""Size of a field of this many bytes together with its length."""
_BEGINNINGS = tuple(b"\0\0" + delta for delta in _VARINTS)
"""The first bytes of a record after its length, by offset delta: no attributes, no timestamp delta, the offset delta."""
_BEGINNING_SIZES = tuple(len(beginning) + 1 for beginning in _BEGINNINGS)
"""Their sizes, plus one byte for the header count at the record's end."""


class BatchBuilder:
    """Collects the records of one batch."""

    __slots__ = ("_parts", "count", "size_bytes")

    def __init__(self, count: int = 0) -> None:
        """`count`: the offset delta of the first record, for building a part of a batch."""
        self._parts: list[bytes] = []
        self.count = count
        self.size_bytes = HEADER_BYTES

    def add(self, key: bytes | None, value: bytes | None) -> None:
        """Adds a record. Its offset will be the base offset plus the number of records before it."""
        self.add_all(((key, value),))

    def add_all(self, records: Sequence[tuple[bytes | None, bytes | None]]) -> None:
        """Adds records given as key and value."""
        near = max(0, _TABLED - self.count)
        if len(records) > near:
            self.add_all(records[:near])
            self._add_far(records[near:])
            return
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

    def _add_far(self, records: Sequence[tuple[bytes | None, bytes | None]]) -> None:
        """Adds records whose offset deltas are beyond the tables, as a commit of ten thousand partitions has them."""
        for key, value in records:
            try:
                delta = varint(self.count)
                key_size, value_size = _VARINTS[len(key)], _VARINTS[len(value)]  # type: ignore[arg-type]  # as above
                size = _VARINTS[_SIZES[len(key)] + _SIZES[len(value)] + len(delta) + 3]  # type: ignore[arg-type]
                self.add_encoded(b"".join((size, b"\0\0", delta, key_size, key, value_size, value, b"\0")), 1)  # type: ignore[arg-type]
            except (IndexError, TypeError):
                self.add_encoded(_unusual_record(self.count, key, value), 1)

    def add_tombstones(self, keys: Sequence[bytes]) -> None:
        """Adds records without a value: the deletion of a group may have twenty thousand."""
        parts, count, size_bytes = self._parts, self.count, self.size_bytes
        for key in keys:
            key_bytes = len(key)
            if key_bytes >= _TABLED - _TOMBSTONE_BYTES_MAX:
                record = _unusual_record(count, key, None)
                parts.append(record)
                size_bytes += len(record)
            else:
                beginning = _BEGINNINGS[count] if count < _TABLED else b"\0\0" + varint(count)
                length = len(beginning) + _SIZES[key_bytes] + 2
                # At the end: no value, no headers.
                parts += (_VARINTS[length], beginning, _VARINTS[key_bytes], key, b"\x01\0")
                size_bytes += _SIZES[length]
            count += 1
        self.count, self.size_bytes = count, size_bytes

    def add_encoded(self, records: bytes, count: int) -> None:
        """Adds records that are encoded already, with the offset deltas that come next."""
        self._parts.append(records)
        self.count += count
        self.size_bytes += len(records)

    def records(self) -> bytes:
        """The encoded records added so far, without a header."""
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
        """The batch of all records added; each of them gets `timestamp_ms`.

        A coordinator's own batches have producer id -1, epoch -1 and base sequence 0, as Kafka's do.
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
        """Prepares the builder for another batch."""
        self._parts = []
        self.count = 0
        self.size_bytes = HEADER_BYTES


def empty_batch(offset: int) -> bytes:
    """A batch without records that stands for one offset, as compaction leaves them: readers go on behind it."""
    return seal(offset, 0, _BODY.pack(0, 0, -1, -1, -1, -1, -1, 0), ())


def _unusual_record(offset_delta: int, key: bytes | None, value: bytes | None) -> bytes:
    """Encodes a record with a null key or value, or with lengths beyond the tables."""
    parts = [b"\0\0", varint(offset_delta)]
    parts += [_NULL if field is None else varint(len(field)) + field for field in (key, value)]
    body = b"".join((*parts, b"\0"))
    return varint(len(body)) + body


def seal(base_offset: int, leader_epoch: int, body_header: bytes, records: Sequence[bytes]) -> bytes:
    """A complete batch with its checksum. `body_header`: the 40 bytes from the attributes to the record count."""
    body = b"".join((body_header, *records))
    return _PREFIX.pack(base_offset, len(body) + 9, leader_epoch, MAGIC, crc32c(body)) + body


def encode_records(records: Sequence[LogRecord], base_offset: int, base_timestamp: int) -> list[bytes]:
    """Encodes records relative to a base offset and timestamp (ms). Offsets must ascend and may have gaps."""
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
    """A batch of records with their own timestamps and headers. The first record's offset is the base offset."""
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
    """The batch that compaction leaves: only the `kept` records (possibly none), with their offsets, producer and sequence.

    First and last offset stay those of the original batch, so that the log has the same offsets as before. With a delete
    horizon (KIP-534) the base timestamp is the horizon, and the records' timestamp deltas are relative to it. The records
    are compressed with the codec of the original (Kafka: `MemoryRecords.filterTo`).
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
