"""A number that several processes of one machine count up together."""

import os
from contextlib import suppress
from pathlib import Path


class SharedCount:
    """The length of a file to which each process appends a byte. Nothing of it is durable, or needs to be."""

    def __init__(self, path: str) -> None:
        """Raises OSError."""
        self._path = path
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @property
    def value(self) -> int:
        """The number now."""
        return os.fstat(self._descriptor).st_size

    def next(self) -> int:
        """Counts one up; returns the number, which no other process gets. Raises OSError."""
        os.write(self._descriptor, b".")
        return os.lseek(self._descriptor, 0, os.SEEK_CUR)  # an append moves it to its own end, whoever appends next

    def close(self) -> None:
        """Removes the file. Processes that have it open go on with it."""
        os.close(self._descriptor)
        with suppress(FileNotFoundError):
            Path(self._path).unlink()
