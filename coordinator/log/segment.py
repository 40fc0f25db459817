"""One segment file of a log: the batches from its base offset to the next segment's (Kafka: `LogSegment`, `FileRecords`).

The file is named after its base offset, in twenty digits. Only the last segment of a log grows. The others are closed and
do not change until compaction or retention replaces or removes them as a whole.

A server has many partitions, most of them idle, so a segment opens its file only when it is read or written. Readers that
span several turns of the loop (a load, a cleaning, an fdatasync in a thread) hold the segment meanwhile. If it is removed
while held, it stays readable through its descriptor until the last holder releases it.
"""

from collections.abc import Iterator
from contextlib import suppress

from coordinator.log import aborted
from coordinator.log.aborted import AbortedList
from coordinator.log.batch import HEADER, HEADER_BYTES, MAGIC, PREFIX_BYTES, BatchHeader, CorruptBatch, read_header
from coordinator.log.index import SparseIndex
from coordinator.log.recovery import DamagedLog
from coordinator.log.segment_list import UNKNOWN, first_checksum
from coordinator.log.write_behind import WriteBehindFile
from coordinator.world.disk import Disk, File

SUFFIX = ".log"
WINDOW_BYTES = 64 * 1024
"""Bytes read at a time when walking over headers: many small batches at once, little waste for a large one."""


def segment_name(base_offset: int) -> str:
    """The name of a segment's file, as in Kafka."""
    return f"{base_offset:020d}{SUFFIX}"


def aborted_name(base_offset: int) -> str:
    """The name of a segment's list of aborted transactions, which may not exist."""
    return f"{base_offset:020d}{aborted.SUFFIX}"


def remove_files(disk: Disk, folder: str, base_offset: int) -> None:
    """Removes a segment's files, the list last, because a list without a segment is harmless. Raises OSError."""
    disk.remove(f"{folder}/{segment_name(base_offset)}")
    with suppress(FileNotFoundError):
        disk.remove(f"{folder}/{aborted_name(base_offset)}")


