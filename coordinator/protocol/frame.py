"""Splits a byte stream into frames: an int32 size, then as many bytes.

Data arrives in pieces of any size. Most often a piece is exactly one frame, which is checked first; otherwise it often holds
several, and then no byte is copied twice. An incomplete frame waits in a bytearray that grows in place, so a large frame that
arrives in a thousand pieces is copied once more, not a thousand times.
"""

import struct

_SIZE = struct.Struct(">i").unpack_from
_HTTP = (b"GET ", b"HEAD", b"POST", b"PUT ", b"OPTI", b"PRI ")
"""The first bytes of HTTP requests."""
_PRODUCE = b"\0\0"
"""The API key of Produce, the one request that may be larger than the others."""


class FrameError(Exception):
    """The stream announces a frame with a negative size or one above the limit. Nothing behind it can be trusted."""


class FrameSplitter:
    """The receiving side of one connection.

    `size_max`: the largest frame in bytes, without its size field; `produce_size_max`: the same for a Produce request.
    """

    __slots__ = ("produce_size_max", "rest", "size_max")

    def __init__(self, size_max: int, produce_size_max: int) -> None:
        self.size_max = size_max
        self.produce_size_max = produce_size_max
        self.rest = bytearray()
        """An incomplete frame, with its size field."""

    @property
    def announced_bytes(self) -> int:
        """The size of the incomplete frame, with its size field; 0 if it is not known yet."""
        return 4 + self._frame_size(self.rest, 0) if len(self.rest) >= 4 else 0

    def feed(self, data: bytes) -> list[bytes]:
        """Takes received bytes; returns the frames that they complete, without their size fields.

        Raises FrameError at the first bad size. The frames before it in the same piece are lost with the connection.
        """
        rest = self.rest
        if not rest and len(data) >= 4 and _SIZE(data)[0] == len(data) - 4 <= self.size_max:
            return [data[4:]]
        if rest:
            rest += data
            if len(rest) < 4 or len(rest) < (end := 4 + self._frame_size(rest, 0)):
                return []
            if len(rest) == end:
                with memoryview(rest) as view:
                    frame = bytes(view[4:])
                rest.clear()
                return [frame]
            data = bytes(rest)
            rest.clear()
        frames: list[bytes] = []
        position, received = 0, len(data)
        while received - position >= 4:
            end = position + 4 + self._frame_size(data, position)
            if end > received:
                break
            frames.append(data[position + 4 : end])
            position = end
        if position < received:
            rest += data[position:]
        return frames

    def _frame_size(self, buffer: bytes | bytearray, position: int) -> int:
        size: int = _SIZE(buffer, position)[0]
        if 0 <= size <= self.size_max:
            return size
        key = buffer[position + 4 : position + 6]
        limit = self.produce_size_max if _PRODUCE.startswith(key) else self.size_max
        if not 0 <= size <= limit:
            raise FrameError(_foreign(buffer, position) or f"a frame of {size} bytes; the limit is {limit}")
        return size


def _foreign(buffer: bytes | bytearray, position: int) -> str | None:
    """What the bytes are if they are the beginning of another protocol: TLS, whose ClientHello is a record 22, or HTTP."""
    start = bytes(buffer[position : position + 4])
    if start[:2] == b"\x16\x03":
        return "TLS on a plain port; the client needs security.protocol=PLAINTEXT"
    if start in _HTTP:
        return "HTTP on a port for Kafka clients; HTTP is served by the admin address"
    return None
