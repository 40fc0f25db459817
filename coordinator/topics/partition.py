"""One partition: its log, its producers, the appends that wait for the disk and the readers that wait for records.

    append -> log (page cache) -> pending until durable -> `done`, and waiting readers are notified of the new bytes

Readers see only durable records: the high watermark is the writer's durable offset. Readers of committed records see those
before the last stable offset (stability.py). A partition that was never written to has no folder, no files and no log; it
costs a few hundred bytes of memory.

A batch that the log cannot take (ENOSPC, EDQUOT) is refused, and the next one may succeed. After any other disk error (EIO)
the partition takes no more until the server is restarted; durable records are still served.
"""

from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from typing import NamedTuple, Protocol

from coordinator.log.aborted import Aborted
from coordinator.log.batch import BatchHeader, read_header, with_log_append_time
from coordinator.log.catalog import KnownLog
from coordinator.log.end_transaction_marker import end_transaction
from coordinator.log.log import DamagedLog, LastBatch, Log, OffsetOutOfRange
from coordinator.log.writer import LogWriter, MakeWriter
from coordinator.protocol.errors import ErrorCode
from coordinator.runtime.result import Marker
from coordinator.topics.leader_epochs import FROM_THE_START
from coordinator.topics.producer_state import ProducerState
from coordinator.topics.producer_storage import ProducerStorage
from coordinator.topics.producer_walk import Walk, remember_batch
from coordinator.topics.stability import MANY_BYTES, Stability
from coordinator.topics.topic_settings import TopicSettings
from coordinator.world.disk import NO_SPACE, Disk
from coordinator.world.schedule import Schedule
from coordinator.world.threads import RunInThread

_STOP_POLL_MS = 2

Done = Callable[[ErrorCode], None]


def nobody_waits() -> None:
    """For `load_producers`, when nobody waits for the result."""


class Reader(Protocol):
    """A long poll: notified when there is more to read."""

    def notify(self, bytes_count: int) -> None:
        """This many more bytes are readable; 0: the partition was removed."""


class State(Enum):
    """Whether a partition is served. REMOVED is final."""

    ACTIVE = "active"
    FAILED = "failed"
    REMOVED = "removed"


class _Pending(NamedTuple):
    base_offset: int
    end_offset: int
    bytes_count: int
    done: Done


class _End(NamedTuple):
    """The part of a marker that is not in the header of its batch."""

    commit: bool
    coordinator_epoch: int


