"""The journal of one server: gathers what a turn of the loop appends, makes it durable as one entry, writes segments behind.

    add         the batches of a turn gather
    commit      at the end of the turn: one write; with durability "fsync" also one fdatasync in a thread, during which the
                next turns gather for the next entry
    durable     the owners of the logs are notified, and the batches may be written to the segments
    flush       `WRITE_BEHIND_MS` later: the batches are written to the segments (page cache)
    rotate      when an entry does not fit: the next slot begins, and the full one gets a checkpoint
    checkpoint  the segments of all logs in the slot are synced; then the slot is free

Only one entry is under way at a time. So if an entry survives a crash, those before it were durable.

Errors. If the disk is full (ENOSPC, EDQUOT), the gathered batches are dropped from their logs, their owners are notified, and
later ones may succeed. If a segment cannot be flushed for that reason, its batches stay in memory and in the journal, and the
journal accepts no more until they can be flushed: what was acknowledged is never dropped. Free slots are removed first, to
make room. Any other error of the journal is final for all logs, because after a failed fdatasync the content of the disk is
unknown. An error of a segment is final for its log: what its segments lack is set aside (set_aside.py), and the next start
repairs it. If only event logs have no space, for example by a quota, the journal gives them up before it refuses a write.
"""

import errno
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from coordinator.journal import entry as entries
from coordinator.journal.entry import ALL_BEFORE_DURABLE
from coordinator.journal.recovery import Recovered, make_durable
from coordinator.journal.set_aside import set_aside, write_aside
from coordinator.journal.slot import ENTRIES_AT, SALT_BYTES, Slot, SlotHeader, slot_name, slot_number
from coordinator.journal.turns import JournalWriter, TurnJournal
from coordinator.log.journaled_log import JournaledLog
from coordinator.log.sync_job import SyncJob
from coordinator.log.writer import Durability
from coordinator.world.disk import NO_SPACE, Disk
from coordinator.world.schedule import Handle, Schedule
from coordinator.world.threads import RunInThread

_log = logging.getLogger(__name__)

FIRST_SLOT_BYTES = 256 * 1024
"""Size of the slot that a start makes. Later ones are larger, and made in the background."""
SLOTS_MAX = 4
"""With this many slots, commits wait for a checkpoint instead of another slot."""
WRITE_BEHIND_MS = 100
WRITE_BEHIND_BYTES = 1024 * 1024
"""Bytes in memory from which segments are flushed at once."""
RETRY_MS = 1_000
"""How long after a failure a flush or a checkpoint is tried again."""

Outcomes = list[tuple[JournaledLog, SyncJob, OSError | None]]


class _Use:
    """One use of a slot, from its first entry to its checkpoint."""

    __slots__ = ("ends", "is_synced", "slot")

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.ends: dict[JournaledLog, int] = {}
        """The logs that have batches in it, and the end of the last batch."""
        self.is_synced = False
        """Whether the segments have everything."""

    @property
    def first_sequence(self) -> int:
        assert self.slot.header is not None
        return self.slot.header.first_sequence


