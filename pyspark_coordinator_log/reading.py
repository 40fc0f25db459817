"""Reads a range of offsets from a log's files: the work of a Spark task.

A range consists of offsets, and where they were at planning time. If the file is still the same (by inode), its bytes are
read. If compaction has replaced it, or merged it into the previous one, the offsets are looked up in the folder as it is now.
Either way each offset is read once, by one range: ranges meet at offsets, not at positions.

Damage is judged as at a server's start (`coordinator.log.recovery`). After the last complete batch of the last segment there
may be a torn tail, which is silently skipped because a running server may just be writing it. Anything else is DamagedLog,
with file and position; nothing is skipped.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from coordinator.log.batch import HEADER_BYTES, CorruptBatch, check_batch, read_header
from coordinator.log.recovery import DamagedLog, Fault, is_torn_tail
from pyspark_coordinator_log.batches import BadBatch, Headers, check, pieces, walk
from pyspark_coordinator_log.buffers import Buffer, room
from pyspark_coordinator_log.folders import Segment, ShardFolder, opened
from pyspark_coordinator_log.views import Origin, Wanted, table

CHUNK_BYTES = 8 * 1024 * 1024
_NO_END = 1 << 62


class DataLoss(Exception):
    """Requested records are no longer in the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Offsets `[offset_from, offset_to)` of a shard; an `offset_to` of None is the end at planning time.

    `segment`, `start` and `end` say where they were then; `first_offset` is the batch at `start` (None at the beginning of the
    file, where it may be any). `is_growing`: in the log's last segment. `is_last`: up to its end, where a torn tail may be.
    """

    folder: ShardFolder
    log_id: str
    is_state: bool
    offset_from: int
    offset_to: int | None
    segment: Segment
    start: int
    end: int
    first_offset: int | None
    is_growing: bool
    is_last: bool

    @property
    def size_bytes(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How to read: which records and columns, and how to treat errors."""

    wanted: Wanted
    verify_checksums: bool
    fail_on_data_loss: bool
    chunk_bytes: int = CHUNK_BYTES


