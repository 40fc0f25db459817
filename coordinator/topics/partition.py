"""One partition: its log, what it remembers of producers, who waits for its disk and who waits for its records.

    append -> log (page cache) -> pending until the disk has it -> `done`, and the waiting readers hear of the new bytes

Readers see only what is durable: the high watermark is the writer's durable offset. A partition to which nothing was
ever written has no folder, no file and no log; it costs a few hundred bytes of memory.

A batch that the log cannot take (ENOSPC) is refused and the next one may succeed. When the disk broke its word (EIO),
the partition takes no more until the server is restarted; what is durable is still served.
"""

import errno
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from typing import NamedTuple, Protocol

from coordinator.log.batch import BatchHeader, CorruptBatch
from coordinator.log.log import DamagedLog, Log, LogSettings, OffsetOutOfRange
from coordinator.log.segment import Segment
from coordinator.log.writer import Writer
from coordinator.protocol.errors import ErrorCode
from coordinator.runtime.statistics import Run
from coordinator.runtime.timers import Schedule
from coordinator.topics.configs import LONG_MAX, TopicSettings
from coordinator.topics.producer_snapshot import forget, load, save
from coordinator.topics.producer_state import AppendedBatch, ProducerState, last_sequence
from coordinator.world.disk import Disk

LEADER_EPOCH = 0
"""One node leads every partition from its creation on."""
_STOP_POLL_MS = 2
WALK_BYTES = 1024 * 1024
"""So much of a log is walked in one turn of the loop: less than a millisecond."""

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
    end_offset: int
    bytes_count: int
    done: Done


class _Walk:
    """The batches of idempotent producers from one offset to another. Holds the segments until `release`."""

    def __init__(self, segments: Sequence[Segment], offset: int, end_offset: int) -> None:
        ends = [segment.base_offset for segment in segments[1:]] + [end_offset]
        self._offset = offset
        self._end_offset = end_offset
        self._parts: list[tuple[Segment, int, int]] = []
        """Segment, first position, end."""
        for segment, end in zip(segments, ends, strict=False):
            if end > offset:
                # Only the last segment is sure to have its index: to make another's is the walk that is to be avoided.
                start = segment.index.position_of(offset) if segment is segments[-1] else 0
                segment.hold()
                _ = segment.file
                self._parts.append((segment, start, segment.size_bytes))
        self.bytes_left = sum(end - start for _, start, end in self._parts)

    def headers(self) -> list[BatchHeader]:
        """May run in any thread. Raises OSError, DamagedLog, CorruptBatch."""
        found: list[BatchHeader] = []
        for segment, start, end in self._parts:
            position = start
            while position < end:
                for at, header in segment.headers(position):
                    position = at + header.size_bytes
                    if self._offset <= header.base_offset < self._end_offset and header.producer_id >= 0:
                        found.append(header)
        return found

    def release(self) -> None:
        for segment, _, _ in self._parts:
            segment.release()


