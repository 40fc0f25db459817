"""What is wrong with the journal of a data folder, as a start would report it."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from coordinator.journal.recovery import read_journal
from coordinator.log.batch import HEADER_BYTES, BatchHeader, CorruptBatch, read_header, split
from coordinator.log.catalog import Catalog
from coordinator.log.journal_overlap import conflict_reason, find_conflict
from coordinator.log.recovery import DamagedLog
from coordinator.operations.log_folders import LogFolder, Problem, ReadableFile, base_offset_of, damage
from coordinator.server.data_folder import check_journal
from coordinator.topics.names import COORDINATOR_EVENTS
from coordinator.world.disk import RealDisk


def journal_problems(data_folder: Path, catalog: Catalog) -> Iterator[Problem]:
    """That the journal is missing or damaged, or that another server has written to its logs."""
    try:
        recovered = read_journal(RealDisk(), str(data_folder))
        check_journal(str(data_folder), catalog, recovered)
    except DamagedLog as error:
        yield damage(Path(error.file), error.position, -1, error.reason)
        return
    for name, batches in recovered.batches.items():
        folder = LogFolder(data_folder / name, None, tuple(batches))
        conflict = _find_conflict(folder) if folder.topic != COORDINATOR_EVENTS else None
        if conflict is not None:
            reason = f"{name}: {conflict_reason(conflict)}"
            yield damage(Path(recovered.paths[0]), 0, conflict.base_offset - 1, reason)


def _find_conflict(folder: LogFolder) -> BatchHeader | None:
    paths = folder.segments
    if not paths:
        return None
    bases = list(map(base_offset_of, paths))
    headers = cache(lambda path: list(_headers(path)))

    def find(offset: int) -> BatchHeader | None:
        behind = (header for path in paths[_segment_of(bases, offset) :] for header in headers(path))
        return next((header for header in behind if header.next_offset > offset), None)

    journaled = [header for piece in folder.journaled for _, header in split(piece)]
    return find_conflict(reversed(journaled), bases[0], bases[-1], find)


def _segment_of(bases: list[int], offset: int) -> int:
    return max((number for number, base in enumerate(bases) if base <= offset), default=0)


def _headers(path: Path) -> Iterator[BatchHeader]:
    """The headers of the batches, up to a fault, which others report."""
    file = ReadableFile(path)
    try:
        position = 0
        while position < file.size_bytes:
            header = read_header(file.pread(position, HEADER_BYTES))
            yield header
            position += header.size_bytes
    except CorruptBatch:
        return
    finally:
        file.close()
