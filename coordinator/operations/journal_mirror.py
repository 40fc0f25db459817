"""Keeps a folder up to date with the groups and events of an engine, for readers of a log that grows.

The folder is a data folder, like that of `journal_export`, and gets every piece that the journal has when it looks. A shard's
state is never behind its events: the events are read first and written last. What is in the folder is never taken back, so a
reader may remember how far it came; a mirror that starts again goes on behind what the folder has.

Nothing is claimed. A worker may replace pieces by a snapshot before they were read: the mirror then has the records that
compaction has left, and the checkpoint of the log says up to where (`clean_offset`). Events that were deleted before they were
read end the mirror.
"""

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path

from coordinator.cluster.engine.engine import Engine, EngineSettings
from coordinator.log.batch import split
from coordinator.log.journaled_log import JournaledLog
from coordinator.log.recovery import DamagedLog
from coordinator.operations.journal_access import JournalFailed, JournalUnavailable, topic_of, with_engine
from coordinator.operations.journal_export import (
    COPY_SETTINGS,
    FLUSH_BYTES,
    cluster_id_of,
    logs_of,
    write_identity,
)
from coordinator.operations.known_logs import META_PROPERTIES
from coordinator.server import data_folder
from coordinator.topics.names import CONSUMER_OFFSETS, COORDINATOR_EVENTS
from coordinator.world.disk import RealDisk

INTERVAL_MIN_S = 0.1


class JournalMirror:
    """A folder that gets what the journal has. Methods raise JournalFailed, EngineUnavailable, CorruptBatch, OSError."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._logs: dict[str, _JournalLog] = {}
        self._cluster_id = ""

    async def catch_up(self, engine: Engine) -> None:
        """Copies what the journal has and the folder lacks."""
        if not self._cluster_id:
            self._cluster_id = await self._check_cluster(engine)
        logs = await logs_of(engine)
        for state in (log for log in logs if topic_of(log) == CONSUMER_OFFSETS):
            events = state.replace(CONSUMER_OFFSETS, COORDINATOR_EVENTS)
            new_events = await self._log(events).news(engine) if events in logs else []
            await self._log(state).add_news(engine)
            if events in logs:
                await self._log(events).add(engine, new_events)

    async def _check_cluster(self, engine: Engine) -> str:
        here = await cluster_id_of(engine)
        note = self._folder / META_PROPERTIES
        if not note.is_file():
            write_identity(self._folder, here)
        elif f"cluster.id={here}" not in note.read_text(encoding="ascii").split():
            raise JournalFailed(
                f"{self._folder} follows another journal than the journal of cluster {here}: name another folder"
            )
        return here

    def _log(self, name: str) -> "_JournalLog":
        if name not in self._logs:
            self._logs[name] = _JournalLog(self._folder, name)
        return self._logs[name]

    def close(self) -> None:
        """Closes all files."""
        for log in self._logs.values():
            log.close()


class MirroredLog:
    """One log of a folder that is kept up to date. Methods raise JournalFailed, CorruptBatch, OSError."""

    def __init__(self, folder: Path, name: str) -> None:
        self._name = name
        self._log = JournaledLog(RealDisk(), str(folder / name), COPY_SETTINGS)
        self._unflushed_bytes = 0
        try:
            self._log.load()
        except DamagedLog as error:
            raise JournalFailed(f"{error}; remove {folder} to read the log from its beginning") from error

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    def mark_compacted(self, offset: int) -> None:
        """Notes that records before an offset may be missing, before they are written."""
        # A folder that lacks some of them without saying so is damaged.
        self._log.checkpoint.write(clean_offset=offset, dense_offset=offset)
        self._log.checkpoint.sync()

    def write(self, batches: bytes) -> None:
        """Appends batches."""
        log = self._log
        gap_end = log.gap_end
        is_state = topic_of(self._name) != COORDINATOR_EVENTS
        if not is_state:
            self._begin_events(batches)
        log.append_replayed(batches)
        if log.gap_end > gap_end:
            if not is_state:
                raise JournalFailed(
                    f"events of {self._name} before offset {log.gap_end} were deleted before they were read:"
                    " read more often, or keep them longer (coordinator.events.retention.ms)"
                )
            if log.gap_end > log.checkpoint.offsets.clean_offset:
                self.mark_compacted(log.gap_end)
        if log.segments and log.wants_segment:
            log.begin_segment()
        self._unflushed_bytes += len(batches)
        if self._unflushed_bytes >= FLUSH_BYTES:
            log.flush()
            self._unflushed_bytes = 0

    def _begin_events(self, batches: bytes) -> None:
        """Begins an empty log where the original does; retention may have deleted the first events."""
        log = self._log
        if not log.end_offset:
            start = next((header.base_offset for _, header in split(batches)), 0)
            if start:
                log.begin_again(start)
                log.checkpoint.write(start_offset=start)
                log.checkpoint.sync()

    def sync(self) -> None:
        """Makes what was written durable, and visible to readers of the folder."""
        self._log.sync()

    def close(self) -> None:
        self._log.close()


class _JournalLog(MirroredLog):
    """One log of a journal."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder, name)
        self._next_sequence = 0
        self._is_covered = True
        """Whether the last piece that was read may be in the journal only as a part of a snapshot."""

    async def news(self, engine: Engine) -> list[tuple[int, bytes]] | None:
        """The pieces that follow what was read; None if a snapshot has replaced some of them, so that `read` has the rest.

        The last piece that was read is asked for again: it is missing if a snapshot covers it, and maybe later ones.
        """
        found = await engine.tail(self._name, max(self._next_sequence - 1, 0))
        new = [each for each in found if each[0] >= self._next_sequence]
        begins = found[0][0] if found else None
        if begins == self._next_sequence - 1 or (self._is_covered and begins in {None, self._next_sequence}):
            return new
        return None

    async def add_news(self, engine: Engine) -> None:
        """Reads the new pieces and writes them."""
        await self.add(engine, await self.news(engine))

    async def add(self, engine: Engine, news: list[tuple[int, bytes]] | None) -> None:
        """Writes what `news` returned; if that is None, what the journal has now."""
        if news is None:
            await self._read(engine)
        for sequence, batches in news or ():
            self._take(sequence, batches)
            self._is_covered = False
        self.sync()

    async def _read(self, engine: Engine) -> None:
        async with aclosing(engine.read(self._name)) as reading:  # type: ignore[type-var]
            async for sequence, batches in reading:
                self._take(sequence, batches)
        self._is_covered = True

    def _take(self, sequence: int, batches: bytes) -> None:
        self.write(batches)
        self._next_sequence = sequence + 1


