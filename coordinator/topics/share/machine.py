"""What becomes of the records of a share partition: Kafka's SharePartition without locks, timers and futures.

    AVAILABLE --acquire--> ACQUIRED --accept--> ACKNOWLEDGED
        ^                      |----reject, gap--> ARCHIVED
        |----release, expiry---|----the same, delivered as often as the limit allows--> ARCHIVED

Where the group has a dead-letter queue, records that are rejected or delivered too often are ARCHIVING before they are
ARCHIVED: the caller writes them to the queue once that is durable, and then calls `archive`.

All records before `start_offset` are done with, and all from `end_offset` on have not been acquired yet; those between are in
`in_flight`. The start moves when the records at it are acknowledged or archived. What the machine decides about acquired
records is a list of transitions: the caller makes them durable and then calls `settle`, which completes or undoes them. Until
then nobody can acquire or acknowledge these records.

After a start only what was ever acknowledged, given back or expired is known. Offsets between such batches may have been
acquired and never acknowledged, so they are acquired like new ones; `_Gaps` is where such offsets can be.

A record that was delivered half as often as the limit allows may be what breaks its readers. Such records are given out in
ever smaller portions, and alone the last time, so that their neighbours are not archived with them.

Differences from Kafka 4.4: aborted records let the start move at once, not only with the next
acknowledgement; a state that begins before its start offset is cut instead of refused.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.share_state.share_state import Batch
from coordinator.topics.share.in_flight import (
    NEVER,
    NOBODY,
    InFlight,
    InFlightBatch,
    RecordState,
    Span,
    Status,
    Transition,
    shared,
)

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
"""Types of acknowledgements. A gap is an offset without a record: its member has nothing to process."""
_STATE_AFTER = {GAP: RecordState.ARCHIVED, ACCEPT: RecordState.ACKNOWLEDGED}
_ALONE_BEYOND = 2
"""With a limit of two deliveries the last one is not made alone."""
_NEW = shared(RecordState.AVAILABLE, 0)

_NOT_ACQUIRED = "The batch cannot be acknowledged. The batch is not in the acquired state."
_OFFSET_NOT_ACQUIRED = "The offset cannot be acknowledged. The offset is not acquired."
_NOT_THE_OWNER = "Member is not the owner of batch record"
_NOT_THE_OWNER_OF_OFFSET = "Member is not the owner of offset"
_NOT_FOUND = "Batch record not found. The request batch offsets are not found in the cache."
_FIRST_IS_PAST = "Batch record not found. The first offset in request is past acquired records."
_LAST_IS_PAST = "Batch record not found. The last offset in request is past acquired records."
_NO_RENEWAL = "Renewing acquisition locks is not enabled for the group."


class Limits(NamedTuple):
    """The settings of a group that concern its share partitions."""

    lock_ms: int
    """How long acquired records are locked (share.record.lock.duration.ms)."""
    delivery_count: int
    """How often a record is delivered (share.delivery.count.limit)."""
    locks: int
    """How many records may be in flight in a partition (share.partition.max.record.locks)."""
    renews: bool
    """Whether members may prolong a lock (share.renew.acknowledge.enable)."""
    has_dead_letters: bool = False
    """Whether records that no member completes go to a dead-letter queue."""


class Acknowledgement(NamedTuple):
    """What a member says about a range of records: one type for all, or one for each."""

    first_offset: int
    last_offset: int
    types: Sequence[int]


class Acquired(NamedTuple):
    """Records that a member has acquired."""

    first_offset: int
    last_offset: int
    delivery_count: int


class FetchedBatch(NamedTuple):
    """A batch of the log that was read: all offsets that it was written with, and whether its transaction was aborted."""

    first_offset: int
    last_offset: int
    is_aborted: bool = False


class Wanted(NamedTuple):
    """What a request wants of the records that were read for it."""

    member_id: str
    records_max: int
    batch_size: int
    """The number of records from which new records are acquired as several batches."""
    is_strict: bool
    """Whether `records_max` is never exceeded (record_limit); else whole batches of the log are acquired (batch_optimized)."""


class _Gaps:
    """Where offsets may be that were acquired before the start and never acknowledged: from `start` to `end`."""

    __slots__ = ("end", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end


class ShareMachine:
    """A share partition. Its methods are called in the order of events; `now_ms` never goes back."""

    def __init__(self, state_epoch: int, start_offset: int, batches: Iterable[Batch]) -> None:
        """`batches`: as in the durable state, ascending."""
        self.state_epoch = state_epoch
        self.start_offset = self.end_offset = start_offset
        self.in_flight = InFlight()
        self.delivery_complete_count = 0
        """How many records from the start offset on are acknowledged or archived."""
        self._may_have_available = False
        """Whether records before the end can be available. If not, the next ones to fetch are those after the end."""
        self._gaps: _Gaps | None = None
        self._deadline_ms = NEVER
        """No lock ends before this time."""
        self.ended_locks: list[Transition] = []
        """Locks that have ended, with the members that held them. For outcomes.py, which empties the list."""
        self._load(batches)

    def _load(self, batches: Iterable[Batch]) -> None:
        gap, known_to = -1, self.start_offset - 1
        for batch in batches:
            if batch.last_offset <= known_to:
                continue
            first = max(batch.first_offset, known_to + 1)
            gap = known_to + 1 if gap < 0 and first > known_to + 1 else gap
            known_to = batch.last_offset
            status = shared(RecordState(batch.delivery_state), batch.delivery_count)
            self.in_flight.add(first, known_to, status)
            self.delivery_complete_count += known_to - first + 1 if status.state.is_final else 0
        if self.in_flight:
            self.end_offset = known_to
            self._may_have_available = True
            self._gaps = _Gaps(gap, self.end_offset) if gap >= 0 else None
            self._move_start()

    # --- what may be acquired -----------------------------------------------------------------------------------------

    @property
    def in_flight_count(self) -> int:
        """How many records count against the limit of locks: all from the start to the end, whatever their state."""
        return self.end_offset - self.start_offset + 1 if self.in_flight else 0

    @property
    def _is_beyond_all(self) -> bool:
        """Whether nothing from the start on has been acquired, so that the end is not acquired either."""
        return not self.in_flight or self.start_offset > self.in_flight.last_offset

    def next_fetch_offset(self) -> int:
        """The first offset that may be acquired."""
        if self._is_beyond_all:
            self._may_have_available = False
            return self.end_offset
        if self._may_have_available:
            gaps = self._open_gaps
            gap = gaps.start if gaps is not None else NEVER
            for span in self.in_flight.all_spans():
                if gaps is not None:
                    if span.first > gap:
                        return gap
                    gap = max(span.last + 1, gap)
                if span.is_available:
                    return span.first
            self._may_have_available = False
        return self.end_offset + 1

    def can_acquire(self, limits: Limits) -> bool:
        """Whether records may be acquired, if the log has some at the next fetch offset."""
        return self.next_fetch_offset() != self.end_offset + 1 or self.in_flight_count < limits.locks

    @property
    def _open_gaps(self) -> _Gaps | None:
        """The gaps, until anything is acquired after them."""
        return self._gaps if self._gaps is not None and self._gaps.end == self.end_offset else None

    def _close_gaps_before(self, offset: int) -> None:
        if self._open_gaps is not None and offset <= self._open_gaps.end:
            self._open_gaps.start = offset
        else:
            self._gaps = None

    # --- acquiring ----------------------------------------------------------------------------------------------------

    def acquire(
        self, wanted: Wanted, fetch_offset: int, fetched: Sequence[FetchedBatch], limits: Limits, now_ms: int
    ) -> list[Acquired]:
        """Acquires records of what was read at `fetch_offset`: ascending, and none of an aborted transaction."""
        if wanted.records_max <= 0 or not fetched or fetched[-1].last_offset < self.start_offset:
            return []
        last_offset, records_max = self._room(fetch_offset, wanted.records_max, fetched[-1].last_offset, limits)
        if records_max <= 0:
            return []
        self._archive_between(fetch_offset, fetched[0].first_offset)
        acquired = self._acquire(wanted, fetched, last_offset, records_max, limits, now_ms)
        aborted = [batch for batch in fetched if batch.is_aborted]
        if aborted and acquired:
            for batch in aborted:
                self._archive(batch.first_offset, batch.last_offset, RecordState.ACQUIRED)
            acquired = _without(acquired, aborted)
            self._move_start()
        return acquired

    def _room(self, fetch_offset: int, records_max: int, last_offset: int, limits: Limits) -> tuple[int, int]:
        """The last offset that may be acquired, and how many records."""
        room = min(records_max, limits.locks - self.in_flight_count)
        if room > 0:
            return last_offset, room
        # Records that were given back are in flight already.
        if fetch_offset > self.end_offset:
            return last_offset, 0
        return min(last_offset, self.end_offset), min(records_max, self.end_offset - fetch_offset + 1)

    def _acquire(
        self,
        wanted: Wanted,
        fetched: Sequence[FetchedBatch],
        last_offset: int,
        records_max: int,
        limits: Limits,
        now_ms: int,
    ) -> list[Acquired]:
        first_offset = fetched[0].first_offset
        base = first_offset
        floor = self.in_flight.floor(base)
        if floor is None:
            base = max(base, self.start_offset)
        elif floor.last >= base:
            base = floor.first
        deadline_ms = now_ms + limits.lock_ms
        known = self.in_flight.beginning_between(min(first_offset, base), last_offset)
        if not known:
            return self._acquire_new(wanted, fetched, base, last_offset, records_max, deadline_ms)
        acquired: list[Acquired] = []
        count, gap = 0, base
        for batch in known:
            if count >= records_max:
                break
            if self._open_gaps is not None:
                if gap < batch.first:
                    found = self._acquire_new(wanted, fetched, gap, batch.first - 1, records_max - count, deadline_ms)
                    acquired += found
                    count += _count(found)
                gap = batch.last + 1
                if count >= records_max:
                    break
            portion = self._is_in_portions(batch, first_offset, last_offset, limits)
            if portion and count:
                records_max = 0
                break
            is_too_large = wanted.is_strict and len(batch) > records_max - count
            if not batch.by_offset and not batch.spans[0].is_available:
                continue
            if batch.by_offset or portion or is_too_large or not batch.is_within(first_offset, last_offset):
                found = self._acquire_part(
                    batch, wanted, first_offset, last_offset, records_max - count, limits, deadline_ms
                )
                if found and portion:
                    records_max = 0
            else:
                found = self._acquire_spans(batch.spans, wanted.member_id, deadline_ms)
            acquired += found
            count += _count(found)
        rest = known[-1].last + 1
        if count < records_max and rest <= last_offset:
            acquired += self._acquire_new(wanted, fetched, rest, last_offset, records_max - count, deadline_ms)
        # If nothing was acquired, the gaps that were read have no records: compaction removed them.
        self._close_gaps_before((acquired[-1].last_offset if acquired else last_offset) + 1)
        return acquired

    def _acquire_spans(self, spans: Iterable[Span], member_id: str, deadline_ms: int) -> list[Acquired]:
        acquired: list[Acquired] = []
        for span in spans:
            if span.is_available:
                count = span.delivery_count + 1
                self._lock(span.first, span.last, shared(RecordState.ACQUIRED, count, member_id), deadline_ms)
                last = acquired[-1] if acquired else None
                if last is not None and (last.last_offset + 1, last.delivery_count) == (span.first, count):
                    acquired[-1] = last._replace(last_offset=span.last)
                else:
                    acquired.append(Acquired(span.first, span.last, count))
        return acquired

    def _is_in_portions(self, batch: InFlightBatch, first: int, last: int, limits: Limits) -> bool:
        """Whether some of the batch's available records were delivered so often that they are given out with care."""
        spans = batch.spans_between(first, last) if batch.by_offset else batch.spans
        often = max((span.delivery_count for span in spans if span.is_available), default=0)
        return often >= _often(limits)

    def _acquire_part(
        self,
        batch: InFlightBatch,
        wanted: Wanted,
        first: int,
        last: int,
        records_max: int,
        limits: Limits,
        deadline_ms: int,
    ) -> list[Acquired]:
        """Acquires the available records of a batch that this request may have (Kafka: acquireSubsetBatchRecords)."""
        self.in_flight.track_by_offset(batch.first)
        taken: list[Span] = []
        count, portion = 0, -1
        last_is_alone = limits.delivery_count > _ALONE_BEYOND
        for span in [span for span in batch.spans_between(first, last) if span.is_available]:
            is_last_delivery = last_is_alone and span.delivery_count == limits.delivery_count - 1
            if is_last_delivery and count:
                break
            if span.delivery_count >= _often(limits) and portion < 0:
                portion = max(1, len(batch) >> (span.delivery_count - _often(limits) + 1))
            take = 1 if is_last_delivery else span.size
            if wanted.is_strict:
                take = min(take, records_max - count)
            if count < portion:
                take = min(take, portion - count)
            count += take
            taken.append(span._replace(last=span.first + take - 1))
            if is_last_delivery or count == portion or (wanted.is_strict and count == records_max):
                break
        return self._acquire_spans(taken, wanted.member_id, deadline_ms)

    def _acquire_new(
        self,
        wanted: Wanted,
        fetched: Sequence[FetchedBatch],
        first: int,
        last: int,
        records_max: int,
        deadline_ms: int,
    ) -> list[Acquired]:
        """Acquires offsets that are in no batch yet (Kafka: acquireNewBatchRecords)."""
        first = max(first, self.start_offset if self.in_flight else self.end_offset)
        if first > last:
            return []
        if records_max < last - first + 1:
            # A batch of the log is acquired whole, as long as it does not reach into what is known.
            aligned = _end_of_batch(fetched, first + records_max - 1)
            last = min(aligned, last) if self._open_gaps is not None else aligned
        acquired_last = min(last, first + records_max - 1) if wanted.is_strict else last
        portions = [(first, last)] if wanted.is_strict else _portions(fetched, first, last, wanted.batch_size)
        for begin, end in portions:
            self.in_flight.add(begin, end, _NEW)
            taken = shared(RecordState.ACQUIRED, 1, wanted.member_id)
            self._lock(begin, min(end, acquired_last), taken, deadline_ms)
        if acquired_last < last:
            self._may_have_available = True
        if self.in_flight.first_offset == first:
            self.start_offset = first
        self.end_offset = max(self.end_offset, last)
        self._close_gaps_before(acquired_last + 1)
        return [Acquired(begin, min(end, acquired_last), 1) for begin, end in portions]

    # --- acknowledging ------------------------------------------------------------------------------------------------

    def acknowledge(
        self, member_id: str, acknowledgements: Iterable[Acknowledgement], limits: Limits, now_ms: int
    ) -> list[Transition]:
        """Applies what a member says about its records; returns what has to become durable.

        Raises INVALID_RECORD_STATE (not acquired by the member, or not durable yet), or INVALID_REQUEST (beyond all that was
        acquired). Then no record has another state. A lock that was prolonged before the error stays so.
        """
        transitions: list[Transition] = []
        try:
            for acknowledgement in acknowledgements:
                if acknowledgement.last_offset >= self.start_offset:
                    self._acknowledge(member_id, acknowledgement, limits, now_ms, transitions)
        except KafkaError:
            self.settle(transitions, limits, now_ms, is_durable=False)
            raise
        return transitions

    def _acknowledge(
        self, member_id: str, acked: Acknowledgement, limits: Limits, now_ms: int, transitions: list[Transition]
    ) -> None:
        for batch in self._acknowledged_batches(acked):
            if batch.last < self.start_offset:
                continue
            first, last = max(acked.first_offset, self.start_offset, batch.first), min(acked.last_offset, batch.last)
            by_offset = batch.by_offset
            if not by_offset:
                _check_whole(batch.spans[0], member_id)
                if len(acked.types) > 1 or (first, last) != (batch.first, batch.last):
                    self.in_flight.track_by_offset(first)
            for begin, end, kind in _by_kind(acked, first, last):
                for span in batch.spans_between(begin, end):
                    if by_offset:
                        _check(span, member_id)
                    self._acknowledge_span(span, kind, limits, now_ms, transitions)

    def _acknowledged_batches(self, acked: Acknowledgement) -> list[InFlightBatch]:
        """The batches with these offsets. Raises INVALID_RECORD_STATE or INVALID_REQUEST if there are none."""
        floor = self.in_flight.floor(acked.first_offset)
        if floor is None and acked.first_offset < self.start_offset <= acked.last_offset:
            floor = self.in_flight.floor(self.start_offset)
        if floor is None:
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, _NOT_FOUND)
        batches = self.in_flight.beginning_between(floor.first, acked.last_offset)
        if batches[-1].last < acked.first_offset:
            raise KafkaError(ErrorCode.INVALID_REQUEST, _FIRST_IS_PAST)
        if batches[-1].last < acked.last_offset:
            raise KafkaError(ErrorCode.INVALID_REQUEST, _LAST_IS_PAST)
        return batches

    def _acknowledge_span(
        self, span: Span, kind: int, limits: Limits, now_ms: int, transitions: list[Transition]
    ) -> None:
        if kind == RENEW:
            if not limits.renews:
                raise KafkaError(ErrorCode.INVALID_RECORD_STATE, _NO_RENEWAL)
            status = shared(RecordState.ACQUIRED, span.delivery_count, span.member_id)
            self._lock(span.first, span.last, status, now_ms + limits.lock_ms)
            return
        if kind == RELEASE:
            state = _given_back(span, limits)
        else:
            state = _first_archiving(limits) if kind == REJECT else _STATE_AFTER[kind]
        transitions.append(self._begin(span, state, kind))

    def release(self, member_id: str, limits: Limits) -> list[Transition]:
        """Gives back all records that the member holds; returns what has to become durable."""
        held = [span for span in self.in_flight.all_spans() if span.member_id == member_id]
        return [
            self._begin(part, self._state_given_back(part, limits))
            for span in held
            for part in span.around(self.start_offset)
        ]

    def _state_given_back(self, span: Span, limits: Limits) -> RecordState:
        return RecordState.ARCHIVED if span.last < self.start_offset else _given_back(span, limits)

    def _begin(self, span: Span, state: RecordState, kind: int = RELEASE) -> Transition:
        transition = Transition(span.first, span.last, state, span.delivery_count, span.member_id, kind)
        status = Status(state, span.delivery_count, NOBODY, transition)
        self.in_flight.put(span.first, span.last, status, span.deadline_ms)
        if state.is_final:
            self.delivery_complete_count += span.count_from(self.start_offset)
        return transition

    def settle(self, transitions: Iterable[Transition], limits: Limits, now_ms: int, *, is_durable: bool) -> bool:
        """Completes transitions that are durable, or undoes them. Returns whether records may be available that were not."""
        changed = False
        for transition in transitions:
            for span in self.in_flight.spans(transition.first_offset, transition.last_offset):
                if span.transition is transition:
                    state = (
                        self._leave(span, span.state) if is_durable else self._undo(span, transition, limits, now_ms)
                    )
                    if state is RecordState.AVAILABLE:
                        self._may_have_available = changed = True
        return (is_durable and self._move_start()) or changed

    def _undo(self, span: Span, transition: Transition, limits: Limits, now_ms: int) -> RecordState:
        """The records are acquired again, unless their lock has ended meanwhile. Returns their state."""
        if span.deadline_ms <= now_ms:
            state = span.given_back(limits.delivery_count)
            self._end_lock(span, state, transition.member_id)
        else:
            state = RecordState.ACQUIRED
            status = shared(state, span.delivery_count, transition.member_id)
            self._lock(span.first, span.last, status, span.deadline_ms)
        if transition.state.is_final != state.is_final:
            count = span.count_from(self.start_offset)
            self.delivery_complete_count += count if state.is_final else -count
        return state

    def _leave(self, span: Span, state: RecordState) -> RecordState:
        """The records are acquired no longer. Returns their state."""
        self.in_flight.put(span.first, span.last, shared(state, span.delivery_count))
        return state

    # --- locks --------------------------------------------------------------------------------------------------------

    def _lock(self, first: int, last: int, acquired: Status, deadline_ms: int) -> None:
        self.in_flight.put(first, last, acquired, deadline_ms)
        self._deadline_ms = min(self._deadline_ms, deadline_ms)

    def next_deadline(self) -> int | None:
        """When to look for locks that have ended: no lock ends earlier. None if there is none."""
        return None if self._deadline_ms == NEVER else self._deadline_ms

    def expire(self, limits: Limits, now_ms: int) -> list[Batch]:
        """Ends the locks that are due. The records are given back at once; returns their states, to make them durable.

        The caller tries that once and then calls `expired`: a failure undoes nothing, as in Kafka.
        """
        if now_ms < self._deadline_ms:
            return []
        expired: list[Batch] = []
        due: list[Span] = []
        self._deadline_ms = NEVER
        for span in self.in_flight.all_spans():
            if span.state is RecordState.ACQUIRED:
                if span.deadline_ms <= now_ms:
                    due += span.around(self.start_offset)
                else:
                    self._deadline_ms = min(self._deadline_ms, span.deadline_ms)
        for span in due:
            state = self._state_given_back(span, limits)
            self._end_lock(span, state, span.member_id)
            expired.append(Batch(span.first, span.last, state, span.delivery_count))
            if state is RecordState.AVAILABLE:
                self._may_have_available = True
            elif state.is_final:
                self.delivery_complete_count += span.count_from(self.start_offset)
        return expired

    def _end_lock(self, span: Span, state: RecordState, member_id: str) -> None:
        self.ended_locks.append(Transition(span.first, span.last, state, span.delivery_count, member_id, RELEASE))
        self._leave(span, state)

    def end_locks(self, member_id: str, now_ms: int) -> int:
        """Lets the locks of a member, or of all (""), end now: `expire` then ends them. Returns the number of records."""
        held = [
            span
            for span in self.in_flight.all_spans()
            if span.state is RecordState.ACQUIRED and member_id in ("", span.member_id)
        ]
        for span in held:
            self._lock(span.first, span.last, shared(span.state, span.delivery_count, span.member_id), now_ms)
        return sum(span.size for span in held)

    def archiving(self) -> list[Batch]:
        """The records that are durably on the way to the dead-letter queue."""
        return [
            Batch(span.first, span.last, span.state, span.delivery_count)
            for span in self.in_flight.all_spans()
            if span.state is RecordState.ARCHIVING and span.transition is None
        ]

    def archive(self, dead: Batch) -> list[Batch]:
        """The dead letters are written, or cannot be: returns their states, to make them durable as for `expire`."""
        self._archive(dead.first_offset, dead.last_offset, RecordState.ARCHIVING)
        return [dead._replace(delivery_state=RecordState.ARCHIVED)]

    def expired(self) -> bool:
        """What `expire` or `archive` has returned is durable, or cannot be made so. Returns whether the start has moved."""
        return self._move_start()

    # --- the start ----------------------------------------------------------------------------------------------------

    def _move_start(self) -> bool:
        """Moves the start over records that are acknowledged or archived (Kafka: maybeUpdateCachedStateAndOffsets)."""
        floor = self.in_flight.floor(self.start_offset)
        if floor is None or not floor.spans_between(min(self.start_offset, floor.last), floor.last)[0].is_done:
            return False
        done_to, count = self._done_to()
        if done_to < 0:
            return False
        if done_to == self.in_flight.last_offset:
            # The deletion of records may have moved the start further.
            self.start_offset = self.end_offset = max(self.start_offset, done_to + 1)
            self.in_flight.clear()
            self._deadline_ms = NEVER
            self.delivery_complete_count = 0
            return True
        batch = self.in_flight.floor(done_to)
        assert batch is not None
        if done_to == batch.last:
            self.start_offset = max(self.start_offset, self.in_flight.after(done_to))
            if self._open_gaps is not None:
                self.start_offset = min(self._open_gaps.start, self.start_offset)
            self.in_flight.drop_before(batch.last + 1)
        else:
            self.start_offset = max(self.start_offset, done_to + 1)
            self.in_flight.drop_before(batch.first)
        self.delivery_complete_count -= count
        return True

    def _done_to(self) -> tuple[int, int]:
        """The last offset of those at the beginning that are done with (-1: none), and how many count as completed."""
        done_to, count = -1, 0
        end = self._open_gaps.start if self._open_gaps is not None else NEVER
        for batch in self.in_flight:
            if batch.last >= end:
                break
            for span in batch.spans:
                if not span.is_done:
                    return done_to, count
                done_to = span.last
                count += span.count_from(self.start_offset)
        return done_to, count

    def log_starts_at(self, offset: int) -> None:
        """The log has no records before this offset any more (Kafka: updateCacheAndOffsets).

        Members keep what they have acquired before it; such records are archived when they are given back.
        """
        if offset <= self.start_offset:
            return
        if not self.in_flight:
            self.start_offset = self.end_offset = offset
            return
        for span in self.in_flight.spans(self.start_offset, offset - 1):
            if span.state.is_final:
                self.delivery_complete_count -= span.size
        if self._archive(self.start_offset, offset - 1, RecordState.AVAILABLE, counts=False):
            self._may_have_available = True
        if self._open_gaps is not None and self._open_gaps.start < offset:
            # The next fetch would begin at deleted offsets, and get nothing, again and again.
            self._close_gaps_before(offset)
        self.start_offset = offset
        self.end_offset = max(self.end_offset, offset)

    def _archive_between(self, fetch_offset: int, first_offset: int) -> None:
        """Archives available records that the log does not have, because compaction removed their batches."""
        if self._archive(fetch_offset, first_offset - 1, RecordState.AVAILABLE):
            self._may_have_available = True

    def _archive(self, first: int, last: int, state: RecordState, *, counts: bool = True) -> bool:
        """Archives the records with this state among these offsets; returns whether there are any."""
        found = [span for span in self.in_flight.spans(first, last) if span.state is state] if first <= last else []
        for span in found:
            self._leave(span, RecordState.ARCHIVED)
            self.delivery_complete_count += span.count_from(self.start_offset) if counts else 0
        return bool(found)


