"""The compression codecs of record batches: gzip, snappy, lz4 and zstd (Kafka: `CompressionType`, `Compression`).

A batch is decompressed where its keys or timestamps matter, and compaction compresses it again with the same codec.

Two of Kafka's formats differ from the plain codecs. Java clients write snappy in blocks with the header of snappy-java,
others write one plain block; both are read, and the first is written, because every client reads it. LZ4 is the frame
format with independent blocks. Java's reader accepts nothing else and the library writes linked blocks, so frames are
assembled from blocks here.

Sizes in the data are not trusted: the output buffer grows up to `DECOMPRESSED_BYTES_MAX`, and a batch that needs more is
rejected.

Importing the library takes two milliseconds, and a server without compacted topics never needs it.
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
_ROOM_BYTES = 64 * 1024
_NO_ROOM = "whole buffer"
"""A part of the library's error message for an output buffer that is too small."""


class BadCompression(ValueError):
    """The data is not valid for its codec, or decompresses to more than `DECOMPRESSED_BYTES_MAX`."""


def decompress(codec: int, content: bytes) -> bytes:
    """The decompressed bytes. Raises BadCompression, and KeyError for a codec number that Kafka does not have."""
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
    inflater = zlib.decompressobj(wbits=31)
    plain = inflater.decompress(content, DECOMPRESSED_BYTES_MAX)
    if not inflater.eof:
        raise BadCompression("gzip: the data does not end or is too large")
    return plain


def _write_gzip(plain: bytes) -> bytes:
    deflater = zlib.compressobj(wbits=31)
    return deflater.compress(plain) + deflater.flush()


def _read_snappy(content: bytes) -> bytes:
    if not content.startswith(_SNAPPY_JAVA):
        return _snappy_block(content, DECOMPRESSED_BYTES_MAX)
    parts, position, left = [], len(_SNAPPY_HEADER), DECOMPRESSED_BYTES_MAX
    while position < len(content):
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
    if snappy.decompress_raw_len(block) > bytes_max:
        raise BadCompression("snappy: the data is too large")
    return bytes(snappy.decompress_raw(block))


def _write_snappy(plain: bytes) -> bytes:
    parts = [_SNAPPY_HEADER]
    for start in range(0, len(plain), _SNAPPY_BLOCK_BYTES):
        block = bytes(_library().snappy.compress_raw(plain[start : start + _SNAPPY_BLOCK_BYTES]))
        parts += (_SIZE.pack(len(block)), block)
    return b"".join(parts)


def _read_lz4(content: bytes) -> bytes:
    return _into_room(_library().lz4.decompress_into, content)


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
    return _into_room(_library().zstd.decompress_into, content)


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
            if _NO_ROOM not in str(error) or len(room) == DECOMPRESSED_BYTES_MAX:
                raise
            room_bytes *= 4


def _library() -> Any:
    import cramjam  # noqa: PLC0415 - see the module's docstring

    return cramjam


_READ: dict[int, Callable[[bytes], bytes]] = {GZIP: _read_gzip, SNAPPY: _read_snappy, LZ4: _read_lz4, ZSTD: _read_zstd}
_WRITE: dict[int, Callable[[bytes], bytes]] = {
    GZIP: _write_gzip, SNAPPY: _write_snappy, LZ4: _write_lz4, ZSTD: _write_zstd,
}  # fmt: skip
