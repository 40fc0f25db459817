"""Log folders of this server or of Kafka: finds them, and reads them batch by batch.

`Log.open` would repair a log, so this module opens all files read-only. It can read a folder that is damaged, is on a
read-only medium, or belongs to a running server. The last batch of a running server may be incomplete; it looks like a torn
tail and is intact the next time.

`log/recovery.py` has the rules that distinguish a torn tail from damage, so `check` reports what a start would do.
"""

import os
import re
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from coordinator.log import checkpoint, segment_list
from coordinator.log.batch import BatchHeader, split
from coordinator.log.catalog import KnownLog, find_contradiction
from coordinator.log.recovery import Fault, examine, is_torn_tail, why_begins_late, why_ends_early
from coordinator.log.segment import SUFFIX, segment_name
from coordinator.log.segment_list import Found, SegmentList, find_mismatch
from coordinator.log.segment_swap import CLEANED_SUFFIX, SWAP_SUFFIX
from coordinator.topics.names import COORDINATOR_EVENTS
from coordinator.world.disk import RealDisk

JOURNAL = "coordinator.journal"
"""Stands for the files of the journal in reports."""
_PARTITION = re.compile(r"(.+)-([0-9]+)")
_SWAP = re.compile(rf"([0-9]{{20}})\.([0-9]{{20}}){re.escape(SWAP_SUFFIX)}")
UNREADABLE = "unreadable record"
_NOWHERE = 1 << 62
_ALL_CHECKSUMS = -1

Visit = Callable[["SegmentFile", BatchHeader, int], None]
"""`visit(segment, header, position)` is called for each intact batch."""


class NoLogFolder(Exception):
    """There is no log at this path. The text has the path."""


class ReadableFile:
    """A file that is open for reading."""

    __slots__ = ("_descriptor", "size_bytes")

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size_bytes = os.fstat(self._descriptor).st_size

    def pread(self, offset: int, count: int) -> bytes:
        """`count` bytes at `offset`, or fewer at the end of the file."""
        data = os.pread(self._descriptor, count, offset)
        while 0 < len(data) < count:
            more = os.pread(self._descriptor, count - len(data), offset + len(data))
            if not more:
                break
            data += more
        return data

    def close(self) -> None:
        os.close(self._descriptor)


class BytesFile:
    """Bytes in memory that are read like a file."""

    __slots__ = ("_content", "size_bytes")

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.size_bytes = len(content)

    def pread(self, offset: int, count: int) -> bytes:
        """As `ReadableFile.pread`."""
        return self._content[offset : offset + count]


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A segment file that is open, or a piece of the journal."""

    path: Path
    base_offset: int
    file: ReadableFile | BytesFile

    def batch(self, position: int, header: BatchHeader) -> bytes:
        """The bytes of the batch at a position."""
        return self.file.pread(position, header.size_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A problem in a file.

    `kind` is "torn tail" (the server cuts it when it starts), "damage" (the server does not start) or UNREADABLE.
    """

    kind: str
    file: str
    position: int
    last_good_offset: int
    reason: str

    def as_json(self) -> dict[str, Any]:
        """The problem as a JSON value."""
        return asdict(self)

    def __str__(self) -> str:
        where = f"{self.file}: {self.kind} at position {self.position} ({self.reason})"
        return f"{where}; last good offset {self.last_good_offset}"