def persisted(transitions: Iterable[Transition]) -> list[Batch]:
    """Transitions as the durable state has them."""
    return [Batch(each.first_offset, each.last_offset, each.state, each.delivery_count) for each in transitions]


def _given_back(span: Span, limits: Limits) -> RecordState:
    """The state of acquired records that are given back."""
    state = span.given_back(limits.delivery_count)
    return _first_archiving(limits) if state is RecordState.ARCHIVED else state


def _first_archiving(limits: Limits) -> RecordState:
    """The state of records that no member completes."""
    return RecordState.ARCHIVING if limits.has_dead_letters else RecordState.ARCHIVED


def _check_whole(span: Span, member_id: str) -> None:
    """Raises INVALID_RECORD_STATE unless the member holds a batch whose records have one state."""
    if span.member_id != member_id:
        reason = _NOT_ACQUIRED if span.member_id == NOBODY else _NOT_THE_OWNER
        raise KafkaError(ErrorCode.INVALID_RECORD_STATE, reason)


def _check(span: Span, member_id: str) -> None:
    """Raises INVALID_RECORD_STATE unless the member holds these records."""
    if span.state is not RecordState.ACQUIRED:
        raise KafkaError(ErrorCode.INVALID_RECORD_STATE, _OFFSET_NOT_ACQUIRED)
    if span.member_id != member_id:
        raise KafkaError(ErrorCode.INVALID_RECORD_STATE, _NOT_THE_OWNER_OF_OFFSET)


