"""Computes a partition's last stable offset, and how many bytes become stable.

The last stable offset is the first offset of the oldest transaction whose outcome readers cannot know yet: it has no marker,
or its marker is not durable. If there is none it is the high watermark (Kafka's ProducerStateManager.firstUnstableOffset).

Long polls are woken by bytes, and for readers of committed records these come late and in lumps: one marker may release all
that piled up behind its transaction. So bytes that are durable but not stable are counted, one counter for each place at which
the last stable offset can come to rest. While one transaction stays open there can be very many such places; beyond
`PLACES_MAX` they share a counter, and a reader may be woken before it has all the bytes that it asked for.
"""

from collections import deque
from collections.abc import Iterable

PLACES_MAX = 64
MANY_BYTES = 1 << 40
"""Stands for bytes that were not counted. No reader waits for as many."""


class Stability:
    """The stability of one partition. Its methods are called in the order of the log's offsets."""

    __slots__ = ("_ended", "_waiting")

    def __init__(self) -> None:
        self._ended: deque[tuple[int, int]] = deque()
        """Marker offset and first offset of each transaction whose marker is not durable yet."""
        self._waiting: deque[list[int]] = deque()
        """Offset where unstable bytes begin, and their number up to the next entry."""

    def begin(self, open_offsets: Iterable[int]) -> None:
        """Starts with transactions that are open already. The bytes behind them have not been counted."""
        self._ended.clear()
        self._waiting = deque([offset, MANY_BYTES] for offset in open_offsets)

    def ended(self, marker_offset: int, first_offset: int) -> None:
        """A marker was appended."""
        self._ended.append((marker_offset, first_offset))

    def durable(self, end_offset: int) -> None:
        """Everything before the offset is durable."""
        ended = self._ended
        while ended and ended[0][0] < end_offset:
            ended.popleft()

    def first_unstable(self, first_open_offset: int | None) -> int | None:
        """First offset of the oldest undecided transaction. `first_open_offset`: that of the oldest without a marker."""
        if not self._ended:
            return first_open_offset
        oldest = min(first_offset for _, first_offset in self._ended)
        return oldest if first_open_offset is None else min(oldest, first_open_offset)

    def hold(self, offset: int, bytes_count: int, *, begins: bool) -> None:
        """Counts a batch that is durable but not stable. `begins`: it is the first batch of an open transaction."""
        waiting = self._waiting
        is_place = begins or any(offset == first_offset for _, first_offset in self._ended)
        if waiting and (not is_place or len(waiting) >= PLACES_MAX):
            waiting[-1][1] += bytes_count
        else:
            waiting.append([offset, bytes_count])

    def release(self, stable_offset: int) -> int:
        """Returns the number of held bytes before the offset, and forgets them."""
        waiting, released = self._waiting, 0
        while waiting and waiting[0][0] < stable_offset:
            released += waiting.popleft()[1]
        return released
