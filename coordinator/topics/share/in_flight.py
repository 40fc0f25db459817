"""The offsets of a share partition that are in flight, in spans with one state.

A batch is a range of offsets that was acquired at once (Kafka: InFlightBatch). At first its records share one state; Kafka
then keeps a state for each offset as soon as two of them differ. Here a share partition is a series of spans, so that its size
grows with the number of differences and not with the number of records. `by_offset` says that Kafka would track a batch by
offset, because that decides how much of the batch one request acquires.

Spans and batches are kept as columns of numbers, and spans that are alike share a `Status`: an object for each of ten thousand
records would take several times as much memory. A `Span` is what is read of the columns, and `put` is the only way to write.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

NOBODY = ""
NEVER = 1 << 62


class RecordState(IntEnum):
    """The state of a record for a share group. The values are those in `__share_group_state`."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    """On the way to the dead-letter queue."""
    ARCHIVED = 4

    @property
    def is_final(self) -> bool:
        return self is RecordState.ACKNOWLEDGED or self is RecordState.ARCHIVED


@dataclass(slots=True, eq=False)
class Transition:
    """A change of acquired records that is not durable yet. It may still be undone."""

    first_offset: int
    last_offset: int
    state: RecordState
    """The state after it."""
    delivery_count: int
    member_id: str
    """The member that holds the records if it is undone."""
    kind: int
    """The type of the acknowledgement; records given back without one have the type of a release."""


class Status(NamedTuple):
    """What spans that are alike have in common."""

    state: RecordState
    delivery_count: int
    member_id: str = NOBODY
    """The member that holds the records; NOBODY unless they are acquired."""
    transition: Transition | None = None


shared = lru_cache(4_096)(Status)
"""A status without a transition, the same object for the same arguments."""


class Span(NamedTuple):
    """Consecutive offsets with one state. Both ends are inclusive."""

    first: int
    last: int
    deadline_ms: int
    """When the lock of acquired records ends. During a transition: when it would end if that is undone."""
    state: RecordState
    delivery_count: int
    member_id: str
    transition: Transition | None

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    def count_from(self, offset: int) -> int:
        """How many of the offsets are not before this one."""
        return max(0, self.last - max(self.first, offset) + 1)

    @property
    def is_available(self) -> bool:
        """Whether the records can be acquired: not while it is not durable that they were given back."""
        return self.state is RecordState.AVAILABLE and self.transition is None

    @property
    def is_done(self) -> bool:
        return self.state.is_final and self.transition is None

    def given_back(self, limit: int) -> RecordState:
        """The state of acquired records that are given back: those that were delivered `limit` times are archived."""
        return RecordState.ARCHIVED if self.delivery_count >= limit else RecordState.AVAILABLE

    def around(self, offset: int) -> "list[Span]":
        """The span in two: what is before the offset and what is not."""
        if not self.first < offset <= self.last:
            return [self]
        return [self._replace(last=offset - 1), self._replace(first=offset)]


class InFlightBatch:
    """Offsets that were first acquired at once, as read of the columns."""

    __slots__ = ("_all", "first", "last")

    def __init__(self, in_flight: "InFlight", first: int, last: int) -> None:
        self._all = in_flight
        self.first = first
        self.last = last

    def __len__(self) -> int:
        return self.last - self.first + 1

    @property
    def by_offset(self) -> bool:
        """Whether some records have had another state than the rest."""
        return self._all.is_by_offset(self.first)

    @property
    def spans(self) -> list[Span]:
        return self._all.spans(self.first, self.last)

    def is_within(self, first: int, last: int) -> bool:
        return first <= self.first and self.last <= last

    def spans_between(self, first: int, last: int) -> list[Span]:
        """The spans of exactly these offsets, as far as the batch has them."""
        return self._all.spans(max(first, self.first), min(last, self.last))


class InFlight:
    """All batches of a share partition, in the order of their offsets. They do not overlap; there may be gaps."""

    __slots__ = ("_batch_firsts", "_batch_lasts", "_by_offset", "_deadlines", "_firsts", "_lasts", "_statuses")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._batch_firsts = array("q")
        self._batch_lasts = array("q")
        self._by_offset = bytearray()
        self._firsts = array("q")
        self._lasts = array("q")
        self._deadlines = array("q")
        self._statuses: list[Status] = []

    # --- batches ------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._batch_firsts)

    def __iter__(self) -> Iterator[InFlightBatch]:
        for first, last in zip(self._batch_firsts, self._batch_lasts, strict=True):
            yield InFlightBatch(self, first, last)

    @property
    def first_offset(self) -> int:
        """Of the first batch."""
        return self._batch_firsts[0]

    @property
    def last_offset(self) -> int:
        """Of the last batch."""
        return self._batch_lasts[-1]

    def add(self, first: int, last: int, status: Status, deadline_ms: int = NEVER) -> None:
        """Adds a batch whose records have one state."""
        at = bisect_right(self._batch_firsts, first)
        self._batch_firsts.insert(at, first)
        self._batch_lasts.insert(at, last)
        self._by_offset.insert(at, False)
        at = bisect_right(self._firsts, first)
        self._firsts.insert(at, first)
        self._lasts.insert(at, last)
        self._deadlines.insert(at, deadline_ms)
        self._statuses.insert(at, status)

    def floor(self, offset: int) -> InFlightBatch | None:
        """The last batch that begins at or before the offset. It may end before it."""
        at = bisect_right(self._batch_firsts, offset) - 1
        return InFlightBatch(self, self._batch_firsts[at], self._batch_lasts[at]) if at >= 0 else None

    def beginning_between(self, first: int, last: int) -> list[InFlightBatch]:
        """The batches that begin at one of these offsets."""
        begin = bisect_left(self._batch_firsts, first)
        return [
            InFlightBatch(self, self._batch_firsts[at], self._batch_lasts[at])
            for at in range(begin, bisect_right(self._batch_firsts, last, begin))
        ]

    def after(self, offset: int) -> int:
        """The first offset of the first batch that begins after this one; there must be one."""
        return self._batch_firsts[bisect_right(self._batch_firsts, offset)]

    def drop_before(self, offset: int) -> None:
        """Forgets the batches that begin before the offset, at which one begins."""
        end = bisect_left(self._batch_firsts, offset)
        del self._batch_firsts[:end], self._batch_lasts[:end], self._by_offset[:end]
        end = bisect_left(self._lasts, offset)
        del self._firsts[:end], self._lasts[:end], self._deadlines[:end], self._statuses[:end]
        if self._firsts:
            self._firsts[0] = max(self._firsts[0], offset)

    def is_by_offset(self, first: int) -> bool:
        return bool(self._by_offset[bisect_left(self._batch_firsts, first)])

    def track_by_offset(self, offset: int) -> None:
        """Has the batch with this offset tracked by offset."""
        self._by_offset[bisect_right(self._batch_firsts, offset) - 1] = True

    # --- spans --------------------------------------------------------------------------------------------------------

    def all_spans(self) -> Iterator[Span]:
        """All spans, which may go beyond batches. Nothing may be written meanwhile."""
        columns = zip(self._firsts, self._lasts, self._deadlines, self._statuses, strict=True)
        return (Span(first, last, deadline_ms, *status) for first, last, deadline_ms, status in columns)

    def spans(self, first: int, last: int) -> list[Span]:
        """The spans of exactly these offsets, as far as they are in flight."""
        begin = bisect_left(self._lasts, first)
        return [
            Span(max(first, self._firsts[at]), min(last, self._lasts[at]), self._deadlines[at], *self._statuses[at])
            for at in range(begin, bisect_right(self._firsts, last, begin))
        ]

    def put(self, first: int, last: int, status: Status, deadline_ms: int = NEVER) -> None:
        """Gives offsets, all of which are in flight, a state."""
        firsts, lasts, deadlines, statuses = self._firsts, self._lasts, self._deadlines, self._statuses
        if len(firsts) == 1 and firsts[0] == first and lasts[0] == last:
            deadlines[0], statuses[0] = deadline_ms, status
            return
        begin = bisect_right(firsts, first) - 1
        end = bisect_right(firsts, last, begin)
        columns = [(first, last, deadline_ms, status)]
        if firsts[begin] < first:
            columns.insert(0, (firsts[begin], first - 1, deadlines[begin], statuses[begin]))
            self._split(first)
        elif begin:
            begin -= 1
            columns.insert(0, (firsts[begin], lasts[begin], deadlines[begin], statuses[begin]))
        if lasts[end - 1] > last:
            columns.append((last + 1, lasts[end - 1], deadlines[end - 1], statuses[end - 1]))
            self._split(last + 1)
        elif end < len(firsts):
            columns.append((firsts[end], lasts[end], deadlines[end], statuses[end]))
            end += 1
        joined = columns[:1]
        for each in columns[1:]:
            before = joined[-1]
            if before[1] + 1 == each[0] and before[2:] == each[2:]:
                joined[-1] = before[0], each[1], deadline_ms, status
            else:
                joined.append(each)
        firsts[begin:end] = array("q", [each[0] for each in joined])
        lasts[begin:end] = array("q", [each[1] for each in joined])
        deadlines[begin:end] = array("q", [each[2] for each in joined])
        statuses[begin:end] = [each[3] for each in joined]

    def _split(self, offset: int) -> None:
        """The records before the offset may have another state than those from it on."""
        at = bisect_right(self._batch_firsts, offset) - 1
        if self._batch_firsts[at] < offset <= self._batch_lasts[at]:
            self._by_offset[at] = True
