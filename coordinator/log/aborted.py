"""Which transactions were aborted: a list beside each segment that holds markers of such, in Kafka's `.txnindex` format.

A reader that wants only what was committed gets the records of aborted transactions all the same, and with them the list
of those transactions, so that it can leave them out. A transaction is on the list of the segment that holds its marker.

    version int16 = 0 | producer id | first offset | offset of the marker | last stable offset after it     (34 bytes)

The last stable offset tells a search when it may stop: whatever is aborted later began behind it.

Why a file, where the sparse index (`index.py`) does without? A segment's list cannot be made from the segment: a transaction
may have begun in any earlier one. The file follows the log and is not synced with it. Whoever keeps a snapshot of the
producers at an offset syncs the lists first (`sync`); after a crash the lists are cut at the snapshot's offset and the rest
is read from the log again, as the producers are.
"""

from bisect import bisect_left
from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from coordinator.world.disk import Disk

SUFFIX = ".txnindex"
_TEMPORARY = ".tmp"
_VERSION = 0
_ENTRY = Struct(">hqqqq")


class Aborted(NamedTuple):
    """An aborted transaction in one partition."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Of its marker."""
    stable_offset: int
    """The first offset whose fate was open when the marker had been written."""


def overlapping(entries: Sequence[Aborted], offset: int, offset_end: int) -> tuple[list[Aborted], bool]:
    """Those of which something may lie from one offset to another, and whether later ones cannot."""
    found: list[Aborted] = []
    for at in range(bisect_left(entries, offset, key=_last_offset), len(entries)):
        entry = entries[at]
        if entry.first_offset < offset_end:
            found.append(entry)
        if entry.stable_offset >= offset_end:
            return found, True
    return found, False


def _last_offset(entry: Aborted) -> int:
    return entry.last_offset


class AbortedList:
    """The aborted transactions whose markers are in one segment, in the order of these; read when first asked for."""

    __slots__ = ("_behind", "_disk", "_entries", "_is_new", "_path", "_unsynced")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._entries: list[Aborted] | None = None
        self._behind = False
        """Whether the file lacks entries, or has some that are gone: it is written anew before it is synced."""
        self._unsynced = False
        self._is_new = False

    @property
    def entries(self) -> list[Aborted]:
        """OSError."""
        if self._entries is None:
            self._entries = decode(self._disk.read(self._path)) if self._disk.exists(self._path) else []
        return self._entries

    @property
    def is_stored(self) -> bool:
        """Whether there is a file, which may say something else than `entries` until it is synced."""
        return self._disk.exists(self._path)

    def add(self, entry: Aborted) -> None:
        """Takes note of a marker behind all those noted before. The file may have to wait for `sync`."""
        entries = self.entries
        if entries and entries[-1].last_offset >= entry.last_offset:
            return
        entries.append(entry)
        self._unsynced = True
        if self._behind:
            return
        try:
            self._is_new = self._is_new or not self._disk.exists(self._path)
            file = self._disk.open(self._path)
            try:
                file.append(encode([entry]))
            finally:
                file.close()
        except OSError:
            self._behind = True

    def cut(self, offset: int) -> None:
        """Forgets the markers at and after an offset. OSError."""
        kept = [entry for entry in self.entries if entry.last_offset < offset]
        if len(kept) < len(self.entries) or self._file_differs(kept):
            self._entries, self._behind, self._unsynced = kept, True, True

    def sync(self) -> None:
        """Makes the list durable. OSError, after which it may be tried again."""
        if not self._unsynced:
            return
        folder = self._path.rpartition("/")[0]
        if self._behind:
            temporary = f"{self._path}{_TEMPORARY}"
            write(self._disk, temporary, self.entries)
            self._disk.rename(temporary, self._path)
        else:
            file = self._disk.open(self._path)
            try:
                file.sync()
            finally:
                file.close()
        if self._is_new or self._behind:
            self._disk.sync_folder(folder)
        self._is_new = self._behind = self._unsynced = False

    def _file_differs(self, entries: list[Aborted]) -> bool:
        """A crash may leave a torn entry at the end."""
        content = self._disk.read(self._path) if self._disk.exists(self._path) else b""
        return len(content) != len(entries) * _ENTRY.size


def write(disk: Disk, path: str, entries: list[Aborted]) -> None:
    """Makes a file with these entries, durable but for its name. OSError."""
    file = disk.open(path)
    try:
        file.truncate(0)
        file.append(encode(entries))
        file.sync()
    finally:
        file.close()


def encode(entries: list[Aborted]) -> bytes:
    """The file's content."""
    return b"".join([_ENTRY.pack(_VERSION, *entry) for entry in entries])


def decode(content: bytes) -> list[Aborted]:
    """The entries up to the first that cannot be one, as a crash leaves them."""
    entries: list[Aborted] = []
    for version, *fields in _ENTRY.iter_unpack(content[: len(content) // _ENTRY.size * _ENTRY.size]):
        entry = Aborted._make(fields)
        if version != _VERSION or entry.last_offset <= (entries[-1].last_offset if entries else entry.first_offset):
            break
        entries.append(entry)
    return entries
