"""A log: the batches of one partition, in a folder of segment files named as in Kafka (Kafka: `UnifiedLog`, `LocalLog`).

    __consumer_offsets-7/
        00000000000000000000.log      closed: does not change until compaction or retention replaces or removes it
        00000000000000041822.log      active: the only one that grows
        00000000000000041822.txnindex only if needed: the transactions aborted in this segment (aborted.py)
        log-checkpoint                four offsets (checkpoint.py)
        segment-list                  only if there were closed segments: what they should be (segment_list.py)

A log belongs to the loop's thread, and its operations are synchronous, because reading or writing a few kilobytes in the
page cache is faster than handing them to a thread. Only a `SyncJob` runs in a thread.

A segment is made durable before the next one begins, so that only the last one can be torn by a crash. That costs one
synchronous fdatasync per `segment_bytes`. If two segments could be unsynced, a crash and damage would be indistinguishable
in the earlier one.

Descriptors are opened on demand: an idle partition has none, an active one two.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

from coordinator.log import segment_list
from coordinator.log.aborted import SUFFIX as ABORTED_SUFFIX
from coordinator.log.aborted import Aborted, overlapping
from coordinator.log.batch import BatchHeader, key_values
from coordinator.log.catalog import KnownLog
from coordinator.log.checkpoint import Checkpoint
from coordinator.log.reader import read_segments
from coordinator.log.recovery import DamagedLog, RecoveryReport, examine, is_torn_tail, why_begins_late, why_ends_early
from coordinator.log.segment import SUFFIX, Segment, aborted_name, remove_files, segment_name
from coordinator.log.segment_check import check_follows, check_segments, entries_of
from coordinator.log.segment_swap import finish_swaps
from coordinator.log.sync_job import SyncJob, Syncs
from coordinator.world.disk import Disk

__all__ = ["DamagedLog", "Log", "LogSettings", "OffsetOutOfRange", "RecoveryReport", "SyncJob"]

CHECKPOINT_BYTES = 1024 * 1024
"""Bytes synced until the checkpoint is synced too: about how much recovery must verify after a power cut."""
ROOM_BYTES = 1024 * 1024
"""Free bytes from which a disk that was full accepts writes again: the usual maximum size of a batch."""
_NOWHERE = 1 << 62
_RELATIVE_OFFSET_MAX = (1 << 31) - 1
"""Kafka's index files hold offsets relative to the segment in 32 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """The topic settings that concern a log's files. None stands for Kafka's -1, no limit (Kafka: `LogConfig`)."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int | None = 7 * 24 * 3600 * 1000
    index_interval_bytes: int = 4096
    retention_bytes: int | None = None
    retention_ms: int | None = 7 * 24 * 3600 * 1000
    delete_retention_ms: int = 24 * 3600 * 1000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int | None = None


class LastBatch(NamedTuple):
    """The last thing a producer wrote: the batch that ends at `offset`, or, if that is None, a marker with `epoch`.

    Kafka: `LastRecord` in the cleaner.
    """

    offset: int | None
    epoch: int


def _no_producers() -> Mapping[int, LastBatch]:
    return {}


class OffsetOutOfRange(Exception):
    """The offset is before the start or after the end of the log (error OFFSET_OUT_OF_RANGE)."""


