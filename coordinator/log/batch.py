"""The record batch (version 2): the format, its checks and its decoding. Batches are written, served and compacted whole.

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

The checksum does not cover the first 21 bytes, so that a server can give a producer's batch its offset without
recomputing the checksum (`restamp`). A record stores its timestamp and its offset as deltas to those of its batch.

All four codecs of Kafka are readable: gzip, snappy, lz4 and zstd (codecs.py). Only a codec number that Kafka does not have
raises `UnsupportedCompression`. The server's own batches are written uncompressed (batch_builder.py), because its records
are small and are read back more often than they are shipped.

Kafka's classes: `DefaultRecordBatch` for the batch, `DefaultRecord` for a record in it.

`key_values` is the hot path of a load: a flat loop with one- and two-byte varints inlined, returning a list per batch.
Plain slicing beats a memoryview here: records are short, and views cost more than copies.
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from google_crc32c import value as crc32c

from coordinator.log import codecs
from coordinator.log.record import LogRecord, raw_varint, unzigzag

HEADER = Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size
PREFIX_BYTES = 12
"""Size of the base offset and the length, which `batch_length` does not include."""
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


class CorruptBatch(ValueError):
    """The bytes are not a complete, intact record batch of version 2 (Kafka: `CorruptRecordException`)."""


class UnsupportedCompression(ValueError):
    """The attributes name a codec that Kafka does not have."""


class BadlyCompressed(CorruptBatch):
    """The records are not valid for their codec."""


class OversizeBatch(CorruptBatch):
    """A compressed batch has more than `RECORDS_MAX` records, or decompresses to more than `DECOMPRESSED_BYTES_MAX`."""


RECORDS_MAX = 100_000
"""Records of a compressed batch that is looked into, which takes half a second at most. A few kilobytes can have millions."""


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
        """Size of the whole batch, in bytes."""
        return self.batch_length + PREFIX_BYTES

    @property
    def last_offset(self) -> int:
        """Offset of the last record that the batch was written with; compaction may have dropped the record since."""
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
        """Whether the batch is part of a transaction, whose outcome is in a later control batch."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a marker (commit or abort) and no data."""
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        """Wall-clock time from which compaction may drop the batch's tombstones; None if it has not met them yet."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None


_unpack_header = HEADER.unpack_from
_make_header = BatchHeader._make


def read_header(buffer: bytes, position: int = 0) -> BatchHeader:
    """The header at `position`. The checksum is not verified, and the buffer may end behind the header.

    Raises CorruptBatch if the buffer is too short, the magic is not 2, or a length, count or offset is impossible.
    """
    if len(buffer) - position < HEADER_BYTES:
        raise CorruptBatch(f"{len(buffer) - position} bytes, too few for a batch header")
    header = BatchHeader._make(HEADER.unpack_from(buffer, position))
    if header.magic != MAGIC:
        raise CorruptBatch(f"magic {header.magic}, not {MAGIC}")
    if header.batch_length < HEADER_BYTES - PREFIX_BYTES:
        raise CorruptBatch(f"batch length {header.batch_length}")
    if header.last_offset_delta < 0 or header.record_count < 0 or header.base_offset < 0:
        raise CorruptBatch("a negative count or offset")
    return header


def check_batch(buffer: bytes, position: int = 0) -> BatchHeader:
    """The header of the complete batch at `position`. Raises CorruptBatch if it is incomplete or its checksum is wrong."""
    header = read_header(buffer, position)
    verify(buffer, position, header)
    return header


def verify(buffer: bytes, position: int, header: BatchHeader) -> None:
    """Raises CorruptBatch unless the batch with this header is complete and its checksum is right."""
    end = position + header.batch_length + PREFIX_BYTES
    if end > len(buffer):
        raise CorruptBatch(f"only {len(buffer) - position} bytes of a batch of {header.size_bytes} bytes")
    if crc32c(buffer[position + CHECKSUM_FROM : end]) != header.crc:
        raise CorruptBatch("wrong checksum")


def next_batch(buffer: bytes, position: int, expected_offset: int) -> BatchHeader | None:
    """The header at `position` if an intact batch with the expected base offset is there; None in all other cases.

    One call for the common case of a load. None does not mean that the batch is corrupt: check it with `check_batch`.
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


