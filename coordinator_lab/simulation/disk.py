"""An in-memory disk that treats unsynced data in every way a real disk may.

The content that a program reads and the durable content are kept separately. A file has the content that reads return
(`cached`) and its durable content. Between two syncs each sector of 512 bytes remembers the states it went through, because
the kernel may have written any of them. A folder remembers its name changes since the last `sync_folder`.

- `crash(random)`: a power cut. Every unsynced sector comes back in one of its states, independently of the others. The
  length is any that the file had; new sectors that were not written read as zeros. Every unsynced name change happened or
  did not.
- `kill()`: only the process dies. The effects of every call that returned remain.
- `cut_after(operations)`: a power cut during the program's work. That operation and every later one raise `PowerCut` until
  `crash` or `kill` is called.
- `sync_errors`: the next syncs fail as on Linux: the unsynced content stays readable, counts as clean, and is lost in a
  crash.
- `capacity_bytes`: writes beyond it are short and then fail with ENOSPC, until there is space again.
- `short_writes`: a Random that lets writes accept fewer bytes than offered.
- `flip`: bit rot in the durable content.

The disk is single-threaded, and all randomness comes from the Random that it is given.
"""

import errno
import os
from collections.abc import Iterator
from random import Random

from coordinator.world.disk import AppendingFile, File, Space

SECTOR_BYTES = 512
_STATES_MAX = 4
"""States of a sector remembered between two syncs; a further state replaces the latest one."""


class PowerCut(Exception):
    """The simulated machine lost its power during this operation."""


class Inode:
    """A file's content, independent of its names."""

    __slots__ = ("cached", "durable", "sizes", "states", "unfinished")

    def __init__(self) -> None:
        self.unfinished = False
        """Whether the last write was short. Its continuation in the same sector forms one state with it."""
        self.cached = bytearray()
        self.durable = b""
        self.states: dict[int, list[bytes]] = {}
        """Sector number -> its content after each write since the last sync. The durable content is a further state."""
        self.sizes: list[int] = []

    def write(self, offset: int, data: bytes | memoryview, *, short: bool = False) -> None:
        """Writes at an offset; the sectors touched get a further unsynced state."""
        self.cached[offset : offset + len(data)] = data
        first, last = offset // SECTOR_BYTES, (offset + len(data) - 1) // SECTOR_BYTES
        for sector in range(first, last + 1):
            states = self.states.setdefault(sector, [])
            if len(states) == _STATES_MAX or (states and self.unfinished and sector == first):
                states.pop()
            states.append(bytes(self.cached[sector * SECTOR_BYTES : (sector + 1) * SECTOR_BYTES]))
        self.sizes.append(len(self.cached))
        self.unfinished = short

    def truncate(self, size: int) -> None:
        del self.cached[size:]
        last = size // SECTOR_BYTES
        self.states = {sector: states for sector, states in self.states.items() if sector < last}
        if size % SECTOR_BYTES:
            self.states[last] = [bytes(self.cached[last * SECTOR_BYTES :])]
        self.sizes = [*(old for old in self.sizes if old < size), size]
        self.unfinished = False

    def sync(self) -> None:
        if self.states or self.sizes:
            self.durable = bytes(self.cached)
        self.forget_unsynced()

    def forget_unsynced(self) -> None:
        """Forgets the states between the durable and the cached content, as Linux does after a failed sync."""
        self.states.clear()
        self.sizes.clear()

    def crash(self, random: Random) -> None:
        size = random.choice([len(self.durable), *self.sizes])
        content = bytearray(self.durable[:size].ljust(size, b"\0"))
        for sector, states in self.states.items():
            start = sector * SECTOR_BYTES
            if start < size:
                old = self.durable[start : start + SECTOR_BYTES]
                state = random.choice([old, states[-1], *states])
                content[start : start + SECTOR_BYTES] = state.ljust(min(SECTOR_BYTES, size - start), b"\0")
        del content[size:]
        self.cached = content
        self.durable = bytes(content)
        self.forget_unsynced()


NameChange = tuple[str | None, str | None, "Inode | Folder"]
"""Old name, new name, and the file or folder: created (None, new), removed (old, None), renamed (old, new)."""


