"""Loads the producer state of one partition from its snapshot and log, and saves it (Kafka's UnifiedLog.rebuildProducerState).

A load starts from the snapshot (producer_snapshot.py) and reads the batches after it (producer_walk.py). A snapshot is only
a shortcut: if it is missing or cannot be written, the next load has more to read.
"""

from collections.abc import Callable
from contextlib import suppress

from coordinator.log.log import Log
from coordinator.topics import producer_snapshot
from coordinator.topics.producer_state import ProducerState
from coordinator.topics.producer_walk import Walk
from coordinator.world.disk import Disk
from coordinator.world.threads import RunInThread


class ProducerStorage:
    """The stored producer state of the partition in `folder`."""

    __slots__ = ("_disk", "_folder", "_run_in_thread", "_saved_to", "expiration_ms")

    def __init__(self, disk: Disk, folder: str, run_in_thread: RunInThread, expiration_ms: int) -> None:
        self._disk = disk
        self._folder = folder
        self._run_in_thread = run_in_thread
        self.expiration_ms = expiration_ms
        self._saved_to = 0
        """The offset of the last snapshot that this process made durable."""

    def load(self, log: Log | None, now_ms: int, done: Callable[[Walk | Exception], None]) -> None:
        """Calls `done` with the finished walk, which has the producers, or with OSError, DamagedLog or CorruptBatch.

        A long walk is done in a thread; a short one before this returns.
        """
        try:
            walk = self._begin(log, now_ms)
        except OSError as error:
            done(error)
            return
        walk.run(self._run_in_thread, lambda error: done(walk if error is None else error))

    def _begin(self, log: Log | None, now_ms: int) -> Walk:
        """A walk from the offset of the snapshot."""
        producers = ProducerState(self.expiration_ms)
        if log is None:
            return Walk([], 0, 0, producers, now_ms)
        snapshot = producer_snapshot.load(self._disk, self._folder)
        offset = 0
        if snapshot is not None and snapshot.offset > log.end_offset:
            # The log lost its end, so the snapshot describes records that do not exist.
            producer_snapshot.remove(self._disk, self._folder)
        elif snapshot is not None:
            offset = snapshot.offset
            producers.restore(snapshot.producers)
        for segment in reversed(log.segments):
            segment.aborted.cut(offset)
            if segment.base_offset <= offset:
                break
        return Walk(log.segments, offset, log.end_offset, producers, now_ms)

    def forget_after(self, end_offset: int) -> None:
        """Must be called when the log has lost its end: the snapshot may describe records that are gone. Raises OSError."""
        self._saved_to = min(self._saved_to, end_offset)
        snapshot = producer_snapshot.load(self._disk, self._folder)
        if snapshot is not None and snapshot.offset > end_offset:
            producer_snapshot.remove(self._disk, self._folder)

    def is_empty(self) -> bool:
        """Whether there is no snapshot. Raises OSError."""
        return producer_snapshot.load(self._disk, self._folder) is None

    def save(self, log: Log, producers: ProducerState, offset: int, *, durably: bool) -> None:
        """Writes a snapshot of the producers before `offset`, up to which the log is durable. Ignores disk errors."""
        if offset:
            with suppress(OSError):
                for segment in log.segments:
                    segment.sync_aborted()
                producer_snapshot.save(self._disk, self._folder, offset, producers, durably=durably)
                if durably:
                    self._saved_to = offset

    def save_before_deletion(self, log: Log, producers: ProducerState) -> None:
        """Makes a snapshot durable that covers the segments which are about to be deleted. Raises OSError."""
        if log.segments and self._saved_to < log.segments[-1].base_offset:
            log.sync()
            self.save(log, producers, log.end_offset, durably=True)