def whole_batches(records: bytes, from_offset: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch of a fetched page, which may end with a part of one, that reaches beyond an offset.

    Checksums are not verified. Raises CorruptBatch.
    """
    position = 0
    while len(records) - position >= HEADER_BYTES:
        header = read_header(records, position)
        if position + header.size_bytes > len(records):
            return
        if header.next_offset > from_offset:
            yield position, header
        position += header.size_bytes


def split(buffer: bytes, *, verifies: bool = True) -> list[tuple[int, BatchHeader]]:
    """Position and header of each batch in a buffer of complete batches. Raises CorruptBatch.

    `verifies`: whether the checksums are verified, which takes longer than to read the batches.
    """
    out, position = [], 0
    read = check_batch if verifies else read_header
    while position < len(buffer):
        header = read(buffer, position)
        out.append((position, header))
        position += header.size_bytes
    return out


def restamp(batch: bytes, base_offset: int, leader_epoch: int) -> bytes:
    """A producer's batch with the base offset and leader epoch that the log assigns. The checksum covers neither."""
    return b"".join((base_offset.to_bytes(8), batch[8:12], leader_epoch.to_bytes(4), batch[16:]))


def with_log_append_time(batch: bytes, timestamp_ms: int) -> bytes:
    """The batch with the time of the append as the timestamp of all records (`message.timestamp.type=LogAppendTime`)."""
    body = bytearray(batch[CHECKSUM_FROM:])
    body[1] |= LOG_APPEND_TIME
    body[14:22] = timestamp_ms.to_bytes(8, signed=True)
    return b"".join((batch[:17], crc32c(bytes(body)).to_bytes(4), body))


def record_bytes(buffer: bytes, position: int, header: BatchHeader) -> bytes:
    """The batch's records, decompressed but still encoded.

    Raises UnsupportedCompression, OversizeBatch, BadlyCompressed.
    """
    content = buffer[position + HEADER_BYTES : position + header.batch_length + PREFIX_BYTES]
    compression = header.attributes & COMPRESSION
    if not compression:
        return content
    if compression >= len(COMPRESSION_NAMES):
        raise UnsupportedCompression(
            f"the batch at offset {header.base_offset} is compressed with {compression}, an unknown codec"
        )
    if header.record_count > RECORDS_MAX:
        raise OversizeBatch(f"the batch at offset {header.base_offset} has {header.record_count} records, compressed")
    try:
        return codecs.decompress(compression, content)
    except codecs.TooLarge as error:
        raise OversizeBatch(str(error)) from error
    except codecs.BadCompression as error:
        raise BadlyCompressed(str(error)) from error


def key_values(buffer: bytes, position: int, header: BatchHeader) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of each record of the batch at `position`, without timestamps and headers.

    Raises CorruptBatch and UnsupportedCompression. The checksum is not verified.
    """
    if header.attributes & COMPRESSION:
        content = record_bytes(buffer, position, header)
    else:
        content = buffer[position + HEADER_BYTES : position + header.batch_length + PREFIX_BYTES]
    return content_key_values(content, header)


def content_key_values(content: bytes, header: BatchHeader) -> list[tuple[int, bytes | None, bytes | None]]:
    """The same for the content of a batch that was decompressed (`record_bytes`)."""
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
    """The complete records of the batch at `position`.

    Raises CorruptBatch and UnsupportedCompression. The checksum is not verified.
    """
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
                headers.append((name.decode(errors="replace"), field))
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
    """The field and the position after it; None for any negative length, as in Kafka."""
    raw, position = raw_varint(content, position)
    if raw & 1:
        return None, position
    end = position + (raw >> 1)
    field = content[position:end]
    if len(field) != raw >> 1:
        raise CorruptBatch("a field longer than its batch")
    return field, end
