"""A record as it is read from a log, and the variable-length integers of its encoding (Kafka: `DefaultRecord`).

Inside a batch every length and delta is a *zigzag varint*: the sign goes into the lowest bit (0, -1, 1, -2 become
0, 1, 2, 3), then seven bits per byte, lowest first. `unzigzag` undoes the first half; `batch.key_values` inlines the
second half for one and two bytes, because a function call per field would double the cost of a load.
"""

from typing import NamedTuple


class LogRecord(NamedTuple):
    """A record. The timestamp is in ms; a value of None is a tombstone."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def varint(value: int) -> bytes:
    """Encodes a signed 32-bit or 64-bit number as a zigzag varint (Kafka: `ByteUtils.writeVarint`, `writeVarlong`)."""
    raw = (value << 1) ^ (value >> 63)
    if 1 << 14 <= raw < 1 << 21:  # the offset deltas of the largest commits and deletions
        return bytes((raw & 127 | 128, raw >> 7 & 127 | 128, raw >> 14))
    out = bytearray()
    while raw > 127:
        out.append(raw & 127 | 128)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def raw_varint(buffer: bytes, position: int) -> tuple[int, int]:
    """Reads a varint of at most ten bytes. Returns its value, still in zigzag form, and the position after it.

    Raises IndexError if the buffer ends first, and ValueError if the varint is longer than ten bytes.
    """
    raw = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        raw |= (byte & 127) << shift
        if byte < 128:
            return raw, position
        shift += 7
        if shift > 63:
            raise ValueError("a varint longer than ten bytes")


def unzigzag(raw: int) -> int:
    """Decodes a zigzag value to the signed number."""
    return (raw >> 1) ^ -(raw & 1)
