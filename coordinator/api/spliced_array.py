"""The large array of a response, encoded a few elements at a time.

The encoder knows whole responses only. The bytes of some elements are therefore cut out of a response that has these alone; the
fields behind the array have a fixed size, which the caller knows.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from coordinator.protocol.wire import size_prefix

PIECE_ELEMENTS = 126
"""The most elements that are encoded together. Their number takes one byte in a flexible version."""


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
