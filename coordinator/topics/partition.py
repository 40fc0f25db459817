"""One partition: its log, what it remembers of producers, who waits for its disk and who waits for its records.

    append -> log (page cache) -> pending until the disk has it -> `done`, and the waiting readers hear of the new bytes

Readers see only what is durable: the high watermark is the writer's durable offset. Those who ask for what is committed
see what lies before the last stable offset (stability.py). A partition to which nothing was ever written has no folder, no
file and no log; it costs a few hundred bytes of memory.

A batch that the log cannot take (ENOSPC, EDQUOT) is refused and the next one may succeed. When the disk broke its word (EIO),
the partition takes no more until the server is restarted; what is durable is still served.
"""

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import Enum
from typing import NamedTuple, Protocol

from coordinator.log.aborted import Aborted
from coordinator.log.batch import BatchHeader, CorruptBatch, end_transaction, read_header, with_log_append_time
from coordinator.log.log import DamagedLog, LastBatch, Log, LogSettings, OffsetOutOfRange
from coordinator.log.writer import Writer
from coordinator.protocol.errors import ErrorCode
from coordinator.runtime.result import Marker
from coordinator.runtime.timers import Schedule
from coordinator.topics.producer_snapshot import forget, load, save
from coordinator.topics.producer_state import ProducerState
from coordinator.topics.producer_walk import WALK_BYTES, Walk, remember_batch
from coordinator.topics.stability import MANY_BYTES, Stability
from coordinator.topics.topic_settings import LONG_MAX, TopicSettings
from coordinator.world.disk import NO_SPACE, Disk
from coordinator.world.worker import RunInWorker

LEADER_EPOCH = 0
"""One node leads every partition from its creation on."""
_STOP_POLL_MS = 2

Done = Callable[[ErrorCode], None]
MakeWriter = Callable[[Log, Callable[[int], None], Callable[[OSError], None]], Writer]


class Reader(Protocol):
    """A long poll: told when there is more to read."""

    def arrived(self, bytes_count: int) -> None:
        """So many bytes became readable, or the partition went away (0)."""


class State(Enum):
    """Whether a partition is served; REMOVED is final."""

    ACTIVE = "active"
    FAILED = "failed"
    REMOVED = "removed"


class _Pending(NamedTuple):
    base_offset: int
    end_offset: int
    bytes_count: int
    done: Done


class _End(NamedTuple):
    """What a marker says beyond the header of its batch."""

    commit: bool
    coordinator_epoch: int


