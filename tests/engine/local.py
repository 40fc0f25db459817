"""The engine of several workers on one machine, for the tests of all engines: a supervisor's store over a journal on disk.

Its logs have record batches, so a piece of a test travels as a batch with one record, and comes back as its bytes.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from coordinator.engine.engine import Claim, EngineSettings, Piece
from coordinator.engine.local.engine import LocalEngine
from coordinator.journal.journal import Journal
from coordinator.journal.recovery import read_journal
from coordinator.log.batch import key_values, split
from coordinator.log.batch_builder import BatchBuilder
from coordinator.log.journaled_log import JournaledLog
from coordinator.log.log import LogSettings
from coordinator.supervisor.epochs import EpochSource
from coordinator.supervisor.members import Members
from coordinator.supervisor.session import Session
from coordinator.supervisor.store import Store
from coordinator.world.clock import RealClock
from coordinator.world.disk import RealDisk
from coordinator.world.worker import Threads

LOGS = [*(f"__consumer_offsets-{index}" for index in range(4)), *(f"__transaction_state-{index}" for index in range(8))]
SETTINGS = LogSettings(segment_bytes=1 << 20, segment_ms=None, retention_ms=None)


class LocalStore:
    """A data folder with its journal, as a supervisor keeps it, in this process."""

    def __init__(
        self, folder: Path, *, disk: Any = None, logs: Sequence[str] = LOGS, settings: LogSettings = SETTINGS
    ) -> None:
        loop, disk = asyncio.get_running_loop(), disk or RealDisk()
        self.folder = str(folder)
        recovered = read_journal(disk, self.folder)
        self._threads = Threads(loop, 2)
        self.journal = Journal(
            disk,
            self.folder,
            recovered,
            durability="fsync",
            file_bytes=1 << 20,
            random_bytes=os.urandom,
            run_in_worker=self._threads.submit,
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
        self.sessions: list[Session] = []

    async def connect(self) -> socket.socket:
        """The worker's end of a new connection."""
        ours, theirs = socket.socketpair()
        await self.serve(ours)
        return theirs

    async def serve(self, ours: socket.socket) -> Session:
        """Serves a connection."""
        session = Session(self.store)
        await session.open(ours)
        self.sessions.append(session)
        return session

    async def close(self) -> None:
        """An orderly stop."""
        for session in self.sessions:
            session.close()
            await session.closed.wait()
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


class BatchedEngine:
    """`LocalEngine`, with pieces of any bytes. Each log begins in the test, so a piece's sequence is its offset."""

    def __init__(self, engine: LocalEngine) -> None:
        self.engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    async def append(self, pieces: Sequence[Piece]) -> frozenset[str]:
        return await self.engine.append([piece._replace(data=batch(piece.data, piece.sequence)) for piece in pieces])

    async def replay(self, claim: Claim) -> AsyncIterator[bytes]:
        async for batches in self.engine.replay(claim):
            for data in texts(batches):
                yield data

    async def tail(self, log: str, sequence: int) -> list[tuple[int, bytes]]:
        return [(number, data) for number, batches in await self.engine.tail(log, sequence) for data in texts(batches)]

    async def read(self, log: str) -> AsyncIterator[tuple[int, bytes]]:
        async for sequence, batches in self.engine.read(log):
            for data in texts(batches):
                yield sequence, data


def batch(data: bytes, offset: int) -> bytes:
    builder = BatchBuilder()
    builder.add(b"key", data)
    return builder.build(offset, 1_700_000_000_000)


def texts(batches: bytes) -> list[bytes]:
    return [value or b"" for at, header in split(batches) for _, _, value in key_values(batches, at, header)]


class LocalConnector:
    """`connect`, and connections for other processes."""

    def __init__(self, opened: AsyncExitStack, folder: Path) -> None:
        self._opened = opened
        self._folder = folder
        self._store: LocalStore | None = None

    def _begun(self) -> LocalStore:
        if self._store is None:
            self._store = LocalStore(self._folder)
            self._opened.push_async_callback(self._store.close)
        return self._store

    async def __call__(self, **settings: Any) -> BatchedEngine:
        engine = over(await self._begun().connect(), **settings)
        self._opened.push_async_callback(engine.close)
        await engine.open()
        return engine

    async def endpoint(self) -> socket.socket:
        """A connection that nobody uses yet."""
        return await self._begun().connect()


def over(endpoint: socket.socket, **settings: Any) -> BatchedEngine:
    """An engine over a connection, not opened yet."""
    return BatchedEngine(LocalEngine(endpoint, EngineSettings(**settings)))