def _often(limits: Limits) -> int:
    """The delivery count from which records are given out in portions."""
    return max(2, -(-limits.delivery_count // 2))


def _by_kind(acked: Acknowledgement, first: int, last: int) -> list[tuple[int, int, int]]:
    """The offsets from `first` to `last` in ranges with one type: first and last offset, type."""
    if len(acked.types) == 1:
        return [(first, last, acked.types[0])] if first <= last else []
    ranges: list[tuple[int, int, int]] = []
    for offset in range(first, last + 1):
        kind = acked.types[offset - acked.first_offset]
        if ranges and ranges[-1][2] == kind:
            ranges[-1] = ranges[-1][0], offset, kind
        else:
            ranges.append((offset, offset, kind))
    return ranges


def _count(acquired: Iterable[Acquired]) -> int:
    return sum(each.last_offset - each.first_offset + 1 for each in acquired)


def _end_of_batch(fetched: Sequence[FetchedBatch], offset: int) -> int:
    """The last offset of the batch that has this one; the offset itself if none has it."""
    return next((batch.last_offset for batch in fetched if batch.first_offset <= offset <= batch.last_offset), offset)


def _portions(fetched: Sequence[FetchedBatch], first: int, last: int, size: int) -> list[tuple[int, int]]:
    """Ranges of about this many offsets, which begin where a batch of the log begins."""
    if last - first + 1 <= size:
        return [(first, last)]
    begins = [first]
    for batch in fetched:
        if batch.first_offset > last:
            break
        if batch.first_offset - begins[-1] >= size:
            begins.append(batch.first_offset)
    return list(zip(begins, [begin - 1 for begin in begins[1:]] + [last], strict=True))


def _without(acquired: Iterable[Acquired], aborted: Sequence[FetchedBatch]) -> list[Acquired]:
    """The acquired records without those of aborted transactions."""
    kept: list[Acquired] = []
    for each in acquired:
        first = each.first_offset
        for batch in aborted:
            if batch.last_offset < first or batch.first_offset > each.last_offset:
                continue
            if batch.first_offset > first:
                kept.append(each._replace(first_offset=first, last_offset=batch.first_offset - 1))
            first = batch.last_offset + 1
        if first <= each.last_offset:
            kept.append(each._replace(first_offset=first))
    return kept
