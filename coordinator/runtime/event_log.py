"""A shard's event log: the decisions of its groups and their reasons, beside the log that has the outcome.

    __consumer_offsets-7/       the state, which a restart needs
    __coordinator_events-7/     the events, for later analysis; never compacted, and the server reads only its end

The events of a turn of the loop become one batch, which leaves in the same entry of the journal as the decisions that they are
about (coordinator/journal). So a crash keeps both or neither. But collecting evidence must not disturb the system: if the
events cannot be written, they are counted as lost and the server carries on.

Missing events are always detectable: each event has the state offset at which it was decided, and the last event of a batch
has the offset up to which nothing was left out (`StateEndOffset`). A turn that changes the state without an event (a marker, a
deletion) writes `EventLogCovered` for that offset. The two logs can differ in two ways:

    the events end before the state     events were lost, because the event log's files could not be written, or the power
                                        failed under a server with durability "write" or of a version without a journal.
                                        `EventLogOpened` records the two ends of the gap.
    the state ends before the events    the events describe decisions that were never answered and never took effect: the
                                        next `EventLogOpened` names the first of them (`UndoneFromOffset`). It is in the
                                        journal before or together with whatever the state has at these offsets later.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from coordinator.log.batch import check_batch, key_values
from coordinator.log.batch_builder import BatchBuilder
from coordinator.log.journaled_log import JournaledLog
from coordinator.log.writer import ClaimLost, MakeWriter
from coordinator.protocol.codec import DecodeError, EncodeError
from coordinator.protocol.messages import (
    CommitDecidedValue,
    EventLogClosedKey,
    EventLogClosedValue,
    EventLogCoveredKey,
    EventLogCoveredValue,
    EventLogOpenedKey,
    EventLogOpenedValue,
    MemberFencedValue,
)
from coordinator.runtime.result import Event, MessageEvent, Record
from coordinator.runtime.serde import Serde, UnknownRecordVersion
from coordinator.world.clock import Clock

_log = logging.getLogger(__name__)

RETRY_MS = 1_000
"""How long no write is tried after one has failed."""
UNKNOWN = -1
_NOWHERE = 1 << 62
START, RELOAD, RESUME, TAKE_OVER = "start", "reload", "resume", "take-over"
"""Why `EventLogOpened` is written. RESUME: events were lost, and now the disk accepts them again. TAKE_OVER: a worker has got
the shard from another one, or again."""


class Status(StrEnum):
    """Whether events are written. BLOCKED: not until the disk accepts them again. FAILED: not before a restart."""

    ACTIVE = "active"
    BLOCKED = "blocked"
    FAILED = "failed"


_ACTIVE = Status.ACTIVE  # Looking a name up in an enum is noticed with every batch.


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRun:
    """The run of the server that its event logs name."""

    run_id: str
    node_id: int
    policy: str
    is_complete: bool
    """Whether the policy is to write every event."""


@dataclass(slots=True, kw_only=True)
class Tail:
    """The end of an event log."""

    previous_offset: int = UNKNOWN
    """The state offset of the last event."""
    previous_time_ms: int = UNKNOWN
    covered_offset: int = UNKNOWN
    """The last `StateEndOffset`."""
    is_closed: bool = False
    undone_from: int = UNKNOWN
    """The offset of the first event whose decision never took effect."""
    is_found: bool = False
    """Whether there is an event behind which none is undone, so that it is of no matter what is before it."""


Pending = tuple[Event, int, int, int]
"""An event of this turn, its time, and the end of the state's log before and after the decision that it is about."""


EncodeEvent = Callable[[Any, int, int, int], tuple[bytes, bytes]]
"""`encode(event, state_offset, time_ms, state_end)`: the key and the value of `event.record(state_offset, time_ms)`, with the
tagged field `StateEndOffset` unless `state_end` is negative."""


