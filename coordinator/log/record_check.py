"""Checks that the records of a producer's batch can be read, without decoding them (Kafka: `LogValidator`, `DefaultRecord`).

A record says its own length and those of its fields, all as varints, so each has to be looked at to find the next. The flat
loop reads the records that producers commonly send: lengths of one or two bytes, no headers. Everything else takes the way
over `_check_record`, which knows all of the format.
"""

from struct import Struct
from struct import error as struct_error

from coordinator.log.batch import CorruptBatch
from coordinator.log.record import raw_varint, unzigzag

_FIELDS = Struct("5B").unpack_from
"""The bytes after a record's attributes. No valid record has fewer."""
_NOT_SHORT = ~0x3FFE
"""The bits that no even number of two bytes has: the zigzag form of a length or delta that is positive and short."""
_INT_BYTES_MAX = 5


class Disordered(CorruptBatch):
    """The offsets of a batch's records are not consecutive."""


def check_encoding(content: bytes, count: int, *, ordered: bool) -> tuple[int, int]:
    """Checks that the decompressed content is exactly `count` records; `ordered`: with consecutive offsets.

    Returns the extremes of the timestamp deltas, of which those that fit into two bytes count as 0. Raises CorruptBatch,
    Disordered.
    """
    earliest = latest = position = 0
    for wanted in range(0, 2 * count, 2):
        start = position
        try:
            size = content[position]
            position += 1
            if size > 127:
                byte = content[position]
                position += 1
                size = size & 127 | byte << 7
            end = position + (size >> 1)
            time, offset, key, byte, last = _FIELDS(content, position + 1)
            position += 4
            # Timestamp and offset take two to four bytes here; `key` becomes the length of the key.
            if time > 127:
                time, offset, key, byte = offset, key, byte, last
                position += 1
            if offset > 127:
                offset, key = offset & 127 | key << 7, byte
                position += 1
            if not key & 1:
                position += key >> 1
            value = content[position]
            position += 1
            if value > 127:
                byte = content[position]
                position += 1
                value = value & 127 | byte << 7
            position += value >> 1
            is_short = (
                position + 1 == end
                and not content[position]
                and not (size | offset | value) & _NOT_SHORT
                and time | key < 128
                and (not ordered or offset == wanted)
            )
        except (IndexError, struct_error):
            is_short = False
        if is_short:
            position = end
            continue
        # A header, or a number that is negative or longer than what was read of it.
        position, delta = _check_record(content, start, wanted >> 1 if ordered else None)
        earliest, latest = min(earliest, delta), max(latest, delta)
    if position != len(content):
        raise CorruptBatch("the records do not fill their batch")
    return earliest, latest


def _check_record(content: bytes, position: int, index: int | None) -> tuple[int, int]:
    """Checks one record, whose offset delta must be `index` unless that is None. Returns its end and its timestamp delta.

    Raises CorruptBatch, Disordered.
    """
    try:
        end, offset_delta, timestamp_delta = _read_record(content, position)
    except (IndexError, ValueError) as error:
        if isinstance(error, CorruptBatch):
            raise
        raise CorruptBatch(f"a record: {error}") from error
    if index is not None and offset_delta != index:
        raise Disordered(f"offset {offset_delta} of record {index}")
    return end, timestamp_delta


def _read_record(content: bytes, position: int) -> tuple[int, int, int]:
    """The end of a record, and its offset and timestamp deltas. Raises CorruptBatch, IndexError, ValueError."""
    size, position = _varint(content, position)
    end = position + size
    if size < 0 or end > len(content):
        raise CorruptBatch("a record longer than its batch")
    start = position + 1
    raw, position = raw_varint(content, start)
    offset_delta, position = _varint(content, position)
    for _ in ("key", "value"):
        length, position = _varint(content, position)
        position += max(length, 0)
    headers, position = _varint(content, position)
    if not 0 <= headers <= end - position:
        raise CorruptBatch(f"{headers} headers")
    for _ in range(headers):
        length, position = _varint(content, position)
        if length < 0:
            raise CorruptBatch("a header without a name")
        length, position = _varint(content, position + length)
        position += max(length, 0)
    if position != end:
        raise CorruptBatch("a record whose fields do not fill it")
    return end, offset_delta, unzigzag(raw)


def _varint(content: bytes, position: int) -> tuple[int, int]:
    """A varint of at most five bytes, and the position after it."""
    raw, end = raw_varint(content, position)
    if end - position > _INT_BYTES_MAX:
        raise CorruptBatch("a varint longer than five bytes")
    return unzigzag(raw & 0xFFFF_FFFF), end
