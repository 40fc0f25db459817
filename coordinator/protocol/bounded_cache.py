"""A bounded cache for small derived values, such as decoded names.

The same few thousand names occur in message after message: groups, members, topics, clients. A string from the cache is not
decoded or encoded again, and as a key of a dictionary it has its hash already. Clients choose these names, so the cache is
bounded: long values are not kept, and a full cache is emptied, which costs less than keeping track of ages.
"""

from collections.abc import Callable
from typing import Any

ENTRIES_MAX = 16_384
MADE_SIZE_MAX = 128
"""Longer values (in bytes or characters) are not kept."""


class BoundedCache(dict[Any, Any]):
    """`cache[key]` is `make(key)`. It is kept if it is None or has at most `made_size_max` bytes or characters."""

    __slots__ = ("_made_size_max", "_make")

    def __init__(self, make: Callable[[Any], Any], made_size_max: int = MADE_SIZE_MAX) -> None:
        self._make = make
        self._made_size_max = made_size_max

    def __missing__(self, key: Any) -> Any:
        made = self._make(key)
        if made is None or len(made) <= self._made_size_max:
            if len(self) >= ENTRIES_MAX:
                self.clear()
            self[key] = made
        return made
