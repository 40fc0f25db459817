"""The slow paths of the codec: what generated code calls for less common messages.

Generated functions (`compile.py`) read a one-byte varint, a short string or an empty tag section in place, because a call costs
as much as the read. Everything rarer is here, where it can be read and tested.

A position may run past the end of the buffer: slicing then leaves it beyond the end, and the next read, or the check at the end
of the message, refuses it. So no read is preceded by a check.
"""

from struct import Struct
from typing import Any

from coordinator.protocol.bounded_cache import BoundedCache

TEXT_SIZE_MAX = 0x7FFF
"""The most bytes of a string in any encoding. The flexible one has room for more, but Kafka refuses it on both sides."""

COUNTS_KEPT = 256


class DecodeError(Exception):
    """The bytes are not a message of that name and version. A connection that sends them is closed."""


class EncodeError(Exception):
    """The message has no form in that version: a field that is set does not exist there, is null, or is out of range."""


def read_varint(buffer: bytes, position: int) -> tuple[int, int]:
    """Reads an unsigned varint of at most five bytes and 31 bits; returns it and the next position."""
    value = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            raise DecodeError("a varint has more than five bytes")
    if value > 0x7FFFFFFF:
        raise DecodeError(f"varint {value} does not fit in 31 bits")
    return value, position


def write_varint(value: int) -> bytes:
    """Encodes an unsigned varint."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


SHORT = tuple(write_varint(size + 1) for size in range(127))
"""The compact length prefix of every size that fits in one byte: the prefix is the size plus one, and zero is null."""


def decode_text(encoded: bytes) -> str:
    """Returns the string. Each malformed sequence becomes U+FFFD, as in Kafka, and takes three bytes instead of one.

    Raises DecodeError if the string would then be too long to be sent back or stored. Kafka accepts it and may never answer.
    """
    try:
        return encoded.decode()
    except UnicodeDecodeError:
        text = encoded.decode("utf-8", "replace")
    size = len(text.encode())
    if size > TEXT_SIZE_MAX:
        raise DecodeError(f"a string that is not UTF-8 grows to {size} bytes; a string has at most {TEXT_SIZE_MAX}")
    return text


def _text_of_compact(encoded: bytes) -> str:
    if not encoded:
        raise null_refused("a string")
    return decode_text(encoded[1:])


def _compact(text: str) -> bytes:
    encoded = text.encode()
    return (SHORT[len(encoded)] if len(encoded) < len(SHORT) else text_prefix(len(encoded))) + encoded


def _plain(text: str) -> bytes:
    encoded = text.encode()
    if len(encoded) > TEXT_SIZE_MAX:
        raise text_refused(len(encoded))
    return len(encoded).to_bytes(2) + encoded


TEXTS = BoundedCache(decode_text)
"""A string by its bytes."""
COMPACT_TEXTS = BoundedCache(_text_of_compact)
"""A string by its one-byte size and its bytes. Empty bytes stand for null: a size of zero leaves nothing."""
NULLABLE_COMPACT_TEXTS = BoundedCache(lambda encoded: None if encoded == b"\0" else _text_of_compact(encoded))
"""The same; null has its size."""
COMPACT = BoundedCache(_compact)
"""The compact size and the bytes of a string, by the string."""
NULLABLE_COMPACT = BoundedCache(lambda text: b"\0" if text is None else _compact(text))
PLAIN = BoundedCache(_plain)
"""The same, with a size of two bytes."""
NULLABLE_PLAIN = BoundedCache(lambda text: b"\xff\xff" if text is None else _plain(text))


class Many(dict[int, Any]):
    """Count -> the `struct` method that packs or unpacks as many numbers of one type. The usual counts are kept."""

    __slots__ = ("_code", "_packs")

    def __init__(self, verb: str, code: str) -> None:
        """`verb`: "pack" or "unpack"; `code`: the type code of `struct`."""
        self._packs = verb == "pack"
        self._code = code

    def __missing__(self, count: int) -> Any:
        numbers = Struct(f">{count}{self._code}")
        method = numbers.pack if self._packs else numbers.unpack_from
        if count <= COUNTS_KEPT:
            self[count] = method
        return method


def read_long_text(buffer: bytes, position: int, field: str) -> tuple[str, int]:
    """Reads a compact string of any size. Raises DecodeError for null."""
    size, position = read_varint(buffer, position)
    if size == 0:
        raise null_refused(field)
    if size - 1 > TEXT_SIZE_MAX:
        raise DecodeError(f"{field} has {size - 1} bytes; a string has at most {TEXT_SIZE_MAX}")
    end = position + size - 1
    return decode_text(buffer[position:end]), end


def read_long_bytes(buffer: bytes, position: int, field: str) -> tuple[bytes, int]:
    """Reads compact bytes of any size. Raises DecodeError for null."""
    size, position = read_varint(buffer, position)
    if size == 0:
        raise null_refused(field)
    end = position + size - 1
    return buffer[position:end], end


def text_prefix(size: int) -> bytes:
    """The compact prefix of a string that has too many bytes for `SHORT`."""
    if size > TEXT_SIZE_MAX:
        raise text_refused(size)
    return write_varint(size + 1)


def size_prefix(size: int) -> bytes:
    """The compact prefix of bytes or an array that is too large for `SHORT`."""
    return write_varint(size + 1)


def skip_tags(buffer: bytes, position: int) -> int:
    """Skips a section of tagged fields that are all unknown; returns the next position."""
    count, position = read_varint(buffer, position)
    for _ in range(count):
        _, position = read_varint(buffer, position)
        size, position = read_varint(buffer, position)
        position += size
    if position > len(buffer):
        raise DecodeError("a tagged field is truncated")
    return position


def text_refused(size: int) -> EncodeError:
    """The error for a string that no message can hold."""
    return EncodeError(f"a string of {size} bytes; at most {TEXT_SIZE_MAX} can be sent")


def null_refused(field: str) -> DecodeError:
    """The error for a null in a field that is not nullable."""
    return DecodeError(f"{field} is null")


def count_refused(field: str, count: int) -> DecodeError:
    """The error for an array with more elements than its bytes can hold or a message may have, or for null."""
    if count < 0:
        return null_refused(field)
    return DecodeError(f"{field} claims {count} elements")


def tag_refused(field: str) -> DecodeError:
    """The error for a tagged field whose value does not have the announced size."""
    return DecodeError(f"tagged field {field} does not fill its size")


def absent_refused(field: str, message: str, version: int) -> EncodeError:
    """The error for a field that is set, not ignorable, and absent from this version."""
    return EncodeError(f"{field} is set, and {message} has no such field in version {version}")
