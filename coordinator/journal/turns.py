"""What every journal has: the writers of its logs, and the end of a turn of the loop, at which it commits what gathered."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from struct import Struct

from coordinator.log.journaled_log import JournaledLog

_log = logging.getLogger(__name__)
_MAX_TIMESTAMP = Struct(">q").unpack_from


class JournalWriter:
    """The only writer of a journaled log. `log.writer.Writer` has the same methods, for logs that sync themselves."""

    __slots__ = ("_journal", "_on_failure", "log", "name", "on_durable")

    def __init__(
        self,
        journal: "TurnJournal",
        log: JournaledLog,
        on_durable: Callable[[int], None],
        on_failure: Callable[[OSError], None],
    ) -> None:
        self._journal = journal
        self._on_failure = on_failure
        self.log = log
        self.name = log.folder.rpartition("/")[2]
        self.on_durable = on_durable

    @property
    def offset_durable(self) -> int:
        """Every record before it is durable."""
        return self.log.durable_offset

    @property
    def idle(self) -> bool:
        """Whether everything that was written is durable, or the log has failed."""
        return self.log.failed is not None or self.log.durable_offset == self.log.end_offset

    def write(self, batch: bytes, record_count: int) -> None:
        """Appends one or more batches, of which the first begins at the log's end offset. Errors go to `on_failure`.

        They leave with the entry of this turn.
        """
        try:
            self._journal.check_room()
            self.log.append(batch, record_count, _MAX_TIMESTAMP(batch, 35)[0])
        except OSError as error:
            self._journal.append_failed(self, error)
            return
        self._journal.add(self, batch)

    def fail(self, error: OSError) -> None:
        """Reports that batches which were not reported as durable are lost; the log has dropped them."""
        self._on_failure(error)


class TurnJournal(ABC):
    """A journal that gathers the batches of a turn. All methods run on the loop."""

    failed: OSError | None = None
    """Set when the journal has failed for good."""

    def __init__(self, soon: Callable[[Callable[[], None]], object]) -> None:
        """`soon` calls back in the next turn of the loop."""
        self.entries = 0
        """Number of turns that were made durable."""
        self.entry_bytes = 0
        self.checkpoints = 0
        """How often a file of an embedded journal could be used again."""
        self._soon = soon
        self._writers: dict[JournaledLog, JournalWriter] = {}
        self._at_turn_end: list[Callable[[], None]] = []
        self._is_turn_scheduled = False

    def writer(
        self, log: JournaledLog, on_durable: Callable[[int], None], on_failure: Callable[[OSError], None]
    ) -> JournalWriter:
        """The writer of a log. `on_durable` and `on_failure` as for `log.writer.Writer`."""
        writer = self._writers[log] = JournalWriter(self, log, on_durable, on_failure)
        return writer

    @property
    @abstractmethod
    def has_slots(self) -> bool:
        """Whether the folder has a journal, without which the logs may be incomplete."""

    @property
    @abstractmethod
    def idle(self) -> bool:
        """Whether nothing is under way and nothing waits to be written."""

    @abstractmethod
    def begin(self) -> None:
        """Begins, when the logs have what an earlier process has written."""

    @abstractmethod
    def stop(self) -> None:
        """Ends the writing behind: the logs are about to be closed, which flushes and syncs them."""

    @abstractmethod
    def settle(self) -> None:
        """Notes durably that no entry is needed, if that is so. All logs must be closed."""

    @abstractmethod
    def close(self, *, keeps_files: bool = False) -> None:
        """Closes the files; removes them if no entry is needed, unless `keeps_files`."""

    @abstractmethod
    def check_room(self) -> None:
        """Raises OSError if no writes are accepted now."""

    def append_failed(self, writer: JournalWriter, error: OSError) -> None:
        """Reports that a log could not append batches."""
        writer.fail(error)

    @abstractmethod
    def add(self, writer: JournalWriter, batches: bytes) -> None:
        """Adds batches that the log has appended."""

    @abstractmethod
    def _commit(self) -> None:
        """Makes durable what has gathered, unless something is under way or there is no room: then it is called again."""

    def at_turn_end(self, callback: Callable[[], None]) -> None:
        """Calls back at the end of this turn of the loop, before the entry is written."""
        self._at_turn_end.append(callback)
        self._schedule_turn()

    def _schedule_turn(self) -> None:
        if not self._is_turn_scheduled:
            self._is_turn_scheduled = True
            self._soon(self._end_turn)

    def _end_turn(self) -> None:
        self._is_turn_scheduled = False
        callbacks, self._at_turn_end = self._at_turn_end, []
        for callback in callbacks:
            try:
                callback()
            except Exception:  # noqa: BLE001 - a bug in one shard must not affect the others
                _log.exception("event=turn_end_failed")
        self._commit()

    @staticmethod
    def _report_durable(writer: JournalWriter, end: int) -> None:
        try:
            writer.on_durable(end)
        except Exception:  # noqa: BLE001 - a bug in one owner must not affect the others
            _log.exception("event=durable_failed log=%s", writer.name)

    @staticmethod
    def _report_failure(writer: JournalWriter, error: OSError) -> None:
        try:
            writer.fail(error)
        except Exception:  # noqa: BLE001 - as above
            _log.exception("event=failure_not_handled log=%s", writer.name)