class Journal(TurnJournal):
    """The journal in a data folder. All its methods run on the loop; only the constructor and `begin` raise OSError."""

    def __init__(
        self,
        disk: Disk,
        folder: str,
        recovered: Recovered,
        *,
        durability: str,
        file_bytes: int,
        random_bytes: Callable[[int], bytes],
        run_in_thread: RunInThread,
        soon: Callable[[Callable[[], None]], object],
        schedule: Schedule,
        observe: Callable[[str, bytes], None] | None = None,
    ) -> None:
        """`recovered`: what was in the folder. `begin` must be called when the logs have it; what is written earlier waits.

        `file_bytes`: size of a slot. `observe` is called with folder and batches of each write, for simulations.
        """
        super().__init__(soon)
        make_durable(disk, recovered)
        self._disk = disk
        self._folder = folder
        self._old: Recovered | None = recovered
        """What an earlier process left, until this one has begun its own journal."""
        self._sequence = recovered.next_sequence
        self._syncs = Durability(durability) is Durability.FSYNC
        self._file_bytes = file_bytes
        self._random_bytes = random_bytes
        self._run_in_thread = run_in_thread
        self._schedule = schedule
        self._observe = observe
        self._gathered: list[bytes] = []
        """Prefix and batches of each part, alternately."""
        self._gathered_ends: dict[JournalWriter, int] = {}
        """Writers of the gathered batches, and the ends of their logs."""
        self._under_way: dict[JournalWriter, int] | None = None
        """The same of the entry that is being synced."""
        self._active: _Use | None = None
        """None until `begin` has made a slot."""
        self._full: deque[_Use] = deque()
        """Uses that wait for their checkpoint, oldest first."""
        self._checkpointing: _Use | None = None
        self._free: list[Slot] = []
        self._next_number = 1 + max(map(slot_number, recovered.paths), default=0)
        self._is_preparing = False
        self._prepare_error: OSError | None = None
        """Why the last slot could not be made."""
        self._unflushed: dict[JournaledLog, None] = {}
        self._unflushed_bytes = 0
        self._flush_timer: Handle | None = None
        self._blocked: OSError | None = None
        """Why no writes are accepted for now."""
        self._is_stuck = False
        """Whether the oldest checkpoint has failed."""
        self._has_set_aside = False
        """Whether batches of failed logs were set aside, so that a start is needed."""
        self._continued: Slot | None = None
        """The slot that was full before the entry that is about to be written."""
        self._is_header_unsure = False
        """Whether a sync of the active slot has failed, so that the kernel may have dropped its header."""
        self._waits_for_slot = False
        """Whether a slot is being made because an entry needs one."""
        self._is_settled = False

    # --- start and stop -----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begins a journal of this process, and removes the old one, whose batches the logs have.

        On a full disk it stays without a slot, and the logs can be read; the first write that finds space begins. Raises
        OSError for any other error.
        """
        assert self._old is not None
        try:
            without_space = self._sync_old()
            self._set_aside_old(self._old)
            self._active = self._first_use()
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            self._blocked = error
            return
        self._blocked = None
        self._fail_without_space(without_space)
        for path in self._old.paths:
            self._disk.remove(path)
        self._old = None
        if self._gathered:
            self._schedule_turn()

    def _sync_old(self) -> list[JournaledLog]:
        """Syncs the logs whose segments lack something of the old journal. Raises OSError.

        Returns the event logs for which there is still no space.
        """
        without_space = []
        for log in self._writers:
            if log.failed is None and (log.is_unsettled or log.is_behind):
                try:
                    self._sync_log(log)
                except OSError as error:
                    is_full = error.errno in NO_SPACE and log.failed is None
                    if is_full and log.is_best_effort:
                        without_space.append(log)
                    elif is_full or (self._blocked is None and not log.is_best_effort):
                        raise  # There will be space, or this is a start, which can be tried again as a whole.
                    else:
                        self._fail_log(log, error)
        return without_space

    def _set_aside_old(self, old: Recovered) -> None:
        """Copies from the old journal, which is about to be removed, what the segments of failed logs lack. Raises OSError."""
        lacking = {
            writer.name
            for log, writer in self._writers.items()
            if log.synced_offset < log.durable_offset and not log.is_best_effort
        }
        pieces = [(name, piece) for name in sorted(lacking) for piece in old.batches.get(name, ())]
        if pieces:
            write_aside(self._disk, self._path(), self._random_bytes(SALT_BYTES), self._sequence, pieces)
            self._has_set_aside = True

    def _first_use(self) -> _Use:
        """The use of a slot that is durable. Raises OSError, and leaves no file then."""
        slot = Slot.create(self._disk, self._path(), min(FIRST_SLOT_BYTES, self._file_bytes))
        try:
            use = self._begin_use(slot)
            slot.file.sync()
            self._disk.sync_folder(self._folder)
        except OSError:
            self._discard(slot)
            raise
        return use

    def _sync_log(self, log: JournaledLog) -> None:
        job = log.sync_job()
        try:
            job.run()
        except OSError as error:
            log.sync_failed(job, error)
            raise
        log.sync_done(job)

    @property
    def has_slots(self) -> bool:
        """Whether the folder has a journal, without which the logs may be incomplete."""
        return self._active is not None and not self._is_settled

    @property
    def idle(self) -> bool:
        """Whether nothing is under way and nothing waits to be written."""
        is_writing = self._under_way is not None or (bool(self._gathered) and self.failed is None)
        return not (is_writing or self._is_preparing or self._checkpointing is not None)

    def stop(self) -> None:
        """Ends the writing behind: the logs are about to be closed, which flushes and syncs them."""
        if self._flush_timer is not None:
            self._flush_timer.cancel()

    def settle(self) -> None:
        """Notes durably that no entry is needed, if that is so. All logs must be closed, which has synced them."""
        active = self._active
        if active is None or self.failed is not None or self._has_set_aside:
            return
        for use in (*self._full, active):
            if any(log.synced_offset < end for log, end in use.ends.items() if not log.is_best_effort):
                return
        try:
            self._write_header(active, self._sequence)
            active.slot.file.sync()
        except OSError as error:
            _log.warning("event=journal_not_settled reason=%s", error)
            return
        self._is_settled = True

    def close(self, *, keeps_files: bool = False) -> None:
        """Closes the files; removes them if no entry is needed, unless `keeps_files`."""
        slots = [*self._free, *(use.slot for use in self._full)]
        for slot in slots:
            slot.file.close()
        if self._active is None:
            return
        self._active.slot.file.close()
        if self._is_settled and not keeps_files:
            # The active slot is the last to go: it has the note that the others are not needed.
            with suppress(OSError):
                for slot in slots:
                    self._disk.remove(slot.path)
                self._disk.sync_folder(self._folder)
                self._disk.remove(self._active.slot.path)

    # --- writing ------------------------------------------------------------------------------------------------------

    def check_room(self) -> None:
        """Raises OSError if no writes are accepted now."""
        if self.failed is not None:
            raise self.failed
        if self._blocked is not None:
            if self._active is None:
                self._begin_late()
            else:
                self._flush(list(self._unflushed))
            if self._blocked is not None:
                raise self._blocked

    def _begin_late(self) -> None:
        """Begins after a start on a full disk. Raises OSError if the journal cannot be written, which then fails for good."""
        try:
            self.begin()
        except OSError as error:
            self._entry_failed(error)
            raise

    def add(self, writer: JournalWriter, batches: bytes) -> None:
        """Adds batches that the log has appended."""
        self._gathered += (entries.part_prefix(writer.name, batches), batches)
        self._gathered_ends[writer] = writer.log.end_offset
        if self._observe is not None:
            self._observe(writer.log.folder, batches)
        self._schedule_turn()

    def _commit(self) -> None:
        """Writes the gathered batches, unless an entry is under way or there is no room: then it is called again."""
        if not self._gathered or self._under_way is not None or self._active is None or self.failed is not None:
            return
        if not self._make_room(entries.HEADER_BYTES + sum(map(len, self._gathered))):
            return
        slot, ends = self._active.slot, self._gathered_ends
        assert slot.header is not None
        entry = entries.encode(
            slot.header.salt, self._sequence, ALL_BEFORE_DURABLE if self._syncs else 0, self._gathered
        )
        self._forget_gathered()
        self._under_way = ends
        try:
            if self._is_header_unsure:
                self._write_header(self._active, slot.header.needed_from)
                self._is_header_unsure = False
            slot.write(entry)
        except OSError as error:
            self._entry_failed(error)
            return
        continued, self._continued = self._continued, None
        if self._syncs:
            self._run_in_thread(
                slot.file.sync if continued is None else lambda: _sync_both(slot, continued),
                lambda outcome: self._written(outcome, len(entry)),
            )
        else:
            self._written(None, len(entry))

    def _forget_gathered(self) -> None:
        self._gathered, self._gathered_ends = [], {}

    def _written(self, outcome: Any, entry_bytes: int) -> None:
        if self.failed is not None:
            return
        if isinstance(outcome, OSError):
            self._is_header_unsure = True
            self._entry_failed(outcome)
            return
        if isinstance(outcome, BaseException):
            raise outcome
        active, ends = self._active, self._under_way
        assert active is not None
        assert ends is not None
        self._under_way = None
        self._sequence += 1
        self.entries += 1
        self.entry_bytes += entry_bytes
        active.slot.position += entry_bytes
        full = []
        for writer, end in ends.items():
            log = writer.log
            if log.failed is None:
                log.durable_offset = end
                self._unflushed[log] = None
                if log.segments[-1].size_bytes >= log.settings.segment_bytes:
                    full.append(log)
            active.ends[log] = end
        self._unflushed_bytes += entry_bytes
        for writer, end in ends.items():
            if writer.log.failed is None:
                self._report_durable(writer, end)
        if full:
            self._begin_segments(full)
        self._flush_soon()
        if self._gathered:
            # Not at once: whoever waits in a socket joins the next entry, instead of waiting for it to be synced.
            self._schedule_turn()

    def _entry_failed(self, error: OSError) -> None:
        """Drops the entry that is under way and what has gathered behind it."""
        lost = [*{**(self._under_way or {}), **self._gathered_ends}]
        self._under_way = None
        self._forget_gathered()
        self._waits_for_slot = False
        for writer in lost:
            writer.log.drop_unjournaled()
        if error.errno not in NO_SPACE:
            self.failed = error
            lost = list(self._writers.values())
            for writer in lost:
                writer.log.failed = writer.log.failed or error
        for writer in lost:
            self._report_failure(writer, error)

    # --- slots --------------------------------------------------------------------------------------------------------

    def _make_room(self, entry_bytes: int) -> bool:
        """Makes sure that the active slot takes an entry of this size. If that takes time, `_commit` is called afterwards."""
        active = self._active
        assert active is not None
        if active.slot.takes(entry_bytes):
            if not self._free and active.slot.position * 2 > active.slot.size_bytes and self._prepare_error is None:
                self._prepare(self._file_bytes)
            return True
        needed = ENTRIES_AT + entry_bytes
        slot = next((slot for slot in self._free if slot.size_bytes >= needed), None)
        if slot is None:
            error, self._prepare_error = self._prepare_error, None
            if error is not None and self._waits_for_slot:
                self._entry_failed(error)
            else:
                self._waits_for_slot = True
                self._prepare(max(self._file_bytes, needed))
            return False
        self._waits_for_slot = False
        self._full.append(active)
        try:
            use = self._begin_use(slot)
            active.slot.continue_in(slot)
        except OSError as error:
            self._full.pop()
            self._entry_failed(error)
            return False
        self._free.remove(slot)
        self._active, self._continued = use, active.slot
        self._checkpoint()
        return True

    def _begin_use(self, slot: Slot) -> _Use:
        slot.begin(
            SlotHeader(self._random_bytes(SALT_BYTES), self._sequence, self._needed_from(self._sequence), self._syncs)
        )
        return _Use(slot)

    def _needed_from(self, otherwise: int) -> int:
        """The first sequence that the segments may lack."""
        uses = [*([self._checkpointing] if self._checkpointing is not None else []), *self._full]
        return min((use.first_sequence for use in uses if not use.is_synced), default=otherwise)

    def _write_header(self, use: _Use, needed_from: int) -> None:
        assert use.slot.header is not None
        use.slot.header = use.slot.header._replace(needed_from=needed_from)
        use.slot.file.write_at(0, use.slot.header.encode())

    def _path(self) -> str:
        number, self._next_number = self._next_number, self._next_number + 1
        return f"{self._folder}/{slot_name(number)}"

    def _prepare(self, size_bytes: int) -> None:
        """Makes another slot in a thread, unless there are enough and a checkpoint will free one."""
        count = len(self._free) + len(self._full) + 1 + (self._checkpointing is not None)
        if self._is_preparing:
            return
        if count >= SLOTS_MAX and not self._free:
            if self._is_stuck:
                self._checkpoint(without_events=True)
            if self._is_stuck and self._waits_for_slot:
                self._entry_failed(OSError(errno.ENOSPC, "the journal is full, because segments cannot be written"))
            return
        self._is_preparing = True
        path = self._path()
        self._run_in_thread(lambda: Slot.create(self._disk, path, size_bytes), self._prepared)

    def _prepared(self, outcome: Any) -> None:
        self._is_preparing = False
        if isinstance(outcome, OSError):
            self._prepare_error = outcome
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            self._free.append(outcome)
        self._commit()

    # --- checkpoints --------------------------------------------------------------------------------------------------

    def _checkpoint(self, *, without_events: bool = False) -> None:
        """Syncs the segments of the oldest full slot in a thread, unless a checkpoint is under way.

        `without_events`: event logs that cannot be flushed fail, instead of holding up the checkpoint.
        """
        if self._checkpointing is not None or not self._full:
            return
        use = self._full[0]
        behind = [log for log, end in use.ends.items() if log.failed is None and log.synced_offset < end]
        self._is_stuck = not self._flush(behind, is_needed=True)
        if self._is_stuck and without_events:
            left = [log for log in behind if log in self._unflushed]
            if all(log.is_best_effort for log in left):
                self._fail_without_space(left)
                self._is_stuck = False
        if self._is_stuck:
            return
        self._checkpointing = self._full.popleft()
        jobs = [(log, log.sync_job()) for log in behind if log.failed is None]
        self._run_in_thread(lambda: _run_all(jobs), lambda outcomes: self._segments_synced(use, outcomes))

    def _segments_synced(self, use: _Use, outcomes: Any) -> None:
        if isinstance(outcomes, BaseException):
            raise outcomes
        for log, job, error in outcomes:
            if error is None:
                log.sync_done(job)
            else:
                log.sync_failed(job, error)
                self._fail_log(log, error)
        lacking = {
            self._writers[log].name
            for log, end in use.ends.items()
            if log.synced_offset < end and not log.is_best_effort
        }
        if lacking:
            path, salt = self._path(), self._random_bytes(SALT_BYTES)
            self._run_in_thread(
                lambda: set_aside(self._disk, use.slot, lacking, path, salt),
                lambda outcome: self._set_aside(use, outcome),
            )
        else:
            self._everything_synced(use)

    def _set_aside(self, use: _Use, outcome: Any) -> None:
        """What the segments of failed logs lack is in a file of its own, or could not be copied."""
        if isinstance(outcome, OSError):
            _log.warning("event=journal_not_set_aside file=%s reason=%s", use.slot.path, outcome)
            self._checkpointing = None
            self._full.appendleft(use)
            self._is_stuck = True
            if self._flush_timer is None:
                self._flush_timer = self._schedule(RETRY_MS, self._on_flush_timer)
            if self._waits_for_slot:
                self._entry_failed(OSError(errno.ENOSPC, f"the journal is full: {outcome}"))
            return
        if isinstance(outcome, BaseException):
            raise outcome
        self._has_set_aside = True
        self._everything_synced(use)

    def _everything_synced(self, use: _Use) -> None:
        use.is_synced = True
        self._note_synced(use)

    def _note_synced(self, use: _Use) -> None:
        """The slot may be overwritten when it is durable that the entries in it are not needed."""
        active = self._active
        assert active is not None
        try:
            self._write_header(active, self._needed_from(active.first_sequence))
        except OSError as error:
            self._header_written(use, error)
            return
        self._is_header_unsure = False
        self._run_in_thread(active.slot.file.sync, lambda outcome: self._header_written(use, outcome))

    def _header_written(self, use: _Use, outcome: Any) -> None:
        if outcome is None and self._is_header_unsure and self.failed is None:
            self._note_synced(use)
            return
        self._checkpointing = None
        if isinstance(outcome, OSError):
            self._full.appendleft(use)
            if self.failed is None:
                self._entry_failed(OSError(errno.EIO, f"the journal cannot be written: {outcome}"))
            return
        if isinstance(outcome, BaseException):
            raise outcome
        self.checkpoints += 1
        if use.slot.size_bytes < self._file_bytes:
            self._discard(use.slot)
        else:
            self._free.append(use.slot)
        self._checkpoint()
        self._commit()

    def _discard(self, slot: Slot) -> None:
        slot.file.close()
        with suppress(OSError):
            self._disk.remove(slot.path)

    # --- writing behind -----------------------------------------------------------------------------------------------

    def _flush_soon(self) -> None:
        if self._unflushed_bytes >= WRITE_BEHIND_BYTES and self._blocked is None:
            self._flush_now()
        elif self._flush_timer is None:
            self._flush_timer = self._schedule(WRITE_BEHIND_MS, self._on_flush_timer)

    def _on_flush_timer(self) -> None:
        self._flush_timer = None
        self._flush_now()
        if self._unflushed or self._is_stuck:
            self._flush_timer = self._schedule(RETRY_MS, self._on_flush_timer)

    def _flush_now(self) -> None:
        """Writes everything durable to the segments, and begins new segments where they are full."""
        self._unflushed_bytes = 0
        flushed = list(self._unflushed)
        self._flush(flushed)
        self._begin_segments(log for log in flushed if log.wants_segment)
        if self._is_stuck:
            self._checkpoint()

    def _begin_segments(self, logs: Iterable[JournaledLog]) -> None:
        for log in logs:
            if log.failed is None:
                try:
                    log.begin_segment()
                except OSError as error:
                    if log.failed is not None:
                        self._fail_log(log, error)

    def _flush(self, logs: Iterable[JournaledLog], *, is_needed: bool = False) -> bool:
        """Flushes logs; returns whether all of them are flushed or have failed. Sets `_blocked` if the disk is full."""
        flushes_all = True
        for log in logs:
            if log.failed is None:
                try:
                    self._flush_log(log)
                except OSError as error:
                    is_full = error.errno in NO_SPACE
                    if is_full and not log.is_best_effort:
                        self._blocked = error
                    elif not is_full and (is_needed or not log.is_best_effort):
                        self._fail_log(log, error)
                        continue
                    flushes_all = False
                    continue
            self._unflushed.pop(log, None)
        if self._active is not None and all(log.is_best_effort for log in self._unflushed):
            self._blocked = None
        return flushes_all

    def _flush_log(self, log: JournaledLog) -> None:
        try:
            log.flush()
        except OSError as error:
            if error.errno not in NO_SPACE or not self._free:
                raise
            for slot in self._free:
                self._discard(slot)
            self._free.clear()
            log.flush()

    def _fail_without_space(self, logs: Sequence[JournaledLog]) -> None:
        """Goes on without these event logs: the journal needs its files, and there is space for the other logs."""
        for log in logs:
            self._fail_log(log, OSError(errno.ENOSPC, "no space for its segments, and the journal needs its files"))

    def _fail_log(self, log: JournaledLog, error: OSError) -> None:
        """The log's segments cannot be written: it takes no more until a start repairs it from the journal."""
        log.failed = log.failed or error
        self._unflushed.pop(log, None)
        self._writers[log].fail(error)


def _sync_both(slot: Slot, continued: Slot) -> None:
    """Syncs the first entry of a slot, and in the slot before it the note where the journal continues. In the worker."""
    slot.file.sync()
    with suppress(OSError):  # nothing else in it is unsynced, and it is only a note
        continued.file.sync()


def _run_all(jobs: Sequence[tuple[JournaledLog, SyncJob]]) -> Outcomes:
    """Runs every job, in a thread."""
    outcomes: Outcomes = []
    for log, job in jobs:
        try:
            job.run()
        except OSError as error:
            outcomes.append((log, job, error))
        else:
            outcomes.append((log, job, None))
    return outcomes
