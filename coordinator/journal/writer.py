"""What the owner of a log has of the journal: it writes batches, and learns what became of them."""

from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING

from coordinator.log.journaled_log import JournaledLog

if TYPE_CHECKING:
    from coordinator.journal.turns import TurnJournal

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
            self._on_failure(error)
            return
        self._journal.add(self, batch)

    def fail(self, error: OSError) -> None:
        """Reports that batches which were not reported as durable are lost; the log has dropped them."""
        self._on_failure(error)