Wait = Callable[[], bool]
"""Waits until it is time to look again. Returns whether the following is over instead."""


class _Follower:
    """Keeps a folder up to date in a thread."""

    def __init__(self, repeat: Callable[[Wait], None], interval_s: float) -> None:
        self._repeat = repeat
        self._interval_s = max(interval_s, INTERVAL_MIN_S)
        self._failure: Exception | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mirror")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()

    def check(self) -> None:
        """Raises JournalFailed if it had to end."""
        if self._failure is not None:
            raise JournalFailed(str(self._failure)) from self._failure

    def _wait(self) -> bool:
        return self._is_over.wait(self._interval_s)

    def _run(self) -> None:
        was_there = True
        while not self._is_over.is_set():
            try:
                self._repeat(self._wait)
            except JournalUnavailable as error:
                if was_there:
                    print(f"coordinator: no answer, trying again: {error}", file=sys.stderr)
                was_there = False
                self._wait()
            except (JournalFailed, OSError) as error:
                self._failure = error
                return
            else:
                was_there = True


@contextmanager
def followed(
    folder: Path, catch_up: Callable[[], None], repeat: Callable[[Wait], None], interval_s: float | None
) -> Iterator[Callable[[], None]]:
    """A folder of its own, caught up with once, and then by `repeat` in a thread unless the interval is None.

    `repeat` catches up whenever its argument returns False, and raises JournalUnavailable to be called again.
    Yields a function that raises JournalFailed if the following had to end. Raises CannotStart, and as `catch_up`.
    """
    lock = data_folder.lock(str(folder))
    try:
        catch_up()
        follower = _Follower(repeat, interval_s or 0)
        if interval_s is not None:
            follower.start()
        try:
            yield follower.check
        finally:
            if interval_s is not None:
                follower.stop()
    finally:
        lock.close()


@contextmanager
def mirrored(address: str, cluster: str, folder: Path, interval_s: float | None) -> Iterator[Callable[[], None]]:
    """A folder that follows a journal, as `followed`. Raises JournalFailed, CannotStart, OSError."""
    settings = EngineSettings(cluster=cluster, reads_only=True)
    with_engine(address, settings, cluster_id_of)  # before anything is written
    mirror = JournalMirror(folder)

    def repeat(wait: Wait) -> None:
        async def rounds(engine: Engine) -> None:
            while not await asyncio.to_thread(wait):
                await mirror.catch_up(engine)

        with_engine(address, settings, rounds)

    try:
        with followed(folder, lambda: with_engine(address, settings, mirror.catch_up), repeat, interval_s) as check:
            yield check
    finally:
        mirror.close()
