"""Group commit: one fdatasync covers everything that was written while the previous one ran.

A batch is written to the file at once, in the turn of the loop that created it. If no fdatasync is running, one is started
in a thread. Otherwise a single further fdatasync covers all that was written in the meantime. What an fdatasync
covers is fixed when it *starts*: a batch written while it runs may or may not be on the disk when it ends. Durable
throughput therefore grows with load, and a reply waits for one or two fdatasyncs.

With durability "write", a batch counts once the operating system has it, as in Kafka: it survives the process but not the
machine. The log is still synced in the background every few megabytes, so that the kernel never has much unwritten data and
a segment can be closed quickly.

A full disk or an exhausted quota is temporary: the failed write is undone and reported, and the next one may succeed. Any
other failure of fdatasync is final: the kernel may have dropped the data and marked it clean, and would report success for
a second fdatasync.
"""

from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from struct import Struct
from typing import Any, Protocol

from coordinator.log.log import Log, SyncJob
from coordinator.world.disk import NO_SPACE
from coordinator.world.threads import RunInThread

FLUSH_BYTES = 8 * 1024 * 1024
"""With durability "write": bytes written before a background sync starts."""
_MAX_TIMESTAMP = Struct(">q").unpack_from


class ClaimLost(OSError):
    """For `on_failure`: the log is another server's by now, or may be. What was not reported as durable may be in it."""


class Durability(StrEnum):
    """When a batch counts as durable: after fdatasync, or once the operating system has it."""

    FSYNC = "fsync"
    WRITE = "write"


class LogWriter(Protocol):
    """The only writer of a log (Kafka: `PartitionWriter`). Not thread-safe: methods and callbacks run on the loop."""

    @property
    def offset_durable(self) -> int:
        """Every record before it is durable."""

    @property
    def idle(self) -> bool:
        """Whether everything that was written is durable or lost, so that the log may be closed."""

    def write(self, batch: bytes, record_count: int) -> None:
        """Appends a batch, or several, whose base offset is the log's end offset. Errors go to `on_failure`."""


MakeWriter = Callable[[Any, Callable[[int], None], Callable[[OSError], None]], LogWriter]
"""`make_writer(log, on_durable, on_failure)`, with the callbacks of `Writer`."""


class Writer:
    """The writer of a log that syncs itself."""

    __slots__ = (
        "_durability", "_job", "_on_durable", "_on_failure", "_run_in_thread", "_unsynced_bytes", "log",
        "offset_durable",
    )  # fmt: skip

    def __init__(
        self,
        log: Log,
        durability: str,
        run_in_thread: RunInThread,
        on_durable: Callable[[int], None],
        on_failure: Callable[[OSError], None],
    ) -> None:
        """`run_in_thread(function, done)` calls the function in a thread, then `done` on the loop.

        `on_durable(offset)`: everything before the offset is durable; the offset grows from call to call.
        `on_failure(error)`: batches that were not reported as durable may be lost. The failure is final if `log.failed`
        is set. Otherwise the log continues at its `end_offset`, and the next write may succeed. Both may be called before
        `write` returns.
        """
        self.log = log
        self.offset_durable = log.end_offset
        self._durability = Durability(durability)
        self._run_in_thread = run_in_thread
        self._on_durable = on_durable
        self._on_failure = on_failure
        self._job: SyncJob | None = None
        self._unsynced_bytes = 0

    def write(self, batch: bytes, record_count: int) -> None:
        """Appends a batch whose base offset is the log's end offset. Errors go to `on_failure`."""
        log = self.log
        try:
            log.append(batch, record_count, _MAX_TIMESTAMP(batch, 35)[0])
        except OSError as error:
            self._on_failure(error)
            return
        if self._durability is Durability.WRITE:
            self._unsynced_bytes += len(batch)
            if self._unsynced_bytes >= FLUSH_BYTES and self._job is None:
                self._start()
            self.offset_durable = log.end_offset
            self._on_durable(log.end_offset)
        elif self._job is None:
            self._start()

    @property
    def idle(self) -> bool:
        """Whether no sync is running, so that the log may be closed."""
        return self._job is None

    def _start(self) -> None:
        self._unsynced_bytes = 0
        job = self._job = self.log.sync_job()
        self._run_in_thread(job.run, self._synced)

    def _synced(self, outcome: Any) -> None:
        job, self._job = self._job, None
        assert job is not None
        if isinstance(outcome, OSError):
            self._sync_failed(job, outcome)
            return
        if isinstance(outcome, BaseException):
            raise outcome
        self.log.sync_done(job)
        if self._durability is Durability.WRITE:
            return
        if self.log.end_offset > job.end_offset and self.log.failed is None:
            self._start()
        if self.log.synced_offset > self.offset_durable:
            self.offset_durable = self.log.synced_offset
            self._on_durable(self.offset_durable)

    def _sync_failed(self, job: SyncJob, error: OSError) -> None:
        if error.errno in NO_SPACE and self._durability is Durability.FSYNC and self.log.failed is None:
            with suppress(OSError):
                self.log.drop_unsynced(job)
        else:
            self.log.sync_failed(job, error)
        self._on_failure(error)
