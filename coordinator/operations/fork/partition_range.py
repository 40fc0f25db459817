"""The offsets of a partition in a folder, found without reading its records.

Kafka's `.index` of the last segment says where to begin to look for the end. This server has no such file; there the segment is
read from its beginning.
"""

from collections.abc import Mapping
from pathlib import Path
from struct import Struct

from coordinator.log.batch import CorruptBatch, read_header, split
from coordinator.log.recovery import examine
from coordinator.operations.fork.source import OffsetRange
from coordinator.operations.log_folders import LogFolder, ReadableFile, base_offset_of

_START_OFFSETS = "log-start-offset-checkpoint"
_ENTRY = Struct(">ii")
"""An entry of an index: relative offset, position."""
_NOWHERE = 1 << 62


class _Rest:
    """A file from a position on."""

    def __init__(self, file: ReadableFile, position: int) -> None:
        self._file = file
        self._position = position

    def pread(self, offset: int, count: int) -> bytes:
        return self._file.pread(self._position + offset, count)


def read_range(folder: LogFolder, start_offset: int | None) -> OffsetRange:
    """The offsets that the files have. `start_offset`: what the broker says about the start, if anything."""
    segments = folder.segments
    noted = folder.checkpoint
    first = base_offset_of(segments[0]) if segments else 0
    start = max(first, noted.start_offset if noted is not None else -1, start_offset or 0)
    end = _end_of(segments[-1]) if segments else 0
    for piece in folder.journaled[-1:]:
        end = max(end, split(piece)[-1][1].next_offset)
    return OffsetRange(start, max(start, end))


def start_offsets(log_dir: Path) -> Mapping[tuple[str, int], int]:
    """(topic, partition) -> start offset, from Kafka's checkpoint file: version, number of lines, and lines."""
    path = log_dir / _START_OFFSETS
    lines = path.read_text("utf-8", "replace").splitlines()[2:] if path.is_file() else []
    fields = [line.split() for line in lines]
    return {
        (each[0], int(each[1])): int(each[2])
        for each in fields
        if len(each) == 3 and each[1].isdecimal() and each[2].isdecimal()
    }


def _end_of(segment: Path) -> int:
    """The offset behind the last intact batch of a segment."""
    file = ReadableFile(segment)
    try:
        position = _indexed_position(segment, file)
        end, _ = examine(
            _Rest(file, position),
            file.size_bytes - position,
            base_offset_of(segment),
            _NOWHERE,
            _NOWHERE,
            lambda *_: None,
        )
    finally:
        file.close()
    return end


def _indexed_position(segment: Path, log: ReadableFile) -> int:
    """The position of a batch near the end of the segment, from its index; 0 without a usable one."""
    path = segment.with_suffix(".index")
    if not path.is_file():
        return 0
    index = ReadableFile(path)
    try:
        # The index of an active segment ends in zeros, and may be ahead of a copy of the segment.
        low, high = 0, index.size_bytes // _ENTRY.size
        position = 0
        while low < high:
            middle = (low + high) // 2
            _, at = _ENTRY.unpack(index.pread(middle * _ENTRY.size, _ENTRY.size))
            if 0 < at < log.size_bytes:
                position, low = at, middle + 1
            else:
                high = middle
    finally:
        index.close()
    try:
        header = read_header(log.pread(position, 64))
    except CorruptBatch:
        return 0
    return position if header.base_offset >= base_offset_of(segment) else 0