class Partition:
    """A partition of a user topic. `folder` exists from the first append on."""

    __slots__ = (
        "_appending", "_disk", "_durable_to", "_make_writer", "_pending", "_producer_storage", "_stability",
        "_waiting_for_producers", "_writer", "epochs", "folder", "full", "index", "log", "producers", "producers_loaded",
        "readers", "reason", "settings", "stable_readers", "state", "was_opened",
    )  # fmt: skip

    def __init__(
        self,
        index: int,
        folder: str,
        settings: TopicSettings,
        disk: Disk,
        make_writer: MakeWriter,
        run_in_thread: RunInThread,
        expiration_ms: int,
    ) -> None:
        self.index = index
        self.folder = folder
        self.settings = settings
        self.epochs = FROM_THE_START
        self.log: Log | None = None
        self.producers = ProducerState(expiration_ms)
        self.producers_loaded = False
        """Whether `producers` agrees with the log."""
        self.readers: dict[Reader, None] = {}
        """They wait for durable records."""
        self.stable_readers: dict[Reader, None] = {}
        """They wait for committed records."""
        self.state = State.ACTIVE
        self.reason = ""
        """Why the state is FAILED."""
        self.full = False
        """Whether there was no space for the last batch."""
        self.was_opened = False
        """Whether there may be a folder: a partition without records has none."""
        self._disk = disk
        self._make_writer = make_writer
        self._writer: LogWriter | None = None
        self._pending: deque[_Pending] = deque()
        self._producer_storage = ProducerStorage(disk, folder, run_in_thread, expiration_ms)
        self._waiting_for_producers: list[Callable[[], None]] = []
        self._stability = Stability()
        self._appending = False
        self._durable_to = -1
        """The durable offset that the writer reported while `_append` was not finished."""

    # --- state --------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Topic and index, like the name of the folder."""
        return self.folder.rpartition("/")[2]

    @property
    def is_offline(self) -> bool:
        """Whether the log was damaged when it was opened, so that nothing of it is known (Kafka: an offline partition)."""
        return self.state is State.FAILED and self.log is None

    @property
    def next_offset(self) -> int:
        """The offset of the next record."""
        return self.log.end_offset if self.log is not None else 0

    @property
    def idle(self) -> bool:
        """Whether no disk operation is in progress."""
        return self._writer is None or self._writer.idle

    # --- reading ------------------------------------------------------------------------------------------------------

    @property
    def start_offset(self) -> int:
        return self.log.start_offset if self.log is not None else 0

    @property
    def high_watermark(self) -> int:
        """All readers see only records before this offset."""
        return self._writer.offset_durable if self._writer is not None else 0

    @property
    def last_stable_offset(self) -> int:
        """Readers of committed records see only those before this offset; none while the producers are not loaded."""
        if not self.producers_loaded:
            return self.start_offset
        unstable = self._stability.first_unstable(self.producers.first_open_offset)
        if unstable is None:
            return self.high_watermark
        return min(self.high_watermark, max(unstable, self.start_offset))

    def aborted_between(self, offset: int, offset_end: int) -> list[Aborted]:
        """The aborted transactions that a reader of these offsets must skip. Raises OSError."""
        return self.log.aborted_between(offset, offset_end) if self.log is not None else []

    # --- opening and closing ------------------------------------------------------------------------------------------

    def open(self, known: KnownLog | None = None) -> None:
        """Opens or creates the folder. A damaged log fails the partition. `known`: what the catalog has about the log.

        Raises OSError.
        """
        assert self.log is None
        self.was_opened = True
        try:
            log = Log.open(self._disk, self.folder, self.settings.log, known)
        except DamagedLog as error:
            self._fail(str(error))
            return
        log.last_batches = self._last_batches
        self.log = log
        self._writer = self._make_writer(log, self._durable, self._write_failed)

    def apply(self, settings: TopicSettings) -> None:
        """Changes the settings: they apply to the next batch, the next segment, the next check of retention."""
        self.settings = settings
        if self.log is not None:
            self.log.settings = settings.log

    def keep_producers(self, expiration_ms: int) -> None:
        """Changes how long the state of a producer is kept that does not write."""
        self.producers.expiration_ms = self._producer_storage.expiration_ms = expiration_ms

    def close(self) -> None:
        """Makes everything durable, saves the producers and closes the files. Raises OSError."""
        if self.log is None:
            return
        self.log.close()
        if self.state is State.ACTIVE and self.producers_loaded:
            self._producer_storage.save(self.log, self.producers, self.log.end_offset, durably=False)

    def stop(self, schedule: Schedule, stopped: Callable[[], None]) -> None:
        """Ends the service; calls `stopped` when no disk operation is in progress and the log can be deleted."""
        self.state = State.REMOVED
        self._refuse_pending(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self._stop_waiting_for_producers()
        self._notify_readers(self.readers, 0)
        self._notify_readers(self.stable_readers, 0)
        self._stop_when_idle(schedule, stopped)

    def _stop_when_idle(self, schedule: Schedule, stopped: Callable[[], None]) -> None:
        if self.idle:
            stopped()
        else:
            schedule(_STOP_POLL_MS, lambda: self._stop_when_idle(schedule, stopped))

    # --- producers ----------------------------------------------------------------------------------------------------

    def load_producers(self, now_ms: int, then: Callable[[], None]) -> None:
        """Calls `then` when the producers are loaded, or the partition has failed or is removed; at once if that is quick."""
        if self.producers_loaded or self.state is not State.ACTIVE:
            then()
            return
        self._waiting_for_producers.append(then)
        if len(self._waiting_for_producers) == 1:
            self._producer_storage.load(self.log, now_ms, self._on_producers_loaded)

    def _on_producers_loaded(self, outcome: Walk | Exception) -> None:
        if isinstance(outcome, Exception):
            self._fail(str(outcome))
        else:
            self._use_producers(outcome)
        self._stop_waiting_for_producers()

    def _stop_waiting_for_producers(self) -> None:
        waiting, self._waiting_for_producers = self._waiting_for_producers, []
        for then in waiting:
            then()

    def _use_producers(self, walk: Walk) -> None:
        for segment, entry in walk.aborted:
            # A segment that was compacted meanwhile has its list from the compaction.
            if self.log is not None and segment in self.log.segments:
                segment.aborted.add(entry)
        self.producers = walk.producers
        self._stability.begin(self.producers.open_offsets())
        self.producers_loaded = True
        if self.stable_readers:
            self._notify_readers(self.stable_readers, MANY_BYTES)

    def _last_batches(self) -> dict[int, LastBatch]:
        return self.producers.last_batches()

    # --- appending ----------------------------------------------------------------------------------------------------

    def append(self, batch: bytes, header: BatchHeader, now_ms: int, done: Done) -> None:
        """Writes a batch whose base offset is `next_offset` (Kafka's UnifiedLog.appendAsLeader).

        Calls `done` with NONE when it is durable, or with KAFKA_STORAGE_ERROR; possibly before this returns.
        """
        self._append(batch, header, None, now_ms, done)

    def end_transaction(self, marker: Marker, now_ms: int, done: Done) -> None:
        """Writes a marker, as `append` does; the producers must be loaded.

        Raises INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED if it is stale.
        """
        self.producers.check_marker(
            marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, marker.transaction_version
        )
        batch = end_transaction(
            self.next_offset,
            now_ms,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            commit=marker.commit,
            coordinator_epoch=marker.coordinator_epoch,
            leader_epoch=self.epochs.current,
        )
        if self.settings.log_append_time:
            batch = with_log_append_time(batch, now_ms)
        self._append(batch, read_header(batch), _End(marker.commit, marker.coordinator_epoch), now_ms, done)

    def _append(self, batch: bytes, header: BatchHeader, end: _End | None, now_ms: int, done: Done) -> None:
        if self.log is None and self.state is State.ACTIVE:
            try:
                self.open()
            except OSError as error:
                self.full = error.errno in NO_SPACE
                done(ErrorCode.KAFKA_STORAGE_ERROR)
                return
            self.producers_loaded = self.producers_loaded or self._is_new()
        if self.state is not State.ACTIVE or self.log is None or self._writer is None:
            done(ErrorCode.KAFKA_STORAGE_ERROR)
            return
        base_offset = self.log.end_offset
        self._pending.append(_Pending(base_offset, base_offset + header.record_count, len(batch), done))
        # It may be durable at once, but must not become visible before the state of its transaction is updated.
        self._appending = True
        self._writer.write(batch, header.record_count)
        if self.log.end_offset > base_offset:
            if base_offset and self.log.segments[-1].base_offset == base_offset and self.producers_loaded:
                self._producer_storage.save(self.log, self.producers, base_offset, durably=True)
            self._update_producers(header, base_offset, end, now_ms)
        self._appending = False
        if self._durable_to >= 0:
            durable_to, self._durable_to = self._durable_to, -1
            self._durable(durable_to)

    def _update_producers(self, header: BatchHeader, base_offset: int, end: _End | None, now_ms: int) -> None:
        if header.producer_id < 0:
            return
        if end is None:
            remember_batch(self.producers, header, base_offset, now_ms)
            return
        ended = self.producers.end_transaction(
            header.producer_id,
            header.producer_epoch,
            end.coordinator_epoch,
            base_offset,
            header.max_timestamp,
            now_ms,
            commit=end.commit,
        )
        if ended is None:
            return
        self._stability.ended(base_offset, ended.first_offset)
        if ended.aborted is not None and self.log is not None:
            self.log.segments[-1].aborted.add(ended.aborted)

    def _is_new(self) -> bool:
        return self.log is not None and not self.log.segments and self._producer_storage.is_empty()

    def when_durable(self, end_offset: int, done: Done) -> None:
        """Calls `done` when the log is durable up to `end_offset`: for a retry of a batch that is not durable yet."""
        if end_offset <= self.high_watermark:
            done(ErrorCode.NONE)
        elif self.state is not State.ACTIVE or not self._pending:
            done(ErrorCode.KAFKA_STORAGE_ERROR)
        else:
            last = self._pending[-1]
            self._pending.append(_Pending(last.base_offset, last.end_offset, 0, done))

    # --- deleting -----------------------------------------------------------------------------------------------------

    def delete_before(self, offset: int) -> None:
        """Deletes the records before an offset (Kafka's ReplicaManager.deleteRecords).

        Raises OffsetOutOfRange unless the offset is durable, and OSError.
        """
        if not 0 <= offset <= self.high_watermark:
            raise OffsetOutOfRange(offset)
        if self.log is not None and offset > self.log.start_offset:
            if len(self.log.segments) > 1 and self.log.segments[1].base_offset <= offset:
                self._save_before_deletion(self.log)
            self.log.truncate_before(offset)

    def tail(self, count: int) -> tuple[int, bool]:
        """Where the last `count` records begin, in whole batches, and whether a transaction is open there.

        Raises OSError and DamagedLog.
        """
        offset, open_producers = self.next_offset - count, set[int]()
        for segment in self.log.segments if self.log is not None else ():
            for _, header in segment.walk(0):
                if header.next_offset > offset:
                    return header.base_offset, bool(open_producers)
                if header.is_control:
                    open_producers.discard(header.producer_id)
                elif header.is_transactional:
                    open_producers.add(header.producer_id)
        return self.next_offset, bool(open_producers)

    def truncate_from(self, offset: int, save_catalog: Callable[[], None]) -> None:
        """Loses the batches from the one with `offset` on, as a replica that follows another leader does.

        The partition must be idle, its producers loaded, and no transaction open. `save_catalog`: as in the log. Raises
        OSError; then the partition has failed.
        """
        if self.log is None or offset == self.log.end_offset:
            return
        try:
            self.log.truncate_from(offset, save_catalog)
            self._producer_storage.forget_after(self.log.end_offset)
        except OSError as error:
            self._fail(str(error))
            raise
        self.producers = ProducerState(self.producers.expiration_ms)
        self.producers_loaded = False
        self._writer = self._make_writer(self.log, self._durable, self._write_failed)

    def apply_retention(self, now_ms: int) -> None:
        """Deletes the oldest segments that exceed the retention time or size. Raises OSError."""
        if self.log is not None and self.log.expired_segments(now_ms):
            self._save_before_deletion(self.log)
            self.log.apply_retention(now_ms)

    def _save_before_deletion(self, log: Log) -> None:
        if self.producers_loaded:
            self._producer_storage.save_before_deletion(log, self.producers)

    # --- outcomes of writes -------------------------------------------------------------------------------------------

    def _durable(self, end_offset: int) -> None:
        self.full = False
        if self._appending:
            self._durable_to = end_offset
            return
        stability = self._stability
        stability.durable(end_offset)
        stable_offset = self.last_stable_offset
        pending, durable_bytes, stable_bytes = self._pending, 0, 0
        while pending and pending[0].end_offset <= end_offset:
            base_offset, _, bytes_count, done = pending.popleft()
            durable_bytes += bytes_count
            if base_offset < stable_offset:
                stable_bytes += bytes_count
            elif bytes_count:
                stability.hold(base_offset, bytes_count, begins=self.producers.is_open_at(base_offset))
            done(ErrorCode.NONE)
        stable_bytes += stability.release(stable_offset)
        if durable_bytes:
            self._notify_readers(self.readers, durable_bytes)
        if stable_bytes and self.stable_readers:
            self._notify_readers(self.stable_readers, stable_bytes)

    def _write_failed(self, error: OSError) -> None:
        assert self.log is not None
        if self.log.failed is not None:
            self._fail(str(error))
            return
        self.full = True
        # Only space was missing: batches behind the end of the log are lost, and the log goes on.
        refused: list[_Pending] = []
        while self._pending and self._pending[-1].end_offset > self.log.end_offset:
            refused.append(self._pending.pop())
        if len(refused) > 1 or not self._appending:
            self.producers_loaded = False
        for entry in reversed(refused):
            entry.done(ErrorCode.KAFKA_STORAGE_ERROR)

    def _fail(self, reason: str) -> None:
        if self.state is State.ACTIVE:
            self.state, self.reason = State.FAILED, reason
        self._refuse_pending(ErrorCode.KAFKA_STORAGE_ERROR)

    def _refuse_pending(self, error: ErrorCode) -> None:
        pending, self._pending = self._pending, deque()
        for entry in pending:
            entry.done(error)

    def _notify_readers(self, readers: Iterable[Reader], bytes_count: int) -> None:
        for reader in list(readers):
            reader.notify(bytes_count)
