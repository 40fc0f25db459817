"""One log and the groups it carries: where a pure state machine becomes durable.

    submit -> handle -> replay -> batch (one per turn of the loop) -> write, fdatasync -> release the replies

Records of a transaction, and the marker that ends one, are batches of their own; a turn that has such writes all its batches
at once.

Requests run one at a time, to their end, in the order they came: a handler is a function call, so the mailbox only holds
what arrives while another request is being handled (a reply that leads to a new request in the same turn).

When the log cannot take a batch, memory is ahead of it. There is no undo: the shard drops its state and loads it again from
the log, and everybody whose reply was parked is told to ask again. A full disk (ENOSPC, EDQUOT) is survived like that: once
in a while a write is tried again, or the free space is looked at if nobody writes. Any other error of the disk (EIO) is
final, because after a failed fdatasync nobody knows what the disk holds: the shard refuses everything until a restart.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar, cast

from coordinator.log.batch import TRANSACTIONAL
from coordinator.log.batch_builder import BatchBuilder
from coordinator.log.end_transaction_marker import end_transaction
from coordinator.log.log import Log
from coordinator.log.writer import Writer
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import Message
from coordinator.runtime.event_log import RELOAD, START, EventLog
from coordinator.runtime.loader import BulkReplayers, Loaded, StateMachine, TransactionalState, load
from coordinator.runtime.parking import Parking, ReplyTarget
from coordinator.runtime.result import Fact, Marker, Producer, Record, Records, RequestContext, Result, TimerKey
from coordinator.runtime.serde import Serde
from coordinator.runtime.timers import Handle, Schedule, Timers
from coordinator.world.clock import Clock
from coordinator.world.disk import NO_SPACE

_log = logging.getLogger(__name__)

BATCH_BYTES_MAX = 1 << 20
"""A batch is closed early past this size; one operation's records always stay in one batch."""
FULL_DISK_RETRY_MS = 1_000
"""How long a shard whose disk is full refuses writes before it tries one again."""


S = TypeVar("S", bound=StateMachine)
R = TypeVar("R")


class ShardRequest(RequestContext, ReplyTarget, Protocol[R]):
    """A request with the way back to its asker (api/exchange.py)."""

    request: R

    @property
    def writes(self) -> bool:
        """Whether this API may produce records."""
        ...

    def encode(self, message: Message | bytes) -> Any: ...
    def refusal(self, error: KafkaError) -> Message: ...
    def wait(self) -> None: ...


Operation = Callable[[S, R, RequestContext, int], Result]
"""`operation(state, request, context, now_ms)`."""


class Status(StrEnum):
    """Whether a shard answers. ACTIVE: yes. FULL: reads only, until the disk takes a write. FAILED: no, until a restart.

    STOPPED: no; what was decided before is on its way to the disk.
    """

    ACTIVE = "active"
    FULL = "full"
    FAILED = "failed"
    STOPPED = "stopped"


_ACTIVE = Status.ACTIVE  # Looking a name up in an enum is noticed with every request.


