"""The operations on files and folders that a log needs, and their real implementation.

A log appends, reads at a position, truncates its end and asks for durability, and no more than that is here. These are the
rules for callers; the simulated twin (coordinator_lab/simulation/disk.py) exploits them in every way an operating system may:

- `append` writes all bytes at the end of the file or raises. The operating system may accept fewer bytes than offered;
  `AppendingFile` continues until all are written. After an error some of the bytes may be in the file, and the caller must
  truncate them.
- Nothing is durable before `sync` returns. If `sync` raises, the unsynced bytes may be lost although reads still return
  them, and a second `sync` may report success: never retry it.
- A created, renamed or removed file stays so after a power cut only if `sync_folder` returned for its folder.
- `rename` replaces its target atomically.

Paths are plain strings. All operations raise OSError with the errno of the operating system.
"""

import errno
import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import NamedTuple, Protocol

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
"""The errno values of a full disk and of an exhausted quota: errors that end when space is freed."""


class Space(NamedTuple):
    """A file system's size and free space."""

    total_bytes: int
    usable_bytes: int


class Readable(Protocol):
    """Something that can be read at a position."""

    def pread(self, offset: int, count: int) -> bytes:
        """`count` bytes at `offset`; fewer only at the end of the file."""


class File(Readable, Protocol):
    """An open file: written at its end, read anywhere."""

    def append(self, data: bytes) -> None:
        """Writes all of `data` at the end. After an OSError an unknown part of it has been written."""

    def write_at(self, offset: int, data: bytes) -> None:
        """Writes `data` at `offset`. Within a sector of 512 bytes, a power cut leaves either the old or the new bytes."""

    def sync(self) -> None:
        """Makes content and length durable (fdatasync)."""

    def size(self) -> int:
        """Length in bytes."""

    def truncate(self, size: int) -> None:
        """Truncates the file to `size` bytes."""

    def close(self) -> None:
        """Closes the descriptor; the file must not be used afterwards."""


class Disk(Protocol):
    """A tree of folders and files."""

    def open(self, path: str) -> File:
        """Opens a file for reading and appending, and creates it if it does not exist."""

    def read(self, path: str) -> bytes:
        """A file's whole content. Raises FileNotFoundError."""

    def list(self, folder: str) -> list[str]:
        """The sorted names in a folder. Raises FileNotFoundError."""

    def exists(self, path: str) -> bool:
        """Whether a file or folder with this path exists."""

    def make_folder(self, path: str) -> None:
        """Creates a folder and its missing parents; does nothing if it exists."""

    def rename(self, source: str, target: str) -> None:
        """Renames a file or folder; a file at `target` is replaced atomically."""

    def remove(self, path: str) -> None:
        """Removes a file. Raises FileNotFoundError."""

    def remove_folder(self, path: str) -> None:
        """Removes an empty folder."""

    def sync_folder(self, path: str) -> None:
        """Makes the names created, changed or removed in this folder durable."""

    def space(self, path: str) -> Space:
        """The size of the file system that holds this path, and how much may still be written."""


class AppendingFile(ABC):
    """Handles short writes, for the real and the simulated file."""

    __slots__ = ()

    def append(self, data: bytes) -> None:
        done = self.write_some(data)
        if done == len(data):
            return
        rest = memoryview(data)[done:]
        while rest:
            rest = rest[self.write_some(rest) :]

    @abstractmethod
    def write_some(self, data: bytes | memoryview) -> int:
        """Writes a first part of `data` at the end, at least one byte, and returns its length. Raises OSError."""


class RealFile(AppendingFile):
    """A descriptor and the file's length. Not in append mode, in which Linux ignores the offset of `write_at`."""

    __slots__ = ("descriptor", "end")

    def __init__(self, path: str) -> None:
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self.end = os.fstat(self.descriptor).st_size

    def write_some(self, data: bytes | memoryview) -> int:
        count = os.pwrite(self.descriptor, data, self.end)
        self.end += count
        return count

    def write_at(self, offset: int, data: bytes) -> None:
        done = 0
        while done < len(data):
            done += os.pwrite(self.descriptor, data[done:], offset + done)
        self.end = max(self.end, offset + len(data))

    def pread(self, offset: int, count: int) -> bytes:
        data = os.pread(self.descriptor, count, offset)
        while len(data) < count:
            more = os.pread(self.descriptor, count - len(data), offset + len(data))
            if not more:
                break
            data += more
        return data

    def sync(self) -> None:
        os.fdatasync(self.descriptor)

    def size(self) -> int:
        return self.end

    def truncate(self, size: int) -> None:
        os.ftruncate(self.descriptor, size)
        self.end = size

    def close(self) -> None:
        os.close(self.descriptor)


class RealDisk:
    """The machine's file system."""

    __slots__ = ()

    def open(self, path: str) -> File:
        return RealFile(path)

    def read(self, path: str) -> bytes:
        return Path(path).read_bytes()

    def list(self, folder: str) -> list[str]:
        return sorted(os.listdir(folder))  # noqa: PTH208 - a start lists a hundred folders, and Path costs more than the disk

    def exists(self, path: str) -> bool:
        return os.path.exists(path)  # noqa: PTH110 - as above

    def make_folder(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)  # noqa: PTH103 - as above

    def rename(self, source: str, target: str) -> None:
        Path(source).replace(target)

    def remove(self, path: str) -> None:
        Path(path).unlink()

    def remove_folder(self, path: str) -> None:
        Path(path).rmdir()

    def sync_folder(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def space(self, path: str) -> Space:
        found = os.statvfs(path)
        return Space(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)
