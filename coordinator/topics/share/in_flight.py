"""The offsets of a share partition that are in flight, in spans with one state.

A batch is a range of offsets that was acquired at once (Kafka: InFlightBatch). At first its records share one state; Kafka
then keeps a state for each offset as soon as two of them differ. Here a batch is a list of spans, so that its size grows with
the number of differences and not with the number of records, and `by_offset` says that Kafka would track it by offset, because
that decides how much of the batch one request acquires.
"""

from bisect import bisect_right
from collections.abc import Iterator
from enum import IntEnum
from operator import attrgetter

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


class Transition:
    """A change of acquired records that is not durable yet. It may still be undone."""

    __slots__ = ("delivery_count", "first_offset", "kind", "last_offset", "member_id", "state")

    def __init__(
        self, first_offset: int, last_offset: int, state: RecordState, delivery_count: int, member_id: str, kind: int
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.state = state
        """The state after it."""
        self.delivery_count = delivery_count
        self.member_id = member_id
        """The member that holds the records if it is undone."""
        self.kind = kind
        """The type of the acknowledgement; what is given back without one has that of a release."""


class Span:
    """Consecutive offsets with one state. Both ends are inclusive."""

    __slots__ = ("deadline_ms", "delivery_count", "first", "last", "member_id", "state", "transition")

    def __init__(self, first: int, last: int, state: RecordState, delivery_count: int, member_id: str) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = member_id
        """The member that holds the records; NOBODY unless they are acquired."""
        self.deadline_ms = NEVER
        """When the lock of acquired records ends. During a transition: when it would end if that is undone."""
        self.transition: Transition | None = None

    def __len__(self) -> int:
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

    def acquire(self, member_id: str, deadline_ms: int) -> None:
        self.state = RecordState.ACQUIRED
        self.delivery_count += 1
        self.member_id, self.deadline_ms = member_id, deadline_ms

    def leave(self, state: RecordState) -> None:
        """The records are acquired no longer."""
        self.state, self.member_id, self.deadline_ms, self.transition = state, NOBODY, NEVER, None

    def given_back(self, limit: int) -> RecordState:
        """The state of acquired records that are given back: those that were delivered `limit` times are archived."""
        return RecordState.ARCHIVED if self.delivery_count >= limit else RecordState.AVAILABLE

    def is_like(self, other: "Span") -> bool:
        """Whether the two may be one span."""
        return (
            self.state is other.state
            and self.delivery_count == other.delivery_count
            and self.member_id == other.member_id
            and self.deadline_ms == other.deadline_ms
            and self.transition is other.transition
        )


_FIRST = attrgetter("first")


class InFlightBatch:
    """Offsets that were first acquired at once. The spans cover all of them, in order."""

    __slots__ = ("by_offset", "first", "last", "spans")

    def __init__(self, span: Span) -> None:
        self.first = span.first
        self.last = span.last
        self.spans = [span]
        self.by_offset = False
        """Whether some records have had another state than the rest."""

    def __len__(self) -> int:
        return self.last - self.first + 1

    def is_within(self, first: int, last: int) -> bool:
        return first <= self.first and self.last <= last

    def span_at(self, offset: int) -> Span:
        """The span that has the offset, or the nearest one."""
        return self.spans[max(0, bisect_right(self.spans, offset, key=_FIRST) - 1)]

    def spans_between(self, first: int, last: int) -> list[Span]:
        """The spans that have any of these offsets."""
        start = max(0, bisect_right(self.spans, first, key=_FIRST) - 1)
        return [span for span in self.spans[start : bisect_right(self.spans, last, key=_FIRST)] if span.last >= first]

    def cut(self, first: int, last: int) -> list[Span]:
        """The spans of exactly these offsets, as far as the batch has them; splits spans that have others too."""
        for span in self.spans_between(first, last):
            if span.first < first:
                self._split(span, first)
        for span in self.spans_between(first, last):
            if span.last > last:
                self._split(span, last + 1)
        return self.spans_between(first, last)

    def _split(self, span: Span, offset: int) -> None:
        """Makes a span of its own from the offset on."""
        rest = Span(offset, span.last, span.state, span.delivery_count, span.member_id)
        rest.deadline_ms, rest.transition = span.deadline_ms, span.transition
        span.last = offset - 1
        self.spans.insert(bisect_right(self.spans, span.first, key=_FIRST), rest)
        self.by_offset = True

    def merge(self) -> None:
        """Joins neighbours with the same state."""
        if len(self.spans) == 1:
            return
        joined = self.spans[:1]
        for span in self.spans[1:]:
            if span.is_like(joined[-1]):
                joined[-1].last = span.last
            else:
                joined.append(span)
        self.spans = joined


class InFlight:
    """All batches of a share partition, in the order of their offsets. They do not overlap; there may be gaps."""

    __slots__ = ("_batches", "_firsts")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._batches: list[InFlightBatch] = []

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[InFlightBatch]:
        return iter(self._batches)

    @property
    def first(self) -> InFlightBatch:
        return self._batches[0]

    @property
    def last(self) -> InFlightBatch:
        return self._batches[-1]

    def add(self, batch: InFlightBatch) -> None:
        place = bisect_right(self._firsts, batch.first)
        self._firsts.insert(place, batch.first)
        self._batches.insert(place, batch)

    def floor(self, offset: int) -> InFlightBatch | None:
        """The last batch that begins at or before the offset. It may end before it."""
        place = bisect_right(self._firsts, offset)
        return self._batches[place - 1] if place else None

    def beginning_between(self, first: int, last: int) -> list[InFlightBatch]:
        """The batches that begin at one of these offsets."""
        return self._batches[bisect_right(self._firsts, first - 1) : bisect_right(self._firsts, last)]

    def touching(self, first: int, last: int) -> list[InFlightBatch]:
        """The batches that have any of these offsets."""
        floor = self.floor(first)
        return self.beginning_between(first if floor is None or floor.last < first else floor.first, last)

    def after(self, offset: int) -> int:
        """The first offset of the first batch that begins after this one; there must be one."""
        return self._firsts[bisect_right(self._firsts, offset)]

    def drop_before(self, offset: int) -> None:
        """Forgets the batches that begin before the offset."""
        place = bisect_right(self._firsts, offset - 1)
        del self._firsts[:place], self._batches[:place]

    def clear(self) -> None:
        self._firsts.clear()
        self._batches.clear()