class EventLog:
    """The events of one shard. All its methods run on the loop, and none raises an error of the disk."""

    def __init__(
        self,
        index: int,
        log: JournaledLog,
        serde: Serde,
        clock: Clock,
        run: ServerRun,
        *,
        make_writer: MakeWriter,
        on_written: Callable[[int], None],
        encoders: Mapping[type[Event], EncodeEvent] = MappingProxyType({}),
    ) -> None:
        """`on_written(index)`: more events are durable. `encoders`: class of an event -> its encoder, in place of the codec."""
        self.index = index
        self.log = log
        self.status = Status.ACTIVE
        self.reason = ""
        """Why the status is not ACTIVE."""
        self.written = 0
        self.written_bytes = 0
        self.lost = 0
        """Events that could not be written."""
        self.gaps = 0
        """How often the log was opened behind state records whose events may be missing."""
        self.pending: list[Pending] = []
        self._serde = serde
        self._encoders = encoders
        self._clock = clock
        self._run = run
        self._on_written = on_written
        self._writer = make_writer(log, self._durable, self._write_failed)
        self._is_writing = False
        self._end_written = 0
        """The end of the log after the last write, which may not be durable yet."""
        self._undeclared = UNKNOWN
        """The first undone event, while the declaration is not durable."""
        self._declared_to = _NOWHERE
        """The end of the log with the declaration."""
        self._tail = Tail()
        self._opened: EventLogOpenedValue | None = None
        """Written before the next event. A shard without events needs no file."""
        self._is_open = False
        self._lost_since_written = 0
        self._retry_at_ms = 0

    # --- start and stop -----------------------------------------------------------------------------------------------

    def open(self, state_offset: int, cause: str) -> None:
        """Compares the log with the state, which was loaded and ends at this offset."""
        self.drop_after(state_offset)
        if self.log.failed is not None:
            self._fail(
                f"the event log cannot be opened: {self.log.failed}; events are lost until the server is restarted"
            )
            return
        try:
            tail = self._tail = read_tail(self.log, self._serde, state_offset)
        except (OSError, ValueError, DecodeError, UnknownRecordVersion) as error:
            self._fail(f"the event log cannot be read: {error}; events are lost until the server is restarted")
            return
        self._end_written = self.log.end_offset
        self._undeclared, self._declared_to = tail.undone_from, _NOWHERE
        self._opened = self._opening(state_offset, cause)
        self._is_open = True
        covered = max(tail.covered_offset, 0)
        if tail.covered_offset == UNKNOWN and state_offset > 0:
            # A fork, a folder of Kafka's, or a server that recorded no events before: nothing was lost.
            _log.info("event=events_begin shard=%d state_offset=%d", self.index, state_offset)
        elif covered < state_offset:
            self.gaps += 1
            _log.warning(
                "event=events_missing shard=%d state_offset_from=%d state_offset_to=%d cleanly_closed=%s",
                self.index, covered, state_offset, str(tail.is_closed).lower(),
            )  # fmt: skip
        if tail.undone_from != UNKNOWN:
            self._warn_of_undone(state_offset)
        self.flush(state_offset)

    def covered_offset(self) -> int:
        """The end of the state up to which no event is missing; negative if there are no events.

        Raises OSError, ValueError, DecodeError and UnknownRecordVersion: the log is not understood.
        """
        return read_tail(self.log, self._serde, _NOWHERE).covered_offset

    def drop_after(self, state_offset: int) -> None:
        """Drops the pending events of decisions beyond this offset: the state lost them."""
        self.pending = [each for each in self.pending if each[3] <= state_offset]

    def finish(self, state_offset: int) -> None:
        """Writes the last event, which says that nothing is missing. The shard has stopped, and its state is durable or leaves
        with this event.
        """
        if self._is_open and self._opened is None and self.log.end_offset:
            now_ms = self._clock.wall_ms()
            closed = MessageEvent(EventLogClosedKey(), EventLogClosedValue(run_id=self._run.run_id))
            self.pending.append((closed, now_ms, state_offset, state_offset))
            self.flush(state_offset)

    def reaches_back(self, state_offset: int) -> bool:
        """Whether the log, of which the beginning may be missing, has enough for `open` at this end of the state."""
        try:
            return read_tail(self.log, self._serde, state_offset).is_found
        except (OSError, ValueError, DecodeError, UnknownRecordVersion):
            return True  # `open` reports it

    def declaration(self, state_offset: int) -> bytes | None:
        """The batch that declares which events are undone at this end of the state; None if none are.

        It must be durable before the state goes on, where an append of both logs may leave one of them behind: a state that has
        reached the offsets of undone events would seem to have decided them.
        """
        try:
            tail = self._tail = read_tail(self.log, self._serde, state_offset)
        except (OSError, ValueError, DecodeError, UnknownRecordVersion):
            return None  # `open` reports it
        if tail.undone_from == UNKNOWN:
            return None
        self._warn_of_undone(state_offset)
        opened = self._opening(state_offset, TAKE_OVER)
        opened.state_end_offset = state_offset
        batch = BatchBuilder()
        batch.add_all([self._serde.encode(Record(EventLogOpenedKey(), opened))])
        return batch.build(self.log.end_offset, self._clock.wall_ms())

    def _warn_of_undone(self, state_offset: int) -> None:
        _log.warning(
            "event=events_undone shard=%d offset_from=%d offset_to=%d state_offset=%d",
            self.index, self._tail.undone_from, self.log.end_offset, state_offset,
        )  # fmt: skip

    def give_up(self) -> None:
        """Forgets what is not durable: another server has the log, or may have it."""
        self.pending, self._opened, self._tail = [], None, Tail()
        self._is_open, self._lost_since_written = False, 0
        self._undeclared, self._declared_to = UNKNOWN, _NOWHERE
        self._set_status(_ACTIVE, "")

    @property
    def undone_from(self) -> int:
        """The offset of the first event whose decision never took effect, until that is declared durably; else -1."""
        return self._undeclared

    # --- writing ------------------------------------------------------------------------------------------------------

    def flush(self, state_end: int) -> None:
        """Writes the events since the last flush. With them the log is complete for the state up to `state_end`."""
        pending, self.pending = self.pending, []
        opened = self._opened
        if not pending and not self._has_to_cover(state_end):
            return
        if self.status is not _ACTIVE and not self._may_try_again():
            self._lose(len(pending))
            return
        if self._lost_since_written:
            # From here on nothing is missing again.
            state_offset = pending[0][2] if pending else state_end
            if opened is None:
                self._opened = self._opening(state_offset, RESUME)
            else:
                opened.state_offset = state_offset
        try:
            self._write(pending, state_end)
        except Exception:  # noqa: BLE001 - a bug here must not affect the decisions that the events are about
            _log.exception("event=events_not_encoded shard=%d count=%d", self.index, len(pending))
            self._lose(len(pending))

    def _has_to_cover(self, state_end: int) -> bool:
        """Whether a turn without events is to be noted: without a note, a start after a crash would miss its events."""
        if self._opened is not None and (self._opened.state_offset or self.log.end_offset):
            return True
        return self._is_open and self._run.is_complete and state_end > max(self._tail.covered_offset, 0)

    def _write(self, pending: list[Pending], state_end: int) -> None:
        opened, encode, encoders = self._opened, self._serde.encode, self._encoders
        records: list[tuple[bytes, bytes | None]] = []
        previous_offset = UNKNOWN
        if opened is not None:
            opened.events_lost = self._lost_since_written
            opened.state_end_offset = UNKNOWN if pending else state_end
            previous_offset = opened.state_offset
            records.append(encode(Record(EventLogOpenedKey(), opened)))
        left, unwritable = len(pending), 0
        for event, time_ms, state_offset, _ in pending:
            left -= 1
            end = UNKNOWN if left else state_end
            encode_event = encoders.get(type(event))
            try:
                if encode_event is not None:
                    records.append(encode_event(event, state_offset, time_ms, end))
                else:
                    record = event.record(state_offset, time_ms)
                    value: Any = record.value
                    value.state_end_offset = end
                    records.append(encode(record))
                previous_offset = state_offset
            except EncodeError as error:
                # A name can become too long for a string when its invalid characters are replaced.
                _log.warning("event=event_not_written shard=%d reason=%s", self.index, error)
                unwritable += 1
        if not records and not unwritable:
            covered = EventLogCoveredValue(state_end, self._clock.wall_ms(), state_end)
            records.append(encode(Record(EventLogCoveredKey(), covered)))
            previous_offset = state_end
        elif not records:
            self._lose(unwritable)
            return
        batch = BatchBuilder()
        batch.add_all(records)
        base_offset = self.log.end_offset
        data = batch.build(base_offset, self._clock.wall_ms())
        self._is_writing = True
        self._writer.write(data, batch.count)
        self._is_writing = False
        if self.log.end_offset == base_offset:
            self._lose(len(pending))
            return
        self._opened = None
        self._lost_since_written = 0
        self._end_written = self.log.end_offset
        tail = self._tail
        if tail.undone_from != UNKNOWN:
            self._declared_to = self._end_written
        tail.previous_offset, tail.covered_offset = previous_offset, state_end
        tail.is_closed, tail.undone_from = False, UNKNOWN
        if unwritable:
            self._lose(unwritable)
        self.written += batch.count
        self.written_bytes += len(data)
        if self.status is not _ACTIVE:
            self._set_status(_ACTIVE, "")

    def _opening(self, state_offset: int, cause: str) -> EventLogOpenedValue:
        tail = self._tail
        return EventLogOpenedValue(
            run_id=self._run.run_id,
            node_id=self._run.node_id,
            policy=self._run.policy,
            state_offset=state_offset,
            time_ms=self._clock.wall_ms(),
            previous_state_offset=tail.previous_offset,
            covered_state_offset=tail.covered_offset,
            cleanly_closed=tail.is_closed,
            cause=cause,
            undone_from_offset=tail.undone_from,
            previous_time_ms=tail.previous_time_ms,
        )

    def _lose(self, count: int) -> None:
        self.lost += count
        self._lost_since_written += count

    def retain(self, now_ms: int) -> None:
        """Deletes the oldest segments that exceed the retention time or size."""
        if self.log.failed is None:
            try:
                self.log.apply_retention(now_ms)
            except OSError as error:
                _log.warning("event=event_log_retention_failed shard=%d reason=%s", self.index, error)

    # --- failure ------------------------------------------------------------------------------------------------------

    def _may_try_again(self) -> bool:
        return self.status is Status.BLOCKED and self._clock.machine_ms() >= self._retry_at_ms

    def _durable(self, offset: int) -> None:
        if offset >= self._declared_to:
            self._undeclared, self._declared_to = UNKNOWN, _NOWHERE
        self._on_written(self.index)

    def _write_failed(self, error: OSError) -> None:
        """A write was refused, or one that was accepted is lost. It is not the latter if the log was opened since then."""
        if isinstance(error, ClaimLost):
            return  # the shard learns it, too, and gives up
        dropped, self._end_written = self._end_written - self.log.end_offset, self.log.end_offset
        if dropped > 0:
            self._lose(dropped)
        elif not self._is_writing and self.log.failed is None:
            return
        if self.log.failed is None:
            if not self._is_writing and not self._read_tail_again():
                return
            self._retry_at_ms = self._clock.machine_ms() + RETRY_MS
            self._set_status(Status.BLOCKED, f"the event log cannot be written: {error}; events are lost until it can")
        else:
            self._fail(f"the event log cannot be written: {error}; events are lost until the server is restarted")

    def _read_tail_again(self) -> bool:
        """Reads the end that the log has after it lost a write; returns whether it could."""
        try:
            self._tail = read_tail(self.log, self._serde, _NOWHERE)
        except (OSError, ValueError, DecodeError, UnknownRecordVersion) as error:
            self._fail(f"the event log cannot be read: {error}; events are lost until the server is restarted")
            return False
        self._tail.undone_from, self._declared_to = self._undeclared, _NOWHERE
        return True

    def _fail(self, reason: str) -> None:
        self._set_status(Status.FAILED, reason)

    def _set_status(self, status: Status, reason: str) -> None:
        if status is not self.status:
            _log.log(
                logging.INFO if status is Status.ACTIVE else logging.ERROR,
                "event=event_log_status shard=%d status=%s reason=%s", self.index, status, reason,
            )  # fmt: skip
        self.status, self.reason = status, reason


