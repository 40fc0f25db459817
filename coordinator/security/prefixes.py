"""Finds the prefixes that a name begins with, however many prefixes and lengths there are."""

from bisect import bisect_right
from collections.abc import Iterator


class Prefixes:
    """The names of the PREFIXED ACLs of a resource type.

    In their order, what stands before a name is its longest prefix, or begins with it. So that one is found by halving, and
    the way to shorter ones is kept. Both are made again for the first question after a change.
    """

    def __init__(self) -> None:
        self._all: set[str] = set()
        self._ordered: list[str] = []
        self._shorter: dict[str, str | None] = {}
        """Prefix -> the longest other one that it begins with."""
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

    def from_longest(self, longest: str | None) -> Iterator[str]:
        """A prefix and the others that it begins with, longer ones first."""
        while longest is not None:
            yield longest
            longest = self._shorter[longest]

    def _order(self) -> None:
        self._ordered = sorted(self._all)
        self._shorter = {}
        before: str | None = None
        for prefix in self._ordered:
            self._shorter[prefix] = self._first_of(before, prefix)
            before = prefix
        self._is_ordered = True

    def _first_of(self, prefix: str | None, name: str) -> str | None:
        """The prefix, or the longest that it begins with, that the name begins with."""
        while prefix is not None and not name.startswith(prefix):
            prefix = self._shorter[prefix]
        return prefix
