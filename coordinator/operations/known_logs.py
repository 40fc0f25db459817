"""What a data folder says about its logs, read without changing it: the catalog, the cluster's id, and the topics."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

from coordinator.journal.recovery import read_journal
from coordinator.log import catalog
from coordinator.log.batch import (
    HEADER_BYTES,
    BatchHeader,
    CorruptBatch,
    UnsupportedCompression,
    key_values,
    read_header,
    split,
)
from coordinator.log.catalog import NO_ID, Catalog, KnownLog
from coordinator.log.journal_overlap import conflict_reason, find_conflict
from coordinator.log.recovery import DamagedLog
from coordinator.operations.log_folders import LogFolder, Problem, ReadableFile, SegmentFile, base_offset_of, damage
from coordinator.protocol.codec import DecodeError
from coordinator.server.data_folder import check_journal
from coordinator.topics import metadata_records, names
from coordinator.topics.names import COORDINATOR_EVENTS
from coordinator.topics.registry import Registry
from coordinator.world.disk import RealDisk
from coordinator.world.folder_lock import is_in_use

META_PROPERTIES = "meta.properties"


def data_folder_of(path: Path) -> Path:
    """The data folder, if `path` is one of its partition folders; else `path` itself."""
    return path.parent if (path.parent / catalog.NAME).exists() and not (path / catalog.NAME).exists() else path


def known_logs(data_folder: Path) -> dict[str, KnownLog]:
    """Folder -> what the catalog has about its log, without the logs of deleted topics; empty if the catalog is damaged."""
    found = catalog.read(RealDisk(), str(data_folder))
    if found is None:
        return {}
    topics = registry_of(data_folder).topics
    return {
        name: log
        for name, log in found.logs.items()
        if log.topic_id in {NO_ID, topics[topic].topic_id.hex() if (topic := name.rpartition("-")[0]) in topics else ""}
    }


def journaled_batches(data_folder: Path, *, is_ours: bool = False) -> Mapping[str, list[bytes]]:
    """Folder -> batches that only the journal may have; empty if a server uses the folder or the journal is damaged.

    A running server writes them to the segments within a tenth of a second. `is_ours`: it is this process that has the lock.
    """
    try:
        return {} if not is_ours and is_in_use(str(data_folder)) else read_journal(RealDisk(), str(data_folder)).batches
    except DamagedLog:
        return {}


def registry_of(data_folder: Path) -> Registry:
    """The topics, as far as the metadata log can be read; `log check` reports what cannot."""
    registry = Registry()
    name = f"{names.CLUSTER_METADATA}-0"
    folder = LogFolder(data_folder / name, None, tuple(journaled_batches(data_folder).get(name, ())))
    for _ in replay_metadata(folder, registry, lambda _segment, _header, _error: None):
        pass
    return registry


OnUnreadable = Callable[[SegmentFile, BatchHeader, Exception], None]


def replay_metadata(folder: LogFolder, registry: Registry, on_unreadable: OnUnreadable) -> Iterator[Problem]:
    """Replays a metadata log, and yields its problems as `LogFolder.walk`. What cannot be decoded goes to `on_unreadable`."""
    yield from folder.walk(
        lambda segment, header, position: replay_batch(segment, header, position, registry, on_unreadable)
    )


def replay_batch(
    segment: SegmentFile, header: BatchHeader, position: int, registry: Registry, on_unreadable: OnUnreadable
) -> None:
    """Replays a batch of a metadata log."""
    if header.is_control:
        return
    try:
        for _, _, value in key_values(segment.batch(position, header), 0, header):
            message = metadata_records.decode(value) if value is not None else None
            if message is not None:
                registry.replay(message)
    except (CorruptBatch, UnsupportedCompression, DecodeError) as error:
        on_unreadable(segment, header, error)


def data_folder_problems(data_folder: Path, *, is_ours: bool = False) -> Iterator[Problem]:
    """What is wrong with the files of the data folder that belong to no log, as a start would report it.

    `is_ours`: as for `journaled_batches`.
    """
    found = catalog.read(RealDisk(), str(data_folder))
    path = data_folder / META_PROPERTIES
    if found is None:
        yield damage(data_folder / catalog.NAME, 0, -1, "wrong checksum")
    elif found.cluster_id and not path.exists():
        yield damage(path, 0, -1, f"the file is missing; it had cluster.id={found.cluster_id}")
    elif found.cluster_id and f"cluster.id={found.cluster_id}" not in path.read_text("utf-8", "replace").split():
        yield damage(path, 0, -1, f"it has not the cluster.id of the catalog, {found.cluster_id}")
    if found is not None and (is_ours or not is_in_use(str(data_folder))):
        yield from journal_problems(data_folder, found)


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
