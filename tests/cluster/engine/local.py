"""The engine of several workers on one machine, for the tests of all engines: a supervisor's store over a journal on disk.

Its logs have record batches, so a piece of a test travels as a batch with one record, and comes back as its bytes.
"""

import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from coordinator.cluster.engine.engine import Claim, EngineSettings, Piece
from coordinator.cluster.engine.local.engine import LocalEngine
from coordinator.log.batch import key_values, split
from coordinator.log.batch_builder import BatchBuilder
from coordinator_lab.measure.local_store import LocalStore


class BatchedEngine:
    """`LocalEngine`, with pieces of any bytes. Each log begins in the test, so a piece's sequence is its offset."""

    def __init__(self, engine: LocalEngine) -> None:
        self.engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "engine":
            super().__setattr__(name, value)
        else:
            setattr(self.engine, name, value)

    async def append(self, pieces: Sequence[Piece]) -> frozenset[str]:
        return await self.engine.append([piece._replace(data=batch(piece.data, piece.sequence)) for piece in pieces])

    async def tail(self, log: str, sequence: int) -> list[tuple[int, bytes]]:
        return [(number, data) for number, batches in await self.engine.tail(log, sequence) for data in texts(batches)]

    async def read(self, log: str, claim: Claim | None = None) -> AsyncIterator[tuple[int, bytes]]:
        async for sequence, batches in self.engine.read(log, claim):
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
