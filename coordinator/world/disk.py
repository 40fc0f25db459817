"""Files and folders, as little of them as a log needs, with one real implementation.

A log only ever appends, reads at a position, cuts its end and asks for durability, so that is all there is here. The
rules that the callers rely on, and that the simulated twin (`faults/disk.py`) breaks in every way an operating system
may:

- `append` puts all bytes at the end of the file or raises. The operating system may accept fewer bytes than offered;
  `AppendingFile` goes on until all are in. When it raises, some of the bytes may be in the file: the caller cuts them.
- Nothing is durable before `sync` returned. When `sync` raises, the bytes it should have saved may be lost although
  reads still show them, and a second `sync` may claim success: never ask twice.
- A file made, renamed or removed is so after a power cut only if `sync_folder` returned on its folder.
- `rename` replaces its target in one step.

Paths are plain strings. Errors are OSError, with errno as the operating system gave it.
"""

import errno
import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import NamedTuple, Protocol

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Errors that pass when somebody makes space: the disk is full, or our part of it."""


class Space(NamedTuple):
    """A file system's size and what is free of it."""

    total_bytes: int
    usable_bytes: int


class Readable(Protocol):
    """What can be read at a position."""

    def pread(self, offset: int, count: int) -> bytes:
        """Up to `count` bytes at `offset`; fewer only where the file ends."""


class File(Readable, Protocol):
    """An open file, written at its end and read anywhere."""

    def append(self, data: bytes) -> None:
        """Writes all of `data` at the end, or raises OSError having written an unknown part of it."""

    def write_at(self, offset: int, data: bytes) -> None:
        """Overwrites `data` at `offset`. Within one sector of 512 bytes a power cut leaves the old or the new bytes."""

    def sync(self) -> None:
        """Returns when content and length are durable (fdatasync)."""

    def size(self) -> int:
        """Length in bytes."""

    def truncate(self, size: int) -> None:
        """Cuts the file to `size` bytes."""

    def close(self) -> None:
        """Gives the descriptor back; the file must not be used after."""


class Disk(Protocol):
    """A tree of folders and files."""

    def open(self, path: str) -> File:
        """Opens a file for reading and appending, making it if it is missing."""

    def read(self, path: str) -> bytes:
        """A file's whole content; FileNotFoundError if there is none."""

    def list(self, folder: str) -> list[str]:
        """Names in a folder, sorted; FileNotFoundError if there is none."""

    def exists(self, path: str) -> bool:
        """Whether a file or folder has this name."""

    def make_folder(self, path: str) -> None:
        """Makes a folder and its missing parents; nothing if it is there."""

    def rename(self, source: str, target: str) -> None:
        """Renames a file or folder; a file at `target` is replaced in one step."""

    def remove(self, path: str) -> None:
        """Removes a file; FileNotFoundError if there is none."""

    def remove_folder(self, path: str) -> None:
        """Removes an empty folder."""

    def sync_folder(self, path: str) -> None:
        """Returns when names made, changed or removed in this folder are durable."""

    def space(self, path: str) -> Space:
        """How large the file system is that holds this path, and how much of it may still be written."""


class AppendingFile(ABC):
    """The one place that deals with short writes, for the real file and the simulated one."""

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
        """Writes a first part of `data` at the end, at least one byte, and says how much; or raises OSError."""


class RealFile(AppendingFile):
    """A descriptor and the position of its end. Not in append mode, where Linux appends what `write_at` overwrites."""

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
        return sorted(os.listdir(folder))  # noqa: PTH208 - a start asks for a hundred folders; Path costs more than the disk

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