class Partition:
    """A partition of a user topic. `folder` exists from the first append on."""

    __slots__ = (
        "_disk", "_make_writer", "_pending", "_producers_awaited", "_producers_known", "_run", "_saved", "_writer",
        "folder", "full", "index", "log", "producers", "readers", "reason", "settings", "state",
    )  # fmt: skip

    def __init__(
        self,
        index: int,
        folder: str,
        settings: TopicSettings,
        disk: Disk,
        make_writer: MakeWriter,
        run: Run,
        expiration_ms: int,
    ) -> None:
        self.index = index
        self.folder = folder
        self.settings = settings
        self.log: Log | None = None
        self.producers = ProducerState(expiration_ms)
        self.readers: dict[Reader, None] = {}
        self.state = State.ACTIVE
        self.reason = ""
        """Why the state is FAILED."""
        self.full = False
        """Whether the disk had no space for the last batch."""
        self._disk = disk
        self._make_writer = make_writer
        self._writer: Writer | None = None
        self._pending: deque[_Pending] = deque()
        self._run = run
        self._producers_known = False
        self._producers_awaited: list[Callable[[], None]] = []
        self._saved = False
        """Whether there may be a snapshot that is to be replaced."""

    # --- reading ------------------------------------------------------------------------------------------------------

    @property
    def start_offset(self) -> int:
        return self.log.start_offset if self.log is not None else 0

    @property
    def high_watermark(self) -> int:
        """Readers see the records before it."""
        return self._writer.offset_durable if self._writer is not None else 0

    # --- writing ------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Opens or makes the folder. A damaged log fails the partition; OSError is the caller's."""
        assert self.log is None
        try:
            log = Log.open(self._disk, self.folder, _log_settings(self.settings))
        except DamagedLog as error:
            self._fail(str(error))
            return
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
            walk = self._unknown_part()
        except OSError as error:
            self._producers_loaded(error, now_ms)
            return

        def walked(outcome: list[BatchHeader] | BaseException) -> None:
            walk.release()
            self._producers_loaded(outcome, now_ms)

        if walk.bytes_left > WALK_BYTES:
            self._run(walk.headers, walked)
            return
        try:
            found = walk.headers()
        except (OSError, DamagedLog, CorruptBatch) as error:
            walked(error)
        else:
            walked(found)

    def _unknown_part(self) -> _Walk:
        """Begins with what the snapshot says; the rest is to be walked."""
        self.producers.clear()
        if self.log is None:
            return _Walk([], 0, 0)
        snapshot = load(self._disk, self.folder)
        offset = 0
        if snapshot is not None and snapshot.offset > self.log.end_offset:
            # The log lost its end, and will not grow into what the snapshot says.
            forget(self._disk, self.folder)
        elif snapshot is not None:
            offset, self._saved = snapshot.offset, True
            for producer in snapshot.producers:
                self.producers.restore(*producer)
        return _Walk(self.log.segments, offset, self.log.end_offset)

    def _producers_loaded(self, outcome: list[BatchHeader] | BaseException, now_ms: int) -> None:
        if isinstance(outcome, OSError | DamagedLog | CorruptBatch):
            self._fail(str(outcome))
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            for header in outcome:
                self._remember(header, header.base_offset, now_ms)
            self._producers_known = True
        awaited, self._producers_awaited = self._producers_awaited, []
        for then in awaited:
            then()

    def close(self) -> None:
        """Makes everything durable and gives the descriptors back; the next start need not look for producers. OSError."""
        if self.log is None:
            return
        self.log.close()
        if self.state is State.ACTIVE:
            self._save(self.log.end_offset)

    def _save(self, offset: int) -> None:
        """All before the offset is durable. Without the file a start has more to read, that is all."""
        if self._producers_known and (len(self.producers) or self._saved):
            with suppress(OSError):
                save(self._disk, self.folder, offset, self.producers)
                self._saved = True

    def append(self, batch: bytes, header: BatchHeader, now_ms: int, done: Done) -> None:
        """Writes a batch that bears `next_offset`; `done(NONE)` when it is durable, maybe before this returns."""
        if self.log is None and self.state is State.ACTIVE:
            try:
                self.open()
            except OSError as error:
                self.full = error.errno == errno.ENOSPC
                done(ErrorCode.KAFKA_STORAGE_ERROR)
                return
        if self.state is not State.ACTIVE or self.log is None or self._writer is None:
            done(ErrorCode.KAFKA_STORAGE_ERROR)
            return
        base_offset = self.log.end_offset
        self._pending.append(_Pending(base_offset + header.record_count, len(batch), done))
        self._writer.write(batch, header.record_count)
        if self.log.end_offset > base_offset:
            if base_offset and self.log.segments[-1].base_offset == base_offset:
                self._save(base_offset)
            self._remember(header, base_offset, now_ms)

    def when_durable(self, end_offset: int, done: Done) -> None:
        """Calls `done` when the log is durable up to `end_offset` (a retry of a batch that is still on its way)."""
        if end_offset <= self.high_watermark:
            done(ErrorCode.NONE)
        elif self.state is not State.ACTIVE or not self._pending:
            done(ErrorCode.KAFKA_STORAGE_ERROR)
        else:
            self._pending.append(_Pending(self._pending[-1].end_offset, 0, done))

    def delete_before(self, offset: int) -> None:
        """Deletes the records before an offset that is durable. Raises OffsetOutOfRange, OSError."""
        if not 0 <= offset <= self.high_watermark:
            raise OffsetOutOfRange(offset)
        if self.log is not None and offset > self.log.start_offset:
            self.log.truncate_before(offset)

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
        self._tell(0)
        self._stop_when_idle(schedule, stopped)

    def _stop_when_idle(self, schedule: Schedule, stopped: Callable[[], None]) -> None:
        if self.idle:
            stopped()
        else:
            schedule(_STOP_POLL_MS, lambda: self._stop_when_idle(schedule, stopped))

    def _remember(self, header: BatchHeader, base_offset: int, now_ms: int) -> None:
        if header.producer_id < 0 or header.is_control:
            return
        last = last_sequence(header.base_sequence, header.last_offset_delta + 1)
        batch = AppendedBatch(header.base_sequence, last, base_offset, header.max_timestamp)
        self.producers.record(header.producer_id, header.producer_epoch, batch, now_ms)

    # --- the disk's answers -------------------------------------------------------------------------------------------

    def _durable(self, end_offset: int) -> None:
        self.full = False
        pending, arrived = self._pending, 0
        while pending and pending[0].end_offset <= end_offset:
            _, bytes_count, done = pending.popleft()
            arrived += bytes_count
            done(ErrorCode.NONE)
        if arrived:
            self._tell(arrived)

    def _write_failed(self, error: OSError) -> None:
        assert self.log is not None
        if self.log.failed is None:
            self.full = True
            if self._pending:
                self._pending.pop().done(ErrorCode.KAFKA_STORAGE_ERROR)
            return
        self._fail(str(error))

    def _fail(self, reason: str) -> None:
        if self.state is State.ACTIVE:
            self.state, self.reason = State.FAILED, reason
        self._refuse_pending(ErrorCode.KAFKA_STORAGE_ERROR)

    def _refuse_pending(self, error: ErrorCode) -> None:
        pending, self._pending = self._pending, deque()
        for entry in pending:
            entry.done(error)

    def _tell(self, bytes_count: int) -> None:
        for reader in list(self.readers):
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
