"""Copies the groups, offsets, transactions, events and topics of a data folder into an engine that is empty.

The records of topics stay where they are. The folder must be that of a stopped server, or one that `log export` made. The
cluster's id comes last: without it the journal has no cluster, and workers that start meanwhile make this fail.
"""

import asyncio
from pathlib import Path
from typing import NamedTuple

from coordinator.cluster.engine.engine import Claim, Engine, EngineSettings, Fenced, Piece, Worker, claim_one
from coordinator.cluster.workers.joining import CLUSTER_LOG
from coordinator.log.batch import BatchHeader
from coordinator.log.recovery import DamagedLog
from coordinator.operations.journal_access import JournalFailed, topic_of, with_engine
from coordinator.operations.known_logs import META_PROPERTIES, journaled_batches, known_logs
from coordinator.operations.log_folders import LogFolder, SegmentFile, find_log_folders
from coordinator.server import data_folder
from coordinator.topics.names import CONSUMER_OFFSETS
from coordinator.world.disk import RealDisk
from coordinator.world.entropy import RealEntropy

PIECE_BYTES = 1 << 20


class Imported(NamedTuple):
    """What was copied."""

    cluster_id: str
    logs: int
    records: int
    left: list[str]
    """The folders whose records are not in the journal."""

    def lines(self, folder: str) -> list[str]:
        """For the user."""
        found = [f"{self.records} records of {self.logs} logs of cluster {self.cluster_id} are in the journal"]
        if self.left:
            found.append(f"the records of {len(self.left)} partitions of topics stay in {folder}")
        return found


def import_folder(address: str, settings: EngineSettings, folder: Path) -> Imported:
    """Copies a data folder. Raises JournalFailed, CannotStart if a server uses the folder, NoLogFolder, OSError."""
    if not (folder / META_PROPERTIES).is_file():
        raise JournalFailed(f"{folder} is not a data folder: it has no {META_PROPERTIES}")
    with data_folder.lock(str(folder)):
        try:
            found = data_folder.read_catalog(RealDisk(), str(folder))
            if found.has_journal or journaled_batches(folder, is_ours=True):
                raise JournalFailed(
                    f"the journal of {folder} has records that its logs lack: coordinator log settle {folder}"
                )
            cluster_id = data_folder.cluster_id(RealDisk(), str(folder), RealEntropy(), found)
        except DamagedLog as error:
            raise JournalFailed(str(error)) from error
        folders = find_log_folders(folder, known_logs(folder))
        if not any(each.topic == CONSUMER_OFFSETS for each in folders):
            raise JournalFailed(f"{folder} has no groups ({CONSUMER_OFFSETS}-N)")
        return with_engine(address, settings, lambda engine: import_logs(engine, cluster_id, folders))


async def import_logs(engine: Engine, cluster_id: str, folders: list[LogFolder]) -> Imported:
    """Copies these logs. Raises JournalFailed, Fenced, EngineUnavailable, OutcomeUnknown, OSError."""
    return await _Import(engine, cluster_id).run(folders)


class _Import:
    def __init__(self, engine: Engine, cluster_id: str) -> None:
        self._engine = engine
        self._cluster_id = cluster_id
        self._worker = Worker(f"import {RealEntropy().uuid()}", -1, "", 0)

    async def run(self, folders: list[LogFolder]) -> Imported:
        if await self._engine.owners():
            raise JournalFailed("the journal is not empty: name another --journal-cluster, or remove what it has")
        identity = await claim_one(self._engine, CLUSTER_LOG, self._worker, seen=0)
        logs = [each for each in folders if topic_of(each.name)]
        records = 0
        for each in logs:
            records += await self._copy(each)
        await self._append(identity, 0, self._cluster_id.encode())
        await self._engine.release([identity])
        left = [each.name for each in folders if not topic_of(each.name) and each.size_bytes]
        return Imported(self._cluster_id, len(logs), records, left)

    async def _copy(self, folder: LogFolder) -> int:
        """Appends a log; returns its number of records. The folder is read in a thread, which waits for each append."""
        claim = await claim_one(self._engine, folder.name, self._worker, seen=0)
        loop, noted = asyncio.get_running_loop(), folder.checkpoint
        start_offset = 0 if noted is None else noted.start_offset
        gathered: list[bytes] = []
        records = pieces = gathered_bytes = 0

        def flush() -> None:
            nonlocal pieces, gathered_bytes
            if gathered:
                append = self._append(claim, pieces, b"".join(gathered))
                asyncio.run_coroutine_threadsafe(append, loop).result()
                pieces, gathered_bytes = pieces + 1, 0
                gathered.clear()

        def visit(segment: SegmentFile, header: BatchHeader, position: int) -> None:
            nonlocal records, gathered_bytes
            if header.next_offset <= start_offset:
                return
            gathered.append(segment.batch(position, header))
            records += header.record_count
            gathered_bytes += header.size_bytes
            if gathered_bytes >= PIECE_BYTES:
                flush()

        def walk() -> None:
            for problem in folder.walk(visit):
                raise JournalFailed(f"{problem}; see: coordinator log check {folder.path}")
            flush()

        await asyncio.to_thread(walk)
        await self._engine.release([claim])
        return records

    async def _append(self, claim: Claim, sequence: int, data: bytes) -> None:
        if await self._engine.append([Piece(claim, sequence, data)]):
            raise Fenced("a worker was started meanwhile: stop it, and begin again with an empty journal")
