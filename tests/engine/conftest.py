"""The engines that the conformance suite runs over."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from coordinator.engine.engine import Engine, EngineSettings
from coordinator.faults.memory_engine import MemoryEngine, MemoryStore


@pytest.fixture(params=["memory"])
async def connect(request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    """Opens another connection to one shared engine, as a worker process has it."""
    store, opened = MemoryStore(), []

    async def open_engine(**settings: Any) -> Engine:
        engine = MemoryEngine(store, EngineSettings(**settings))
        opened.append(engine)
        await engine.open()
        return engine

    yield open_engine
    for engine in opened:
        await engine.close()
