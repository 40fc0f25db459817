"""Log folders of this server or of Kafka: finds them, and reads them batch by batch.

`Log.open` would repair a log, so this module opens all files read-only. It can read a folder that is damaged, is on a
read-only medium, or belongs to a running server. The last batch of a running server may be incomplete; it looks like a torn
tail and is intact the next time.

`log/recovery.py` has the rules that distinguish a torn tail from damage, so `check` reports what a start would do.
"""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from coordinator.log import checkpoint
from coordinator.log.batch import BatchHeader
from coordinator.log.recovery import Fault, examine, is_torn_tail, why_begins_late, why_ends_early
from coordinator.log.segment import SUFFIX
from coordinator.log.segment_swap import CLEANED_SUFFIX, SWAP_SUFFIX
from coordinator.topics.names import COORDINATOR_EVENTS

_PARTITION = re.compile(r"(.+)-([0-9]+)")
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


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A segment file that is open."""

    path: Path
    base_offset: int
    file: ReadableFile

    def batch(self, position: int, header: BatchHeader) -> bytes:
        """The bytes of the batch at a position."""
        return self.file.pread(position, header.size_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A problem in a file.

    `kind` is "torn tail" (the server cuts it when it starts), "damage" (the server does not start) or "unreadable record".
    """

    kind: str
    file: str
    position: int
    last_good_offset: int
    reason: str

    def __str__(self) -> str:
        where = f"{self.file}: {self.kind} at position {self.position} ({self.reason})"
        return f"{where}; last good offset {self.last_good_offset}"


@dataclass(frozen=True, slots=True)
class LogFolder:
    """The folder of one partition."""

    path: Path

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
        return sorted(path for path in self.path.iterdir() if _is_segment(path))

    @property
    def unfinished(self) -> list[str]:
        """Files of an unfinished compaction, which the next start completes or removes."""
        return sorted(path.name for path in self.path.iterdir() if path.suffix in {CLEANED_SUFFIX, SWAP_SUFFIX})

    @property
    def size_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.segments)

    @property
    def checkpoint(self) -> checkpoint.Offsets | None:
        """The checkpoint of this server, or None in a folder of Kafka."""
        path = self.path / checkpoint.NAME
        return checkpoint.parse(path.read_bytes()) if path.is_file() else None

    def walk(self, visit: Visit, read: Callable[[int], object] = lambda _: None) -> Iterator[Problem]:
        """Calls `visit` for each intact batch and yields the problems. After a problem it continues with the next file.

        It verifies all checksums. It calls `read` with the number of bytes that it has read.
        """
        noted = self.checkpoint
        dense_from = noted.dense_offset if noted is not None else _NOWHERE
        # A start accepts an event log that has lost its end.
        recovery_offset = noted.recovery_offset if noted is not None and self.topic != COORDINATOR_EVENTS else 0
        paths = self.segments
        start_offset = max(0, noted.start_offset) if noted is not None else 0
        expected: int | None = min([start_offset, *map(_base_offset, paths[:1])])
        for path in paths:
            base_offset = _base_offset(path)
            reason = "" if expected is None else why_begins_late(base_offset, expected, dense_from)
            if expected is not None and reason:
                yield Problem(kind="damage", file=str(path), position=0, last_good_offset=expected - 1, reason=reason)
            file = ReadableFile(path)
            try:
                segment = SegmentFile(path, base_offset, file)
                expected, fault = _examine(segment, dense_from, visit, read)
                if fault is not None:
                    torn = path is paths[-1] and is_torn_tail(file, file.size_bytes, fault, recovery_offset)
                    yield Problem(
                        kind="torn tail" if torn else "damage",
                        file=str(path),
                        position=fault.position,
                        last_good_offset=fault.expected_offset - 1,
                        reason=fault.reason,
                    )
                    expected = None
            finally:
                file.close()
        reason = "" if expected is None else why_ends_early(expected, recovery_offset)
        if reason and expected is not None:
            yield Problem(
                kind="damage", file=str(paths[-1] if paths else self.path), last_good_offset=expected - 1,
                position=paths[-1].stat().st_size if paths else 0, reason=reason,
            )  # fmt: skip


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


def find_log_folders(path: Path) -> list[LogFolder]:
    """The folder itself if it contains segments, else the partition folders in it, in order. Raises NoLogFolder."""
    if not path.is_dir():
        raise NoLogFolder(f"{path} is not a folder")
    if any(map(_is_segment, path.iterdir())):
        return [LogFolder(path)]
    folders = [child for child in path.iterdir() if child.is_dir() and _PARTITION.fullmatch(child.name)]
    if not folders:
        raise NoLogFolder(f"{path} contains neither segment files (20 digits and .log) nor partition folders (TOPIC-N)")
    return [LogFolder(folder) for folder in sorted(folders, key=_by_partition)]


def _by_partition(folder: Path) -> tuple[str, int]:
    topic, _, partition = folder.name.rpartition("-")
    return topic, int(partition)


def _base_offset(path: Path) -> int:
    return int(path.name.removesuffix(SUFFIX))


def _is_segment(path: Path) -> bool:
    return path.suffix == SUFFIX and len(path.stem) == 20 and path.stem.isdecimal()
