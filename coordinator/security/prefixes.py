"""Finds the prefixes that a name begins with, however many prefixes and lengths there are."""

from bisect import bisect_right
from typing import cast


class Prefixes:
    """The names of the PREFIXED ACLs of a resource type.

    In their order, what stands before a name is its longest prefix, or begins with it. So that one is found by halving, and
    the way to shorter ones is kept, with short cuts: however many begin with each other, a name takes a few steps. All of it is
    made again for the first question after a change.
    """

    def __init__(self) -> None:
        self._all: set[str] = set()
        self._ordered: list[str] = []
        self._shorter: dict[str, str | None] = {}
        """Prefix -> the longest other one that it begins with."""
        self._far: dict[str | None, str | None] = {None: None}
        """Prefix -> another that it begins with, so that a way along both tables has few steps (skew-binary jump pointers)."""
        self._is_ordered = True

    def add(self, prefix: str) -> None:
        self._all.add(prefix)
        self._is_ordered = False

    def remove(self, prefix: str) -> None:
        self._all.remove(prefix)
        self._is_ordered = False

    def longest(self, name: str) -> str | None:
        """The longest prefix of the name; None if there is none."""
        if not self._is_ordered:
            self._order()
        after = bisect_right(self._ordered, name)
        return self._first_of(self._ordered[after - 1], name) if after else None

    def shorter(self, prefix: str) -> str | None:
        """The longest other prefix that this one begins with; None if there is none. `longest` must have been called."""
        return self._shorter[prefix]

    def _order(self) -> None:
        self._ordered = sorted(self._all)
        self._shorter, self._far = {}, {None: None}
        far, depths = self._far, {cast(str | None, None): 0}
        before: str | None = None
        for prefix in self._ordered:
            shorter = self._shorter[prefix] = self._first_of(before, prefix)
            next_far, last_far = far[shorter], far[far[shorter]]
            is_even = depths[shorter] - depths[next_far] == depths[next_far] - depths[last_far]
            far[prefix] = last_far if is_even else shorter
            depths[prefix] = depths[shorter] + 1
            before = prefix
        self._is_ordered = True

    def _first_of(self, prefix: str | None, name: str) -> str | None:
        """The prefix, or the longest that it begins with, that the name begins with."""
        while prefix is not None and not name.startswith(prefix):
            far = self._far[prefix]
            # If the name does not begin with one, it begins with none of those in between.
            prefix = self._shorter[prefix] if far is None or name.startswith(far) else far
        return prefix
