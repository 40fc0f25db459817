"""Finds out what can be saved of the damaged logs of a data folder, and what is lost. It reads only.

Every intact batch of a damaged file is kept, also behind the damage: a batch is complete in itself, and the logs allow gaps
between offsets, as compaction leaves them. A file that is a copy or from another log is set aside as a whole. A log that has
lost its end continues at the offset that it had reached, so that no offset is given out twice and consumers keep their
positions.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from coordinator.log.batch import (
    HEADER_BYTES,
    BatchHeader,
    CorruptBatch,
    UnsupportedCompression,
    decode_records,
    read_header,
    verify,
)
from coordinator.log.checkpoint import Offsets
from coordinator.log.recovery import find_batch
from coordinator.log.segment_list import UNKNOWN, Entry, why_unusable, without_deleted
from coordinator.operations.log_check import check
from coordinator.operations.log_folders import UNREADABLE, LogFolder, Problem, ReadableFile, SegmentFile, base_offset_of
from coordinator.operations.log_records import PLAIN, kind_of, record_decoder
from coordinator.protocol.codec import DecodeError
from coordinator.topics.names import CONSUMER_OFFSETS

_NOWHERE = 1 << 62


class KeptBatch(NamedTuple):
    """An intact batch of a file."""

    position: int
    header: BatchHeader


class Range(NamedTuple):
    """Offsets from `first` to before `end`."""

    first: int
    end: int


@dataclass(slots=True)
class FilePlan:
    """What is to be done with a segment file."""

    path: Path
    size_bytes: int
    kept: list[KeptBatch]
    set_aside: str = ""
    """Why the whole file is set aside; empty if it is not."""

    @property
    def kept_bytes(self) -> int:
        return sum(batch.header.size_bytes for batch in self.kept)

    @property
    def is_rewritten(self) -> bool:
        return not self.set_aside and self.kept_bytes != self.size_bytes


@dataclass(slots=True)
class LogPlan:
    """What is to be done with a log."""

    folder: LogFolder
    problems: list[Problem]
    files: list[FilePlan]
    start_offset: int
    """Where the log begins; -1 if nothing before was deleted or lost."""
    end_offset: int
    """Where the log continues."""
    lost: list[Range]
    """Offsets that may have had records, and have none now."""
    groups: set[str] = field(default_factory=set)
    """The groups of an offsets log that still have records."""

    @property
    def kept_files(self) -> list[FilePlan]:
        """The files that remain, in order."""
        return [file for file in self.files if not file.set_aside]

    @property
    def needs_segment(self) -> bool:
        """Whether an empty segment is to be added, with which the log continues behind lost offsets."""
        return not self.kept_files or end_of(self.kept_files[-1]) < self.end_offset


def end_of(file: FilePlan) -> int:
    """The offset behind the last batch of a file."""
    return file.kept[-1].header.next_offset if file.kept else base_offset_of(file.path)


def plan_log(folder: LogFolder) -> LogPlan | None:
    """The plan for a log; None if it has no problem. Raises OSError."""
    (checked,) = check([folder])
    # The records of a topic are its users' business: the server does not decode them.
    is_plain = kind_of(folder.topic) == PLAIN
    problems = [problem for problem in checked.problems if not (is_plain and problem.kind == UNREADABLE)]
    if not problems:
        return None
    unreadable = {(each.file, each.position) for each in problems if each.kind == UNREADABLE}
    files = list(_plan_files(folder, unreadable))
    noted = Offsets() if is_foreign(folder) else folder.checkpoint or Offsets()
    start = max(noted.start_offset, folder.known.start_offset if folder.known is not None else -1)
    reached = folder.known.end_offset if folder.known is not None else 0
    if not is_foreign(folder):
        reached = max(reached, folder.durable_offset)
    if folder.journaled:  # the next start continues with them
        reached = max(reached, int.from_bytes(folder.journaled[0][:8]))
    end = max([reached, start, *(end_of(file) for file in files if not file.set_aside)])
    lost = _lost(folder, files, max(start, 0), end)
    if lost and lost[0].first <= max(start, 0):
        start = lost[0].end
    plan = LogPlan(folder, problems, files, start, end, lost)
    plan.groups = _groups(files) if folder.topic == CONSUMER_OFFSETS else set()
    return plan


def is_foreign(folder: LogFolder) -> bool:
    """Whether everything in the folder is from another log."""
    content = folder.segment_list
    return content is not None and bool(why_unusable(str(folder.path.resolve()), content))


def _plan_files(folder: LogFolder, unreadable: Collection[tuple[str, int]]) -> Iterator[FilePlan]:
    """The plan for each segment file, without those that the next start removes. Of two that overlap the first is kept."""
    start_offset = folder.checkpoint.start_offset if folder.checkpoint is not None else -1
    listed = [] if folder.segment_list is None else [entry.base_offset for entry in folder.segment_list.entries]
    foreign = _foreign(folder)
    expected = 0
    for path, following in zip(folder.segments, [*folder.segments[1:], None], strict=False):
        base_offset = base_offset_of(path)
        file = ReadableFile(path)
        end_offset = min((base for base in listed if base > base_offset), default=_NOWHERE)
        kept = list(_salvage(file, base_offset, end_offset))
        file.close()
        plan = FilePlan(path, file.size_bytes, kept, foreign(path, kept))
        if following is not None and end_of(plan) <= base_offset_of(following) <= start_offset:
            continue
        if not plan.set_aside and base_offset < expected:
            plan.set_aside = "it begins inside the segment before it"
        elif not plan.set_aside and file.size_bytes and not kept:
            plan.set_aside = "it has no batch of this log"
        if not plan.set_aside:
            expected = max(expected, end_of(plan))
            plan.kept = [batch for batch in kept if (str(path), batch.position) not in unreadable]
        yield plan


def _salvage(file: ReadableFile, expected: int, end_offset: int) -> Iterator[KeptBatch]:
    """The intact batches of a file whose offsets are in order and between `expected` and `end_offset`."""
    position: int | None = 0
    while position is not None and position + HEADER_BYTES <= file.size_bytes:
        try:
            header = read_header(file.pread(position, HEADER_BYTES), 0)
            verify(file.pread(position, header.size_bytes), 0, header)
        except CorruptBatch:
            position = find_batch(file, position + 1, file.size_bytes, expected)
            continue
        if expected <= header.base_offset and header.next_offset <= end_offset:
            yield KeptBatch(position, header)
            expected = header.next_offset
        position += header.size_bytes


def _foreign(folder: LogFolder) -> Callable[[Path, list[KeptBatch]], str]:
    """Returns `reason(path, kept)`: why a file is not one of the log, by the list of segments and the catalog; or ""."""
    content = folder.segment_list
    if content is not None and is_foreign(folder):
        return lambda _path, _kept: f"everything in the folder is of {content.folder}"
    start_offset = folder.checkpoint.start_offset if folder.checkpoint is not None else -1
    entries = without_deleted(content.entries if content is not None else [], start_offset)
    checksums = {entry.base_offset: entry.checksum for entry in entries}
    if folder.known is not None and folder.segments and base_offset_of(folder.segments[-1]) == folder.known.base_offset:
        checksums[folder.known.base_offset] = folder.known.checksum

    def reason(path: Path, kept: list[KeptBatch]) -> str:
        base_offset = base_offset_of(path)
        if entries and base_offset < entries[-1].base_offset and base_offset not in checksums:
            return "this log has no segment that begins there"
        checksum = checksums.get(base_offset, UNKNOWN)
        is_intact = bool(kept) and kept[0].position == 0
        if is_intact and checksum not in {UNKNOWN, kept[0].header.crc}:
            return "it does not begin with the batch that was written there"
        return ""

    return reason


def _lost(folder: LogFolder, files: list[FilePlan], start_offset: int, end_offset: int) -> list[Range]:
    """The ranges without a batch where there was one: not those that compaction has left."""
    ends = [*(base_offset_of(file.path) for file in files[1:]), end_offset][: len(files)]
    holes = [Range(entry.base_offset, end) for entry, end in _missing(folder, end_offset)]
    expected = start_offset
    for file, end in zip(files, ends, strict=True):
        position = 0
        dense_from = folder.checkpoint.dense_offset if folder.checkpoint is not None else _NOWHERE
        for at, header in [] if file.set_aside else file.kept:
            if position != at or expected >= dense_from:
                holes.append(Range(expected, header.base_offset))
            position, expected = at + header.size_bytes, header.next_offset
        if file.set_aside or position != file.size_bytes:
            holes.append(Range(expected, end))
            expected = max(expected, end)
    holes.append(Range(expected, end_offset))
    return _merged(Range(max(hole.first, start_offset), hole.end) for hole in holes)


def _missing(folder: LogFolder, end_offset: int) -> Iterator[tuple[Entry, int]]:
    """The listed segments whose files are missing, with the offset behind them."""
    content = folder.segment_list
    entries = content.entries if content is not None and not is_foreign(folder) else []
    present = set(map(base_offset_of, folder.segments))
    for entry, end in zip(entries, [*(entry.base_offset for entry in entries[1:]), end_offset], strict=False):
        if entry.base_offset not in present:
            yield entry, end


def _merged(holes: Iterable[Range]) -> list[Range]:
    """The ranges in order, without empty ones, and one for those that touch."""
    merged: list[Range] = []
    for hole in sorted(hole for hole in holes if hole.first < hole.end):
        if merged and hole.first <= merged[-1].end:
            merged[-1] = Range(merged[-1].first, max(merged[-1].end, hole.end))
        else:
            merged.append(hole)
    return merged


def _groups(files: list[FilePlan]) -> set[str]:
    """The groups that have records in the batches that are kept."""
    found: set[str] = set()
    show = record_decoder("offsets")
    for plan in files:
        file = ReadableFile(plan.path)
        segment = SegmentFile(plan.path, base_offset_of(plan.path), file)
        for position, header in [] if plan.set_aside else plan.kept:
            try:
                for record in decode_records(segment.batch(position, header), 0, header):
                    key = show(record).key if not header.is_control else None
                    if isinstance(key, dict):
                        found.update(key[name] for name in ("group", "group_id") if name in key)
            except (CorruptBatch, DecodeError, UnsupportedCompression):
                continue
        file.close()
    return found