class Shard(Generic[S]):
    """The groups whose id hashes to `index`, their log, timers and parked replies."""

    def __init__(
        self,
        index: int,
        log: Log,
        make_state: Callable[[], S],
        serde: Serde,
        clock: Clock,
        *,
        make_writer: Callable[[Log, Callable[[int], None], Callable[[OSError], None]], Writer],
        soon: Callable[[Callable[[], None]], object],
        schedule: Schedule,
        commit_timeout_ms: int,
        on_fact: Callable[[int, Fact], None],
        on_durable: Callable[[int], None],
        events: EventLog | None = None,
        bulk_replayers: BulkReplayers | None = None,
    ) -> None:
        self.index = index
        self.log = log
        self.status = Status.ACTIVE
        self.reason = ""
        """Why the status is not ACTIVE, for logs and /health/ready."""
        self.state = make_state()
        self.loaded = Loaded()
        """What the last load read."""
        self.parked = Parking()
        self.events = events
        """Where the core's events go; None: nowhere."""
        self._make_state = make_state
        self._bulk_replayers = bulk_replayers
        self._serde = serde
        self._clock = clock
        self._soon = soon
        self._schedule = schedule
        self._commit_timeout_ms = commit_timeout_ms
        self._on_fact = on_fact
        self._on_durable = on_durable
        self._writer = make_writer(log, self._durable, self._write_failed)
        self._timers = Timers(clock.monotonic_ms, schedule, self._fire)
        self._batch = BatchBuilder()
        self._sealed: list[bytes] = []
        """Batches of this turn that are complete; the open one comes behind them."""
        self._sealed_records = 0
        self._sealed_bytes = 0
        self._sealed_ms = 0
        """The time that they all bear."""
        self._offset_written = 0
        self._offset_durable = 0
        self._after: deque[tuple[int, Callable[[], None]]] = deque()
        """What follows once the log is durable up to an offset; they only grow."""
        self._waiting: dict[ShardRequest[Any], None] = {}
        self._mailbox: deque[Callable[[], None]] = deque()
        self._is_first_load = True
        self._busy = False
        self._watchdog: Handle | None = None
        self._full_until_ms = 0
        self._space_watch: Handle | None = None

    @property
    def offset_durable(self) -> int:
        return self._offset_durable

    @property
    def has_unwritten(self) -> bool:
        """Whether something was decided in this turn that is not yet in the log."""
        return bool(self._batch.count or self._sealed)

    @property
    def timers_armed(self) -> int:
        return len(self._timers)

    # --- loading ------------------------------------------------------------------------------------------------------

    def load(self) -> int:
        """Rebuilds the state from the log and starts its timers; returns the number of records read.

        Raises DamagedLog, DecodeError or UnknownRecordVersion: a log that is not understood is not served.
        """
        state = self._make_state()
        loaded = load(self.log, self._serde, state, self._bulk_replayers)
        if loaded.records_skipped:
            _log.warning("event=records_not_applied shard=%d of_unknown_type=%d", self.index, loaded.records_skipped)
        self.loaded = loaded
        self.state = state
        self._offset_written = self.log.end_offset
        self._offset_durable = self._writer.offset_durable
        self._timers.clear()
        if self.events is not None:
            self.events.open(self._offset_written, START if self._is_first_load else RELOAD)
        self._is_first_load = False
        now_ms = self._clock.wall_ms()
        self._apply(state.loaded(now_ms), now_ms)
        return loaded.records

    # --- requests -----------------------------------------------------------------------------------------------------

    def submit(self, operation: Operation[S, R], exchange: ShardRequest[R]) -> None:
        """Runs one request against the state; its reply leaves when everything it depends on is durable."""
        if self._busy:
            self._mailbox.append(lambda: self._run(operation, exchange))
            return
        self._run(operation, exchange)
        if self._mailbox:
            self._drain()

    def run_internal(self, change: Callable[[S, int], Result]) -> None:
        """Lets the state react to something that nobody asked for: `change(state, now_ms)`."""
        if self._busy:
            self._mailbox.append(lambda: self._run_internal(change))
            return
        self._run_internal(change)
        if self._mailbox:
            self._drain()

    def _run_internal(self, change: Callable[[S, int], Result]) -> None:
        """Runs what no request asked for; a bug in it costs a reload, like one in a request."""
        if self.status in (Status.FAILED, Status.STOPPED):
            return
        self._busy = True
        try:
            now_ms = self._clock.wall_ms()
            self._apply(change(self.state, now_ms), now_ms)
        except Exception:  # noqa: BLE001 - as above
            _log.exception("event=change_failed shard=%d", self.index)
            self._reload(KafkaError(ErrorCode.NOT_COORDINATOR))
        finally:
            self._busy = False

    def park(self, asker: ReplyTarget, payload: Any) -> None:
        """Sends `payload` when everything written so far is durable."""
        if self._batch.count or self._sealed:
            self.parked.collected.append((asker, payload))
        elif self._offset_durable == self._offset_written:
            asker.send(payload)
        else:
            self.parked.park(self._offset_written, self._clock.monotonic_ms(), asker, payload)
            self._watch()

    def _run(self, operation: Operation[S, R], exchange: ShardRequest[R]) -> None:
        self._busy = True
        now_ms = self._clock.wall_ms()
        try:
            try:
                if self.status is not _ACTIVE:
                    self._refuse_unless_serving(writes=exchange.writes)
                result = operation(self.state, exchange.request, exchange, now_ms)
            except KafkaError as error:
                result = Result(exchange.refusal(error), facts=error.facts)
            reply = result.reply
            if reply is None:
                self._waiting[exchange] = None
                exchange.wait()
            self._apply(result, now_ms)
            if reply is not None:
                self.park(exchange, exchange.encode(reply))
        except Exception:  # noqa: BLE001 - a bug must not take the other groups down
            _log.exception("event=operation_failed shard=%d operation=%s", self.index, operation.__name__)
            exchange.send(exchange.encode(exchange.refusal(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))))
            self._reload(KafkaError(ErrorCode.NOT_COORDINATOR))
        finally:
            self._busy = False
        if self._batch.size_bytes + self._sealed_bytes > BATCH_BYTES_MAX:
            self.flush()

    def _drain(self) -> None:
        while self._mailbox:
            self._mailbox.popleft()()

    def _apply(self, result: Result, now_ms: int) -> None:
        decided_at = self._offset_written
        if result.records:
            if result.producer is None:
                self._append(result.records)
            else:
                self._append_pending(result.records, result.producer)
        if result.marker is not None:
            self._append_marker(result.marker)
        for key, delay_ms in result.timers:
            if delay_ms is None:
                self._timers.disarm(key)
            else:
                self._timers.arm(key, delay_ms)
        for context, message in result.replies:
            exchange: ShardRequest[Any] = context  # type: ignore[assignment]  # the core keeps the call it was given, opaque
            self._waiting.pop(exchange, None)
            self.park(exchange, exchange.encode(message))
        if result.facts:
            self._say(result.facts, now_ms, decided_at)
        for following in result.after:
            if self._offset_durable == self._offset_written:
                self._soon(following)
            else:
                self._after.append((self._offset_written, following))

    def _say(self, facts: Iterable[Fact], now_ms: int, decided_at: int) -> None:
        events = self.events
        for fact in facts:
            event = fact.event
            if event is not None and events is not None:
                if not events.pending and not self._batch.count and not self._sealed:
                    self._soon(self.flush)
                events.pending.append((event, now_ms, decided_at, self._offset_written))
            if fact.name:
                self._on_fact(self.index, fact)

    def _append(self, records: list[Record] | tuple[Record, ...] | Records) -> None:
        batch = self._batch
        before = batch.count
        if not before and not self._sealed:
            self._soon(self.flush)
        if isinstance(records, list | tuple):
            replay, encode = self.state.replay, self._serde.encode
            for record in records:
                replay(record)
                batch.add(*encode(record))
        else:
            records.replay(self.state)
            records.add_to(batch)
        self._offset_written += batch.count - before

    def _append_pending(self, records: Iterable[Record] | Records, producer: Producer) -> None:
        self._seal_batch()
        state, encode, batch = cast(TransactionalState, self.state), self._serde.encode, BatchBuilder()
        for record in records:
            state.replay_pending(record, producer)
            batch.add(*encode(record))
        self._seal(
            batch.build(
                self._offset_written,
                self._sealed_ms,
                producer_id=producer.id,
                producer_epoch=producer.epoch,
                attributes=TRANSACTIONAL,
            ),
            batch.count,
        )
        self._offset_written += batch.count

    def _append_marker(self, marker: Marker) -> None:
        self._seal_batch()
        cast(TransactionalState, self.state).replay_marker(marker)
        self._seal(
            end_transaction(
                self._offset_written,
                self._sealed_ms,
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                commit=marker.commit,
                coordinator_epoch=marker.coordinator_epoch,
            ),
            1,
        )
        self._offset_written += 1

    def _seal_batch(self) -> None:
        """Ends the open batch: what comes next is none of it."""
        if not self._sealed:
            self._sealed_ms = self._clock.wall_ms()
        batch = self._batch
        if batch.count:
            self._batch = BatchBuilder()
            self._seal(batch.build(self._offset_written - batch.count, self._sealed_ms), batch.count)
        elif not self._sealed:
            self._soon(self.flush)

    def _seal(self, batch: bytes, record_count: int) -> None:
        self._sealed.append(batch)
        self._sealed_records += record_count
        self._sealed_bytes += len(batch)

    # --- durability ---------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Writes what was decided since the last flush, then what was told of it."""
        self._write_batches()
        if self.events is not None:
            self.events.flush(self._offset_written)

    def _write_batches(self) -> None:
        if self.status is Status.FAILED:
            return
        batch = self._batch
        if self._sealed:
            self._seal_batch()
            content, record_count = b"".join(self._sealed), self._sealed_records
            self._forget_sealed()
        elif batch.count:
            self._batch = BatchBuilder()
            content, record_count = batch.build(self.log.end_offset, self._clock.wall_ms()), batch.count
        else:
            return
        self.parked.wait_for(self._offset_written, self._clock.monotonic_ms())
        self._watch()
        self._writer.write(content, record_count)

    def _forget_sealed(self) -> None:
        self._sealed, self._sealed_records, self._sealed_bytes = [], 0, 0

    def stop(self) -> None:
        """No timer fires and no request is taken any more; what was decided is written, and durable once `idle`.

        Those that still ask are parts of the server itself: markers of a transaction, say, that begin when another shard's
        log is durable. They come again after the next start.
        """
        self._timers.clear()
        if self._watchdog is not None:
            self._watchdog.cancel()
            self._watchdog = None
        if self._space_watch is not None:
            self._space_watch.cancel()
            self._space_watch = None
        self.flush()
        if self.status is not Status.FAILED:
            self.status = Status.STOPPED

    @property
    def idle(self) -> bool:
        """Whether the disk has all that was decided, or has failed: then nothing more is on its way to it."""
        return self._writer.idle and (self.status is Status.FAILED or not self.has_unwritten)

    def _durable(self, end_offset: int) -> None:
        self._offset_durable = end_offset
        if self.status is Status.FULL:
            self._set_status(Status.ACTIVE, "")
        self.parked.release(end_offset)
        after = self._after
        while after and after[0][0] <= end_offset:
            self._soon(after.popleft()[1])
        self._on_durable(self.index)

    def _write_failed(self, error: OSError) -> None:
        if error.errno in NO_SPACE and not self.log.failed:
            self._full_until_ms = self._clock.monotonic_ms() + FULL_DISK_RETRY_MS
            self._set_status(Status.FULL, f"the disk is full: {error}; writes are refused until there is space")
            if self._space_watch is None:
                self._space_watch = self._schedule(FULL_DISK_RETRY_MS, self._look_for_space)
        else:
            self._set_status(
                Status.FAILED, f"the log cannot be written: {error}; restart the server once the disk is sound"
            )
        self._reload(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))

    def _reload(self, error: KafkaError) -> None:
        """Forgets what the log does not hold, and tells everybody who was waiting to ask again."""
        self._batch = BatchBuilder()
        self._forget_sealed()
        askers: list[Any] = [*self.parked.take_all(), *self._waiting]
        self._waiting.clear()
        self._after.clear()
        self._timers.clear()
        if self.status is Status.FAILED:
            self._offset_written = self._offset_durable
            if self.events is not None:
                self.events.drop_after(self._offset_durable)
        else:
            self.load()
        for asker in askers:
            asker.send(asker.encode(asker.refusal(error)))

    def _look_for_space(self) -> None:
        """So that health and metrics know of space although nobody writes; the next write is the proof."""
        self._space_watch = None
        if self.status is not Status.FULL:
            return
        if self.log.has_room:
            self._set_status(Status.ACTIVE, "")
        else:
            self._space_watch = self._schedule(FULL_DISK_RETRY_MS, self._look_for_space)

    def _set_status(self, status: Status, reason: str) -> None:
        if status is not self.status:
            _log.log(
                logging.INFO if status is Status.ACTIVE else logging.ERROR,
                'event=shard_status shard=%d status=%s reason="%s"', self.index, status, reason,
            )  # fmt: skip
        self.status, self.reason = status, reason

    def _refuse_unless_serving(self, *, writes: bool) -> None:
        if self.status is Status.ACTIVE:
            return
        refuses_all = self.status in (Status.FAILED, Status.STOPPED)
        if refuses_all or (writes and self._clock.monotonic_ms() < self._full_until_ms):
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _watch(self) -> None:
        if self._watchdog is None:
            self._watchdog = self._schedule(self._commit_timeout_ms, self._refuse_overdue)

    def _refuse_overdue(self) -> None:
        self._watchdog = None
        now = self._clock.monotonic_ms()
        overdue: list[Any] = list(self.parked.take_parked_before(now - self._commit_timeout_ms + 1))
        for asker in overdue:
            asker.send(asker.encode(asker.refusal(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))))
        oldest = self.parked.oldest_ms
        if oldest is not None:
            self._watchdog = self._schedule(max(1, oldest + self._commit_timeout_ms - now), self._refuse_overdue)

    # --- time ---------------------------------------------------------------------------------------------------------

    def _fire(self, key: TimerKey) -> None:
        if self.status is not Status.ACTIVE and self._clock.monotonic_ms() < self._full_until_ms:
            self._timers.arm(key, FULL_DISK_RETRY_MS)
            return
        self.run_internal(lambda state, now_ms: state.fire(key, now_ms))