class Segment:
    """A segment file with its length and index. All positions are in bytes from the start of the file."""

    __slots__ = (
        "_aborted", "_checksum", "_disk", "_file", "_holders", "_index", "_removed", "_writes_behind", "base_offset",
        "first_timestamp", "index_interval_bytes", "max_timestamp", "path", "size_bytes",
    )  # fmt: skip

    def __init__(
        self,
        disk: Disk,
        path: str,
        base_offset: int,
        size_bytes: int,
        index_interval_bytes: int,
        checksum: int = UNKNOWN,
        *,
        writes_behind: bool = False,
    ) -> None:
        """`writes_behind`: appended batches stay in memory until `flush`."""
        self._disk = disk
        self._file: File | None = None
        self._writes_behind = writes_behind
        self._holders = 0
        self._removed = False
        self._index: SparseIndex | None = None if size_bytes else SparseIndex(index_interval_bytes)
        self._aborted: AbortedList | None = None
        self._checksum = checksum
        self.path = path
        self.base_offset = base_offset
        self.size_bytes = size_bytes
        self.index_interval_bytes = index_interval_bytes
        self.max_timestamp = -1
        """Highest timestamp (ms) of the batches, known once the segment is indexed; -1 before."""
        self.first_timestamp = -1

    @property
    def file(self) -> File:
        """The file, opened if necessary. Raises OSError; FileNotFoundError if the segment was removed."""
        if self._file is None:
            if self._removed:
                raise FileNotFoundError(self.path)
            file = self._disk.open(self.path)
            self._file = WriteBehindFile(file) if self._writes_behind else file
        return self._file

    @property
    def unflushed_bytes(self) -> int:
        """Bytes that are only in memory."""
        return self._file.unflushed_bytes if isinstance(self._file, WriteBehindFile) else 0

    def is_behind(self, end_offset: int) -> bool:
        """Whether a batch before this offset is only in memory."""
        return isinstance(self._file, WriteBehindFile) and self._file.is_behind(end_offset)

    def flush(self, end_offset: int) -> None:
        """Writes the batches before this offset that are only in memory to the file. Raises OSError; it may be called again."""
        if isinstance(self._file, WriteBehindFile):
            self._file.flush(end_offset)

    def take_unflushed(self, offset: int) -> list[bytes]:
        """Removes the batches at this offset or later, which are only in memory, and returns them."""
        pieces = self._file.cut(offset) if isinstance(self._file, WriteBehindFile) else []
        if pieces:
            self.size_bytes -= sum(map(len, pieces))
            self.index.cut(self.size_bytes)
        return pieces

    def first_checksum(self) -> int:
        """The checksum of the first batch, by which the file is recognized; UNKNOWN if there is none. Raises OSError."""
        if self._checksum == UNKNOWN and self.size_bytes:
            was_open = self._file is not None
            self._checksum = first_checksum(self.file)
            if not was_open:
                self.close_if_unheld()
        return self._checksum

    def append(self, batch: bytes, base_offset: int, max_timestamp: int) -> None:
        """Appends a batch. After an OSError an unknown part of it may be in the file: call `cut`."""
        (self._file or self.file).append(batch)
        self.index_batch(base_offset, self.size_bytes, max_timestamp)
        self.size_bytes += len(batch)

    def cut(self) -> None:
        """Truncates the remains of a failed append behind the last complete batch. Raises OSError."""
        self.file.truncate(self.size_bytes)

    def index_batch(self, base_offset: int, position: int, max_timestamp: int) -> None:
        """Adds a batch to the index. Batches must be added in order, from the first."""
        index = self._index
        if index is None:
            index = self._index = SparseIndex(self.index_interval_bytes)
        if self.first_timestamp < 0:
            self.first_timestamp = max_timestamp
        if position >= index.next_position:
            index.add(base_offset, position, self.max_timestamp)
        if max_timestamp > self.max_timestamp:  # noqa: PLR1730 - a call of `max` costs time with every batch
            self.max_timestamp = max_timestamp

    @property
    def index(self) -> SparseIndex:
        """The index, built from the batch headers on first use.

        Raises OSError, and DamagedLog if the headers do not form a sequence of batches.
        """
        if self._index is None:
            try:
                for at, header in self.walk(0):
                    self.index_batch(header.base_offset, at, header.max_timestamp)
            except (OSError, DamagedLog):
                self._index, self.first_timestamp, self.max_timestamp = None, -1, -1
                raise
        assert self._index is not None
        return self._index

    @property
    def aborted(self) -> AbortedList:
        """The aborted transactions that end in this segment."""
        if self._aborted is None:
            self._aborted = AbortedList(self._disk, self.path.removesuffix(SUFFIX) + aborted.SUFFIX)
        return self._aborted

    def sync_aborted(self) -> None:
        """Makes the list of aborted transactions durable. Raises OSError; it may be called again afterwards."""
        if self._aborted is not None:
            self._aborted.sync()

    def walk(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """Yields position and header of every batch from `position` on. Raises OSError, and DamagedLog as `headers`."""
        while position < self.size_bytes:
            for at, header in self.headers(position):
                yield at, header
                position = at + header.size_bytes

    def headers(self, position: int) -> list[tuple[int, BatchHeader]]:
        """Position and header of the batches that start within one window from `position` on; at least one batch.

        Raises OSError, and DamagedLog if no batch that ends within the segment starts at `position`.
        """
        buffer = self.file.pread(position, min(WINDOW_BYTES, self.size_bytes - position))
        out: list[tuple[int, BatchHeader]] = []
        unpack, make = HEADER.unpack_from, BatchHeader._make
        at, last = 0, len(buffer) - HEADER_BYTES
        while at <= last:
            header = make(unpack(buffer, at))
            end = position + at + header.batch_length + PREFIX_BYTES
            if header.magic != MAGIC or header.batch_length < HEADER_BYTES - PREFIX_BYTES or end > self.size_bytes:
                break
            out.append((position + at, header))
            at = end - position
        if not out:
            raise DamagedLog(self.path, position, self._offset_before(position), "no whole batch where one must begin")
        return out

    def _offset_before(self, position: int) -> int:
        """Offset of the last record before a position, for reporting where the damage begins."""
        last = self.base_offset - 1
        at = 0
        while at < position:
            try:
                header = read_header(self.file.pread(at, HEADER_BYTES))
            except CorruptBatch:  # `headers` looks at the lengths only
                break
            last, at = header.last_offset, at + header.size_bytes
        return last

    def hold(self) -> None:
        """Keeps the content readable until `release`, even if the file is removed or replaced."""
        assert self._file is not None or not self._removed
        self._holders += 1

    @property
    def is_held(self) -> bool:
        """Whether somebody holds the segment."""
        return self._holders > 0

    def release(self) -> None:
        """Undoes one `hold`."""
        self._holders -= 1
        if not self._holders and self._removed:
            self._close()

    def mark_removed(self) -> None:
        """Must be called just before the file is removed or replaced; holders keep reading the old content."""
        if self._holders and not self._removed:
            _ = self.file
        self._removed = True
        if not self._holders:
            self._close()

    def close_if_unheld(self) -> None:
        """Closes the file unless somebody holds the segment or a part is only in memory. It is opened again when needed."""
        if not self._holders and not self.unflushed_bytes:
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            file.close()
