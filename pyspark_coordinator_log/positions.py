"""How far a stream has read a log, and whether it is still the same log.

A position is an offset with evidence: the log, the leader epoch, and the last batch read with its offset, place and checksum.
Before a stream continues, the evidence is checked. Five things may have happened to the log meanwhile, and an offset alone
cannot distinguish them:

    it grew                                                   the batch is still there: continue
    retention removed records already read                   nothing to compare, nothing lost: continue
    compaction rewrote records already read                  the log says it was compacted up to there: continue
    retention removed unread records, or the log is shorter   records are lost: DataLoss
    it was truncated and other records were written,          another batch or epoch is there, and compaction does not
    or it is a different log                                  explain it: DataLoss

A log can lose its end in a power failure: records that the server wrote but did not sync are gone, and the next ones get the
same offsets. A stream that has read the lost records must not continue as if nothing had happened.

Positions are found by walking batch headers, forward only. A closed segment is skipped as a whole: it ends where the next
one begins.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from coordinator.log.batch import (
    HEADER,
    HEADER_BYTES,
    MAGIC,
    PREFIX_BYTES,
    BatchHeader,
    CorruptBatch,
    check_batch,
    decode_records,
)
from coordinator.log.recovery import DamagedLog
from pyspark_coordinator_log.folders import Segment, ShardFolder, cuts, opened
from pyspark_coordinator_log.reading import DataLoss, is_torn

_WINDOW_BYTES = 256 * 1024
_NO_LIMIT = 1 << 62
_JUMP_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Everything before `offset` was read. `batch_offset`: base offset of the last batch; -1 if there is none."""

    offset: int
    segment: int
    at: int
    batch_offset: int = -1
    batch_at: int = -1
    crc: int = 0
    leader_epoch: int = -1

    def to_json(self) -> dict[str, int]:
        """The content as a dict for JSON."""
        return asdict(self)

    @staticmethod
    def parse(content: Mapping[str, Any]) -> "Position":
        """Converts from JSON. Raises ValueError if it is not a position."""
        try:
            return Position(**{name: int(value) for name, value in content.items()})
        except (TypeError, ValueError) as error:
            raise ValueError(f"{dict(content)} is not a position: {error}") from error


@dataclass(frozen=True, slots=True)
class Bound:
    """An end not to be read beyond: a segment and a size of it."""

    segment: int
    size_bytes: int


def earliest(folder: ShardFolder) -> Position:
    """The beginning of the log."""
    segments = folder.segments()
    first = segments[0].base_offset if segments else 0
    return Position(offset=first, segment=first, at=0)


def bound_of(folder: ShardFolder) -> Bound:
    """The current end of the log, whether or not it is a complete batch."""
    segments = folder.segments()
    return Bound(segments[-1].base_offset, segments[-1].size_bytes) if segments else Bound(0, 0)


def advance(folder: ShardFolder, start: Position, bytes_max: int | None, bound: Bound | None) -> Position:
    """The position after complete batches of at most `bytes_max` from `start`; at least one batch if there is one.

    Raises DamagedLog if what follows is neither a batch nor a torn tail.
    """
    segments = _bounded(folder.segments(), bound)
    budget = _NO_LIMIT if bytes_max is None else bytes_max
    found = start
    for index, segment in enumerate(segments):
        if segment.base_offset < start.segment:
            continue
        at = start.at if segment.base_offset == start.segment else 0
        is_last = index == len(segments) - 1
        if not is_last and segment.size_bytes - at <= budget:
            budget -= segment.size_bytes - at
            after = segments[index + 1].base_offset
            found = Position(offset=after, segment=after, at=0)
            continue
        if budget <= 0:
            break
        found = _within(folder, segment, at, budget, found, is_last)
        break
    return found if found == start or found.batch_offset >= 0 else _with_evidence(folder, segments, found)


def _bounded(segments: Sequence[Segment], bound: Bound | None) -> list[Segment]:
    if bound is None:
        return list(segments)
    return [
        replace(segment, size_bytes=min(segment.size_bytes, bound.size_bytes))
        if segment.base_offset == bound.segment
        else segment
        for segment in segments
        if segment.base_offset <= bound.segment
    ]


