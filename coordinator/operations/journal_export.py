"""Copies the logs of an engine into a folder in Kafka's format: a data folder without the records of topics.

Nothing is claimed, so workers may run meanwhile. Each log is then as it was when it was read.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from coordinator.cluster.engine.engine import Engine, EngineSettings, EngineUnavailable
from coordinator.cluster.workers.joining import CLUSTER_LOG
from coordinator.log.batch import split
from coordinator.log.journaled_log import JournaledLog
from coordinator.log.log import LogSettings
from coordinator.operations.journal_access import TOPICS, JournalFailed, topic_of, with_engine
from coordinator.operations.known_logs import META_PROPERTIES
from coordinator.topics.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from coordinator.world.disk import RealDisk

SUFFIX = ".unfinished-export"
"""The folder is built under its name with this at the end."""
FLUSH_BYTES = 1 << 20
ATTEMPTS = 5
"""A log is read again if a worker has replaced what was still to be read by a snapshot."""
COPY_SETTINGS = LogSettings(segment_bytes=100 << 20, segment_ms=None, retention_ms=None)
_COMPACTED = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE})

Select = Callable[[Sequence[str]], Sequence[str]]
"""Of the logs of a journal, those that are wanted, in their order. Raises JournalFailed if the journal lacks what is needed."""


class Exported(NamedTuple):
    """What was copied."""

    cluster_id: str
    logs: int
    size_bytes: int
    workers: int
    """How many workers were running."""

    def line(self, folder: str) -> str:
        """One line for the user."""
        meanwhile = f"; {self.workers} workers run, so each log is as it was when it was read" if self.workers else ""
        return f"{self.logs} logs, {self.size_bytes} bytes of cluster {self.cluster_id} are in {folder}{meanwhile}"


def export(address: str, cluster: str, target: Path) -> Exported:
    """Makes a folder with all logs: complete, or not at all. Raises JournalFailed, OSError."""
    with _new_folder(target.resolve()) as folder:
        return _copied(address, cluster, folder, list)


@contextmanager
def copied(address: str, cluster: str, select: Select = list) -> Iterator[Path]:
    """A temporary folder with the logs that are wanted. Raises JournalFailed, OSError."""
    with TemporaryDirectory(prefix="coordinator-journal-") as folder:
        _copied(address, cluster, Path(folder), select)
        yield Path(folder)


def _copied(address: str, cluster: str, folder: Path, select: Select) -> Exported:
    settings = EngineSettings(cluster=cluster, reads_only=True)
    return with_engine(address, settings, lambda engine: copy_logs(engine, folder, select))


@contextmanager
def _new_folder(target: Path) -> Iterator[Path]:
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise JournalFailed(f"{target} exists and is not an empty folder")
    if os.path.ismount(target):
        raise JournalFailed(f"{target} is a mount point: name a folder in it")
    building = target.with_name(target.name + SUFFIX)
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    try:
        yield building
        if target.exists():
            target.rmdir()
        building.rename(target)
        RealDisk().sync_folder(str(target.parent))
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise


async def copy_logs(engine: Engine, folder: Path, select: Select) -> Exported:
    """Copies the logs that are wanted. Raises JournalFailed, EngineUnavailable, CorruptBatch, OSError."""
    cluster_id = await cluster_id_of(engine)
    workers = len(await engine.workers())
    copies = [await _copy(engine, folder, log) for log in select(await logs_of(engine))]
    if not copies:
        raise JournalFailed("the journal has no such log")
    write_identity(folder, cluster_id)
    return Exported(cluster_id, len(copies), sum(copies), workers)


async def cluster_id_of(engine: Engine) -> str:
    """The id of the cluster. Raises JournalFailed if the journal is empty, EngineUnavailable."""
    identity = await engine.tail(CLUSTER_LOG, 0)
    if not identity:
        raise JournalFailed("the journal is empty: no worker was ever started with it")
    return identity[0][1].decode()


async def logs_of(engine: Engine) -> list[str]:
    """The names of the logs of partitions, in the order of `TOPICS`. Raises EngineUnavailable."""
    found = [log for log in await engine.owners() if topic_of(log)]
    return sorted(found, key=lambda log: (TOPICS.index(topic_of(log)), log))


def write_identity(folder: Path, cluster_id: str) -> None:
    """Makes the folder that of a cluster. Raises OSError."""
    (folder / META_PROPERTIES).write_text(f"version=1\ncluster.id={cluster_id}\n", encoding="ascii")
    RealDisk().sync_folder(str(folder))


async def _copy(engine: Engine, folder: Path, name: str) -> int:
    """Copies a log; returns its size in bytes."""
    log = JournaledLog(RealDisk(), str(folder / name), COPY_SETTINGS)
    log.load()
    for attempt in range(1, ATTEMPTS + 1):
        try:
            await _read(engine, name, log)
            break
        except EngineUnavailable:
            if attempt == ATTEMPTS:
                raise
            log.begin_again()
    if log.segments:
        log.sync()
        start = {"start_offset": log.start_offset} if log.start_offset else {}
        log.checkpoint.write(clean_offset=log.gap_end, dense_offset=log.gap_end, **start)
    log.close()
    return log.size_bytes


async def _read(engine: Engine, name: str, log: JournaledLog) -> None:
    is_compacted = topic_of(name) in _COMPACTED
    unflushed_bytes = 0
    async with aclosing(engine.read(name)) as reading:  # type: ignore[type-var]
        async for _, batches in reading:
            if not log.segments and not is_compacted:
                log.begin_again(next((header.base_offset for _, header in split(batches)), 0))
            log.append_replayed(batches)
            unflushed_bytes += len(batches)
            if unflushed_bytes >= FLUSH_BYTES:
                log.flush()
                unflushed_bytes = 0
                if log.wants_segment:
                    log.begin_segment()
    log.flush()
