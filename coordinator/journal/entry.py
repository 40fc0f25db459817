"""The bytes of an entry: everything that the internal logs appended in one turn of the loop.

    magic 4 | length of the body u32 | checksum u32 | sequence u64 | flags u8 | body
    body: for each part   length of the log's name u16 | length of the batches u32 | name | batches

The checksum (CRC-32C) begins with the salt of the slot, so that an entry of an earlier use of the file is never taken for one
of this use. Sequences ascend by one from entry to entry, across slots.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from google_crc32c import extend, value

MAGIC = b"KCJE"
_HEAD = Struct(">4sII")
_CHECKED = Struct(">IQB")
_PART = Struct(">HI")
HEADER_BYTES = _HEAD.size + _CHECKED.size - 4
ALL_BEFORE_DURABLE = 1
"""Flag: when this entry was written, every earlier one was durable. So if this one survived, a fault before it is damage."""


class Part(NamedTuple):
    """The batches of one log in an entry."""

    log: str
    """The name of the log's folder."""
    batches: bytes
    """One or more record batches, in Kafka's format."""


class Entry(NamedTuple):
    """A valid entry."""

    sequence: int
    flags: int
    body: bytes
    size_bytes: int
    """With its header."""


def part_prefix(log: str, batches: bytes) -> bytes:
    """What precedes the batches of a log in the body."""
    name = log.encode()
    return _PART.pack(len(name), len(batches)) + name


def encode(salt: bytes, sequence: int, flags: int, body: Iterable[bytes]) -> bytes:
    """An entry. `body`: alternately prefix and batches of each part."""
    content = b"".join(body)
    checked = _CHECKED.pack(len(content), sequence, flags)
    checksum = extend(extend(value(salt), checked), content)
    return b"".join((_HEAD.pack(MAGIC, len(content), checksum), checked[4:], content))


def decode(buffer: bytes, position: int, salt: bytes) -> Entry | None:
    """The entry at a position of a buffer; None if there is no valid entry with this salt."""
    end = position + HEADER_BYTES
    if end > len(buffer):
        return None
    magic, length, checksum = _HEAD.unpack_from(buffer, position)
    if magic != MAGIC or end + length > len(buffer):
        return None
    rest = buffer[position + _HEAD.size : end]
    body = buffer[end : end + length]
    if extend(extend(value(salt), length.to_bytes(4) + rest), body) != checksum:
        return None
    return Entry(int.from_bytes(rest[:8]), rest[8], body, HEADER_BYTES + length)


def parts(body: bytes) -> Iterator[Part]:
    """The parts of a valid entry's body. Raises ValueError if its lengths or names make no sense."""
    position = 0
    while position < len(body):
        name_at = position + _PART.size
        if name_at > len(body):
            raise ValueError("a part without its lengths")
        name_bytes, length = _PART.unpack_from(body, position)
        batches_at = name_at + name_bytes
        position = batches_at + length
        if position > len(body):
            raise ValueError("a part that is longer than its entry")
        yield Part(body[name_at:batches_at].decode(), body[batches_at:position])
