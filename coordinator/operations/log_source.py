"""Where commands that read logs find them: in a folder, or in the engine of workers (docs/scale-out.md)."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from coordinator.operations.journal_access import shown_address
from coordinator.operations.journal_export import Select, copied


class LogSource(NamedTuple):
    """A folder, or a journal. One of `folder` and `journal` is None."""

    folder: Path | None
    journal: str | None
    """The address of the engine, or `journal_access.FROM_VARIABLE`."""
    cluster: str
    """The setting journal.cluster of the workers."""

    @property
    def name(self) -> str:
        """The source for people."""
        return str(self.folder) if self.journal is None else shown_address(self.journal)

    @contextmanager
    def opened(self, select: Select = list) -> Iterator[Path]:
        """The folder, or a temporary copy of those logs of the journal that are selected.

        Raises JournalFailed, OSError.
        """
        if self.journal is None:
            assert self.folder is not None
            yield self.folder
        else:
            with copied(self.journal, self.cluster, select) as copy:
                yield copy