class Folder:
    """The names that the program sees, the durable names, and the unsynced changes between them."""

    __slots__ = ("changes", "durable", "names")

    def __init__(self) -> None:
        self.names: dict[str, Inode | Folder] = {}
        self.durable: dict[str, Inode | Folder] = {}
        self.changes: list[NameChange] = []

    def change(self, old: str | None, new: str | None, node: "Inode | Folder") -> None:
        """Renames, creates or removes an entry; see `NameChange`."""
        _apply(self.names, (old, new, node))
        self.changes.append((old, new, node))

    def sync(self) -> None:
        self.durable = dict(self.names)
        self.changes.clear()

    def crash(self, random: Random) -> None:
        names = dict(self.durable)
        for change in self.changes:
            if random.random() < 0.5:
                _apply(names, change)
        self.names, self.durable = names, dict(names)
        self.changes.clear()


def _apply(names: "dict[str, Inode | Folder]", change: NameChange) -> None:
    old, new, node = change
    if old is not None:
        if names.get(old) is not node:
            return  # the change that created the old name did not reach the disk
        del names[old]
    if new is not None:
        names[new] = node


class SimulatedFile(AppendingFile):
    """An open file. It becomes unusable when the process that opened it dies."""

    __slots__ = ("_disk", "_generation", "_node", "_open")

    def __init__(self, disk: "SimulatedDisk", node: Inode) -> None:
        self._disk = disk
        self._generation = disk.generation
        self._node = node
        self._open = True
        disk.files_open += 1

    def write_some(self, data: bytes | memoryview) -> int:
        self._check()
        count = self._disk.grant_write(len(data))
        self._node.write(len(self._node.cached), data[:count], short=count < len(data))
        return count

    def write_at(self, offset: int, data: bytes) -> None:
        self._check()
        more = offset + len(data) - len(self._node.cached)
        if more > 0 and self._disk.space_left() < more:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._node.write(offset, data)

    def pread(self, offset: int, count: int) -> bytes:
        self._check(cut=False)
        return bytes(self._node.cached[offset : offset + count])

    def sync(self) -> None:
        self._check()
        if self._disk.sync_errors:
            error = self._disk.sync_errors.pop(0)
            self._node.forget_unsynced()
            raise OSError(error, os.strerror(error))
        self._node.sync()

    def size(self) -> int:
        self._check(cut=False)
        return len(self._node.cached)

    def truncate(self, size: int) -> None:
        self._check()
        self._node.truncate(size)

    def close(self) -> None:
        assert self._open, "closed twice"
        self._open = False
        if self._generation == self._disk.generation:
            self._disk.files_open -= 1

    def _check(self, *, cut: bool = True) -> None:
        assert self._open, "used after close"
        assert self._generation == self._disk.generation, "used after the process that opened it had died"
        if cut:
            self._disk.count_operation()


