"""Keeps the catalog of the data folder (log/catalog.py): written at the start, at the stop, and in between when logs appear."""

import logging
from collections.abc import Callable, Iterable
from typing import Any

from coordinator.log import catalog
from coordinator.log.catalog import Catalog, KnownLog
from coordinator.world.disk import Disk
from coordinator.world.schedule import Handle, Schedule
from coordinator.world.threads import RunInThread

_log = logging.getLogger(__name__)

INTERVAL_MS = 60_000
"""As often as Kafka writes its offset checkpoints."""


class CatalogKeeper:
    """Writes the catalog of one data folder. Errors are logged: an older catalog is valid too."""

    def __init__(
        self,
        disk: Disk,
        data_folder: str,
        found: Catalog,
        cluster_id: str,
        logs: Callable[[], Iterable[KnownLog]],
        has_journal: Callable[[], bool],
        *,
        run_in_thread: RunInThread,
        schedule: Schedule,
        note_logs: Callable[[Iterable[KnownLog]], bool] = lambda _logs: False,
    ) -> None:
        """`found`: the catalog that the start has read. `logs()`: every log that has durable records.

        `has_journal()`: whether the folder has a journal now. `note_logs(logs)`: whether another process keeps the catalog.
        """
        self._disk = disk
        self._data_folder = data_folder
        self._cluster_id = cluster_id
        self._logs = logs
        self._has_journal = has_journal
        self._run_in_thread = run_in_thread
        self._schedule = schedule
        self._note_logs = note_logs
        self._written = found
        self._timer: Handle | None = None
        self.idle = True
        """Whether no write is in progress."""

    def begin(self) -> None:
        """Writes the catalog, and looks for new logs from now on."""
        self.write()
        self._timer = self._schedule(INTERVAL_MS, self._look)

    def stop(self) -> None:
        """Ends the looking; a write in progress goes on until `idle`."""
        if self._timer is not None:
            self._timer.cancel()

    def write(self) -> bool:
        """Writes the catalog at once, if it has changed; returns whether it is up to date now."""
        try:
            present = self._present()
            if not self._note_logs(present.logs.values()) and present != self._written:
                catalog.write(self._disk, self._data_folder, present)
                self._written = present
        except OSError as error:
            _failed(error)
            return False
        return True

    def _present(self) -> Catalog:
        return Catalog(self._cluster_id, {log.folder: log for log in self._logs()}, self._has_journal())

    def _look(self) -> None:
        """Writes the catalog in a thread if a log has got its first records or a new segment."""
        self._timer = self._schedule(INTERVAL_MS, self._look)
        if not self.idle:
            return
        try:
            present = self._present()
        except OSError as error:
            _failed(error)
            return
        if self._note_logs(present.logs.values()):
            return
        if _segments_of(present) != _segments_of(self._written) or present.has_journal != self._written.has_journal:
            self.idle = False
            self._run_in_thread(
                lambda: catalog.write(self._disk, self._data_folder, present),
                lambda outcome: self._done(present, outcome),
            )

    def _done(self, written: Catalog, outcome: Any) -> None:
        self.idle = True
        if isinstance(outcome, OSError):
            _failed(outcome)
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            self._written = written


def _segments_of(present: Catalog) -> dict[str, tuple[str, int]]:
    return {log.folder: (log.topic_id, log.base_offset) for log in present.logs.values()}


def _failed(error: OSError) -> None:
    _log.warning("event=catalog_not_written reason=%s", error)
