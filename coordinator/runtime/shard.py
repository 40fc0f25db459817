"""A shard: one log and the groups (or transactional ids) that are stored in it. Here a pure state machine becomes durable.

    submit(operation, request)
        operation(state, request, context, now_ms) -> Result      pure: it changes nothing in the log's state
        replay every record of the result into the state          the only place where that state changes
        add the records to the batch of this turn of the loop
        park the reply
    at the end of the turn
        the batch leaves with those of all other shards, as one entry of the journal
    when the log is durable up to an offset
        release the replies that were parked behind it

So a reply leaves when every record that it depends on is durable; that holds for reads as well. A load replays the same records
through the same code. Kafka's CoordinatorRuntime does the same with snapshots where this reloads.

Operations run one at a time and to their end, in the order of their requests. An operation is a function call, so the mailbox
only holds requests that arrive while another one is running: when a reply leads to a new request in the same turn.

An operation that raises before its result is applied has changed nothing but soft state, at most: the state drops that part
(`restore`), and nobody else notices. There is no undo for a result that fails while it is applied, or when the log cannot take
a batch: the state in memory is ahead of the log, so the shard drops it, loads it again from the log, and refuses every parked
reply, so that the clients retry. A long load is done in slices, one in each turn of the loop, and requests get
COORDINATOR_LOAD_IN_PROGRESS until it ends, as from a Kafka broker that takes over a partition.

A full disk (ENOSPC, EDQUOT) is survived in this way: reads are served, and once a second a write is tried or, if there is none,
the free space is checked. Any other disk error (EIO) is final, because after a failed fdatasync the content of the disk is
unknown: the shard refuses everything until the server is restarted.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar, cast

from coordinator.log.batch_builder import BatchBuilder
from coordinator.log.journaled_log import JournaledLog
from coordinator.log.writer import ClaimLost, MakeWriter
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import Message
from coordinator.runtime.event_log import RELOAD, START, TAKE_OVER, EventLog
from coordinator.runtime.loader import BulkReplayers, Loaded, StateMachine, TransactionalState, load, load_in_slices
from coordinator.runtime.parking import Parking, ReplyTarget
from coordinator.runtime.result import Fact, Marker, Producer, Record, Records, RequestContext, Result, TimerKey
from coordinator.runtime.serde import Serde
from coordinator.runtime.timers import Timers
from coordinator.runtime.turn_writes import TurnWrites
from coordinator.world.clock import Clock
from coordinator.world.disk import NO_SPACE
from coordinator.world.schedule import Handle, Schedule

_log = logging.getLogger(__name__)

BATCH_BYTES_MAX = 1 << 20
"""A turn that has more to write than this is written before it ends. The records of one operation stay in one batch."""
FULL_DISK_RETRY_MS = 1_000
"""How long a shard refuses writes after the disk was full, before it tries one again."""


S = TypeVar("S", bound=StateMachine)
R = TypeVar("R")


class ShardRequest(RequestContext, ReplyTarget, Protocol[R]):
    """A request as the shard sees it: the part that the core may read, and the way to answer it (api/exchange.py)."""

    request: R

    @property
    def writes(self) -> bool:
        """Whether this API may produce records."""

    def encode(self, message: Message | bytes) -> Any:
        """The payload for `send`."""

    def refusal(self, error: KafkaError) -> Message:
        """The response that reports this error."""

    def wait(self) -> None:
        """Called when the operation parks the request inside its state: the reply comes with a later result."""


Operation = Callable[[S, R, RequestContext, int], Result]
"""`operation(state, request, context, now_ms)`. It may raise KafkaError, which becomes the response."""


EncodedRecords = list[tuple[bytes, bytes | None]]
"""Key and value of each record."""


class Status(StrEnum):
    """The state of a shard. FAILED lasts until a restart; ELSEWHERE (another server has the log, or may) until `take_over`."""

    ACTIVE = "active"
    FULL = "full"
    LOADING = "loading"
    FAILED = "failed"
    STOPPED = "stopped"
    ELSEWHERE = "elsewhere"


class Permits(NamedTuple):
    """What a status permits."""

    refusal: ErrorCode | None
    """The answer to every request; None if they are served (writes between two tries of a FULL shard are not)."""
    changes: Literal["run", "defer", "drop"]
    """What happens to a change that no request asked for."""
    writes: bool
    """Whether earlier decisions still go to the log."""
    next: frozenset[Status]
    """The statuses that may follow, besides itself."""


_S, _E, _ANY = Status, ErrorCode, frozenset(Status)
PERMITS = {
    _S.ACTIVE: Permits(None, "run", writes=True, next=_ANY),
    _S.FULL: Permits(None, "run", writes=True, next=_ANY),
    _S.LOADING: Permits(_E.COORDINATOR_LOAD_IN_PROGRESS, "defer", writes=True, next=_ANY),
    _S.FAILED: Permits(_E.COORDINATOR_NOT_AVAILABLE, "drop", writes=False, next=frozenset({_S.ELSEWHERE})),
    _S.STOPPED: Permits(_E.COORDINATOR_NOT_AVAILABLE, "drop", writes=True, next=_ANY - {_S.ACTIVE, _S.FULL}),
    _S.ELSEWHERE: Permits(_E.NOT_COORDINATOR, "drop", writes=False, next=frozenset({_S.LOADING, _S.ACTIVE})),
}
_ACTIVE, _FULL = Status.ACTIVE, Status.FULL  # Looking up a name in an enum costs measurable time in every request.
_NO_RECORDS = Result().records  # Of most results; to ask `Records` for their length costs time in every commit.


class Shard(Generic[S]):
    """The groups whose id hashes to `index`, with their log, timers and parked replies."""

    def __init__(
        self,
        index: int,
        log: JournaledLog,
        make_state: Callable[[], S],
        serde: Serde,
        clock: Clock,
        *,
        make_writer: MakeWriter,
        soon: Callable[[Callable[[], None]], object],
        at_turn_end: Callable[[Callable[[], None]], None],
        schedule: Schedule,
        protocol_schedule: Schedule,
        commit_timeout_ms: int,
        on_fact: Callable[[int, Fact], None],
        on_timer: Callable[[int, TimerKey], None],
        on_durable: Callable[[int], None],
        events: EventLog | None = None,
        bulk_replayers: BulkReplayers | None = None,
    ) -> None:
        """`load` must be called before the first request. `soon` calls back in the next turn of the loop, `at_turn_end` at the
        end of this one, before everything that was written leaves. `schedule` goes by the machine's clock, `protocol_schedule`
        by that of the protocol; `on_timer` is called with each timer that fires.
        """
        self.index = index
        self.log = log
        self.status = Status.ACTIVE
        self.reason = ""
        """Why the status is not ACTIVE, for logs and /health/ready."""
        self.state = make_state()
        self.loaded = Loaded()
        """The counts of the last load."""
        self.parked = Parking()
        self.events = events
        """The log of the core's events, if they are kept."""
        self._make_state = make_state
        self._bulk_replayers = bulk_replayers
        self._serde = serde
        self._clock = clock
        self._soon = soon
        self._at_turn_end = at_turn_end
        self._schedule = schedule
        self._protocol_schedule = protocol_schedule
        self._commit_timeout_ms = commit_timeout_ms
        self._on_fact = on_fact
        self._on_timer = on_timer
        self._on_durable = on_durable
        self._writer = make_writer(log, self._durable, self._write_failed)
        self._timers = Timers(clock, protocol_schedule, self._fire)
        self._writes = TurnWrites(clock)
        self._offset_written = 0
        """The offset of the next record, including the records of this turn that are not in the log yet."""
        self._offset_durable = 0
        self._after: deque[tuple[int, Callable[[], None]]] = deque()
        """Callbacks of results, each with the offset up to which the log must be durable, in ascending order."""
        self._waiting: dict[ShardRequest[Any], None] = {}
        """Requests that wait inside the state for a later result."""
        self._mailbox: deque[Callable[[], None]] = deque()
        self._load_cause = START
        """Why the next load happens, for the event log."""
        self._loading: Iterator[None] | None = None
        """The rest of a load in slices."""
        self._is_reading = False
        """Whether `load` reads the log."""
        self._is_held = False
        """Whether an administrator's reload has not begun to read the log yet."""
        self.watchers: list[Callable[[], None]] = []
        """Called after each result that is applied (`watch`)."""
        self._status_after_load = (Status.ACTIVE, "")
        self._deferred: list[Callable[[], None]] = []
        """Internal changes that wait for the end of a load."""
        self._busy = self._is_draining = False
        self._watchdog: Handle | None = None
        self._full_until_ms = 0
        self._space_check: Handle | None = None

    @property
    def offset_durable(self) -> int:
        """The log is durable up to this offset."""
        return self._offset_durable

    @property
    def offset_written(self) -> int:
        """The offset of the next record; those of this turn count, which are not in the log yet."""
        return self._offset_written

    @property
    def offset_replayed(self) -> int:
        """While a record is replayed: an offset that is not after it, and not before its batch."""
        return self.loaded.offset if self._is_reading or self._loading is not None else self._offset_written

    @property
    def has_unwritten(self) -> bool:
        """Whether records of this turn are not in the log yet."""
        return bool(self._writes.batch.count or self._writes.closed)

    @property
    def awaits_log(self) -> bool:
        """Whether the log is being read from the engine, so that it cannot be loaded yet."""
        return self.status is Status.LOADING and self._loading is None

    @property
    def timers_armed(self) -> int:
        return len(self._timers)

    @property
    def is_settled(self) -> bool:
        """Whether everything that was decided is durable, every reply to it has left, and no log is being read."""
        is_loading = self._loading is not None and not self._is_held
        return self._offset_durable == self._offset_written and not self._after and not is_loading

    def correct_timers(self) -> None:
        """Lets the shard wake up when its next timer is due, and not earlier (`Timers.correct`)."""
        self._timers.correct()

    # --- requests -----------------------------------------------------------------------------------------------------

    def submit(self, operation: Operation[S, R], request: ShardRequest[R]) -> None:
        """Runs an operation on the state. The reply is sent when everything that it depends on is durable.

        An error is sent instead: KafkaError as the operation raised it, COORDINATOR_NOT_AVAILABLE if the log cannot be written
        (in time), NOT_COORDINATOR if a bug made the shard reload, UNKNOWN_SERVER_ERROR if the bug was in this operation.
        """
        if self._busy:
            self._mailbox.append(lambda: self.submit(operation, request))
            return
        self._busy = True
        now_ms = self._clock.wall_ms()
        has_applied = False
        try:
            try:
                if self.status is not _ACTIVE:
                    self._refuse_unless_serving(writes=request.writes)
                result = operation(self.state, request.request, request, now_ms)
            except KafkaError as error:
                result = Result(request.refusal(error), facts=error.facts)
            reply = result.reply
            payload = None if reply is None else request.encode(reply)
            encoded = [] if isinstance(result.records, Records) else self._encode_records(result)
            has_applied = True
            if reply is None:
                self._waiting[request] = None
                request.wait()
            self._apply(result, encoded, now_ms)
            if reply is not None:
                self.park(request, payload)
        except Exception:  # noqa: BLE001 - a bug in one operation must not affect the other groups
            _log.exception("event=operation_failed shard=%d operation=%s", self.index, operation.__name__)
            self._waiting.pop(request, None)
            request.send(request.encode(request.refusal(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))))
            if has_applied or not self._restore(self.state.scope_of(request.request), now_ms):
                self._reload(KafkaError(ErrorCode.NOT_COORDINATOR))
        finally:
            self._busy = False
        if self._writes.batch.size_bytes + self._writes.closed_bytes > BATCH_BYTES_MAX:
            self.flush()
        if self._mailbox:
            self._drain_mailbox()

    def run_internal(self, change: Callable[[S, int], Result]) -> None:
        """Runs `change(state, now_ms)`, which no request asked for: news from another part of the server."""
        self._enter_internal(lambda: self._run_internal(change))

    def _enter_internal(self, run: Callable[[], None]) -> None:
        if self._busy:
            self._mailbox.append(run)
            return
        run()
        if self._mailbox:
            self._drain_mailbox()

    def _drain_mailbox(self) -> None:
        if self._is_draining:
            return  # the caller below goes on
        self._is_draining = True
        try:
            while self._mailbox:
                self._mailbox.popleft()()
        finally:
            self._is_draining = False

    def _run_internal(self, change: Callable[[S, int], Result], scope: str | None = None) -> None:
        """`scope`: the only part of the soft state that the change may touch; None if that is not known."""
        changes = PERMITS[self.status].changes
        if changes != "run":
            if changes == "defer":
                self._deferred.append(lambda: self._enter_internal(lambda: self._run_internal(change, scope)))
            return
        self._busy = True
        now_ms = self._clock.wall_ms()
        has_applied = False
        try:
            result = change(self.state, now_ms)
            encoded = self._encode_records(result)
            has_applied = True
            self._apply(result, encoded, now_ms)
        except Exception:  # noqa: BLE001 - as above
            _log.exception("event=change_failed shard=%d", self.index)
            if has_applied or scope is None or not self._restore(scope, now_ms):
                self._reload(KafkaError(ErrorCode.NOT_COORDINATOR))
        finally:
            self._busy = False

    def _refuse_unless_serving(self, *, writes: bool) -> None:
        refusal = PERMITS[self.status].refusal
        if refusal is None and writes and self._clock.machine_ms() < self._full_until_ms:
            refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
        if refusal is not None:
            raise KafkaError(refusal)

    # --- results ------------------------------------------------------------------------------------------------------

    def _encode_records(self, result: Result) -> EncodedRecords:
        """Encodes the records before any of them is applied: if one cannot be encoded, nothing has happened.

        `Records` encode themselves.
        """
        records = result.records
        return [] if isinstance(records, Records) else list(map(self._serde.encode, records))

    def _apply(self, result: Result, encoded: EncodedRecords, now_ms: int) -> None:
        """Carries out everything that a result asks for, except its own reply. `encoded`: of `_encode_records`."""
        decided_at, records = self._offset_written, result.records
        if records is not _NO_RECORDS:
            if result.producer is None:
                batch, before = self._writes.batch, self._writes.batch.count
                if isinstance(records, Records):
                    records.add_to(batch)
                    records.replay(self.state)
                else:
                    for record in records:
                        self.state.replay(record)
                    batch.add_all(encoded)
                if not before and batch.count and not self._writes.closed:
                    self._at_turn_end(self.flush)
                self._offset_written += batch.count - before
            elif records:
                self._append_transactional(records, encoded, result.producer)
        if result.marker is not None:
            self._append_marker(result.marker)
        for key, delay_ms in result.timers:
            if delay_ms is None:
                self._timers.disarm(key)
            else:
                self._timers.arm(key, delay_ms)
        for context, message in result.replies:
            request: ShardRequest[Any] = context  # type: ignore[assignment]  # the core kept the request that it was given
            self._waiting.pop(request, None)
            self.park(request, request.encode(message))
        if result.facts:
            self._emit(result.facts, now_ms, decided_at)
        for callback in result.after:
            if self._offset_durable == self._offset_written:
                self._soon(callback)
            else:
                self._after.append((self._offset_written, callback))
        for ask in result.asks:
            ask(self.run_internal)

    def _append_transactional(
        self, records: list[Record] | tuple[Record, ...] | Records, encoded: EncodedRecords, producer: Producer
    ) -> None:
        self._flush_at_end_of_turn()
        state, batch = cast(TransactionalState, self.state), BatchBuilder()
        if isinstance(records, Records):
            records.replay_pending(state, producer)
            records.add_to(batch)
        else:
            for record in records:
                state.replay_pending(record, producer)
            batch.add_all(encoded)
        self._writes.add_transactional(batch, producer, self._offset_written)
        self._offset_written += batch.count

    def _append_marker(self, marker: Marker) -> None:
        self._flush_at_end_of_turn()
        cast(TransactionalState, self.state).replay_marker(marker)
        self._writes.add_marker(marker, self._offset_written)
        self._offset_written += 1

    def _flush_at_end_of_turn(self) -> None:
        """Called before every write of a turn; the first one schedules the flush."""
        if not self._writes.batch.count and not self._writes.closed:
            self._at_turn_end(self.flush)

    def _emit(self, facts: Iterable[Fact], now_ms: int, decided_at: int) -> None:
        """Passes on the facts of a result: lines and metrics now, events with the batch of this turn."""
        events = self.events
        for fact in facts:
            event = fact.event
            if event is not None and events is not None:
                if not events.pending:
                    self._flush_at_end_of_turn()
                events.pending.append((event, now_ms, decided_at, self._offset_written))
            if fact.name:
                self._on_fact(self.index, fact)

    def park(self, target: ReplyTarget, payload: Any) -> None:
        """Sends `payload` when everything written so far is durable."""
        if self._writes.batch.count or self._writes.closed:
            self.parked.collected.append((target, payload))
        elif self._offset_durable == self._offset_written:
            target.send(payload)
        else:
            self.parked.park(self._offset_written, self._clock.machine_ms(), target, payload)
            self._watch_parked()

    # --- watching -----------------------------------------------------------------------------------------------------

    def watch(self, on_applied: Callable[[], None]) -> Callable[[], None]:
        """Calls `on_applied` after each result that was applied, and when another server gets the shard.

        The returned function ends that. `on_applied` must not raise, nor submit anything. Nobody pays while nobody watches.
        """
        self.watchers.append(on_applied)
        self._apply = self._apply_watched  # type: ignore[method-assign]

        def end() -> None:
            self.watchers.remove(on_applied)
            if not self.watchers:
                del self._apply

        return end

    def _apply_watched(self, result: Result, encoded: EncodedRecords, now_ms: int) -> None:
        Shard._apply(self, result, encoded, now_ms)
        self._notify_watchers()

    def _notify_watchers(self) -> None:
        for on_applied in self.watchers:
            on_applied()

    # --- writing ------------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Writes the records of this turn to the log, then its events to the event log."""
        if self.has_unwritten and (self.status is _ACTIVE or PERMITS[self.status].writes):
            data, record_count = self._writes.take(self._offset_written)
            self.parked.wait_for(self._offset_written, self._clock.machine_ms())
            self._watch_parked()
            self._writer.write(data, record_count)
        if self.events is not None:
            self.events.flush(self._offset_written)

    @property
    def idle(self) -> bool:
        """Whether everything that was decided is on the disk, or the disk has failed."""
        return self._writer.idle and not (self.has_unwritten and PERMITS[self.status].writes)

    def _durable(self, end_offset: int) -> None:
        self._offset_durable = end_offset
        if self.status is _FULL:
            self._set_status(Status.ACTIVE, "")
        self.parked.release(end_offset)
        after = self._after
        while after and after[0][0] <= end_offset:
            self._soon(after.popleft()[1])
        self._on_durable(self.index)

    def _watch_parked(self) -> None:
        """Makes sure that no reply waits for longer than `commit_timeout_ms`."""
        if self._watchdog is None:
            self._watchdog = self._schedule(self._commit_timeout_ms, self._refuse_overdue)

    def _refuse_overdue(self) -> None:
        self._watchdog = None
        now = self._clock.machine_ms()
        overdue: list[Any] = list(self.parked.take_parked_before(now - self._commit_timeout_ms + 1))
        _refuse(overdue, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        oldest = self.parked.oldest_ms
        if oldest is not None:
            self._watchdog = self._schedule(max(1, oldest + self._commit_timeout_ms - now), self._refuse_overdue)

    # --- failure ------------------------------------------------------------------------------------------------------

    def _write_failed(self, error: OSError) -> None:
        if isinstance(error, ClaimLost) or self.status is Status.ELSEWHERE:
            self.give_up(str(error))
            return
        if error.errno in NO_SPACE and not self.log.failed:
            self._full_until_ms = self._clock.machine_ms() + FULL_DISK_RETRY_MS
            self._set_status(Status.FULL, f"the disk is full: {error}; writes are refused until there is space")
            if self._space_check is None:
                self._space_check = self._schedule(FULL_DISK_RETRY_MS, self._check_space)
        else:
            self._set_status(
                Status.FAILED, f"the log cannot be written: {error}; restart the server when the disk is repaired"
            )
        self._reload(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))

    def _restore(self, scope: str | None, now_ms: int) -> bool:
        """Undoes what an operation that failed before it was applied may have done to soft state; returns whether it could.

        Requests that wait in that part of the soft state are refused; the rest of the shard is not affected.
        """
        state = self.state
        result = state.restore(scope, now_ms)
        if result is None:
            return False
        waiting = [each for each in self._waiting if state.scope_of(each.request) == scope]
        for each in waiting:
            del self._waiting[each]
        _refuse(waiting, KafkaError(ErrorCode.NOT_COORDINATOR))
        self._apply(result, self._encode_records(result), now_ms)
        return True

    def fail_over(self, for_ms: int) -> int:
        """Loads the log again, as another broker would that takes the partition over; returns how many requests it refused.

        Requests that wait get NOT_COORDINATOR. For `for_ms`, by the protocol's clock, and until the log is read, others get
        COORDINATOR_LOAD_IN_PROGRESS. What was decided before is in the log. It must be ACTIVE, LOADING or FULL, with its log.
        """
        assert not self._busy
        assert not self.awaits_log
        self.flush()
        refused = len(self.parked) + len(self._waiting)
        self._reload(KafkaError(ErrorCode.NOT_COORDINATOR), for_ms)
        return refused

    # --- several servers ----------------------------------------------------------------------------------------------

    def await_log(self) -> None:
        """Refuses requests with COORDINATOR_LOAD_IN_PROGRESS: this server has claimed the log and reads it (`take_over`)."""
        self._enter(Status.LOADING, "the log is read from the engine")

    def take_over(self) -> None:
        """Loads the log, which is complete, and serves it. Sessions and rebalances start from the beginning, as in Kafka."""
        self._enter(Status.ACTIVE, "")
        self._load_cause = TAKE_OVER
        self._load_again(0)

    def hand_over(self, reason: str) -> None:
        """Accepts nothing more (NOT_COORDINATOR). What was decided is written; `give_up` follows when it is durable.

        Requests that wait inside the state are refused now, because nothing will answer them.
        """
        self.flush()
        if self.events is not None:
            self.events.finish(self._offset_written)
        self._loading = None
        self._deferred.clear()
        self._timers.clear()
        self._enter(Status.ELSEWHERE, reason)
        self._refuse_waiting()

    def give_up(self, reason: str) -> None:
        """Drops the state, and refuses with NOT_COORDINATOR what waits: another server has the log, or may have it."""
        self._loading = None
        self._deferred.clear()
        self._enter(Status.ELSEWHERE, reason)
        self._writes.clear()
        self._after.clear()
        self._timers.clear()
        parked: list[Any] = self.parked.take_all()
        self.state, self.loaded = self._make_state(), Loaded()
        self._offset_written = self._offset_durable = self._writer.offset_durable
        if self.events is not None:
            self.events.give_up()
        _refuse(parked, KafkaError(ErrorCode.NOT_COORDINATOR))
        self._refuse_waiting()

    def _refuse_waiting(self) -> None:
        waiting = list(self._waiting)
        self._waiting.clear()
        _refuse(waiting, KafkaError(ErrorCode.NOT_COORDINATOR))
        self._notify_watchers()

    # --- reloading ----------------------------------------------------------------------------------------------------

    def _reload(self, error: KafkaError, hold_ms: int = 0) -> None:
        """Drops the state that the log does not have, and refuses every request that waits with `error`.

        `hold_ms`: when the load begins.
        """
        self._writes.clear()
        requests: list[Any] = [*self.parked.take_all(), *self._waiting]
        self._waiting.clear()
        self._after.clear()
        self._timers.clear()
        if self.status is Status.FAILED:
            self._offset_written = self._offset_durable
            if self.events is not None:
                self.events.drop_after(self._offset_durable)
        else:
            self._load_again(hold_ms)
        _refuse(requests, error)

    def _load_again(self, hold_ms: int) -> None:
        """Loads the state from the log: at once if that is quick, else in slices."""
        if self._loading is None:
            self._status_after_load = self.status, self.reason
        self.state, self.loaded = self._make_state(), Loaded()
        self._offset_written, self._offset_durable = self.log.end_offset, self._writer.offset_durable
        slices = self._loading = load_in_slices(self.log, self._serde, self.state, self.loaded, self._bulk_replayers)
        self._is_held = hold_ms > 0
        if self._is_held:
            self._enter(Status.LOADING, "an administrator lets it load its log again")
            self._protocol_schedule(hold_ms, lambda: self._go_on_loading(slices))
        else:
            self._go_on_loading(slices)

    def _go_on_loading(self, slices: Iterator[None]) -> None:
        if self._loading is not slices:
            return  # stopped, or begun again
        self._is_held = False
        try:
            next(slices)
        except StopIteration:
            self._loading = None
            self._enter(*self._status_after_load)
            self._loaded()
            deferred, self._deferred = self._deferred, []
            for change in deferred:
                change()
        except Exception as error:  # noqa: BLE001 - what the log says cannot be served
            _log.exception("event=load_failed shard=%d", self.index)
            self._loading = None
            self._set_status(
                Status.FAILED, f"the log cannot be loaded: {error}; restart the server when it is repaired"
            )
        else:
            self._enter(Status.LOADING, "the state is loaded again from the log")
            self._soon(lambda: self._go_on_loading(slices))

    def _check_space(self) -> None:
        """Makes the shard active again when there is space, even if nobody writes. The next write is the proof."""
        self._space_check = None
        if self.status not in (Status.FULL, Status.LOADING):
            return
        if self.log.has_room:
            self._set_status(Status.ACTIVE, "")
        else:
            self._space_check = self._schedule(FULL_DISK_RETRY_MS, self._check_space)

    def _set_status(self, status: Status, reason: str) -> None:
        if self._loading is not None:
            if status is not Status.FAILED:
                self._status_after_load = status, reason
                return
            self._loading = None
        if status is not self.status:
            if status not in PERMITS[self.status].next:
                return  # a full disk, for example, does not let a stopped shard serve again
            _log.log(
                logging.INFO if status is Status.ACTIVE else logging.ERROR,
                "event=shard_status shard=%d status=%s reason=%s", self.index, status, reason,
            )  # fmt: skip
        self._enter(status, reason)

    def _enter(self, status: Status, reason: str) -> None:
        assert status is self.status or status in PERMITS[self.status].next, f"{status} after {self.status}"
        self.status, self.reason = status, reason

    # --- start, stop and time -----------------------------------------------------------------------------------------

    def load(self) -> int:
        """Rebuilds the state from the log and starts its timers; returns the number of records read.

        Raises DamagedLog, DecodeError or UnknownRecordVersion: a log that is not fully understood is not served.
        """
        state, self.loaded = self._make_state(), Loaded()
        self._is_reading = True
        try:
            load(self.log, self._serde, state, self._bulk_replayers, self.loaded)
        finally:
            self._is_reading = False
        self.state = state
        self._loaded()
        return self.loaded.records

    def _loaded(self) -> None:
        """Starts to serve the state that was loaded."""
        state, skipped = self.state, self.loaded.records_skipped
        if skipped:
            _log.warning("event=records_not_applied shard=%d of_unknown_type=%d", self.index, skipped)
        self._offset_written = self.log.end_offset
        self._offset_durable = self._writer.offset_durable
        self._timers.clear()
        if self.events is not None:
            self.events.open(self._offset_written, self._load_cause)
        self._load_cause = RELOAD
        now_ms = self._clock.wall_ms()
        result = state.loaded(now_ms)
        self._apply(result, self._encode_records(result), now_ms)

    def stop(self) -> None:
        """Ends the service: no timer fires, no request is accepted, earlier decisions are written, and durable when `idle`.

        Requests that still arrive come from the server itself, such as the markers of a transaction that are sent when
        another shard's log is durable. They are repeated after the next start.
        """
        self._timers.clear()
        self._loading = None
        if self._watchdog is not None:
            self._watchdog.cancel()
            self._watchdog = None
        if self._space_check is not None:
            self._space_check.cancel()
            self._space_check = None
        self.flush()
        if Status.STOPPED in PERMITS[self.status].next:
            self._enter(Status.STOPPED, self.reason)

    def _fire(self, key: TimerKey) -> None:
        if self.status is not Status.ACTIVE and self._clock.machine_ms() < self._full_until_ms:
            self._timers.arm(key, FULL_DISK_RETRY_MS)
            return
        self._on_timer(self.index, key)
        scope = self.state.scope_of_timer(key)
        self._enter_internal(lambda: self._run_internal(lambda state, now_ms: state.fire(key, now_ms), scope))


def _refuse(requests: Iterable[ShardRequest[Any]], error: KafkaError) -> None:
    for request in requests:
        request.send(request.encode(request.refusal(error)))