class SimulatedDisk:
    """The simulated twin of `world.disk.RealDisk`. Paths are split at slashes; the root folder exists."""

    def __init__(self, *, short_writes: Random | None = None) -> None:
        self.root = Folder()
        self.generation = 0
        """Incremented by each crash or kill: files opened in an earlier generation are unusable."""
        self.files_open = 0
        self.short_writes = short_writes
        self.sync_errors: list[int] = []
        """The errno values that the next syncs of files raise."""
        self.capacity_bytes: int | None = None
        self.operations = 0
        """Changes and syncs so far, as counted by `cut_after`."""
        self._cut_at: int | None = None

    # --- failures -------------------------------------------------------------------------------------------------------

    def crash(self, random: Random) -> None:
        """A power cut: `random` decides which unsynced data is kept, lost or torn."""
        self.kill()
        _crash(self.root, random)

    def kill(self) -> None:
        """The process dies; the operating system keeps running."""
        self.generation += 1
        self.files_open = 0
        self._cut_at = None

    def cut_after(self, operations: int) -> None:
        """Schedules a power cut after this many further changes or syncs."""
        self._cut_at = self.operations + operations

    def cut_never(self) -> None:
        """Cancels `cut_after`."""
        self._cut_at = None

    def used_bytes(self) -> int:
        """The size of all files, without names."""
        return sum(len(node.cached) for node in _files(self.root))

    def flip(self, path: str, position: int, bit: int = 0) -> None:
        """Flips one bit of a file's durable content."""
        node = self._file(path)
        assert not node.states, "the file has unsynced content"
        node.cached[position] ^= 1 << bit
        node.durable = bytes(node.cached)

    def count_operation(self) -> None:
        """Counts an operation. Raises PowerCut from the operation on at which the power goes."""
        if self._cut_at is not None and self.operations >= self._cut_at:
            raise PowerCut
        self.operations += 1

    def space_left(self) -> int:
        """Bytes that may still be written."""
        if self.capacity_bytes is None:
            return 1 << 62
        return max(0, self.capacity_bytes - self.used_bytes())

    def grant_write(self, count: int) -> int:
        """How many of `count` bytes a write accepts. Raises OSError (ENOSPC) if none."""
        left = self.space_left()
        if not left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.short_writes is not None and count > 1 and self.short_writes.random() < 0.5:
            count = self.short_writes.randrange(1, count)
        return min(count, left)

    # --- world.disk.Disk ----------------------------------------------------------------------------------------------

    def open(self, path: str) -> File:
        folder, name = self._parent(path)
        node = folder.names.get(name)
        if node is None:
            self.count_operation()
            node = Inode()
            folder.change(None, name, node)
        if isinstance(node, Folder):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return SimulatedFile(self, node)

    def read(self, path: str) -> bytes:
        return bytes(self._file(path).cached)

    def list(self, folder: str) -> list[str]:
        return sorted(self._folder(folder).names)

    def exists(self, path: str) -> bool:
        try:
            folder, name = self._parent(path)
        except OSError:
            return False
        return not name or name in folder.names

    def make_folder(self, path: str) -> None:
        folder = self.root
        for name in _parts(path):
            found = folder.names.get(name)
            if found is None:
                self.count_operation()
                found = Folder()
                folder.change(None, name, found)
            if isinstance(found, Inode):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            folder = found

    def rename(self, source: str, target: str) -> None:
        self.count_operation()
        folder, old = self._parent(source)
        into, new = self._parent(target)
        if old not in folder.names:
            raise _missing(source)
        node = folder.names[old]
        if folder is into:
            folder.change(old, new, node)
        else:
            folder.change(old, None, node)
            into.change(None, new, node)

    def remove(self, path: str) -> None:
        self.count_operation()
        folder, name = self._parent(path)
        node = self._file(path)
        folder.change(name, None, node)

    def remove_folder(self, path: str) -> None:
        self.count_operation()
        folder, name = self._parent(path)
        found = self._folder(path)
        if found.names:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        folder.change(name, None, found)

    def sync_folder(self, path: str) -> None:
        self.count_operation()
        self._folder(path).sync()

    def space(self, path: str) -> Space:
        self._folder(path)
        total_bytes = 1 << 62 if self.capacity_bytes is None else self.capacity_bytes
        return Space(total_bytes, self.space_left())

    def _parent(self, path: str) -> tuple[Folder, str]:
        *above, name = _parts(path) or [""]
        return self._folder("/".join(above)), name

    def _folder(self, path: str) -> Folder:
        folder = self.root
        for name in _parts(path):
            found = folder.names.get(name)
            if found is None:
                raise _missing(path)
            if isinstance(found, Inode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
            folder = found
        return folder

    def _file(self, path: str) -> Inode:
        folder, name = self._parent(path)
        node = folder.names.get(name)
        if node is None:
            raise _missing(path)
        if isinstance(node, Folder):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return node


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def _files(folder: Folder) -> Iterator[Inode]:
    for node in folder.names.values():
        if isinstance(node, Folder):
            yield from _files(node)
        else:
            yield node


def _crash(folder: Folder, random: Random) -> None:
    folder.crash(random)
    for name in sorted(folder.names):
        node = folder.names[name]
        if isinstance(node, Folder):
            _crash(node, random)
        else:
            node.crash(random)
