"""The record batch (version 2): the unit in which records are written, checked, served and compacted.

    offset  size  field
         0     8  base offset: of the first record
         8     4  length of all that follows this field
        12     4  partition leader epoch
        16     1  magic = 2
        17     4  CRC-32C of all that follows this field
        21     2  attributes: compression (3 bits), log append time, transactional, control, delete horizon
        23     4  last offset delta
        27     8  base timestamp
        35     8  max timestamp
        43     8  producer id, -1 for none
        51     2  producer epoch
        53     4  base sequence
        57     4  record count
        61        records

The checksum leaves out the first 21 bytes so that a server can give a producer's batch its offset without touching what
the producer signed (`restamp`). A record carries only what differs from its batch: timestamp and offset as deltas.

Batches are written without compression; the coordinator's records are small and are read back more often than they are
shipped. Of compressed ones gzip is readable; the other three need libraries that this project does without, and say so
(`UnsupportedCompression`) instead of being skipped.

A transaction ends in a log with a control batch: one record whose key says commit or abort, and whose value says which
coordinator decided it (`end_transaction`).

Two paths are hot. `BatchBuilder` turns the records of one turn of the event loop into one batch: one `join` and one checksum
in all. `key_values` is how a load reads them back: a flat loop with one- and two-byte varints inlined,
returning a list per batch. Plain slicing beats a memoryview here: records are short, and views cost more than copies.
"""

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Any, NamedTuple

from google_crc32c import value as crc32c

from coordinator.log import codecs
from coordinator.log.record import LogRecord, raw_varint, unzigzag, varint

HEADER = Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size
PREFIX_BYTES = 12
"""Base offset and length: what a batch's `batch_length` does not count."""
CHECKSUM_FROM = 21
MAGIC = 2

COMPRESSION = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40
"""The base timestamp is the time after which compaction may drop the batch's tombstones (KIP-534)."""

COMPRESSION_NAMES = codecs.NAMES
DECOMPRESSED_BYTES_MAX = codecs.DECOMPRESSED_BYTES_MAX

ABORT_MARKER, COMMIT_MARKER = 0, 1
"""Types of control records (KIP-98); others are not about transactions."""

_PREFIX = Struct(">qiiBI")
_MARKER_KEY = Struct(">hh")
_MARKER_VALUE = Struct(">hi")
_NO_SEQUENCE = -1
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


class CorruptBatch(ValueError):
    """The bytes are not a whole, unharmed record batch of version 2."""


class UnsupportedCompression(ValueError):
    """The records are compressed in a way this server cannot read."""


class BatchHeader(NamedTuple):
    """The first 61 bytes of a batch, field by field."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole batch."""
        return self.batch_length + PREFIX_BYTES

    @property
    def last_offset(self) -> int:
        """Offset of the last record the batch was made with; compaction may have taken it out since."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The first offset after this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & COMPRESSION

    @property
    def is_transactional(self) -> bool:
        """Part of a transaction: its fate is in a later control batch."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Holds a marker (commit or abort), not data."""
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones in here may go, if compaction has met them before."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None


_unpack_header = HEADER.unpack_from
_make_header = BatchHeader._make


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


def end_transaction(
    base_offset: int,
    timestamp_ms: int,
    *,
    producer_id: int,
    producer_epoch: int,
    commit: bool,
    coordinator_epoch: int,
    leader_epoch: int = 0,
) -> bytes:
    """The control batch that ends a producer's transaction in a log; it has no sequence number, as in Kafka."""
    builder = BatchBuilder()
    builder.add(
        _MARKER_KEY.pack(0, COMMIT_MARKER if commit else ABORT_MARKER), _MARKER_VALUE.pack(0, coordinator_epoch)
    )
    return builder.build(
        base_offset,
        timestamp_ms,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=_NO_SEQUENCE,
        attributes=TRANSACTIONAL | CONTROL,
    )


