"""Carries out the plans of repair_plan.py. Whatever it replaces is kept in a folder beside the data folder.

A repair that is interrupted can be repeated: every file is replaced at once, and a file is copied before it is replaced.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path

from coordinator.journal.slot import slot_name, slot_numbers
from coordinator.log import catalog, segment_list
from coordinator.log.batch_builder import BatchBuilder
from coordinator.log.checkpoint import NAME as CHECKPOINT
from coordinator.log.checkpoint import Checkpoint, Offsets
from coordinator.log.log import Log, LogSettings
from coordinator.log.segment import aborted_name, segment_name
from coordinator.log.segment_list import UNKNOWN, Entry, first_checksum, write_durably
from coordinator.operations.known_logs import META_PROPERTIES
from coordinator.operations.log_folders import ReadableFile, base_offset_of
from coordinator.operations.repair_plan import FilePlan, LogPlan, is_foreign
from coordinator.protocol.messages import Message, ProducerIdsRecord
from coordinator.topics import metadata_records
from coordinator.topics.placements import on_one
from coordinator.topics.registry import Topic, creation
from coordinator.world.disk import RealDisk

PRODUCER_IDS_SKIPPED = 1 << 32
"""How far the next producer id advances if the metadata log has lost records, because it may have lost reservations."""
_NODE_ID = 1
_DISK = RealDisk()


def repair_log(plan: LogPlan, kept: Path) -> None:
    """Repairs one log. What it replaces goes to `kept`. Raises OSError."""
    folder, kept = plan.folder.path, kept / plan.folder.name
    noted = plan.folder.checkpoint or Offsets()
    folder.mkdir(exist_ok=True)
    kept.mkdir(parents=True)
    if is_foreign(plan.folder):
        noted = Offsets()
        for path in list(folder.iterdir()):
            _move(path, kept)
    for file in plan.files:
        if file.set_aside:
            _move(file.path, kept)
            _move(folder / aborted_name(base_offset_of(file.path)), kept)
        elif file.is_rewritten:
            _rewrite(file, kept)
    if plan.needs_segment:
        _DISK.open(str(folder / segment_name(plan.end_offset))).close()
    for name in (CHECKPOINT, segment_list.NAME):
        if (folder / name).exists():
            shutil.copy2(folder / name, kept)
    _write_list(plan)
    _write_checkpoint(plan, noted)
    _DISK.sync_folder(str(folder.parent))


def _move(path: Path, folder: Path) -> None:
    if path.exists():
        shutil.move(path, folder / path.name)


def _rewrite(plan: FilePlan, kept: Path) -> None:
    shutil.copy2(plan.path, kept)
    file = ReadableFile(plan.path)
    content = b"".join(file.pread(position, header.size_bytes) for position, header in plan.kept)
    file.close()
    write_durably(_DISK, str(plan.path.parent), plan.path.name, content)


def _write_list(plan: LogPlan) -> None:
    """Writes the list of the segments that remain, or removes it if there is only one."""
    folder = str(plan.folder.path)
    paths = plan.folder.segments
    entries = [_entry(path) for path in paths[:-1]]
    if entries:
        segment_list.write(_DISK, folder, [*entries, Entry(base_offset_of(paths[-1]), UNKNOWN, UNKNOWN)])
    else:
        (plan.folder.path / segment_list.NAME).unlink(missing_ok=True)


def _entry(path: Path) -> Entry:
    file = ReadableFile(path)
    try:
        return Entry(base_offset_of(path), file.size_bytes, first_checksum(file))
    finally:
        file.close()


def _write_checkpoint(plan: LogPlan, noted: Offsets) -> None:
    """Writes the checkpoint: all that remains is durable, and there may be gaps in it."""
    last = _DISK.open(str(plan.folder.segments[-1]))
    last.sync()
    last.close()
    checkpoint = Checkpoint(_DISK, str(plan.folder.path))
    checkpoint.write(
        start_offset=plan.start_offset,
        recovery_offset=plan.end_offset,
        clean_offset=min(noted.clean_offset, plan.end_offset),
        dense_offset=plan.end_offset,
    )
    checkpoint.sync()
    checkpoint.close()
    _DISK.sync_folder(str(plan.folder.path))


def restore_topics(metadata_folder: Path, topics: Iterable[Topic], next_producer_id: int) -> None:
    """Adds topics that the metadata log has lost, one batch per topic, and skips producer ids. Raises OSError, DamagedLog."""
    log = Log.open(_DISK, str(metadata_folder), LogSettings(segment_ms=None, retention_ms=None))
    ids = ProducerIdsRecord(broker_id=_NODE_ID, next_producer_id=next_producer_id + PRODUCER_IDS_SKIPPED)
    batches: list[list[Message]] = [[ids], *(list(creation(topic, on_one(_NODE_ID))) for topic in topics)]
    for records in batches:
        builder = BatchBuilder()
        for record in records:
            builder.add(None, metadata_records.encode(record))
        log.append(builder.build(log.end_offset, 0), len(records), 0)
    log.close()


def repair_catalog(data_folder: Path, repaired: Iterable[str], kept: Path) -> None:
    """Removes the repaired logs from the catalog, or a damaged catalog; the next start completes it. Raises OSError."""
    path = data_folder / catalog.NAME
    found = catalog.read(_DISK, str(data_folder))
    if not path.exists():
        return
    kept.mkdir(exist_ok=True)
    shutil.copy2(path, kept)
    if found is None:
        path.unlink()
        return
    left = {name: log for name, log in found.logs.items() if name not in set(repaired)}
    catalog.write(_DISK, str(data_folder), found._replace(logs=left))


def set_journal_aside(data_folder: Path, kept: Path) -> None:
    """Moves the files of the journal away, and notes in the catalog that there is none. Raises OSError."""
    kept.mkdir(exist_ok=True)
    for number in slot_numbers(_DISK, str(data_folder)):
        _move(data_folder / slot_name(number), kept)
    found = catalog.read(_DISK, str(data_folder))
    if found is not None:
        catalog.write(_DISK, str(data_folder), found._replace(has_journal=False))


def restore_cluster_id(data_folder: Path, kept: Path) -> None:
    """Writes meta.properties with the cluster's id of the catalog. Raises OSError."""
    found = catalog.read(_DISK, str(data_folder))
    path = data_folder / META_PROPERTIES
    if found is None or not found.cluster_id:
        return
    kept.mkdir(exist_ok=True)
    _move(path, kept)
    write_durably(_DISK, str(data_folder), path.name, f"version=1\ncluster.id={found.cluster_id}\n".encode())
