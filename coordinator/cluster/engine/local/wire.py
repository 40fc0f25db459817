"""The messages between a worker and the supervisor of its machine, which has the journal (coordinator/cluster/supervisor).

    length of the rest u32 | kind u8 | number u32 | body

A worker numbers its requests, and the answer has the number of its request. Appends are binary, because every commit passes
here; everything else is rare, and JSON.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from struct import Struct
from typing import Any, NamedTuple

from coordinator.cluster.engine.engine import EngineUnavailable, Fenced, LogFailed

_HEAD = Struct(">IBI")
_LENGTH_BYTES = 4
_PIECE = Struct(">HQQI")

ASK = 1
"""A request: JSON, with its name as `do`."""
APPEND = 2
"""A request: the pieces of one append."""
ANSWER = 3
"""JSON."""
DATA = 4
"""Bytes of a log; none at its end."""
REFUSED = 5
"""The request was not carried out: JSON with `kind` and `reason`."""
CHANGED = 6
"""Workers or owners have changed. It answers nothing."""


class Frame(NamedTuple):
    """One message."""

    kind: int
    number: int
    body: bytes


class WirePiece(NamedTuple):
    """`engine.Piece`, as it travels."""

    log: str
    epoch: int
    sequence: int
    data: bytes


class FrameReader:
    """Puts together the frames of one direction of a connection."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are complete now."""
        buffer = self._buffer
        buffer += data
        frames, position = [], 0
        while len(buffer) - position >= _HEAD.size:
            length, kind, number = _HEAD.unpack_from(buffer, position)
            end = position + _LENGTH_BYTES + length
            if end > len(buffer):
                break
            frames.append(Frame(kind, number, bytes(buffer[position + _HEAD.size : end])))
            position = end
        if position:
            del buffer[:position]
        return frames


def frame(kind: int, number: int, body: bytes = b"") -> bytes:
    """A message as it travels."""
    return _HEAD.pack(_HEAD.size - _LENGTH_BYTES + len(body), kind, number) + body


def json_frame(kind: int, number: int, value: Any) -> bytes:
    """A message with a JSON body."""
    return frame(kind, number, json.dumps(value, separators=(",", ":")).encode())


def encode_pieces(pieces: Iterable[WirePiece]) -> bytes:
    """The body of an append."""
    parts: list[bytes] = []
    for log, epoch, sequence, data in pieces:
        name = log.encode()
        parts += (_PIECE.pack(len(name), epoch, sequence, len(data)), name, data)
    return b"".join(parts)


def decode_pieces(body: bytes) -> Iterator[WirePiece]:
    """The pieces of an append."""
    position = 0
    while position < len(body):
        name_bytes, epoch, sequence, data_bytes = _PIECE.unpack_from(body, position)
        name_at = position + _PIECE.size
        data_at = name_at + name_bytes
        position = data_at + data_bytes
        yield WirePiece(body[name_at:data_at].decode(), epoch, sequence, body[data_at:position])


_REFUSALS: Mapping[str, type[Exception]] = {"fenced": Fenced, "log failed": LogFailed, "unavailable": EngineUnavailable}


def refusal(error: Exception) -> Mapping[str, Any]:
    """The body of REFUSED. An error of the disk or of what it has is that of one log."""
    kinds = [name for name, kind in _REFUSALS.items() if isinstance(error, kind)]
    return {"kind": kinds[0] if kinds else "log failed", "reason": str(error)}


def refused(body: bytes) -> Exception:
    """The error that `refusal` is about."""
    fields = json.loads(body)
    return _REFUSALS[fields["kind"]](fields["reason"])
