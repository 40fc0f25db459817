"""The list of aborted transactions beside a segment, in Kafka's `.txnindex` format (Kafka: `TransactionIndex`, `AbortedTxn`).

A consumer with `isolation.level=read_committed` receives the records of aborted transactions too, together with a list of
these transactions, and filters them itself. A transaction is listed with the segment that holds its marker.

    version int16 = 0 | producer id | first offset | offset of the marker | last stable offset after it     (34 bytes)

A search may stop at the last stable offset: every transaction that is aborted later began at or after it.

The list needs a file, unlike the sparse index (index.py), because it cannot be rebuilt from the segment alone: the
transaction may have begun in any earlier segment. The file is not synced along with the log. Before a snapshot of the
producers is taken, the lists are synced (`sync`). After a crash, the lists are truncated to the snapshot's offset and the
rest is rebuilt from the log, like the producers.
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
    """Offset of the marker."""
    stable_offset: int
    """The partition's last stable offset after the marker was written."""


def overlapping(entries: Sequence[Aborted], offset: int, offset_end: int) -> tuple[list[Aborted], bool]:
    """The entries that may have records in `[offset, offset_end)`, and whether no later entry can have any."""
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
    """The aborted transactions whose markers are in one segment, in marker order. The file is read on first use."""

    __slots__ = ("_behind", "_disk", "_entries", "_is_new", "_path", "_unsynced")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._entries: list[Aborted] | None = None
        self._behind = False
        """Whether the file differs from `entries`, so that `sync` must rewrite it."""
        self._unsynced = False
        self._is_new = False

    @property
    def entries(self) -> list[Aborted]:
        """All entries, in marker order. Raises OSError if the file cannot be read."""
        if self._entries is None:
            self._entries = decode(self._disk.read(self._path)) if self._disk.exists(self._path) else []
        return self._entries

    @property
    def is_stored(self) -> bool:
        """Whether there is a file. Its content may differ from `entries` until `sync`."""
        return self._disk.exists(self._path)

    def add(self, entry: Aborted) -> None:
        """Adds an entry unless its marker is at or before the last one's.

        If the file cannot be written, `sync` will rewrite it. Raises OSError if the list cannot be read.
        """
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
        """Removes the entries whose markers are at or after `offset`. Raises OSError if the list cannot be read."""
        kept = [entry for entry in self.entries if entry.last_offset < offset]
        if len(kept) < len(self.entries) or self._file_differs(kept):
            self._entries, self._behind, self._unsynced = kept, True, True

    def sync(self) -> None:
        """Makes the list durable. Raises OSError; it may be called again afterwards."""
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
        """Whether the file has another length than these entries, for instance a torn entry at the end."""
        content = self._disk.read(self._path) if self._disk.exists(self._path) else b""
        return len(content) != len(entries) * _ENTRY.size


def write(disk: Disk, path: str, entries: list[Aborted]) -> None:
    """Writes and syncs a file with these entries. Its folder is not synced. Raises OSError."""
    file = disk.open(path)
    try:
        file.truncate(0)
        file.append(encode(entries))
        file.sync()
    finally:
        file.close()


def encode(entries: list[Aborted]) -> bytes:
    """The content of the file."""
    return b"".join([_ENTRY.pack(_VERSION, *entry) for entry in entries])


def decode(content: bytes) -> list[Aborted]:
    """The entries before the first invalid one, such as a crash may leave at the end."""
    entries: list[Aborted] = []
    for version, *fields in _ENTRY.iter_unpack(content[: len(content) // _ENTRY.size * _ENTRY.size]):
        entry = Aborted._make(fields)
        if version != _VERSION or entry.last_offset <= (entries[-1].last_offset if entries else entry.first_offset):
            break
        entries.append(entry)
    return entries