def read_end_transaction(key: bytes | None, value: bytes | None) -> tuple[bool, int] | None:
    """Whether a control record commits, and its coordinator's epoch; None for control records of other types."""
    if key is None or len(key) < _MARKER_KEY.size:
        raise CorruptBatch("a control record without a type")
    kind = _MARKER_KEY.unpack_from(key)[1]
    if kind not in (ABORT_MARKER, COMMIT_MARKER):
        return None
    if value is None or len(value) < _MARKER_VALUE.size:
        raise CorruptBatch("the marker of a transaction without its coordinator's epoch")
    return kind == COMMIT_MARKER, _MARKER_VALUE.unpack_from(value)[1]


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


def read_header(buffer: bytes, position: int = 0) -> BatchHeader:
    """The header at `position`, with its plain facts checked but not its checksum; the records need not be there."""
    if len(buffer) - position < HEADER_BYTES:
        raise CorruptBatch(f"{len(buffer) - position} bytes, fewer than a batch's header")
    header = BatchHeader._make(HEADER.unpack_from(buffer, position))
    if header.magic != MAGIC:
        raise CorruptBatch(f"magic {header.magic}, not {MAGIC}")
    if header.batch_length < HEADER_BYTES - PREFIX_BYTES:
        raise CorruptBatch(f"batch length {header.batch_length}")
    if header.last_offset_delta < 0 or header.record_count < 0 or header.base_offset < 0:
        raise CorruptBatch("a negative count or offset")
    return header


def check_batch(buffer: bytes, position: int = 0) -> BatchHeader:
    """The header at `position`, if a whole batch with the right checksum lies there; else CorruptBatch."""
    header = read_header(buffer, position)
    verify(buffer, position, header)
    return header


def verify(buffer: bytes, position: int, header: BatchHeader) -> None:
    """CorruptBatch unless the batch with this header is whole and its checksum right."""
    end = position + header.batch_length + PREFIX_BYTES
    if end > len(buffer):
        raise CorruptBatch(f"{len(buffer) - position} bytes of a batch of {header.size_bytes}")
    if crc32c(buffer[position + CHECKSUM_FROM : end]) != header.crc:
        raise CorruptBatch("wrong checksum")


def next_batch(buffer: bytes, position: int, expected_offset: int) -> BatchHeader | None:
    """The header at `position` if all is well there: a whole batch of records, sound, with the offset that is expected.

    One call for what a load does most. None says only that the case is not the usual one.
    """
    if len(buffer) - position < HEADER_BYTES:
        return None
    fields = _unpack_header(buffer, position)
    base_offset, batch_length, _, magic, crc, _, last_offset_delta = fields[:7]
    end = position + batch_length + PREFIX_BYTES
    if (
        base_offset == expected_offset
        and magic == MAGIC
        and batch_length >= HEADER_BYTES - PREFIX_BYTES
        and end <= len(buffer)
        and last_offset_delta >= 0
        and fields[12] >= 0
        and crc32c(buffer[position + CHECKSUM_FROM : end]) == crc
    ):
        return _make_header(fields)
    return None


def split(buffer: bytes) -> list[tuple[int, BatchHeader]]:
    """Position and checked header of each batch in a buffer that holds whole batches and nothing else."""
    out, position = [], 0
    while position < len(buffer):
        header = check_batch(buffer, position)
        out.append((position, header))
        position += header.size_bytes
    return out


def restamp(batch: bytes, base_offset: int, leader_epoch: int) -> bytes:
    """A producer's batch with the offset the log gives it; its checksum holds, as it does not cover these fields."""
    return b"".join((base_offset.to_bytes(8), batch[8:12], leader_epoch.to_bytes(4), batch[16:]))


def with_log_append_time(batch: bytes, timestamp_ms: int) -> bytes:
    """A batch whose records all bear the time of the append (`message.timestamp.type=LogAppendTime`)."""
    body = bytearray(batch[CHECKSUM_FROM:])
    body[1] |= LOG_APPEND_TIME
    body[14:22] = timestamp_ms.to_bytes(8, signed=True)
    return b"".join((batch[:17], crc32c(bytes(body)).to_bytes(4), body))


def record_bytes(buffer: bytes, position: int, header: BatchHeader) -> bytes:
    """The records of a batch, uncompressed."""
    content = buffer[position + HEADER_BYTES : position + header.batch_length + PREFIX_BYTES]
    compression = header.attributes & COMPRESSION
    if not compression:
        return content
    if compression >= len(COMPRESSION_NAMES):
        raise UnsupportedCompression(f"batch at offset {header.base_offset} is compressed with {compression}")
    try:
        return codecs.decompress(compression, content)
    except codecs.BadCompression as error:
        raise CorruptBatch(str(error)) from error


