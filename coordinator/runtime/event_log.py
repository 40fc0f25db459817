"""A shard's event log: what its groups decided and why, beside the log that says what came of it.

    __consumer_offsets-7/       the state: what a restart needs
    __coordinator_events-7/     the events: what a person asks afterwards; never compacted, here only its end is read

An event is evidence, and evidence must not cost the thing it is about. So nothing waits for this log: events are
collected while a turn of the loop runs, and become one batch behind the state's, when that is on its way to the disk.
The batch is handed to the operating system in the same turn, and outlives the process as the state does; it is not
synced for anybody. If it cannot be written, the events are counted as lost and the server goes on.

What may be missing is never silent, for each event bears the state offset at which it was decided, and the last of a
batch the one up to which nothing was left out (`StateEndOffset`). Two things can come apart when the power fails:

    the events end before the state     they were not synced: a gap. `EventLogOpened` says from where to where.
                                        (A kill between the two writes makes one too; nobody was answered then.)
    the state ends before the events    what they tell of was never answered, and never came true: the next
                                        `EventLogOpened` says from which event on (`UndoneFromOffset`)

The second also when the state could not be synced and was read again. When the state's batch cannot even be written,
its events are dropped before they are written.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from coordinator.log.batch import check_batch, key_values
from coordinator.log.batch_builder import BatchBuilder
from coordinator.log.log import Log
from coordinator.log.writer import Writer
from coordinator.protocol.codec import DecodeError, EncodeError
from coordinator.protocol.messages import (
    CommitDecidedValue,
    EventLogClosedKey,
    EventLogClosedValue,
    EventLogOpenedKey,
    EventLogOpenedValue,
    MemberFencedValue,
)
from coordinator.runtime.result import Event, MessageEvent, Record
from coordinator.runtime.serde import Serde, UnknownRecordVersion
from coordinator.world.clock import Clock

_log = logging.getLogger(__name__)

RETRY_MS = 1_000
"""How long a log whose disk took nothing is left alone before it is tried again."""
UNKNOWN = -1
START, RELOAD, RESUME = "start", "reload", "resume"
"""Why `EventLogOpened` is written; the last: events were lost, and now the disk takes them again."""


class Status(StrEnum):
    """Whether events are written. BLOCKED: not until the disk takes them again. FAILED: not before a restart."""

    ACTIVE = "active"
    BLOCKED = "blocked"
    FAILED = "failed"


_ACTIVE = Status.ACTIVE  # Looking a name up in an enum is noticed with every batch.


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRun:
    """What the event logs of a process say of it."""

    run_id: str
    node_id: int
    policy: str


@dataclass(slots=True, kw_only=True)
class Tail:
    """How an event log ends."""

    previous_offset: int = UNKNOWN
    """State offset of the last event."""
    covered_offset: int = UNKNOWN
    """The last `StateEndOffset`."""
    is_closed: bool = False
    undone_from: int = UNKNOWN
    """Offset of the first event that never came true."""


Pending = tuple[Event, int, int, int]
"""An event that was told in this turn, when, and the state log's end before and after what it tells of."""


EncodeEvent = Callable[[Any, int, int, int], tuple[bytes, bytes]]
"""`encode(event, state_offset, time_ms, state_end)`: the key and the value of `event.record(state_offset, time_ms)`, with the
tagged field `StateEndOffset` unless `state_end` is negative."""