def read(part: Range, how: Reading) -> Iterator[Any]:
    """Yields the record batches of a range, in log order. Raises DamagedLog and DataLoss."""
    try:
        descriptor = os.open(part.segment.path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield from _relocated(part, how)
        return
    try:
        if not _is_as_planned(descriptor, part):
            yield from _relocated(part, how)
            return
        begins = part.offset_from if part.start else part.segment.base_offset
        yield from _file(descriptor, part, part.segment.path, (part.start, part.end), begins, part.is_last, how)
    finally:
        os.close(descriptor)


def _is_as_planned(descriptor: int, part: Range) -> bool:
    """Whether this is the planned file. The inode alone is not enough: file systems reuse inode numbers."""
    status = os.fstat(descriptor)
    if status.st_ino != part.segment.inode or status.st_size < part.end:
        return False
    if not part.is_growing and status.st_size != part.segment.size_bytes:
        return False
    if part.first_offset is None:
        return True
    try:
        return read_header(os.pread(descriptor, HEADER_BYTES, part.start)).base_offset == part.first_offset
    except CorruptBatch:
        return False


def _relocated(part: Range, how: Reading) -> Iterator[Any]:
    """Reads the offsets of a range from wherever they are now."""
    segments = part.folder.segments()
    end = _NO_END if part.offset_to is None else part.offset_to
    if not segments or segments[0].base_offset > part.offset_from:
        first = segments[0].base_offset if segments else None
        if how.fail_on_data_loss:
            raise DataLoss(
                f"{part.folder.path} now begins at offset {first}; the records from offset {part.offset_from} on were deleted"
                " during the read (failOnDataLoss=false continues without them)"
            )
    if part.offset_to is None and segments and segments[-1].base_offset < part.segment.base_offset:
        raise DataLoss(f"{part.segment.path} is gone: the log was truncated while it was read")
    for index, segment in enumerate(segments):
        after = segments[index + 1].base_offset if index + 1 < len(segments) else _NO_END
        if after <= part.offset_from or segment.base_offset >= end:
            continue
        with opened(segment.path) as descriptor:
            size = os.fstat(descriptor).st_size
            yield from _file(descriptor, part, segment.path, (0, size), segment.base_offset, after == _NO_END, how)


def _file(
    descriptor: int, part: Range, path: str, where: tuple[int, int], begins: int, is_last: bool, how: Reading
) -> Iterator[Any]:
    """Reads a range between two positions of a file, where no batch may have an offset before `begins`."""
    last_good = begins - 1
    origin = Origin(part.folder.shard, part.log_id, part.is_state)
    position, end = where
    want = how.chunk_bytes
    while position < end:
        size = min(want, end - position)
        source = _pread(descriptor, size, position)
        content = memoryview(source.array.data)
        fault = None
        try:
            found, reached = walk(content, size)
        except BadBatch as error:
            found, reached = walk(content, error.position)
            fault = error
        if not found and fault is None:
            needed = _length(content, size)
            if needed > size and position + needed <= end:
                want = needed
                continue
            fault = BadBatch(0, f"only {end - position} bytes of a batch of {needed or 'unknown'} bytes")
        headers = Headers(source, np.array(found, np.int64))
        try:
            check(source, headers, checksums=how.verify_checksums)
            _check_order(headers, last_good)
        except BadBatch as error:
            keep = headers.position < error.position
            headers, fault, reached = headers.select(keep), error, error.position
        if len(headers):
            last_good = int(headers.base_offset[-1]) + int(headers.last_offset_delta[-1])
            try:
                for piece, piece_headers in pieces(source, headers):
                    made = table(piece, piece_headers, how.wanted, origin, part.offset_from, part.offset_to)
                    if made.num_rows:
                        yield made
            except BadBatch as error:
                before = int(headers.base_offset[np.searchsorted(headers.position, error.position)]) - 1
                raise DamagedLog(path, position + error.position, before, error.reason) from error
        if fault is not None:
            if is_last and is_torn(descriptor, position + reached, end, last_good + 1, part.folder, fault.reason):
                return
            raise DamagedLog(path, position + reached, last_good, fault.reason)
        if part.offset_to is not None and last_good + 1 >= part.offset_to:
            return
        position += reached
        want = how.chunk_bytes


def _pread(descriptor: int, size: int, position: int) -> Buffer:
    content = room(size)
    into = memoryview(content.data)[:size]
    done = 0
    while done < size:
        count = os.preadv(descriptor, [into[done:]], position + done)
        if not count:
            raise DataLoss(f"the file shrank to {position + done} bytes; at least {position + size} were expected")
        done += count
    return Buffer(content)


def _length(content: memoryview, size: int) -> int:
    """The size of the batch that begins here, from its header; 0 if the header is incomplete."""
    return int.from_bytes(content[8:12]) + 12 if size >= HEADER_BYTES else 0


def _check_order(headers: Headers, last_good: int) -> None:
    """Raises BadBatch for the first batch that begins before its predecessor ends."""
    ends = headers.base_offset + headers.last_offset_delta
    before = np.empty_like(ends)
    before[:1] = min(last_good, int(headers.base_offset[0]) - 1) if len(ends) else 0
    before[1:] = ends[:-1]
    wrong = headers.base_offset <= before
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        reason = f"offset {headers.base_offset[first]} where at least {before[first] + 1} was expected"
        raise BadBatch(int(headers.position[first]), reason)


class _Readable:
    """A file up to the end it had when opened, with the interface that recovery expects."""

    __slots__ = ("_descriptor", "_end")

    def __init__(self, descriptor: int, end: int) -> None:
        self._descriptor = descriptor
        self._end = end

    def pread(self, offset: int, count: int) -> bytes:
        """Reads up to `count` bytes at `offset`."""
        return os.pread(self._descriptor, max(0, min(count, self._end - offset)), offset)


def is_torn(descriptor: int, position: int, end: int, expected: int, folder: ShardFolder, reason: str) -> bool:
    """Whether the bytes at `position` are the unfinished end of a log, being written or left by a crash."""
    size = os.fstat(descriptor).st_size
    file = _Readable(descriptor, size)
    if size > end and _is_whole_now(file, position):
        return True
    noted = folder.server_checkpoint()
    recovery_offset = 0 if noted is None else noted.recovery_offset
    if expected < recovery_offset:
        return False
    return is_torn_tail(file, size, Fault(position, expected, reason), recovery_offset)


def _is_whole_now(file: _Readable, position: int) -> bool:
    """Whether the batch is complete by now."""
    try:
        check_batch(file.pread(position, read_header(file.pread(position, HEADER_BYTES)).size_bytes))
    except CorruptBatch:
        return False
    return True
