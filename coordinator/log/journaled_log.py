"""A log that is written behind a journal (coordinator/journal): the journal makes a batch durable, the segments follow.

    append        the batch is in memory; readers of the log see it
    journaled     the journal has it: `durable_offset` moves, and from now on it may be written to the segment
    flush         it is in the segment file (page cache)
    sync          the segment is durable, and the journal may forget it

A batch that the journal could not take is in memory only, and dropping it cannot fail. A start gets from the journal what the
segments lack (`load_journaled`), and writes it to them with the first sync, when all logs have been read: a start that damage
stops leaves the files as they were.
"""

from collections.abc import Sequence
from struct import Struct

from coordinator.log.batch import BatchHeader, read_header, split
from coordinator.log.catalog import KnownLog
from coordinator.log.journal_overlap import conflict_reason, find_conflict
from coordinator.log.log import DamagedLog, Log, LogSettings
from coordinator.log.segment import segment_name
from coordinator.log.sync_job import SyncJob
from coordinator.world.disk import Disk

_MAX_TIMESTAMP = Struct(">q").unpack_from
_MAX_TIMESTAMP_AT = 35


class JournaledLog(Log):
    """The records of one partition of an internal topic."""

    writes_behind = True

    def __init__(self, disk: Disk, folder: str, settings: LogSettings) -> None:
        super().__init__(disk, folder, settings)
        self.durable_offset = 0
        """Every record before it is durable, in the journal or in the segments."""
        self.replayed = 0
        """Records that only the journal had when the log was opened."""
        self.gap_end = 0
        """Behind the last gap among replayed batches, which a compaction made: from here on they are complete."""
        self._journaled: Sequence[bytes] = ()
        self.is_unsettled = False
        """Whether the opening found records that are not durable in the segments. The next sync makes them so."""

    def load_journaled(
        self, batches: Sequence[bytes], known: KnownLog | None = None, *, is_best_effort: bool = False
    ) -> None:
        """Opens the log and appends what the journal has and the segments lack. `batches`: of the journal, in order.

        The appended batches stay in memory until the next sync. Raises as `open`; DamagedLog also if the segments and the
        journal contradict each other.
        """
        self._journaled = batches
        self.load(known, is_best_effort=is_best_effort)
        self._journaled = ()
        self.durable_offset = self.end_offset

    def begin_again(self, offset: int = 0) -> None:
        """Deletes everything and begins an empty log at an offset; holders of segments keep reading them. Raises OSError.

        For a log whose folder is a cache of another place: nothing is synced.
        """
        self.close_files()
        for segment in self.segments:
            segment.mark_removed()
        for name in self.disk.list(self.folder):
            self.disk.remove(f"{self.folder}/{name}")
        Log.__init__(self, self.disk, self.folder, self.settings)
        self.start_offset = self.end_offset = self.durable_offset = offset
        self.gap_end = 0

    def put_before(self, files: Sequence[tuple[int, int]]) -> None:
        """Makes files that are in the folder the first segments: base offset and bytes of each, in order."""
        older = [self._segment(f"{self.folder}/{segment_name(base)}", base, size) for base, size in files]
        self.segments[:0] = older
        self._bases[:0] = [segment.base_offset for segment in older]
        self.start_offset = self._bases[0]

    def append_replayed(self, batches: bytes) -> None:
        """Appends batches that are durable elsewhere, in order; there may be gaps in the offsets. Raises OSError, CorruptBatch.

        Batches that the log has are skipped.
        """
        for position, header in split(batches):
            if header.base_offset >= self.end_offset:
                if header.record_count != header.next_offset - self.end_offset:
                    self.gap_end = header.next_offset
                self.end_offset = header.base_offset
                batch = batches[position : position + header.size_bytes]
                self.append(batch, header.next_offset - header.base_offset, header.max_timestamp)
        self.durable_offset = self.end_offset

    def _replay_journal(self) -> None:
        overlapping: list[BatchHeader] = []
        before = self.end_offset
        for piece in self._journaled:
            for position, header in split(piece):
                if header.base_offset < self.end_offset:
                    overlapping.append(header)
                elif header.base_offset == self.end_offset:
                    batch = piece[position : position + header.size_bytes]
                    self.append(batch, header.record_count, header.max_timestamp)
                elif not self.is_best_effort:
                    path = self.segments[-1].path if self.segments else self.folder
                    reason = f"the journal continues at offset {header.base_offset}, the log ends at {self.end_offset}"
                    raise DamagedLog(path, 0, self.end_offset - 1, reason)
        if not self.is_best_effort:
            self._check_same(overlapping)
        self.durable_offset = self.end_offset
        self.replayed = self.end_offset - before
        if self.is_best_effort and self._journaled and self.segments:
            # Not only what was appended: a killed process may have written more to the segment than it synced.
            self.synced_offset = min(self.checkpoint.offsets.recovery_offset, self.end_offset)
            self._settle()

    def _check_same(self, journaled: Sequence[BatchHeader]) -> None:
        """Raises DamagedLog if the segments have something else where the journal has these batches."""
        segments = self.segments
        if not journaled or not segments:
            return
        conflict = find_conflict(
            reversed(journaled),
            segments[0].base_offset,
            segments[-1].base_offset,
            lambda offset: read_header(self.read(offset, 1)),
        )
        if conflict is not None:
            offset = conflict.base_offset
            segment = next(each for each in reversed(segments) if each.base_offset <= offset)
            batches = segment.walk(segment.index.position_of(offset))
            position = next(at for at, each in batches if each.next_offset > offset)
            raise DamagedLog(segment.path, position, offset - 1, conflict_reason(conflict))

    def _settle(self) -> None:
        self.is_unsettled = True

    # --- writing ------------------------------------------------------------------------------------------------------

    @property
    def wants_segment(self) -> bool:
        """Whether the active segment is full, so that `begin_segment` should be called."""
        active = self.segments[-1]
        return self._is_full(active, 0, self.end_offset, active.max_timestamp)

    def begin_segment(self) -> None:
        """Closes the active segment at the durable offset and starts the next one, unless nothing in it is durable.

        What is not durable yet moves to the new segment. Raises OSError as `append`.
        """
        if not self.segments or self.durable_offset <= self.segments[-1].base_offset:
            return
        end_offset = self.end_offset
        pieces = self.segments[-1].take_unflushed(self.durable_offset)
        self.end_offset = self.durable_offset
        try:
            self._roll()
        finally:
            for piece in pieces:
                self.segments[-1].append(piece, int.from_bytes(piece[:8]), _MAX_TIMESTAMP(piece, _MAX_TIMESTAMP_AT)[0])
            self.end_offset = end_offset

    def drop_unjournaled(self) -> None:
        """Drops every batch that is not durable: the journal could not take it."""
        if self.segments:
            self.segments[-1].take_unflushed(self.durable_offset)
        self.end_offset = self.durable_offset

    @property
    def is_behind(self) -> bool:
        """Whether something durable is in no segment file yet."""
        return bool(self.segments) and self.segments[-1].is_behind(self.durable_offset)

    def flush(self) -> None:
        """Writes the durable batches to the segment file. Raises OSError; it may be called again afterwards."""
        if self.segments:
            self.segments[-1].flush(self.durable_offset)

    # --- durability ---------------------------------------------------------------------------------------------------

    @property
    def flushed_offset(self) -> int:
        return self.durable_offset

    def sync_job(self) -> SyncJob:
        """As `Log.sync_job`, for what is durable in the journal. Raises OSError if it cannot be written to the file."""
        if self.is_unsettled:
            self._write_again(self.segments[-1])
            self.is_unsettled = False
        self.flush()
        return super().sync_job()

    def sync(self) -> None:
        """Makes everything durable in the segments, without the journal."""
        before, self.durable_offset = self.durable_offset, self.end_offset
        try:
            super().sync()
        except OSError:
            self.durable_offset = before
            raise

    def close_files(self) -> None:
        """As `Log.close_files`. What is only in memory is in the journal, if it is durable."""
        if self.segments:
            self.segments[-1].take_unflushed(-1)
        super().close_files()