class Partition:
    """A partition of a user topic. `folder` exists from the first append on."""

    __slots__ = (
        "_appending", "_disk", "_durable_to", "_expiration_ms", "_make_writer", "_pending", "_producers_awaited",
        "_producers_known", "_run_in_worker", "_saved_to", "_stability", "_writer", "folder", "full", "index", "log",
        "producers", "readers", "reason", "settings", "stable_readers", "state",
    )  # fmt: skip

    def __init__(
        self,
        index: int,
        folder: str,
        settings: TopicSettings,
        disk: Disk,
        make_writer: MakeWriter,
        run_in_worker: RunInWorker,
        expiration_ms: int,
    ) -> None:
        self.index = index
        self.folder = folder
        self.settings = settings
        self.log: Log | None = None
        self.producers = ProducerState(expiration_ms)
        self.readers: dict[Reader, None] = {}
        """Those who wait for anything that is durable."""
        self.stable_readers: dict[Reader, None] = {}
        """Those who wait for what is decided."""
        self.state = State.ACTIVE
        self.reason = ""
        """Why the state is FAILED."""
        self.full = False
        """Whether the disk had no space for the last batch."""
        self._disk = disk
        self._make_writer = make_writer
        self._writer: Writer | None = None
        self._pending: deque[_Pending] = deque()
        self._run_in_worker = run_in_worker
        self._producers_known = False
        self._producers_awaited: list[Callable[[], None]] = []
        self._expiration_ms = expiration_ms
        self._saved_to = 0
        """The offset of the last snapshot that this process made durable."""
        self._stability = Stability()
        self._appending = False
        self._durable_to = -1
        """What the writer said was durable while the batch was not entered yet."""

    # --- reading ------------------------------------------------------------------------------------------------------

    @property
    def start_offset(self) -> int:
        return self.log.start_offset if self.log is not None else 0

    @property
    def high_watermark(self) -> int:
        """Readers see the records before it."""
        return self._writer.offset_durable if self._writer is not None else 0

    @property
    def last_stable_offset(self) -> int:
        """Readers of what is committed see the records before it: none while it is not known what producers did."""
        if not self._producers_known:
            return self.start_offset
        unstable = self._stability.first_unstable(self.producers.first_open_offset)
        if unstable is None:
            return self.high_watermark
        return min(self.high_watermark, max(unstable, self.start_offset))

    def aborted_between(self, offset: int, offset_end: int) -> list[Aborted]:
        """The aborted transactions that a reader of these offsets must leave out. OSError."""
        return self.log.aborted_between(offset, offset_end) if self.log is not None else []

    # --- writing ------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Opens or makes the folder. A damaged log fails the partition; OSError is the caller's."""
        assert self.log is None
        try:
            log = Log.open(self._disk, self.folder, _log_settings(self.settings))
        except DamagedLog as error:
            self._fail(str(error))
            return
        log.last_batches = self._last_batches
        self.log = log
        self._writer = self._make_writer(log, self._durable, self._write_failed)

    def apply(self, settings: TopicSettings) -> None:
        """Changed settings count from here on: for the next batch, the next segment, the next look at what is old."""
        self.settings = settings
        if self.log is not None:
            self.log.settings = _log_settings(settings)

    @property
    def producers_known(self) -> bool:
        """Whether `producers` says what the log says."""
        return self._producers_known

    def know_producers(self, now_ms: int, then: Callable[[], None]) -> None:
        """Calls `then` when the producers are known, or the partition has failed or gone: at once if that is quick.

        What the snapshot does not tell is read from the batch headers; when there is much of it, in a worker.
        """
        if self._producers_known or self.state is not State.ACTIVE:
            then()
            return
        self._producers_awaited.append(then)
        if len(self._producers_awaited) == 1:
            self._load_producers(now_ms)

    def _load_producers(self, now_ms: int) -> None:
        try:
            walk = self._unknown_part(now_ms)
        except OSError as error:
            self._producers_loaded(error, None)
            return

        def walked(outcome: BaseException | None) -> None:
            walk.release()
            self._producers_loaded(outcome, walk)

        if walk.bytes_left > WALK_BYTES:
            self._run_in_worker(walk.go, walked)
            return
        try:
            walk.go()
        except (OSError, DamagedLog, CorruptBatch) as error:
            walked(error)
        else:
            walked(None)

    def _unknown_part(self, now_ms: int) -> Walk:
        """Begins with what the snapshot says; the rest is to be walked."""
        producers = ProducerState(self._expiration_ms)
        if self.log is None:
            return Walk([], 0, 0, producers, now_ms)
        snapshot = load(self._disk, self.folder)
        offset = 0
        if snapshot is not None and snapshot.offset > self.log.end_offset:
            # The log lost its end, and will not grow into what the snapshot says.
            forget(self._disk, self.folder)
        elif snapshot is not None:
            offset = snapshot.offset
            producers.restore(snapshot.producers)
        for segment in reversed(self.log.segments):
            segment.aborted.cut(offset)
            if segment.base_offset <= offset:
                break
        return Walk(self.log.segments, offset, self.log.end_offset, producers, now_ms)

    def _producers_loaded(self, outcome: BaseException | None, walk: Walk | None) -> None:
        if isinstance(outcome, OSError | DamagedLog | CorruptBatch):
            self._fail(str(outcome))
        elif outcome is not None:
            raise outcome
        elif walk is not None:
            self._take_over(walk)
        awaited, self._producers_awaited = self._producers_awaited, []
        for then in awaited:
            then()

    def _take_over(self, walk: Walk) -> None:
        for segment, entry in walk.aborted:
            # A segment that was cleaned meanwhile has its list from the cleaning.
            if self.log is not None and segment in self.log.segments:
                segment.aborted.add(entry)
        self.producers = walk.producers
        self._stability.begin(self.producers.open_offsets())
        self._producers_known = True
        if self.stable_readers:
            self._tell(self.stable_readers, MANY_BYTES)

    def _last_batches(self) -> dict[int, LastBatch]:
        return self.producers.last_batches()

    def _is_new(self) -> bool:
        return self.log is not None and not self.log.segments and load(self._disk, self.folder) is None

    def close(self) -> None:
        """Makes everything durable and gives the descriptors back; the next start need not look for producers. OSError."""
        if self.log is None:
            return
        self.log.close()
        if self.state is State.ACTIVE:
            self._save(self.log.end_offset, durably=False)

    def _save(self, offset: int, *, durably: bool) -> None:
        """All before the offset is durable. Without the file a start has more to read, that is all."""
        if self._producers_known and self.log is not None and offset:
            with suppress(OSError):
                for segment in self.log.segments:
                    segment.sync_aborted()
                save(self._disk, self.folder, offset, self.producers, durably=durably)
                if durably:
                    self._saved_to = offset

    def append(self, batch: bytes, header: BatchHeader, now_ms: int, done: Done) -> None:
        """Writes a batch that bears `next_offset`; `done(NONE)` when it is durable, maybe before this returns."""
        self._append(batch, header, None, now_ms, done)

    def end_transaction(self, marker: Marker, now_ms: int, done: Done) -> None:
        """Writes a marker, as `append` does. The producers must be known. Raises KafkaError if it is stale."""
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
            leader_epoch=LEADER_EPOCH,
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
            self._producers_known = self._producers_known or self._is_new()
        if self.state is not State.ACTIVE or self.log is None or self._writer is None:
            done(ErrorCode.KAFKA_STORAGE_ERROR)
            return
        base_offset = self.log.end_offset
        self._pending.append(_Pending(base_offset, base_offset + header.record_count, len(batch), done))
        # It may be durable at once, and must not be seen before it is known whether it is part of a transaction.
        self._appending = True
        self._writer.write(batch, header.record_count)
        if self.log.end_offset > base_offset:
            if base_offset and self.log.segments[-1].base_offset == base_offset:
                self._save(base_offset, durably=True)
            self._remember(header, base_offset, end, now_ms)
        self._appending = False
        if self._durable_to >= 0:
            durable_to, self._durable_to = self._durable_to, -1
            self._durable(durable_to)

    def when_durable(self, end_offset: int, done: Done) -> None:
        """Calls `done` when the log is durable up to `end_offset` (a retry of a batch that is still on its way)."""
        if end_offset <= self.high_watermark:
            done(ErrorCode.NONE)
        elif self.state is not State.ACTIVE or not self._pending:
            done(ErrorCode.KAFKA_STORAGE_ERROR)
        else:
            last = self._pending[-1]
            self._pending.append(_Pending(last.base_offset, last.end_offset, 0, done))

    def delete_before(self, offset: int) -> None:
        """Deletes the records before an offset that is durable. Raises OffsetOutOfRange, OSError."""
        if not 0 <= offset <= self.high_watermark:
            raise OffsetOutOfRange(offset)
        if self.log is not None and offset > self.log.start_offset:
            if len(self.log.segments) > 1 and self.log.segments[1].base_offset <= offset:
                self._keep_producers(self.log)
            self.log.truncate_before(offset)

    def apply_retention(self, now_ms: int) -> None:
        """Deletes the oldest segments as far as age and size demand. OSError."""
        if self.log is not None and self.log.expired_segments(now_ms):
            self._keep_producers(self.log)
            self.log.apply_retention(now_ms)

    def _keep_producers(self, log: Log) -> None:
        """Before segments go: a snapshot that knows of their producers must be durable. OSError."""
        if self._producers_known and log.segments and self._saved_to < log.segments[-1].base_offset:
            log.sync()
            self._save(log.end_offset, durably=True)

    @property
    def name(self) -> str:
        """Topic and index, as the folder is called."""
        return self.folder.rpartition("/")[2]

    @property
    def next_offset(self) -> int:
        """The offset that the next record gets."""
        return self.log.end_offset if self.log is not None else 0

    @property
    def idle(self) -> bool:
        """Whether no disk operation is under way."""
        return self._writer is None or self._writer.idle

    def stop(self, schedule: Schedule, stopped: Callable[[], None]) -> None:
        """Serves nobody any more; `stopped()` when no disk operation is under way and the log may go."""
        self.state = State.REMOVED
        self._refuse_pending(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        awaited, self._producers_awaited = self._producers_awaited, []
        for then in awaited:
            then()
        self._tell(self.readers, 0)
        self._tell(self.stable_readers, 0)
        self._stop_when_idle(schedule, stopped)

    def _stop_when_idle(self, schedule: Schedule, stopped: Callable[[], None]) -> None:
        if self.idle:
            stopped()
        else:
            schedule(_STOP_POLL_MS, lambda: self._stop_when_idle(schedule, stopped))

    def _remember(self, header: BatchHeader, base_offset: int, end: _End | None, now_ms: int) -> None:
        if header.producer_id < 0:
            return
        if end is None:
            remember_batch(self.producers, header, base_offset, now_ms)
            return
        ended = self.producers.end(
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

    # --- the disk's answers -------------------------------------------------------------------------------------------

    def _durable(self, end_offset: int) -> None:
        self.full = False
        if self._appending:
            self._durable_to = end_offset
            return
        stability = self._stability
        stability.durable(end_offset)
        stable_offset = self.last_stable_offset
        pending, arrived, stable = self._pending, 0, 0
        while pending and pending[0].end_offset <= end_offset:
            base_offset, _, bytes_count, done = pending.popleft()
            arrived += bytes_count
            if base_offset < stable_offset:
                stable += bytes_count
            elif bytes_count:
                stability.hold(base_offset, bytes_count, begins=self.producers.is_open_at(base_offset))
            done(ErrorCode.NONE)
        stable += stability.release(stable_offset)
        if arrived:
            self._tell(self.readers, arrived)
        if stable and self.stable_readers:
            self._tell(self.stable_readers, stable)

    def _write_failed(self, error: OSError) -> None:
        assert self.log is not None
        if self.log.failed is not None:
            self._fail(str(error))
            return
        self.full = True
        # Only space was missing: what is behind the end of the log is not there, and the log goes on.
        refused: list[_Pending] = []
        while self._pending and self._pending[-1].end_offset > self.log.end_offset:
            refused.append(self._pending.pop())
        if len(refused) > 1 or not self._appending:
            self._producers_known = False
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

    def _tell(self, readers: Iterable[Reader], bytes_count: int) -> None:
        for reader in list(readers):
            reader.arrived(bytes_count)


def _log_settings(settings: TopicSettings) -> LogSettings:
    return LogSettings(
        segment_bytes=settings.segment_bytes,
        segment_ms=settings.segment_ms,
        index_interval_bytes=settings.index_interval_bytes,
        retention_bytes=settings.retention_bytes if settings.retention_bytes >= 0 else None,
        retention_ms=settings.retention_ms if settings.retention_ms >= 0 else None,
        delete_retention_ms=settings.delete_retention_ms,
        min_cleanable_dirty_ratio=settings.min_cleanable_dirty_ratio,
        min_compaction_lag_ms=settings.min_compaction_lag_ms,
        max_compaction_lag_ms=settings.max_compaction_lag_ms if settings.max_compaction_lag_ms < LONG_MAX else None,
    )
