"""The large array of a response, encoded a few elements at a time.

The encoder knows whole responses only. The bytes of some elements are therefore cut out of a response that has these alone; the
fields behind the array have a fixed size, which the caller knows.
"""

from collections.abc import Callable, Generator
from copy import copy
from typing import Any, NamedTuple

from coordinator.protocol.wire import size_prefix

PIECE_ELEMENTS = 126
"""The most elements that are encoded together. Their number takes one byte in a flexible version."""
PIECE_BYTES = 16 * 1024
"""A piece with more bytes takes about a millisecond; the next one has fewer elements."""


class SplicedArray(NamedTuple):
    """How the bytes of one array are found in a response of one version."""

    encode: Callable[[Any], bytes]
    is_flexible: bool
    tail_bytes: int
    """The size of what is behind the array, with the tags."""

    def elements(self, response: Any, empty: Any) -> bytes:
        """The bytes of the array's elements, at most `PIECE_ELEMENTS`, without their number. Raises EncodeError.

        `empty`: the response without them.
        """
        body = self.encode(response)
        return body[len(self.encode(empty)) - self.tail_bytes : len(body) - self.tail_bytes]

    def around(self, empty: Any, count: int) -> tuple[bytes, bytes]:
        """What is before and behind the elements in a response with so many; `empty` has none. Raises EncodeError."""
        body = self.encode(empty)
        behind = len(body) - self.tail_bytes
        return body[: behind - len(self.number(0))] + self.number(count), body[behind:]

    def number(self, count: int) -> bytes:
        return size_prefix(count) if self.is_flexible else count.to_bytes(4)

    def in_pieces(self, response: Any, name: str) -> Generator[None, None, list[bytes]]:
        """Encodes a response whose array of this name may be large, a piece in each step. Raises EncodeError.

        An element that occurs several times, as the same object, is encoded once.
        """
        empty, part, elements = copy(response), copy(response), getattr(response, name)
        setattr(empty, name, [])
        before, behind = self.around(empty, len(elements))
        parts, at, count = [before], 0, 1
        known: dict[int, bytes] = {}
        while at < len(elements):
            found = known.get(id(elements[at])) if count == 1 else None
            if found is None:
                setattr(part, name, elements[at : at + count])
                found = self.elements(part, empty)
                if count == 1:
                    known[id(elements[at])] = found
            parts.append(found)
            at += count
            count = min(2 * count, PIECE_ELEMENTS) if len(found) < PIECE_BYTES else max(1, count // 2)
            yield
        parts.append(behind)
        return parts