@dataclass(frozen=True, slots=True)
class LogFolder:
    """The folder of one partition."""

    path: Path
    known: KnownLog | None = None
    """What the catalog of the data folder has about the log."""
    journaled: tuple[bytes, ...] = ()
    """The batches that the journal of a server that was killed has of the log."""

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def topic(self) -> str:
        """The name of the topic, which is part of the name of the folder."""
        match = _PARTITION.fullmatch(self.name)
        return match[1] if match else self.name

    @property
    def segments(self) -> list[Path]:
        """The segment files in order."""
        return sorted(path for path in self._files() if _is_segment(path))

    @property
    def unfinished(self) -> list[str]:
        """Files of an unfinished compaction, which the next start completes or removes."""
        return sorted(path.name for path in self._files() if path.suffix in {CLEANED_SUFFIX, SWAP_SUFFIX})

    def _files(self) -> list[Path]:
        return list(self.path.iterdir()) if self.path.is_dir() else []

    @property
    def size_bytes(self) -> int:
        return _size(self.segments)

    @property
    def checkpoint(self) -> checkpoint.Offsets | None:
        """The checkpoint of this server, or None in a folder of Kafka."""
        path = self.path / checkpoint.NAME
        return checkpoint.parse(path.read_bytes()) if path.is_file() else None

    def walk(self, visit: Visit, read: Callable[[int], object] = lambda _: None) -> Iterator[Problem]:
        """Calls `visit` for each intact batch and yields the problems. After a problem it continues with the next file.

        It verifies all checksums. It calls `read` with the number of bytes that it has read.
        """
        reported = set()
        mismatches = list(self._mismatches())
        for problem in self._walk_batches(visit, read):
            reported.add(problem.file)
            yield problem
        yield from (problem for problem in mismatches if problem.file not in reported)

    def _walk_batches(self, visit: Visit, read: Callable[[int], object]) -> Iterator[Problem]:
        noted = self.checkpoint
        dense_from = noted.dense_offset if noted is not None else _NOWHERE
        start_offset = max(0, noted.start_offset) if noted is not None else 0
        paths = self.segments
        expected: int | None = min([start_offset, *map(base_offset_of, paths[:1])])
        for path in paths:
            base_offset = base_offset_of(path)
            if expected is not None:
                expected = max(expected, min(base_offset, start_offset))  # what lies between is deleted
                reason = why_begins_late(base_offset, expected, dense_from)
                if reason:
                    yield damage(path, 0, expected - 1, reason)
            file = ReadableFile(path)
            try:
                segment = SegmentFile(path, base_offset, file)
                expected, fault = _examine(segment, dense_from, visit, read)
                if fault is not None:
                    torn = path is paths[-1] and is_torn_tail(file, file.size_bytes, fault, self.durable_offset)
                    yield Problem(
                        kind="torn tail" if torn else "damage",
                        file=str(path),
                        position=fault.position,
                        last_good_offset=fault.expected_offset - 1,
                        reason=fault.reason,
                    )
                    expected = fault.expected_offset if torn else None
            finally:
                file.close()
        if expected is not None:
            expected = yield from self._walk_journaled(expected, dense_from, visit)
        reason = "" if expected is None else why_ends_early(max(expected, start_offset), self.durable_offset)
        if expected is not None and reason:
            yield damage(paths[-1] if paths else self.path, _size(paths[-1:]), expected - 1, reason)

    def _walk_journaled(self, expected: int, dense_from: int, visit: Visit) -> Generator[Problem, None, int]:
        """Visits the batches of the journal that the segments lack. Returns the offset behind the last one."""
        path = self.path.parent / JOURNAL
        for piece in self.journaled:
            segment = SegmentFile(path, 0, BytesFile(piece))
            for position, header in split(piece):
                if header.base_offset >= expected:
                    reason = why_begins_late(header.base_offset, expected, dense_from)
                    if reason:
                        yield damage(path, position, expected - 1, f"{self.name}: {reason}")
                    visit(segment, header, position)
                    expected = header.next_offset
        return expected

    @property
    def durable_offset(self) -> int:
        """Every record before it must be there. A start accepts an event log that has lost its end."""
        if self.topic == COORDINATOR_EVENTS:
            return 0
        noted = self.checkpoint
        return max(noted.recovery_offset if noted is not None else 0, self.known.end_offset if self.known else 0)

    def _mismatches(self) -> Iterator[Problem]:
        """What contradicts the list of segments and the catalog."""
        if self.known is not None and not self.path.is_dir():
            yield damage(
                self.path, 0, -1, f"the folder is missing; it had records up to offset {self.known.end_offset - 1}"
            )
            return
        content = self.segment_list
        problems = list(self._compare(content))
        if problems and self.segment_list != content:
            # A running server has replaced segments meanwhile.
            problems = list(self._compare(self.segment_list))
        yield from problems

    @property
    def segment_list(self) -> SegmentList | None:
        """The list of segments, without entries if there is none; None if it is damaged."""
        return segment_list.read(RealDisk(), str(self.path))

    def _compare(self, content: SegmentList | None) -> Iterator[Problem]:
        reason = segment_list.why_unusable(str(self.path.resolve()), content)
        # The folder may be a copy under another name.
        if content is None or (reason and _PARTITION.fullmatch(self.name)):
            yield damage(self.path / segment_list.NAME, 0, -1, reason)
            return
        entries = content.entries
        start_offset = self.checkpoint.start_offset if self.checkpoint is not None else -1
        found = self._found(start_offset)
        for first, end in self._swaps():
            entries = [entry for entry in entries if not first <= entry.base_offset < end]
            found = {base: each for base, each in found.items() if not first <= base < end}
        mismatch = find_mismatch(entries, found, start_offset, self.durable_offset)
        if mismatch is not None:
            path = self.path / segment_name(mismatch.base_offset)
            yield damage(path, mismatch.position, mismatch.base_offset - 1, mismatch.reason)
        if self.known is not None:
            name, reason = find_contradiction(self.known, start_offset, found)
            if reason:
                yield damage(self.path / name, 0, self.known.base_offset - 1, reason)

    def _found(self, start_offset: int) -> dict[int, Found]:
        """The segments by base offset, without those that the next start removes."""
        found: dict[int, Found] = {}
        for path in self.segments:
            if base_offset_of(path) <= start_offset:
                found.clear()  # `walk` reports it if one of them reaches beyond the next
            file = ReadableFile(path)
            found[base_offset_of(path)] = Found(file.size_bytes, segment_list.first_checksum(file))
            file.close()
        return found

    def _swaps(self) -> Iterator[tuple[int, int]]:
        """The offsets of unfinished swaps, which the next start completes."""
        for name in self.unfinished:
            match = _SWAP.fullmatch(name)
            if match is not None:
                yield int(match[1]), int(match[2])


