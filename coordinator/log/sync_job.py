"""Making a log durable: the part of it that may run in another thread."""

from threading import Lock

from coordinator.log.checkpoint import Checkpoint
from coordinator.log.segment import Segment
from coordinator.world.disk import Disk, File


class Syncs:
    """Serializes the syncs of one log, which may run in different threads, and remembers a failure.

    The kernel reports a write error only once. A sync that follows a failed one in another thread would succeed, and the log
    would continue over a hole. Therefore syncs wait for each other, and after a failure all of them fail until the unsynced
    data has been cut off.
    """

    __slots__ = ("error", "lock")

    def __init__(self) -> None:
        self.lock = Lock()
        self.error: OSError | None = None


class SyncJob:
    """Makes everything durable that was written before the job was created. `run` blocks; any thread may call it."""

    __slots__ = ("_checkpoint", "_disk", "_folder", "_syncs", "end_offset", "file", "segment")

    def __init__(
        self,
        end_offset: int,
        segment: Segment | None,
        disk: Disk,
        folder: str | None,
        checkpoint: Checkpoint | None,
        syncs: Syncs,
    ) -> None:
        self.end_offset = end_offset
        self.segment = segment
        self.file: File | None = segment.file if segment is not None else None
        self._disk = disk
        self._folder = folder
        self._checkpoint = checkpoint
        self._syncs = syncs

    def run(self) -> None:
        """Raises OSError on failure; from then on the content of the disk is unknown."""
        with self._syncs.lock:
            if self._syncs.error is not None:
                raise self._syncs.error
            try:
                if self._folder is not None:
                    self._disk.sync_folder(self._folder)
                if self.file is not None:
                    self.file.sync()
                if self._checkpoint is not None:
                    self._checkpoint.sync()
            except OSError as error:
                self._syncs.error = error
                raise