def read_tail(log: JournaledLog, serde: Serde, state_offset: int) -> Tail:
    """Reads the end of the log, given the end of the state. Goes back as far as there are undone events.

    Raises OSError, and ValueError, DecodeError or UnknownRecordVersion for a log that is not understood.
    """
    tail = Tail()
    end = log.end_offset
    is_last = True
    while end > log.start_offset:
        data = log.read(end - 1, 1)
        header = check_batch(data, 0)
        records = [(offset, serde.decode(key or b"", value)) for offset, key, value in key_values(data, 0, header)]
        known = [
            (offset, record.value) for offset, record in records if record is not None and record.value is not None
        ]
        if known:
            last: Any = known[-1][1]
            if is_last:
                tail.previous_offset = last.state_offset
                tail.previous_time_ms = last.time_ms
                tail.is_closed = isinstance(last, EventLogClosedValue)
                is_last = False
            if tail.covered_offset == UNKNOWN:
                tail.covered_offset = last.state_end_offset
            if UNKNOWN < last.state_end_offset <= state_offset:
                tail.is_found = True
                break
            undone = [offset for offset, value in known if _is_undone(value, state_offset)]
            if undone:
                tail.undone_from = undone[0]
        end = header.base_offset
    return tail


def _is_undone(value: Any, state_offset: int) -> bool:
    """Whether the state has lost the decision of this event, in a batch that reaches beyond the end of the state.

    A decision *at* the end changed the state there, unless it is a refusal.
    """
    if value.state_offset != state_offset:
        return bool(value.state_offset > state_offset)
    if isinstance(value, CommitDecidedValue):
        return not value.error_code and any(not each.error_code for topic in value.topics for each in topic.partitions)
    return not isinstance(value, MemberFencedValue | EventLogOpenedValue)
