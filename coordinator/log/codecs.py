"""The compression codecs of record batches: gzip, snappy, lz4 and zstd (Kafka: `CompressionType`, `Compression`).

A producer's batch is decompressed to see that its records can be read, and compaction compresses it again with the same codec.

Two of Kafka's formats differ from the plain codecs. Java clients write snappy in blocks with the header of snappy-java,
others write one plain block; both are read, and the first is written, because every client reads it. LZ4 is the frame
format with independent blocks. Java's reader accepts nothing else, so it is refused here too; the library writes linked
blocks, so frames are assembled from blocks here.

Sizes in the data are not trusted: the output buffer grows up to `DECOMPRESSED_BYTES_MAX`, and a batch that needs more is
rejected.

Importing the library takes two milliseconds, and a server without compressed batches never needs it.
"""

import zlib
from collections.abc import Callable
from struct import Struct
from typing import Any

NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
DECOMPRESSED_BYTES_MAX = 64 * 1024 * 1024
"""A batch that decompresses to more than this is rejected. Deflate can reach a ratio of a thousand."""

_SNAPPY_JAVA = b"\x82SNAPPY\0"
_SNAPPY_HEADER = _SNAPPY_JAVA + b"\0\0\0\1\0\0\0\1"
_SNAPPY_BLOCK_BYTES = 32 * 1024
_SIZE = Struct(">i")
_LZ4_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
"""Magic; version 1 with independent blocks; blocks of at most 64 KiB; the checksum of these two bytes."""
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_SIZE = Struct("<I")
_LZ4_PLAIN = 1 << 31
"""Flag in a block's size: the block is stored uncompressed."""
_LZ4_FLAGS_AT = 4
_LZ4_CHECKSUM, _LZ4_HAS_SIZE, _LZ4_BLOCK_CHECKSUMS, _LZ4_INDEPENDENT = 1 << 2, 1 << 3, 1 << 4, 1 << 5
_GZIP_MAGIC = b"\x1f\x8b"
_SNAPPY_RATIO_MAX = 32
"""No snappy block becomes larger by more than this."""
_ROOM_BYTES = 64 * 1024
_NO_ROOM = "whole buffer"
"""A part of the library's error message for an output buffer that is too small."""


class BadCompression(ValueError):
    """The data is not valid for its codec."""


class TooLarge(BadCompression):
    """The data decompresses to more than `DECOMPRESSED_BYTES_MAX`."""


def decompress(codec: int, content: bytes) -> bytes:
    """The decompressed bytes. Raises BadCompression, TooLarge, and KeyError for a codec number that Kafka does not have."""
    read = _READ[codec]
    try:
        return read(content)
    except BadCompression:
        raise
    except Exception as error:  # the library raises its own exceptions; its panics are not subclasses of Exception
        raise BadCompression(f"{NAMES[codec]}: {error}") from error


def compress(codec: int, plain: bytes) -> bytes:
    """Compresses in a format that every client reads. Raises KeyError for a codec number that Kafka does not have."""
    return _WRITE[codec](plain)


def _read_gzip(content: bytes) -> bytes:
    """A file may have several members, one after the other; what follows the last is ignored, as in Java."""
    parts: list[bytes] = []
    left = DECOMPRESSED_BYTES_MAX
    while not parts or content.startswith(_GZIP_MAGIC):
        inflater = zlib.decompressobj(wbits=31)
        parts.append(inflater.decompress(content, left + 1))
        left -= len(parts[-1])
        if left < 0:
            raise TooLarge("gzip: the data is too large")
        if not inflater.eof:
            raise BadCompression("gzip: the data does not end")
        content = inflater.unused_data
    return b"".join(parts)


def _write_gzip(plain: bytes) -> bytes:
    deflater = zlib.compressobj(wbits=31)
    return deflater.compress(plain) + deflater.flush()