class Log:
    """The records of one partition. Use `Log.open` to create one."""

    writes_behind = False
    """Whether appended batches stay in memory at first (journaled_log.py)."""

    def __init__(self, disk: Disk, folder: str, settings: LogSettings) -> None:
        self.disk = disk
        self.folder = folder
        self.settings = settings
        self.checkpoint = Checkpoint(disk, folder)
        self.segments: list[Segment] = []
        self.start_offset = 0
        self.end_offset = 0
        """The offset that the next record will get (Kafka: log end offset)."""
        self.synced_offset = 0
        """Every record before it is durable (Kafka: recovery point)."""
        self.failed: OSError | None = None
        """Set when an fdatasync has failed for good: the log accepts no more writes until it is opened again."""
        self.last_batches: Callable[[], Mapping[int, LastBatch]] = _no_producers
        """Called by a cleaning: producer id -> the last thing it wrote, which must stay in the log."""
        self.compaction_state: object | None = None
        """The last cleaning's `TransactionOutcomes`, from which the next one continues."""
        self.recovery: RecoveryReport | None = None
        """What opening the log cut off; None if nothing."""
        self._bases: list[int] = []
        self._folder_synced = False
        self._unsaved_bytes = 0
        self._syncs = Syncs()
        self.is_best_effort = False
        """Whether losing its end is reported instead of refused."""
        self._listed: list[segment_list.Entry] = []
        """The list of segments as it was last read or written; empty if that is not known."""

    # --- opening ------------------------------------------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        disk: Disk,
        folder: str,
        settings: LogSettings,
        known: KnownLog | None = None,
        *,
        is_best_effort: bool = False,
    ) -> Self:
        """Opens or creates the log in a folder, and recovers it after a crash.

        What recovery cut off is in `recovery`. A log without batches has no segment file until the first append. `known` is
        what the data folder's catalog has about the log. With `is_best_effort`, records that a killed process left unsynced
        are not synced now, and a lost end is reported instead of refused. Raises OSError, and DamagedLog for a fault that a
        crash does not explain.
        """
        log = cls(disk, folder, settings)
        log.load(known, is_best_effort=is_best_effort)
        return log

    def load(self, known: KnownLog | None = None, *, is_best_effort: bool = False) -> None:
        """Opens the log of a new object; as `open`."""
        if not self.disk.exists(self.folder):
            if known is not None:
                reason = f"the folder is missing; it had records up to offset {known.end_offset - 1}"
                raise DamagedLog(self.folder, 0, -1, reason)
            self.disk.make_folder(self.folder)
            self.disk.sync_folder(self.folder.rpartition("/")[0] or ".")
        self.is_best_effort = is_best_effort
        self._load(known)

    def _load(self, known: KnownLog | None) -> None:
        is_best_effort = self.is_best_effort
        finish_swaps(self.disk, self.folder)
        start_offset = self.checkpoint.offsets.start_offset
        names = self.disk.list(self.folder)
        bases = sorted(
            int(name.removesuffix(SUFFIX))
            for name in names
            if name.endswith(SUFFIX) and name.removesuffix(SUFFIX).isdigit()
        )
        for base in bases:
            path = f"{self.folder}/{segment_name(base)}"
            file = self.disk.open(path)
            size, checksum = file.size(), segment_list.first_checksum(file)
            file.close()
            self._add_segment(self._segment(path, base, size, checksum))
        deleted = self._count_deleted(start_offset)
        self.end_offset = max(0, start_offset)
        durable_offset = max(self.checkpoint.offsets.recovery_offset, known.end_offset if known is not None else 0)
        if is_best_effort:
            durable_offset = 0
        else:
            offsets = replace(self.checkpoint.offsets, dense_offset=self.dense_from)
            self._listed = check_segments(
                self.disk, self.folder, self.segments[deleted:], offsets, durable_offset, known
            )
        self._remove_deleted(deleted, names)
        self._check_start()
        if self.segments:
            self._recover_last(durable_offset)
        else:
            self._check_end(self.folder, 0, durable_offset)
        self._replay_journal()
        self.start_offset = start_offset if start_offset >= 0 else (self._bases[0] if self._bases else 0)
        self.synced_offset = self.checkpoint.offsets.recovery_offset
        if self.segments and not self.checkpoint.found:
            # Other software wrote this folder, or its process died before the first sync. From here on it is ours. If the
            # disk is full, the log can still be read, and the next opening tries again.
            self._save_checkpoint(dense_offset=self.end_offset)
            if not is_best_effort:
                self.checkpoint.sync()
        self.checkpoint.found = True
        if self.end_offset > self.synced_offset and self.segments and not is_best_effort:
            self._settle()
        if self.segments and self.end_offset < self.start_offset:
            # The deletion was durable, and the deleted records were not.
            self._begin_at_start()
        if len(self.segments) > 1:
            self._save_segment_list()

    def _count_deleted(self, start_offset: int) -> int:
        """How many segments lie before the start offset, because their deletion was interrupted. Raises as `check_follows`."""
        count = 0
        while count + 1 < len(self.segments) and self.segments[count + 1].base_offset <= start_offset:
            check_follows(self.segments[count], self.segments[count + 1], _NOWHERE)
            count += 1
        return count

    def _remove_deleted(self, count: int, names: Sequence[str]) -> None:
        """Removes the first segments, and the lists of aborted transactions without a segment."""
        for segment in self.segments[:count]:
            remove_files(self.disk, self.folder, segment.base_offset)
        del self.segments[:count], self._bases[:count]
        lists = set(map(aborted_name, self._bases))
        for name in names:
            if name.endswith(ABORTED_SUFFIX) and name not in lists and self.disk.exists(f"{self.folder}/{name}"):
                self.disk.remove(f"{self.folder}/{name}")

    def _check_start(self) -> None:
        """Raises DamagedLog if the first segments are missing: none is removed before `start_offset` is beyond it."""
        expected = max(0, self.checkpoint.offsets.start_offset)
        if self._bases and self._bases[0] > expected:
            reason = why_begins_late(self._bases[0], expected, self.dense_from)
            if reason:
                raise DamagedLog(self.segments[0].path, 0, expected - 1, reason)

    def _check_end(self, path: str, position: int, durable_offset: int) -> None:
        """Raises DamagedLog if synced records are missing at the end."""
        reason = why_ends_early(max(self.end_offset, self.checkpoint.offsets.start_offset), durable_offset)
        if reason:
            raise DamagedLog(path, position, self.end_offset - 1, reason)

    def _recover_last(self, durable_offset: int) -> None:
        last = self.segments[-1]
        recovery_offset = self.checkpoint.offsets.recovery_offset
        file, size = last.file, last.size_bytes
        self.end_offset, fault = examine(
            file,
            size,
            last.base_offset,
            recovery_offset,
            self.dense_from,
            lambda header, position: last.index_batch(header.base_offset, position, header.max_timestamp),
        )
        reason, position = "", size
        if fault is not None:
            reason, position = fault.reason, fault.position
            # A segment is synced before the next one is listed, even if the name of that one is lost.
            closed_offset = self._listed[-1].base_offset if self._listed else 0
            if not is_torn_tail(file, size, fault, max(durable_offset, closed_offset)):
                raise DamagedLog(last.path, position, fault.expected_offset - 1, reason)
            file.truncate(position)
            file.sync()
            last.close_if_unheld()
            self.segments[-1] = last = self._segment(last.path, last.base_offset, position)
            _ = last.index
        else:
            self._check_end(last.path, size, durable_offset)
        if fault is not None or self.end_offset < recovery_offset:
            self.recovery = RecoveryReport(
                file=last.path,
                position=position,
                bytes_cut=size - position,
                next_offset=self.end_offset,
                reason=reason or f"the log ends before offset {recovery_offset}, which was durable",
                synced_offsets_lost=max(0, recovery_offset - self.end_offset),
            )
            self._save_checkpoint(recovery_offset=min(recovery_offset, self.end_offset))
        last.close_if_unheld()

    def _replay_journal(self) -> None:
        """Called when the segments are recovered, to append what they lack."""

    def _settle(self) -> None:
        """Makes the records durable that a killed process left in the page cache: they are served from now on."""
        self._write_again(self.segments[-1])
        self.sync()

    def _write_again(self, last: Segment) -> None:
        """Overwrites the unsynced records with themselves, so that the kernel writes them again.

        The previous process may have stopped because a sync failed. Then reads return bytes that the disk does not have,
        and the kernel considers them clean: another sync would succeed without writing anything.
        """
        start = last.index.position_of(self.synced_offset)
        end = last.size_bytes - last.unflushed_bytes
        at = next((at for at, header in last.walk(start) if header.next_offset > self.synced_offset), end)
        while at < end:
            part = last.file.pread(at, min(CHECKPOINT_BYTES, end - at))
            last.file.write_at(at, part)
            at += len(part)

    @property
    def dense_from(self) -> int:
        """The offset from which on a gap means damage; see checkpoint.py."""
        return self.checkpoint.offsets.dense_offset if self.checkpoint.found else _NOWHERE

    def _segment(self, path: str, base_offset: int, size_bytes: int, checksum: int = segment_list.UNKNOWN) -> Segment:
        interval = self.settings.index_interval_bytes
        return Segment(self.disk, path, base_offset, size_bytes, interval, checksum, writes_behind=self.writes_behind)

    def _add_segment(self, segment: Segment) -> None:
        self.segments.append(segment)
        self._bases.append(segment.base_offset)

    # --- writing ------------------------------------------------------------------------------------------------------

    def append(self, batch: bytes, record_count: int, max_timestamp: int) -> int:
        """Writes a batch whose base offset is `end_offset`, and returns that offset. The batch is not durable yet.

        `max_timestamp` in ms. Raises OSError; the log is then as before, and the append may be retried once there is
        space, unless `failed` is set.
        """
        if self.failed is not None:
            raise self.failed
        base_offset = self.end_offset
        assert int.from_bytes(batch[:8]) == base_offset, "a batch must have the offset at which it is appended"
        segments = self.segments
        # Of a log that is written behind, the journal decides when the next segment begins.
        if not segments or (
            not self.writes_behind
            and self._is_full(segments[-1], len(batch), base_offset + record_count, max_timestamp)
        ):
            self._roll()
        active = segments[-1]
        try:
            active.append(batch, base_offset, max_timestamp)
        except OSError:
            self._undo(active)
            raise
        self.end_offset = base_offset + record_count
        self._unsaved_bytes += len(batch)
        return base_offset

    def _is_full(self, active: Segment, more_bytes: int, next_offset: int, timestamp: int) -> bool:
        if not active.size_bytes:
            return False
        settings = self.settings
        return (
            active.size_bytes + more_bytes > settings.segment_bytes
            or next_offset - active.base_offset > _RELATIVE_OFFSET_MAX
            or (settings.segment_ms is not None and timestamp - active.first_timestamp > settings.segment_ms)
        )

    def _undo(self, active: Segment) -> None:
        try:
            active.cut()
        except OSError as error:
            self.failed = error
            raise

    def begin_segment(self) -> None:
        """Starts a new segment, unless the active one is empty. Raises OSError as `append`."""
        if self.segments and self.segments[-1].size_bytes:
            self._roll()

    def _roll(self) -> None:
        """Syncs and closes the active segment, and starts the next one."""
        if self.segments:
            self.sync()
        segment = self._segment(f"{self.folder}/{segment_name(self.end_offset)}", self.end_offset, 0)
        _ = segment.file
        self._folder_synced = False
        self._add_segment(segment)
        if len(self.segments) > 1:
            self._save_segment_list()

    # --- durability ---------------------------------------------------------------------------------------------------

    @property
    def flushed_offset(self) -> int:
        """Every record before it is in the files, though perhaps not durable."""
        return self.end_offset

    def sync_job(self) -> SyncJob:
        """A job that makes everything written so far durable. Pass it to `sync_done` or `sync_failed` afterwards."""
        segment = self.segments[-1] if self.segments else None
        if segment is not None:
            segment.hold()
        saved = self._unsaved_bytes >= CHECKPOINT_BYTES
        if saved:
            self._unsaved_bytes = 0
        folder = None if self._folder_synced else self.folder
        return SyncJob(self.flushed_offset, segment, self.disk, folder, self.checkpoint if saved else None, self._syncs)

    def sync_done(self, job: SyncJob) -> None:
        """Must be called on the loop after `job.run()` returned."""
        self._release(job)
        if job.segment is None or job.segment is self.segments[-1]:
            self._folder_synced = True
        if job.end_offset > self.synced_offset:
            self.synced_offset = job.end_offset
            self._save_checkpoint(recovery_offset=job.end_offset)

    def sync_failed(self, job: SyncJob, error: OSError) -> None:
        """Must be called on the loop after `job.run()` raised: the log has failed for good."""
        self._release(job)
        self.failed = error

    def drop_unsynced(self, job: SyncJob) -> None:
        """Call it instead of `sync_failed` if only space was missing and nothing unsynced was acknowledged or read.

        Cuts off everything after `synced_offset`, so that no byte remains of which it is unknown whether it is on the disk,
        and the log continues from there. Raises OSError if that fails too; then the log has failed.
        """
        self._release(job)
        active = self.segments[-1]
        size = next(
            (at for at, header in active.walk(0) if header.base_offset >= self.synced_offset), active.size_bytes
        )
        try:
            active.file.truncate(size)
            active.file.sync()
        except OSError as error:
            self.failed = error
            raise
        self.segments[-1] = self._segment(active.path, active.base_offset, size)
        active.mark_removed()
        self.end_offset = max(self.synced_offset, active.base_offset)
        self._syncs.error = None

    def _release(self, job: SyncJob) -> None:
        if job.segment is not None:
            job.segment.release()

    def sync(self) -> None:
        """Makes everything written so far durable before it returns. Raises OSError; then the log has failed."""
        if self.failed is not None:
            raise self.failed
        job = self.sync_job()
        try:
            job.run()
        except OSError as error:
            self.sync_failed(job, error)
            raise
        self.sync_done(job)

    def _save_checkpoint(self, **changes: int) -> None:
        """Ignores errors, because an older checkpoint is valid too."""
        try:
            if self.checkpoint.write(**changes):
                self._folder_synced = False
        except OSError:
            self.checkpoint.close()

    def _save_segment_list(self) -> None:
        """Writes the list if it has changed. Ignores errors, because an older list is valid too."""
        if self.is_best_effort:
            return
        with suppress(OSError):
            entries = entries_of(self.segments)
            if entries != self._listed:
                segment_list.write(self.disk, self.folder, entries)
                self._listed, self._folder_synced = entries, True

    # --- reading ------------------------------------------------------------------------------------------------------

    def read(self, offset: int, bytes_max: int, *, offset_end: int | None = None, at_least_one: bool = True) -> bytes:
        """Complete batches from the one with `offset` on: at most `bytes_max` bytes, all of them before `offset_end`.

        The first batch may begin before `offset`; consumers skip the records they did not ask for. With `at_least_one` the
        first batch is returned even if it is larger than `bytes_max`. Empty at the end of the log. Raises OffsetOutOfRange
        outside the log, OSError, and DamagedLog if the batch headers are damaged; checksums are not verified.
        """
        if offset < self.start_offset or offset > self.end_offset:
            raise OffsetOutOfRange(offset)
        offset_end = self.end_offset if offset_end is None else offset_end
        which = max(0, bisect_right(self._bases, offset) - 1)
        while which < len(self.segments) and offset < offset_end:
            segment = self.segments[which]
            try:
                found = self._read_segment(segment, offset, bytes_max, offset_end, at_least_one=at_least_one)
            finally:
                if segment is not self.segments[-1]:
                    segment.close_if_unheld()
            if found is not None:
                return found
            which += 1
        return b""

    def _read_segment(
        self, segment: Segment, offset: int, bytes_max: int, offset_end: int, *, at_least_one: bool
    ) -> bytes | None:
        """None if the segment has nothing at or after `offset`."""
        position = segment.index.position_of(offset)
        start = end = -1
        while position < segment.size_bytes:
            for at, header in segment.headers(position):
                position = at + header.size_bytes
                if start < 0:
                    if header.next_offset <= offset:
                        continue
                    if header.next_offset > offset_end or (header.size_bytes > bytes_max and not at_least_one):
                        return b""
                    start = at
                    # Jump to the last index entry within the bounds: no header before it needs to be checked.
                    ahead = segment.index.last_position(start + bytes_max, offset_end)
                    if ahead > position:
                        position = end = ahead
                        break
                elif header.next_offset > offset_end or position - start > bytes_max:
                    return segment.file.pread(start, end - start)
                end = position
        return segment.file.pread(start, end - start) if start >= 0 else None

    def replay_batches(self, from_offset: int = 0) -> Iterator[list[tuple[bytes | None, bytes | None]]]:
        """Yields key and value of every record in order, a list per batch, without control batches.

        Verifies every checksum. Raises OSError, DamagedLog, and CorruptBatch for records that cannot be decoded.
        """
        for buffer, position, header in self.batches(from_offset):
            if not header.is_control:
                yield [(key, value) for _, key, value in key_values(buffer, position, header)]

    def batches(self, from_offset: int = 0) -> Iterator[tuple[bytes, int, BatchHeader]]:
        """Yields buffer, position in the buffer and header of each batch, as `read_segments` (reader.py)."""
        yield from read_segments(self.segments, max(from_offset, self.start_offset), self.dense_from)

    def upper_bound(self, offset: int, size_bytes: int) -> int:
        """An offset at or shortly after the end of `size_bytes` bytes read from `offset` on.

        Kafka: `LogSegment.fetchUpperBoundOffset`, which bounds the search for aborted transactions.
        """
        which = max(0, bisect_right(self._bases, offset) - 1)
        if which >= len(self.segments):
            return self.end_offset
        found = self.segments[which].index.offset_behind(offset, size_bytes)
        if found is not None:
            return found
        return self._bases[which + 1] if which + 1 < len(self._bases) else self.end_offset

    def aborted_between(self, offset: int, offset_end: int) -> list[Aborted]:
        """The aborted transactions that may have records in `[offset, offset_end)`, in the order of their markers.

        Raises OSError.
        """
        found: list[Aborted] = []
        for segment in self.segments[max(0, bisect_right(self._bases, offset) - 1) :]:
            part, complete = overlapping(segment.aborted.entries, offset, offset_end)
            found += part
            if complete:
                break
        return found

    # --- deleting -----------------------------------------------------------------------------------------------------

    def truncate_before(self, offset: int) -> None:
        """Makes `offset` the log's start, durably, and removes the segments that lie completely before it.

        Kafka: `UnifiedLog.maybeIncrementLogStartOffset`. Raises OffsetOutOfRange and OSError.
        """
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(offset)
        if offset > self.start_offset:
            self.checkpoint.write(start_offset=offset)
            self.checkpoint.sync()
            self.disk.sync_folder(self.folder)
            self.start_offset = offset
        count = max(0, bisect_right(self._bases, offset) - 1)
        for segment in self.segments[:count]:
            segment.mark_removed()
            remove_files(self.disk, self.folder, segment.base_offset)
        del self.segments[:count], self._bases[:count]

    def _begin_at_start(self) -> None:
        """Continues the log at its start offset, where that is after its last record."""
        self.end_offset = self.start_offset
        self._roll()
        self.truncate_before(self.start_offset)

    @property
    def is_held(self) -> bool:
        """Whether somebody reads a segment for longer than a turn of the loop."""
        return any(segment.is_held for segment in self.segments)

    def truncate_from(self, offset: int, save_catalog: Callable[[], None]) -> None:
        """Removes the batches from the one with `offset` on, durably (Kafka: `UnifiedLog.truncateTo`).

        No sync may be in progress, and no segment held. Calls `save_catalog` when `known` no longer has what is removed,
        and before anything is: a crash in between leaves a log that is longer, not one that misses records. Raises OSError;
        then the log has failed.
        """
        kept = max(1, bisect_left(self._bases, offset))
        last, removed = self.segments[kept - 1], self.segments[kept:]
        size, end_offset = last.size_bytes, last.base_offset
        for at, header in last.walk(0):
            if header.next_offset > offset:
                size = at
                break
            end_offset = header.next_offset
        try:
            self._forget_durable(end_offset)
            save_catalog()
            if removed:
                self._listed = entries_of(self.segments[:kept])
                segment_list.write(self.disk, self.folder, self._listed)
            for segment in reversed(removed):  # a crash may leave the first of them, but no gap
                segment.mark_removed()
                remove_files(self.disk, self.folder, segment.base_offset)
                self.disk.sync_folder(self.folder)
            last.file.truncate(size)
            last.file.sync()
        except OSError as error:
            self.failed = error
            raise
        last.mark_removed()
        self.segments[kept - 1 :] = [self._segment(last.path, last.base_offset, size)]
        del self._bases[kept:]
        self.end_offset, self.compaction_state = end_offset, None
        if end_offset < self.start_offset:
            self._begin_at_start()

    def _forget_durable(self, end_offset: int) -> None:
        offsets = self.checkpoint.offsets
        self.synced_offset = min(self.synced_offset, end_offset)
        self.checkpoint.write(
            recovery_offset=min(offsets.recovery_offset, end_offset),
            clean_offset=min(offsets.clean_offset, end_offset),
            dense_offset=min(offsets.dense_offset, end_offset),
        )
        self.checkpoint.sync()

    def expired_segments(self, now_ms: int) -> int:
        """How many of the oldest segments exceed `retention_ms` or `retention_bytes` at the wall-clock time `now_ms`.

        Raises OSError, and DamagedLog for a segment that cannot be indexed.
        """
        settings, count = self.settings, 0
        if settings.retention_ms is not None:
            for segment in self.segments:
                _ = segment.index
                if not segment.size_bytes or segment.max_timestamp >= now_ms - settings.retention_ms:
                    break
                count += 1
        if settings.retention_bytes is not None:
            left = self.size_bytes - sum(segment.size_bytes for segment in self.segments[:count])
            for segment in self.segments[count:]:
                if not segment.size_bytes or left - segment.size_bytes < settings.retention_bytes:
                    break
                left -= segment.size_bytes
                count += 1
        return count

    def apply_retention(self, now_ms: int) -> int:
        """Deletes the expired segments and returns their number. Raises as `expired_segments` and `append`."""
        count = self.expired_segments(now_ms)
        if count == len(self.segments) and count:
            self.begin_segment()
            count = len(self.segments) - 1
        if count:
            self.truncate_before(max(self.start_offset, self.segments[count].base_offset))
        return count

    def known(self, topic_id: str) -> KnownLog | None:
        """What the catalog has to say about the log; None if nothing of it is durable. Raises OSError."""
        if not self.segments or self.synced_offset <= 0:
            return None
        active = self.segments[-1]
        return KnownLog(
            self.folder.rpartition("/")[2],
            topic_id,
            self.checkpoint.offsets.start_offset,
            self.synced_offset,
            active.base_offset,
            active.first_checksum() if self.synced_offset > active.base_offset else segment_list.UNKNOWN,
        )

    @property
    def size_bytes(self) -> int:
        """Size of all segments, in bytes."""
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def has_room(self) -> bool:
        """Whether the file system has space for more writes; False if that cannot be determined."""
        try:
            return self.disk.space(self.folder).usable_bytes >= ROOM_BYTES
        except OSError:
            return False

    def has_segments(self, group: Sequence[Segment]) -> bool:
        """Whether the log still has these segments, closed and adjacent. Retention may delete them during a cleaning."""
        if group[0] not in self.segments:
            return False
        first = self.segments.index(group[0])
        return self.segments[first : first + len(group)] == list(group) and group[-1] is not self.segments[-1]

    def replace_segments(self, old: Sequence[Segment], new: Segment) -> None:
        """Replaces segments for which `has_segments` holds by a cleaned one."""
        first = self.segments.index(old[0])
        self.segments[first : first + len(old)] = [new]
        self._bases = [segment.base_offset for segment in self.segments]
        self._listed = []

    def delete(self) -> None:
        """Removes all files and the folder; holders of segments keep reading them. Raises OSError."""
        self.checkpoint.close()
        for segment in self.segments:
            segment.mark_removed()
        self.segments, self._bases = [], []
        for name in self.disk.list(self.folder):
            self.disk.remove(f"{self.folder}/{name}")
        self.disk.remove_folder(self.folder)
        self.disk.sync_folder(self.folder.rpartition("/")[0] or ".")

    def close(self) -> None:
        """Makes everything durable, including the checkpoint, and closes the files. Raises OSError as `sync`."""
        try:
            if self.failed is None and self.end_offset > self.synced_offset:
                self.sync()
            self.checkpoint.sync()
            if not self._folder_synced and self.segments:
                self.disk.sync_folder(self.folder)
        finally:
            self.close_files()

    def close_files(self) -> None:
        """Closes the files without making anything durable: all that can be done for a log that has failed."""
        for segment in self.segments:
            segment.close_if_unheld()
        self.checkpoint.close()