def damage(path: Path, position: int, last_good_offset: int, reason: str) -> Problem:
    """Damage in a file, or the file that should be there."""
    return Problem(kind="damage", file=str(path), position=position, last_good_offset=last_good_offset, reason=reason)


def _examine(
    segment: SegmentFile, dense_from: int, visit: Visit, read: Callable[[int], object]
) -> tuple[int, Fault | None]:
    """Like `recovery.examine`. The calls of `read` add up to the size of the file."""
    reported = 0

    def each(header: BatchHeader, position: int) -> None:
        nonlocal reported
        visit(segment, header, position)
        read(header.size_bytes)
        reported += header.size_bytes

    found = examine(segment.file, segment.file.size_bytes, segment.base_offset, _ALL_CHECKSUMS, dense_from, each)
    read(segment.file.size_bytes - reported)
    return found


def find_log_folders(
    path: Path,
    known: Mapping[str, KnownLog] = MappingProxyType({}),
    journaled: Mapping[str, list[bytes]] = MappingProxyType({}),
) -> list[LogFolder]:
    """The folder itself if it contains segments, else the partition folders in it, in order, and those of `known` logs.

    `known`, `journaled`: folder -> what the catalog and the journal have about its log. Raises NoLogFolder.
    """
    if not path.is_dir():
        raise NoLogFolder(f"{path} is not a folder")
    name = path.resolve().name
    if any(map(_is_segment, path.iterdir())) or name in journaled:
        return [LogFolder(path, known.get(name), tuple(journaled.get(name, ())))]
    folders = {child for child in path.iterdir() if child.is_dir() and _PARTITION.fullmatch(child.name)}
    folders |= {path / name for name in known}
    if not folders:
        raise NoLogFolder(f"{path} contains neither segment files (20 digits and .log) nor partition folders (TOPIC-N)")
    return [
        LogFolder(folder, known.get(folder.name), tuple(journaled.get(folder.name, ())))
        for folder in sorted(folders, key=_by_partition)
    ]


def _by_partition(folder: Path) -> tuple[str, int]:
    topic, _, partition = folder.name.rpartition("-")
    return topic, int(partition)


def base_offset_of(segment: Path) -> int:
    """The base offset of a segment, from its name."""
    return int(segment.name.removesuffix(SUFFIX))


def _size(files: list[Path]) -> int:
    return sum(path.stat().st_size for path in files)


def _is_segment(path: Path) -> bool:
    return path.suffix == SUFFIX and len(path.stem) == 20 and path.stem.isdecimal()
