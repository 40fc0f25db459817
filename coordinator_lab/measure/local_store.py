"""A supervisor's store over a journal on disk, in this process: the engine of several workers on one machine."""

import asyncio
import os
import socket
from collections.abc import Sequence
from pathlib import Path

from coordinator.cluster.supervisor.store import Members, Store
from coordinator.cluster.supervisor.worker_connection import WorkerConnection
from coordinator.journal.journal import Journal
from coordinator.journal.recovery import read_journal
from coordinator.log.journaled_log import JournaledLog
from coordinator.log.log import LogSettings
from coordinator.server.epochs import EpochSource
from coordinator.world.clock import RealClock
from coordinator.world.disk import RealDisk
from coordinator.world.threads import ThreadPool

LOGS = [*(f"__consumer_offsets-{index}" for index in range(4)), *(f"__transaction_state-{index}" for index in range(8))]
SETTINGS = LogSettings(segment_bytes=1 << 20, segment_ms=None, retention_ms=None)


class LocalStore:
    """A data folder with its journal, as a supervisor keeps it, in this process."""

    def __init__(self, folder: Path, *, logs: Sequence[str] = LOGS, settings: LogSettings = SETTINGS) -> None:
        loop, disk = asyncio.get_running_loop(), RealDisk()
        self.folder = str(folder)
        recovered = read_journal(disk, self.folder)
        self._threads = ThreadPool(loop, 2)
        self.journal = Journal(
            disk,
            self.folder,
            recovered,
            durability="fsync",
            file_bytes=1 << 20,
            random_bytes=os.urandom,
            run_in_thread=self._threads.submit,
            soon=loop.call_soon,
            schedule=lambda delay_ms, call: loop.call_later(delay_ms / 1000, call),
        )
        self.logs = {name: JournaledLog(disk, f"{self.folder}/{name}", settings) for name in logs}
        for name, log in self.logs.items():
            log.load_journaled(recovered.batches.get(name, ()))
        self.epochs = EpochSource(disk, self.folder, first=1)
        self.members = Members(RealClock().machine_ms)
        self.store = Store(self.logs, self.journal.writer, self.epochs, self.members, {"cluster-id": b"the id"})
        self.journal.begin()
        self.connections: list[WorkerConnection] = []

    async def connect(self) -> socket.socket:
        """The worker's end of a new connection."""
        ours, theirs = socket.socketpair()
        await self.serve(ours)
        return theirs

    async def serve(self, ours: socket.socket) -> WorkerConnection:
        """Serves a connection."""
        connection = WorkerConnection(self.store)
        await connection.open(ours)
        self.connections.append(connection)
        return connection

    async def close(self) -> None:
        """An orderly stop."""
        for connection in self.connections:
            connection.close()
            await connection.closed.wait()
        while not self.journal.idle:  # noqa: ASYNC110 - there is nothing to wait for
            await asyncio.sleep(0.001)
        self.journal.stop()
        self._threads.close()
        await asyncio.sleep(0)
        for log in self.logs.values():
            log.close()
        self.journal.settle()
        self.journal.close()
        self.epochs.settle()