def _within(folder: ShardFolder, segment: Segment, at: int, budget: int, before: Position, is_last: bool) -> Position:
    """The position in a segment after batches of at most `budget` bytes."""
    found = before
    limit = at + budget
    for position, offset in cuts(segment, _JUMP_BYTES, at, segment.size_bytes):
        if position < limit:
            at = position
            found = Position(offset=offset, segment=segment.base_offset, at=position)
    ended = at
    with opened(segment.path) as descriptor:
        for position, header in _headers(descriptor, at, segment.size_bytes):
            if position + header.size_bytes > limit and found is not before:
                return found
            found = _after(segment, position, header)
            ended = found.at
        if ended < segment.size_bytes:
            _require_torn_tail(descriptor, folder, segment, found, ended, is_last)
        if is_last and found.batch_at >= 0 and found is not before:
            found = _without_torn_batch(descriptor, folder, segment, found, before)
    return found


def _after(segment: Segment, position: int, header: BatchHeader) -> Position:
    return Position(
        offset=header.next_offset,
        segment=segment.base_offset,
        at=position + header.size_bytes,
        batch_offset=header.base_offset,
        batch_at=position,
        crc=header.crc,
        leader_epoch=header.leader_epoch,
    )


def _headers(descriptor: int, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """The complete batches from a position on, up to the first that is not one."""
    make, unpack = BatchHeader._make, HEADER.unpack_from
    while position + HEADER_BYTES <= end:
        window = os.pread(descriptor, min(_WINDOW_BYTES, end - position), position)
        at = 0
        while at + HEADER_BYTES <= len(window):
            header = make(unpack(window, at))
            size = header.batch_length + PREFIX_BYTES
            if header.magic != MAGIC or size < HEADER_BYTES or position + at + size > end:
                return
            yield position + at, header
            at += size
        if not at:
            return
        position += at


def _require_torn_tail(
    descriptor: int, folder: ShardFolder, segment: Segment, found: Position, at: int, is_last: bool
) -> None:
    """Raises DamagedLog unless a torn tail begins at `at`."""
    if is_last and is_torn(descriptor, at, segment.size_bytes, found.offset, folder, "no whole batch"):
        return
    raise DamagedLog(segment.path, at, found.offset - 1, "no whole batch where one must begin")


def _without_torn_batch(
    descriptor: int, folder: ShardFolder, segment: Segment, found: Position, before: Position
) -> Position:
    """The position, or the one before the last batch if that is torn, which only the last batch of a log can be."""
    try:
        check_batch(os.pread(descriptor, found.at - found.batch_at, found.batch_at))
    except CorruptBatch as error:
        if not is_torn(descriptor, found.batch_at, segment.size_bytes, found.batch_offset, folder, str(error)):
            raise DamagedLog(segment.path, found.batch_at, found.batch_offset - 1, str(error)) from error
    else:
        return found
    last = before
    for position, header in _headers(descriptor, 0, found.batch_at):
        last = _after(segment, position, header)
    return last if last.offset > before.offset else before


def _with_evidence(folder: ShardFolder, segments: Sequence[Segment], found: Position) -> Position:
    """Adds the preceding batch to a position: the last batch of an earlier segment."""
    for segment in reversed([each for each in segments if each.base_offset <= found.segment]):
        end = found.at if segment.base_offset == found.segment else segment.size_bytes
        last = _last_batch(segment, end)
        if last is not None:
            position, header = last
            return replace(
                found,
                batch_offset=header.base_offset,
                batch_at=position,
                crc=header.crc,
                leader_epoch=header.leader_epoch,
            )
    return found


def _last_batch(segment: Segment, end: int) -> tuple[int, BatchHeader] | None:
    jumps = cuts(segment, _JUMP_BYTES, 0, end)
    last = None
    with opened(segment.path) as descriptor:
        for each in _headers(descriptor, jumps[-1][0] if jumps else 0, end):
            last = each
    return last


def locate(folder: ShardFolder, position: Position) -> Position:
    """Finds the position in the log as it is now. Raises DataLoss, saying what happened to the log.

    The top of this file lists the cases.
    """
    segments = folder.segments()
    if not segments:
        if position.offset == 0:
            return position  # The shard has never been written to.
        raise DataLoss(f"{folder.path} is empty, but was read up to offset {position.offset}")
    first, last = segments[0], segments[-1]
    if first.base_offset > position.offset:
        raise DataLoss(
            f"{folder.path} begins at offset {first.base_offset}; the records from offset {position.offset} on were deleted"
            " before they were read"
        )
    if position.batch_offset < 0:
        return _relocated(segments, position)
    epoch = folder.epoch_of(position.offset - 1)
    if epoch is not None and position.leader_epoch >= 0 and epoch != position.leader_epoch:
        raise DataLoss(
            f"{folder.path} has diverged: offset {position.offset - 1} was read in leader epoch"
            f" {position.leader_epoch} and now has epoch {epoch}"
        )
    if _is_unchanged(segments, position):
        return position
    end = _end_offset(folder, last)
    if end < position.offset:
        raise DataLoss(f"{folder.path} was truncated: it ends at offset {end}, but was read up to {position.offset}")
    if position.batch_offset < first.base_offset:
        return _relocated(segments, position)
    holder = [segment for segment in segments if segment.base_offset <= position.batch_offset][-1]
    header = _batch_at(holder, position.batch_offset)
    if header is not None and (header.crc, header.leader_epoch) == (position.crc, position.leader_epoch):
        return _relocated(segments, position)
    if folder.clean_offset() > position.batch_offset and (
        header is None or header.leader_epoch <= position.leader_epoch
    ):
        return _relocated(segments, position)
    raise DataLoss(
        f"{folder.path} has diverged: the batch at offset {position.batch_offset} is not the one that was read"
        f" (checksum {position.crc:08x})"
    )


def _is_unchanged(segments: Sequence[Segment], position: Position) -> bool:
    """Whether batch and position are still at the same places."""
    holders = [segment for segment in segments if segment.base_offset <= position.batch_offset]
    by_offset = [segment for segment in segments if segment.base_offset <= position.offset]
    if not holders or by_offset[-1].base_offset != position.segment:
        return False
    header = _header_at(holders[-1], position.batch_at)
    return header is not None and (header.base_offset, header.crc, header.leader_epoch) == (
        position.batch_offset,
        position.crc,
        position.leader_epoch,
    )


def offset_at(segment: Segment, at: int) -> int | None:
    """The base offset of the batch at a position; None if there is none."""
    header = _header_at(segment, at)
    return None if header is None else header.base_offset


def _header_at(segment: Segment, at: int) -> BatchHeader | None:
    with opened(segment.path) as descriptor:
        return next((header for _, header in _headers(descriptor, at, segment.size_bytes)), None)


def _batch_at(segment: Segment, offset: int) -> BatchHeader | None:
    """The first batch of a segment that begins at or after an offset."""
    with opened(segment.path) as descriptor:
        return next(
            (header for _, header in _headers(descriptor, 0, segment.size_bytes) if header.base_offset >= offset), None
        )


def _end_offset(folder: ShardFolder, last: Segment) -> int:
    return _within(
        folder, last, 0, _NO_LIMIT, Position(offset=last.base_offset, segment=last.base_offset, at=0), True
    ).offset


def _relocated(segments: Sequence[Segment], position: Position) -> Position:
    """The position with its current place in the files: the first batch at or after its offset."""
    holder = [segment for segment in segments if segment.base_offset <= position.offset][-1]
    at = 0
    with opened(holder.path) as descriptor:
        for begins, header in _headers(descriptor, 0, holder.size_bytes):
            if header.base_offset >= position.offset:
                break
            at = begins + header.size_bytes
    return replace(position, segment=holder.base_offset, at=at)


def covered_by_state(folder: ShardFolder, start: Position, end: Position, state_offset: int) -> Position:
    """The last position between two in an event log whose last event was decided on state below `state_offset`.

    Events before it are passed without a check, because those undone by a crash may refer to state that never existed.
    """
    for segment in reversed(folder.segments()):
        if start.offset >= end.offset or segment.base_offset > end.segment or segment.base_offset < start.segment:
            continue
        begins = start.at if segment.base_offset == start.segment else 0
        ends = end.at if segment.base_offset == end.segment else segment.size_bytes
        with opened(segment.path) as descriptor:
            # In nearly all cases the very last batch will do.
            if segment.base_offset == end.segment and begins <= end.batch_at < ends:
                last = next(_headers(descriptor, end.batch_at, ends), None)
                if last is not None and _state_offset_of(descriptor, *last) <= state_offset:
                    return end
            for position, header in reversed(list(_headers(descriptor, begins, ends))):
                if _state_offset_of(descriptor, position, header) <= state_offset:
                    return _after(segment, position, header)
    return start


def _state_offset_of(descriptor: int, position: int, header: BatchHeader) -> int:
    """The highest state offset of a batch's events; it is the first field of every event's value."""
    content = os.pread(descriptor, header.size_bytes, position)
    values = [record.value for record in decode_records(content, 0, header)]
    return max((int.from_bytes(value[2:10], signed=True) for value in values if value is not None), default=0)
