"""Up to where a partition's records are decided, and how much became so.

The last stable offset is where the oldest transaction begins whose fate a reader cannot know yet: because no marker is
there, or because the disk does not have it yet. Without one it is the high watermark.

Long polls are woken by bytes, and for readers of what is committed these come late and in lumps: a marker may release
whatever piled up behind its transaction. So what is durable and not stable is counted, one number for each place at which
the last stable offset may come to rest. There may be very many such places while one transaction stays open for long; beyond
some dozens they share a number, and a reader may be woken before it has all the bytes it wanted.
"""

from collections import deque
from collections.abc import Iterable

PLACES_MAX = 64
MANY_BYTES = 1 << 40
"""Nobody counted, and nobody waits for more."""


class Stability:
    """Of one partition; offsets are told in the order of the log."""

    __slots__ = ("_ended", "_waiting")

    def __init__(self) -> None:
        self._ended: deque[tuple[int, int]] = deque()
        """Offset of the marker, and of the first record, of the transactions whose marker is not durable yet."""
        self._waiting: deque[list[int]] = deque()
        """Where bytes that are not stable begin, and how many there are up to the next entry."""

    def begin(self, open_offsets: Iterable[int]) -> None:
        """Starts with transactions that are open already; what lies behind them was not counted."""
        self._ended.clear()
        self._waiting = deque([offset, MANY_BYTES] for offset in open_offsets)

    def ended(self, marker_offset: int, first_offset: int) -> None:
        """A marker was written."""
        self._ended.append((marker_offset, first_offset))

    def durable(self, end_offset: int) -> None:
        """Everything before the offset is on the disk."""
        ended = self._ended
        while ended and ended[0][0] < end_offset:
            ended.popleft()

    def first_unstable(self, first_open_offset: int | None) -> int | None:
        """Where the oldest undecided transaction begins; `first_open_offset` is that of the oldest without a marker."""
        if not self._ended:
            return first_open_offset
        oldest = min(first_offset for _, first_offset in self._ended)
        return oldest if first_open_offset is None else min(oldest, first_open_offset)

    def hold(self, offset: int, bytes_count: int, *, begins: bool) -> None:
        """Counts a durable batch that is not stable; `begins`: it is the first of a transaction that is open."""
        waiting = self._waiting
        is_place = begins or any(offset == first_offset for _, first_offset in self._ended)
        if waiting and (not is_place or len(waiting) >= PLACES_MAX):
            waiting[-1][1] += bytes_count
        else:
            waiting.append([offset, bytes_count])

    def release(self, stable_offset: int) -> int:
        """The bytes that were held and lie before the offset."""
        waiting, released = self._waiting, 0
        while waiting and waiting[0][0] < stable_offset:
            released += waiting.popleft()[1]
        return released