def _read_snappy(content: bytes) -> bytes:
    if not content.startswith(_SNAPPY_JAVA):
        return _snappy_block(content, DECOMPRESSED_BYTES_MAX)
    parts, position, left = [], 0, DECOMPRESSED_BYTES_MAX
    while position < len(content):
        if content.startswith(_SNAPPY_JAVA, position):
            position += len(_SNAPPY_HEADER)
            continue
        (size,) = _SIZE.unpack_from(content, position)
        position += _SIZE.size
        if not 0 <= size <= len(content) - position:
            raise BadCompression("snappy: incomplete block")
        parts.append(_snappy_block(content[position : position + size], left))
        left -= len(parts[-1])
        position += size
    return b"".join(parts)


def _snappy_block(block: bytes, bytes_max: int) -> bytes:
    snappy = _library().snappy
    claimed_bytes = snappy.decompress_raw_len(block)
    if claimed_bytes > _SNAPPY_RATIO_MAX * len(block):
        raise BadCompression(f"snappy: {len(block)} bytes cannot become {claimed_bytes}")
    if claimed_bytes > bytes_max:
        raise TooLarge("snappy: the data is too large")
    return bytes(snappy.decompress_raw(block))


def _write_snappy(plain: bytes) -> bytes:
    parts = [_SNAPPY_HEADER]
    for start in range(0, len(plain), _SNAPPY_BLOCK_BYTES):
        block = bytes(_library().snappy.compress_raw(plain[start : start + _SNAPPY_BLOCK_BYTES]))
        parts += (_SIZE.pack(len(block)), block)
    return b"".join(parts)


def _read_lz4(content: bytes) -> bytes:
    """What follows the first frame is ignored, as in Kafka."""
    flags = content[_LZ4_FLAGS_AT]
    if not flags & _LZ4_INDEPENDENT:
        raise BadCompression("lz4: the blocks are linked")
    position = len(_LZ4_HEADER) + (8 if flags & _LZ4_HAS_SIZE else 0)
    size = -1
    while size:
        (size,) = _LZ4_SIZE.unpack_from(content, position)
        position += _LZ4_SIZE.size + (size & ~_LZ4_PLAIN) + (4 if size and flags & _LZ4_BLOCK_CHECKSUMS else 0)
    end = position + (4 if flags & _LZ4_CHECKSUM else 0)
    return _into_room(_library().lz4.decompress_into, content[:end])


def _write_lz4(plain: bytes) -> bytes:
    parts = [_LZ4_HEADER]
    for start in range(0, len(plain), _LZ4_BLOCK_BYTES):
        piece = plain[start : start + _LZ4_BLOCK_BYTES]
        block = bytes(_library().lz4.compress_block(piece, store_size=False))
        if len(block) < len(piece):
            parts += (_LZ4_SIZE.pack(len(block)), block)
        else:
            parts += (_LZ4_SIZE.pack(len(piece) | _LZ4_PLAIN), piece)
    parts.append(_LZ4_SIZE.pack(0))
    return b"".join(parts)


def _read_zstd(content: bytes) -> bytes:
    return _into_room(_library().zstd.decompress_into, content) if content else b""


def _write_zstd(plain: bytes) -> bytes:
    return bytes(_library().zstd.compress(plain))


def _into_room(read_into: Callable[[bytes, bytearray], int], content: bytes) -> bytes:
    """Decompresses into a buffer that is enlarged until the output fits, up to the limit."""
    room_bytes = max(_ROOM_BYTES, 4 * len(content))
    while True:
        room = bytearray(min(room_bytes, DECOMPRESSED_BYTES_MAX))
        try:
            return bytes(memoryview(room)[: read_into(content, room)])
        except _library().DecompressionError as error:
            if _NO_ROOM not in str(error):
                raise
            if len(room) == DECOMPRESSED_BYTES_MAX:
                raise TooLarge(str(error)) from error
            room_bytes *= 4


def _library() -> Any:
    import cramjam  # noqa: PLC0415 - see the module's docstring

    return cramjam


_READ: dict[int, Callable[[bytes], bytes]] = {GZIP: _read_gzip, SNAPPY: _read_snappy, LZ4: _read_lz4, ZSTD: _read_zstd}
_WRITE: dict[int, Callable[[bytes], bytes]] = {
    GZIP: _write_gzip, SNAPPY: _write_snappy, LZ4: _write_lz4, ZSTD: _write_zstd,
}  # fmt: skip
