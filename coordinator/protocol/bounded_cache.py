"""What was made of something short, lately.

The same few thousand names come and go with every message: group, member, topic, client. A string that is found is neither
decoded nor encoded again, and as a key of a dictionary it has its hash already. What clients can make up is not kept without
limit: nothing that is long, and when there is too much of it all of it goes, which costs less than to know what is old.
"""

from collections.abc import Callable
from typing import Any

REMEMBERED = 16_384
MADE_SIZE_MAX = 128
"""Bytes or letters: what is longer is not remembered."""


class BoundedCache(dict[Any, Any]):
    """`memo[key]` is `make(key)`, which is of `made_size_max` bytes or letters, or None, if it is to be remembered."""

    __slots__ = ("_made_size_max", "_make")

    def __init__(self, make: Callable[[Any], Any], made_size_max: int = MADE_SIZE_MAX) -> None:
        self._make = make
        self._made_size_max = made_size_max

    def __missing__(self, key: Any) -> Any:
        made = self._make(key)
        if made is None or len(made) <= self._made_size_max:
            if len(self) >= REMEMBERED:
                self.clear()
            self[key] = made
        return made
