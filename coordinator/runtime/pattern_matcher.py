"""Matches clients' patterns against many names in a thread, a slice at a time.

A pattern takes a millisecond for each name at its worst, and there may be a hundred thousand names. One thread does all of it,
beside the loop: RE2 releases the interpreter while it matches. After each slice the work that has had the fewest slices is
next. So ordinary patterns, which need one or two, overtake those that were made to be slow.

What a pattern matched is kept until the names change, so that many groups with the same pattern cost as much as one. Which of
the names a client may see is asked on the loop, in pieces, because an authorizer with many rules takes as long.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import Any

from coordinator.protocol.patterns import BadPattern, Matched, MaySee, compile_pattern, visible
from coordinator.world.threads import RunInThread

SLICE_STEPS = 5_000_000
"""The most work of a slice, in instructions of the pattern times bytes of names: 10 ms if every instruction is simulated."""
KEPT_BYTES_MAX = 8 << 20
"""The most memory of results that are kept."""
_NAME_BYTES = 40
"""A name in a set of names that exist anyway."""


class _Work:
    """The patterns of one request that are not matched yet."""

    __slots__ = ("done", "found", "is_wanted", "left", "matched", "may_see", "names", "position", "slices", "version")

    def __init__(
        self,
        left: list[str],
        names: Sequence[str],
        version: int | None,
        done: Callable[[Matched], None],
        is_wanted: Callable[[], bool],
        may_see: MaySee | None,
    ) -> None:
        self.left = left
        """Patterns, the current one last."""
        self.names = names
        self.version = version
        self.done = done
        self.is_wanted = is_wanted
        self.may_see = may_see
        self.matched: dict[str, frozenset[str] | None] = {}
        self.position = 0
        """How many names the current pattern was matched against."""
        self.found: list[str] = []
        """Those of them that it matches."""
        self.slices = 0


class PatternMatcher:
    """Implements `MatchPatterns`."""

    def __init__(
        self, run_in_thread: RunInThread, run_pieces: Callable[[Iterator[None]], None], bytes_max: int
    ) -> None:
        """`run_pieces`: does work on the loop, now or in later turns. `bytes_max`: the most memory of a compiled pattern."""
        self._run_in_thread = run_in_thread
        self._run_pieces = run_pieces
        self._bytes_max = bytes_max
        self._waiting: list[tuple[int, int, _Work]] = []
        self._numbers = count()
        self._is_busy = False
        self._compiled: tuple[str, Any] | None = None
        """The pattern of the last slice. Only the worker uses it; it is forgotten with the last work."""
        self._kept: dict[str, frozenset[str]] = {}
        self._kept_version: int | None = None
        self._kept_bytes = 0

    def __call__(
        self,
        patterns: Sequence[str],
        names: Sequence[str],
        version: int | None,
        done: Callable[[Matched], None],
        is_wanted: Callable[[], bool],
        may_see: MaySee | None = None,
    ) -> None:
        """See `MatchPatterns`."""
        kept = self._kept if version is not None and version == self._kept_version else {}
        work = _Work([pattern for pattern in patterns if pattern not in kept], names, version, done, is_wanted, may_see)
        work.matched = {pattern: kept[pattern] for pattern in patterns if pattern in kept}
        self._resume(work)

    def _resume(self, work: _Work) -> None:
        if not work.left:
            self._run_pieces(_answer(work))
            return
        heappush(self._waiting, (work.slices, next(self._numbers), work))
        if not self._is_busy:
            self._begin()

    def _begin(self) -> None:
        self._is_busy = True
        while self._waiting:
            work = heappop(self._waiting)[-1]
            if work.is_wanted():
                self._run_in_thread(partial(self._match_slice, work), partial(self._on_slice, work))
                return
            # Members that come and go would leave hours of work behind.
            self._run_pieces(_answer(work))
        self._is_busy, self._compiled = False, None

    def _match_slice(self, work: _Work) -> None:
        """In the worker: goes on with the current pattern. Raises BadPattern."""
        pattern, names = work.left[-1], work.names
        if self._compiled is None or self._compiled[0] != pattern:
            self._compiled = None
            self._compiled = pattern, compile_pattern(pattern, self._bytes_max)
        compiled = self._compiled[1]
        size, matches, steps = compiled.programsize, compiled.fullmatch, 0
        while steps < SLICE_STEPS and work.position < len(names):
            name = names[work.position]
            data = name.encode()
            steps += size * (len(data) + 1)
            if matches(data):
                work.found.append(name)
            work.position += 1

    def _on_slice(self, work: _Work, outcome: Any) -> None:
        self._is_busy = False
        work.slices += 1
        if isinstance(outcome, BadPattern):
            work.matched[work.left.pop()] = None
        elif isinstance(outcome, BaseException):
            raise outcome
        elif work.position == len(work.names):
            self._keep(work)
        try:
            self._resume(work)
        finally:
            if not self._is_busy:
                self._begin()

    def _keep(self, work: _Work) -> None:
        """The current pattern is matched: keeps what it matches, and goes to the next."""
        pattern = work.left.pop()
        found = work.matched[pattern] = frozenset(work.found)
        work.position, work.found = 0, []
        if work.version is None:
            return
        by_bytes = len(pattern) + _NAME_BYTES * len(found)
        if work.version != self._kept_version or self._kept_bytes + by_bytes > KEPT_BYTES_MAX:
            self._kept, self._kept_version, self._kept_bytes = {}, work.version, 0
        self._kept[pattern] = found
        self._kept_bytes += by_bytes


def _answer(work: _Work) -> Iterator[None]:
    """Gives the answer in the last step."""
    matched: Matched = work.matched
    if work.may_see is not None:
        matched = yield from visible(matched, work.may_see)
    work.done(matched)
