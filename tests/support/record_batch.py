"""Record batches (format v2) built and read independently of the code under test."""

import struct
from dataclasses import dataclass
from typing import NamedTuple

import google_crc32c

TRANSACTIONAL, CONTROL = 16, 32  # attributes
HEADER = struct.Struct(">qiibIhiqqqhii")  # base offset .. record count


class Record(NamedTuple):
    """A record that was read."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch of values. Producer fields are -1 for a producer that is not idempotent."""

    values: list[bytes]
    base_offset: int = 0
    leader_epoch: int = -1
    attributes: int = 0
    timestamp_ms: int = 1_700_000_000_000
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    key: bytes | None = None
    """Of every record that is encoded, as are the headers."""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    records: tuple[Record, ...] = ()
    """Of a batch that was read."""

    def encode(self) -> bytes:
        records = b""
        headers = zigzag(len(self.headers)) + b"".join(
            zigzag(len(key)) + key + zigzag(len(value)) + value for key, value in self.headers
        )
        key = zigzag(-1) if self.key is None else zigzag(len(self.key)) + self.key
        for index, value in enumerate(self.values):
            body = b"\x00" + zigzag(0) + zigzag(index) + key + zigzag(len(value)) + value + headers
            records += zigzag(len(body)) + body
        covered = struct.pack(
            ">hiqqqhii",
            self.attributes,
            len(self.values) - 1,
            self.timestamp_ms,
            self.timestamp_ms,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            len(self.values),
        )
        covered += records
        head = struct.pack(">ibI", self.leader_epoch, 2, google_crc32c.value(covered))
        return struct.pack(">qi", self.base_offset, len(head) + len(covered)) + head + covered


def zigzag(value: int) -> bytes:
    unsigned = (value << 1) ^ (value >> 63)
    out = bytearray()
    while unsigned > 127:
        out.append(unsigned & 127 | 128)
        unsigned >>= 7
    out.append(unsigned)
    return bytes(out)


def read_zigzag(data: bytes, position: int) -> tuple[int, int]:
    unsigned = shift = 0
    while True:
        byte = data[position]
        position += 1
        unsigned |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return (unsigned >> 1) ^ -(unsigned & 1), position


def read_batches(data: bytes) -> list[Batch]:
    """The complete batches of a Fetch response; a truncated last one is left out, as in clients."""
    found = []
    position = 0
    while position + 61 <= len(data):
        base_offset, size = struct.unpack_from(">qi", data, position)
        end = position + 12 + size
        if end > len(data):
            break
        leader_epoch, magic, crc = struct.unpack_from(">ibI", data, position + 12)
        assert magic == 2, f"magic {magic}"
        assert crc == google_crc32c.value(data[position + 21 : end]), "wrong CRC"
        attributes, _, _, timestamp_ms, producer_id, producer_epoch, base_sequence, count = struct.unpack_from(
            ">hiqqqhii", data, position + 21
        )
        assert attributes & 7 == 0, "compressed"
        at = position + 61
        records = []
        for _ in range(count):
            size, at = read_zigzag(data, at)
            records.append(read_record(data, at))
            at += size
        assert at == end
        found.append(
            Batch(
                values=[record.value or b"" for record in records],
                base_offset=base_offset,
                leader_epoch=leader_epoch,
                attributes=attributes,
                timestamp_ms=timestamp_ms,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=base_sequence,
                records=tuple(records),
            )
        )
        position = end
    return found


def read_record(data: bytes, at: int) -> Record:
    at += 1
    _, at = read_zigzag(data, at)
    _, at = read_zigzag(data, at)
    key, at = read_bytes(data, at)
    value, at = read_bytes(data, at)
    count, at = read_zigzag(data, at)
    headers = []
    for _ in range(count):
        name, at = read_bytes(data, at)
        said, at = read_bytes(data, at)
        headers.append((name or b"", said or b""))
    return Record(key, value, tuple(headers))


def read_bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = read_zigzag(data, at)
    return (None, at) if size < 0 else (data[at : at + size], at + size)