def key_values(buffer: bytes, position: int, header: BatchHeader) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of each record of the batch at `position`; timestamps and headers are passed over."""
    if header.attributes & COMPRESSION:
        content = record_bytes(buffer, position, header)
    else:
        content = buffer[position + HEADER_BYTES : position + header.batch_length + PREFIX_BYTES]
    base_offset = header.base_offset
    out: list[tuple[int, bytes | None, bytes | None]] = []
    position = 0
    try:
        for _ in range(header.record_count):
            raw = content[position]
            position += 1
            if raw > 127:
                byte = content[position]
                if byte < 128:
                    raw += (byte << 7) - 128
                    position += 1
                else:
                    raw, position = raw_varint(content, position - 1)
            end = position + (raw >> 1)
            position += 1
            while content[position] > 127:
                position += 1
            position += 1
            delta = content[position]
            position += 1
            if delta > 127:
                byte = content[position]
                if byte < 128:
                    delta += (byte << 7) - 128
                    position += 1
                else:
                    delta, position = raw_varint(content, position - 1)
            raw = content[position]
            position += 1
            if raw > 127:
                raw, position = raw_varint(content, position - 1)
            if raw & 1:
                if raw != 1:
                    raise CorruptBatch("a negative key length")
                key = None
            else:
                start = position
                position += raw >> 1
                key = content[start:position]
            raw = content[position]
            position += 1
            if raw > 127:
                raw, position = raw_varint(content, position - 1)
            if raw & 1:
                if raw != 1:
                    raise CorruptBatch("a negative value length")
                value = None
            else:
                start = position
                position += raw >> 1
                value = content[start:position]
            if position >= end:
                raise CorruptBatch("a record longer than it says")
            position = end
            out.append((base_offset + (delta >> 1), key, value))
    except (IndexError, ValueError) as error:
        raise CorruptBatch(f"records of the batch at offset {base_offset}: {error}") from error
    if position != len(content):
        raise CorruptBatch(f"records of the batch at offset {base_offset} do not fill it")
    return out


def decode_records(buffer: bytes, position: int, header: BatchHeader) -> list[LogRecord]:
    """All there is to know of each record of the batch at `position`."""
    content = record_bytes(buffer, position, header)
    append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    out: list[LogRecord] = []
    position = 0
    try:
        for _ in range(header.record_count):
            raw, position = raw_varint(content, position)
            end = position + (raw >> 1)
            timestamp_delta, position = raw_varint(content, position + 1)
            offset_delta, position = raw_varint(content, position)
            key, position = _read_field(content, position)
            value, position = _read_field(content, position)
            raw, position = raw_varint(content, position)
            if raw & 1 or raw > 2 * (end - position):
                raise CorruptBatch(f"{unzigzag(raw)} headers")
            headers = []
            for _ in range(raw >> 1):
                name, position = _read_field(content, position)
                field, position = _read_field(content, position)
                if name is None:
                    raise CorruptBatch("a header without a name")
                headers.append((name.decode(), field))
            if position != end:
                raise CorruptBatch("a record whose fields do not fill it")
            timestamp = header.base_timestamp + unzigzag(timestamp_delta) if append_time is None else append_time
            offset = header.base_offset + unzigzag(offset_delta)
            out.append(LogRecord(offset, timestamp, key, value, tuple(headers)))
    except (IndexError, ValueError) as error:
        raise CorruptBatch(f"records of the batch at offset {header.base_offset}: {error}") from error
    if position != len(content):
        raise CorruptBatch(f"records of the batch at offset {header.base_offset} do not fill it")
    return out


def _read_field(content: bytes, position: int) -> tuple[bytes | None, int]:
    raw, position = raw_varint(content, position)
    if raw == 1:
        return None, position
    if raw & 1:
        raise CorruptBatch("a negative length")
    end = position + (raw >> 1)
    field = content[position:end]
    if len(field) != raw >> 1:
        raise CorruptBatch("a field longer than its batch")
    return field, end