class EventLog:
    """The events of one shard. All its methods run on the loop, and none raises for what the disk does."""

    def __init__(
        self,
        index: int,
        log: Log,
        serde: Serde,
        clock: Clock,
        run: ServerRun,
        *,
        make_writer: Callable[[Log, Callable[[int], None], Callable[[OSError], None]], Writer],
        on_written: Callable[[int], None],
        encoders: Mapping[type[Event], EncodeEvent] = MappingProxyType({}),
    ) -> None:
        """The writer's durability is "write". `encoders`: the class of an event -> what encodes it, in place of the codec."""
        self.index = index
        self.log = log
        self.status = Status.ACTIVE
        self.reason = ""
        """Why the status is not ACTIVE."""
        self.written = 0
        self.written_bytes = 0
        self.lost = 0
        """Events that were told and could not be written."""
        self.gaps = 0
        """Openings that found state records before them of which nothing may have been told."""
        self.pending: list[Pending] = []
        self._serde = serde
        self._encoders = encoders
        self._clock = clock
        self._run = run
        self._writer = make_writer(log, lambda _: on_written(index), self._write_failed)
        self._tail = Tail()
        self._opened: EventLogOpenedValue | None = None
        """To be written before the next event: a shard of which nothing was ever told needs no file."""
        self._lost_since_written = 0
        self._retry_at_ms = 0

    # --- beginning and end --------------------------------------------------------------------------------------------

    def open(self, state_offset: int, cause: str) -> None:
        """The state was loaded, and ends at this offset: compares that with what was told of it."""
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
        self._opened = self._opening(state_offset, cause)
        covered, undone_from = max(tail.covered_offset, 0), tail.undone_from
        if covered < state_offset:
            self.gaps += 1
            _log.warning(
                "event=events_missing shard=%d state_offset_from=%d state_offset_to=%d cleanly_closed=%s",
                self.index, covered, state_offset, str(tail.is_closed).lower(),
            )  # fmt: skip
        if undone_from != UNKNOWN:
            _log.warning(
                "event=events_undone shard=%d offset_from=%d offset_to=%d state_offset=%d",
                self.index, undone_from, self.log.end_offset, state_offset,
            )  # fmt: skip
        self.flush(state_offset)

    def drop_after(self, state_offset: int) -> None:
        """The state goes no further: what was decided beyond, in this turn, is not to be."""
        self.pending = [each for each in self.pending if each[3] <= state_offset]

    def finish(self, state_offset: int) -> None:
        """The shard has stopped and its state is on the disk: the last event says that nothing is missing."""
        if self._opened is None and self.log.end_offset:
            now_ms = self._clock.wall_ms()
            closed = MessageEvent(EventLogClosedKey(), EventLogClosedValue(run_id=self._run.run_id))
            self.pending.append((closed, now_ms, state_offset, state_offset))
            self.flush(state_offset)

    def close(self) -> None:
        """Gives the files back; what was written is synced, if the disk still takes it."""
        try:
            if self.log.failed is None:
                self.log.close()
        except OSError as error:
            _log.warning('event=event_log_not_synced shard=%d reason="%s"', self.index, error)
        finally:
            self.log.close_files()

    @property
    def idle(self) -> bool:
        """Whether no sync is under way: then the log may be closed."""
        return self._writer.idle

    # --- writing ------------------------------------------------------------------------------------------------------

    def flush(self, state_end: int) -> None:
        """Writes what was told since the last flush; nothing was left out that concerns the state up to `state_end`."""
        pending, self.pending = self.pending, []
        opened = self._opened
        if not pending and (opened is None or not (opened.state_offset or self.log.end_offset)):
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
        except Exception:  # noqa: BLE001 - a bug here must not cost what the events are about
            _log.exception("event=events_not_encoded shard=%d count=%d", self.index, len(pending))
            self._lose(len(pending))

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
                # A name that is longer than a string may be, once its wrong letters were replaced.
                _log.warning('event=event_not_written shard=%d reason="%s"', self.index, error)
                unwritable += 1
        if not records:
            self._lose(unwritable)
            return
        batch = BatchBuilder()
        batch.add_all(records)
        base_offset = self.log.end_offset
        data = batch.build(base_offset, self._clock.wall_ms())
        self._writer.write(data, batch.count)
        if self.log.end_offset == base_offset:
            self._lose(len(pending))
            return
        self._opened = None
        self._lost_since_written = 0
        tail = self._tail
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
        )

    def _lose(self, count: int) -> None:
        self.lost += count
        self._lost_since_written += count

    def retain(self, now_ms: int) -> None:
        """Deletes the oldest segments as far as age and size demand."""
        if self.log.failed is None:
            try:
                self.log.apply_retention(now_ms)
            except OSError as error:
                _log.warning('event=event_log_retention_failed shard=%d reason="%s"', self.index, error)

    # --- what goes wrong ----------------------------------------------------------------------------------------------

    def _may_try_again(self) -> bool:
        return self.status is Status.BLOCKED and self._clock.monotonic_ms() >= self._retry_at_ms

    def _write_failed(self, error: OSError) -> None:
        if self.log.failed is None:
            self._retry_at_ms = self._clock.monotonic_ms() + RETRY_MS
            self._set_status(Status.BLOCKED, f"the event log cannot be written: {error}; events are lost until it can")
        else:
            self._fail(f"the event log cannot be written: {error}; events are lost until the server is restarted")

    def _fail(self, reason: str) -> None:
        self._set_status(Status.FAILED, reason)

    def _set_status(self, status: Status, reason: str) -> None:
        if status is not self.status:
            _log.log(
                logging.INFO if status is Status.ACTIVE else logging.ERROR,
                'event=event_log_status shard=%d status=%s reason="%s"', self.index, status, reason,
            )  # fmt: skip
        self.status, self.reason = status, reason


def read_tail(log: Log, serde: Serde, state_offset: int) -> Tail:
    """How the log ends, if the state ends at this offset. Reads back from its end, as far as there is something undone.

    Raises OSError, and ValueError, DecodeError or UnknownRecordVersion for what is not understood.
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
                tail.is_closed = isinstance(last, EventLogClosedValue)
                is_last = False
            if tail.covered_offset == UNKNOWN:
                tail.covered_offset = last.state_end_offset
            if UNKNOWN < last.state_end_offset <= state_offset:
                break
            undone = [offset for offset, value in known if _is_undone(value, state_offset)]
            if undone:
                tail.undone_from = undone[0]
        end = header.base_offset
    return tail


def _is_undone(value: Any, state_offset: int) -> bool:
    """Whether an event of a batch that reaches beyond the state's end tells of something that the state has lost.

    What was decided *at* the end changed the state there, unless it is a refusal.
    """
    if value.state_offset != state_offset:
        return bool(value.state_offset > state_offset)
    if isinstance(value, CommitDecidedValue):
        return not value.error_code and any(not each.error_code for topic in value.topics for each in topic.partitions)
    return not isinstance(value, MemberFencedValue | EventLogOpenedValue)
