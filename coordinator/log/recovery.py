"""What to do with the end of a log after a crash: cut what was never acknowledged, refuse what was damaged.

A crash leaves the last segment in one of these states, and only the last one, because a segment is synced before the
next begins:

- it ends with a whole batch: nothing to do;
- it ends inside a batch, or in zeros (the length reached the disk, the content did not), or in a batch whose
  checksum is wrong: a torn tail. It is cut and reported. Nothing in it was acknowledged, unless the disk lied;
- something is wrong in the middle, and whole batches follow. A disk may write what was not yet synced in any order, so
  a lost batch may stand before a kept one; and a disk may rot. The difference matters: the one is a tail to cut, the
  other loses what was acknowledged. Two things tell them apart. What the checkpoint says was synced cannot have been
  lost by a crash. And what a crash lost reads as zeros from somewhere to the end of a sector, where rot leaves bytes
  that are merely wrong. If either speaks for damage, `DamagedLog` names file and position, and the file stays as it
  is: an operator may have a copy, and a guess would destroy the evidence.

Checksums are verified from the checkpoint on, and always that of the last batch. Before it a walk over the
headers suffices here: whoever loads a log (`Log.replay_batches`) verifies every batch as it goes, once.
"""

from collections.abc import Callable
from dataclasses import dataclass

from coordinator.log.batch import HEADER_BYTES, MAGIC, PREFIX_BYTES, BatchHeader, CorruptBatch, read_header, verify
from coordinator.world.disk import Readable

SECTOR_BYTES = 512
_CHUNK_BYTES = 1024 * 1024
_OFFSETS_AHEAD_MAX = 1 << 31
_ZEROS_UNLIKELY = 64


class DamagedLog(Exception):
    """A log that must not be served: something in it was changed or lost after it was made durable."""

    def __init__(self, file: str, position: int, last_good_offset: int, reason: str) -> None:
        self.file = file
        self.position = position
        """Bytes from the start of the file to the first batch that is wrong."""
        self.last_good_offset = last_good_offset
        """Offset of the last record before the damage; -1 if there is none."""
        self.reason = reason
        super().__init__(f"{file} is damaged at position {position} ({reason}); last good offset {last_good_offset}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryReport:
    """What recovery cut off."""

    file: str
    position: int
    """Where the file ends now."""
    bytes_cut: int
    next_offset: int
    """The offset that the next record will have."""
    reason: str
    synced_offsets_lost: int
    """How many offsets are gone that had been made durable: 0 after any crash of a sound disk."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The first batch that is wrong."""

    position: int
    expected_offset: int
    reason: str


def examine(
    file: Readable,
    size_bytes: int,
    base_offset: int,
    verify_from: int,
    dense_from: int,
    visit: Callable[[BatchHeader, int], None],
) -> tuple[int, Fault | None]:
    """Walks over a segment: the offset after its last good batch, and what is wrong behind it, if anything.

    Calls `visit(header, position)` for each good batch. Checksums are verified of batches that reach beyond the offset
    `verify_from`, and of the last. From the offset `dense_from` on, no offset may be left out.
    """
    expected, position = base_offset, 0
    chunk, chunk_at = b"", 0
    unverified: tuple[BatchHeader, int, int] | None = None
    fault: Fault | None = None
    while position < size_bytes:
        at = position - chunk_at
        if at + HEADER_BYTES > len(chunk):
            chunk, chunk_at, at = file.pread(position, _CHUNK_BYTES), position, 0
        try:
            header = read_header(chunk, at)
        except CorruptBatch as error:
            fault = Fault(position, expected, str(error))
            break
        end = position + header.size_bytes
        if end > size_bytes:
            fault = Fault(position, expected, f"{size_bytes - position} bytes of a batch of {header.size_bytes}")
            break
        if header.base_offset < expected or (header.base_offset > expected >= dense_from):
            fault = Fault(position, expected, f"offset {header.base_offset} where {expected} is next")
            break
        if header.next_offset > verify_from:
            if end - chunk_at > len(chunk):
                chunk, chunk_at, at = file.pread(position, max(_CHUNK_BYTES, header.size_bytes)), position, 0
            try:
                verify(chunk, at, header)
            except CorruptBatch as error:
                fault = Fault(position, expected, str(error))
                break
            unverified = None
        else:
            unverified = header, position, expected
        visit(header, position)
        expected, position = header.next_offset, end
    if unverified is not None:
        # What looks wrong may be the fault of a wrong length or count just before.
        header, position, expected_there = unverified
        if not _whole(file, position, header):
            fault, expected = Fault(position, expected_there, "wrong checksum"), expected_there
    return expected, fault


def is_torn_tail(file: Readable, size_bytes: int, fault: Fault, recovery_offset: int) -> bool:
    """Whether a crash explains the fault, so that the file may be cut there."""
    kept_at = find_batch(file, fault.position + 1, size_bytes, fault.expected_offset)
    if kept_at is None:
        return True
    if fault.expected_offset < recovery_offset:
        return False
    return reads_as_unwritten(file, fault, kept_at)


def find_batch(file: Readable, position: int, size_bytes: int, expected_offset: int) -> int | None:
    """Position of the first whole batch at or after `position` that could follow `expected_offset`."""
    while position + HEADER_BYTES <= size_bytes:
        chunk = file.pread(position, _CHUNK_BYTES)
        at = chunk.find(MAGIC, 16)
        while at >= 0:
            start = at - 16
            if start + HEADER_BYTES > len(chunk):
                break
            if _plausible(chunk, start, size_bytes - position, expected_offset) and _whole(
                file, position + start, read_header(chunk, start)
            ):
                return position + start
            at = chunk.find(MAGIC, at + 1)
        if len(chunk) < _CHUNK_BYTES:
            return None
        position += len(chunk) - HEADER_BYTES + 1
    return None


def _plausible(chunk: bytes, start: int, bytes_left: int, expected_offset: int) -> bool:
    try:
        header = read_header(chunk, start)
    except CorruptBatch:
        return False
    return (
        start + header.size_bytes <= bytes_left
        and expected_offset <= header.base_offset < expected_offset + _OFFSETS_AHEAD_MAX
    )


def _whole(file: Readable, position: int, header: BatchHeader) -> bool:
    batch = file.pread(position, header.size_bytes)
    try:
        verify(batch, 0, header)
    except CorruptBatch:
        return False
    return True


def reads_as_unwritten(file: Readable, fault: Fault, kept_at: int) -> bool:
    """Whether between the fault and the next whole batch some sector ends in zeros that its batch cannot have had.

    Where the bad batch starts with zeros to the end of its sector, they must deny the offset or length that belongs
    there, since a batch may begin with a few; elsewhere they must be more than records are likely to have.
    """
    position = fault.position
    while position < kept_at:
        end = min(position - position % SECTOR_BYTES + SECTOR_BYTES, kept_at)
        part = file.pread(position, end - position)
        zeros = len(part) - len(part.rstrip(b"\0"))
        if zeros >= _ZEROS_UNLIKELY:
            return True
        if position == fault.position and zeros == len(part):
            denied = fault.expected_offset.to_bytes(8)[:zeros]
            if zeros >= PREFIX_BYTES or any(denied):
                return True
        position = end
    return False
