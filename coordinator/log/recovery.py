"""Recovers the end of a log after a crash: cuts off unacknowledged records, and refuses to serve damaged ones.

Only the last segment can be affected, because a segment is synced before the next one begins. (Kafka: `LogLoader`,
`LogSegment.recover`, which cuts at the first invalid batch in either case.) The segment is in one of three states:

- It ends with a complete batch: nothing to do.
- It ends inside a batch, in zeros (the length reached the disk, the content did not), or in a batch with a wrong checksum.
  If nothing in it was synced, this is a torn tail, which is cut and reported. Nothing in it was acknowledged as durable.
  An intact batch that has the offset of another place is no torn tail: the file is a copy or from another log.
- A batch is wrong and complete batches follow it. A disk may write unsynced data in any order, so a lost batch may precede
  a kept one; or the disk may have damaged synced data. The first is a tail to cut; cutting the second would lose
  acknowledged records. Two facts distinguish them: a crash cannot lose data that is synced according to the checkpoint, and
  data lost in a crash reads as zeros up to the end of a sector, whereas damaged data is merely wrong. If either fact points
  to damage, `DamagedLog` is raised with the file and the position, and the file is left as it is, because the operator may
  have a copy and a wrong guess would destroy the evidence.

A log that begins after its start or ends before its checkpoint lacks a file or the end of one, and is refused in the same way.

Checksums are verified from the checkpoint on, and always for the last batch. Before the checkpoint, walking over the
headers is enough: loading the log (`Log.replay_batches`) verifies every batch anyway.
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
    """The log must not be served: records that were durable have been changed or lost."""

    def __init__(self, file: str, position: int, last_good_offset: int, reason: str) -> None:
        self.file = file
        self.position = position
        """Bytes from the start of the file to the first faulty batch."""
        self.last_good_offset = last_good_offset
        """Offset of the last record before the damage; -1 if no record precedes it."""
        self.reason = reason
        super().__init__(f"{file} is damaged at position {position} ({reason}); last good offset {last_good_offset}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryReport:
    """What recovery cut from the log."""

    file: str
    position: int
    """The file's length now, in bytes."""
    bytes_cut: int
    next_offset: int
    """The offset that the next record will get."""
    reason: str
    synced_offsets_lost: int
    """How many durable offsets were lost: 0 except in a log that is opened with `is_best_effort`."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The first faulty batch: its position in bytes and the offset that was expected there."""

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
    """Walks over a segment. Returns the offset after its last valid batch, and the fault behind that, if there is one.

    Calls `visit(header, position)` for each valid batch. Verifies the checksums of the batches that reach beyond the offset
    `verify_from`, and of the last batch. From the offset `dense_from` on, gaps are faults. Raises OSError.
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
            fault = Fault(
                position, expected, f"only {size_bytes - position} bytes of a batch of {header.size_bytes} bytes"
            )
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
        # The fault may be due to a wrong length or count in the unverified batch before it.
        header, position, expected_there = unverified
        if not _whole(file, position, header):
            fault, expected = Fault(position, expected_there, "wrong checksum"), expected_there
    return expected, fault


def is_torn_tail(file: Readable, size_bytes: int, fault: Fault, recovery_offset: int) -> bool:
    """Whether a crash explains the fault, so that the file may be truncated there. Raises OSError."""
    if fault.expected_offset < recovery_offset:
        return False
    if _is_intact(file, fault.position, size_bytes):
        return _reads_as_unwritten_offset(file, fault)
    kept_at = find_batch(file, fault.position + 1, size_bytes, fault.expected_offset)
    return kept_at is None or reads_as_unwritten(file, fault, kept_at)


def _is_intact(file: Readable, position: int, size_bytes: int) -> bool:
    """Whether a batch begins there that is intact except for its offset, which the checksum leaves out."""
    try:
        header = read_header(file.pread(position, HEADER_BYTES), 0)
    except CorruptBatch:
        return False
    return position + header.size_bytes <= size_bytes and _whole(file, position, header)


def _reads_as_unwritten_offset(file: Readable, fault: Fault) -> bool:
    """Whether the first bytes of an intact batch are in a sector that was not written.

    They are its offset or a part of it, and perhaps the first bytes of its length, which are zero anyway.
    """
    count = SECTOR_BYTES - fault.position % SECTOR_BYTES
    expected = fault.expected_offset.to_bytes(8)[:count]
    return count < PREFIX_BYTES and any(expected) and not any(file.pread(fault.position, count))


def why_begins_late(base_offset: int, expected_offset: int, dense_from: int) -> str:
    """Why a segment with this base offset is damage where `expected_offset` is next; empty if it is not."""
    if base_offset < expected_offset or base_offset > expected_offset >= dense_from:
        return f"the file starts at offset {base_offset} instead of {expected_offset}"
    return ""


def why_ends_early(end_offset: int, recovery_offset: int) -> str:
    """Why a log that ends at `end_offset` is damaged; empty if it is not."""
    if end_offset < recovery_offset:
        return f"the log ends before offset {recovery_offset}, although it was synced up to there"
    return ""


def find_batch(file: Readable, position: int, size_bytes: int, expected_offset: int) -> int | None:
    """Position of the first intact batch at or after `position` whose offset is plausible; None if there is none."""
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
    """Whether some sector between the fault and the next intact batch ends in zeros that no batch would have there.

    A batch may begin with a few zeros. If the faulty batch is zeros up to the end of its sector, they must contradict the
    offset or length expected there. Elsewhere there must be more zeros than records are likely to contain.
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
