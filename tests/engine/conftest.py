"""The engines that the conformance suite runs over."""

import itertools
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from coordinator.engine.address import EngineAddress
from coordinator.engine.engine import Engine, EngineSettings
from coordinator.engine.factory import engine_for
from coordinator.faults.memory_engine import MemoryEngine, MemoryStore
from tests.support.postgresql import Cluster

CLUSTER_NAMES = (f"test_{number}" for number in itertools.count())
LONG = os.environ.get("ENGINE_TESTS") == "long"


@pytest.fixture(scope="session")
def postgresql_cluster() -> Iterator[Cluster]:
    """A primary with two synchronous standbys, for tests that leave it as it was."""
    pytest.importorskip("asyncpg", reason="asyncpg is not installed")
    cluster = Cluster()
    yield cluster
    cluster.close()


@pytest.fixture(params=["memory", "postgresql"])
async def connect(request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    """Opens another connection to one shared engine, as a worker process has it."""
    async with AsyncExitStack() as opened:
        if request.param == "memory":
            yield memory_connector(opened)
        else:
            yield postgresql_connector(opened, request.getfixturevalue("postgresql_cluster").url())


@pytest.fixture
async def connect_postgresql(postgresql_cluster: Cluster) -> AsyncIterator[Any]:
    """`connect`, over PostgreSQL."""
    async with AsyncExitStack() as opened:
        yield postgresql_connector(opened, postgresql_cluster.url())


@pytest.fixture
async def own_cluster() -> AsyncIterator[tuple[Cluster, Any]]:
    """A cluster of the test's own, whose primary it may kill, and `connect` to it."""
    pytest.importorskip("asyncpg", reason="asyncpg is not installed")
    cluster = Cluster()
    try:
        async with AsyncExitStack() as opened:
            yield cluster, postgresql_connector(opened, cluster.url())
    finally:
        cluster.close()


def memory_connector(opened: AsyncExitStack) -> Any:
    store = MemoryStore()

    async def connect(**settings: Any) -> Engine:
        engine = MemoryEngine(store, EngineSettings(**settings))
        opened.push_async_callback(engine.close)
        await engine.open()
        return engine

    return connect


def postgresql_connector(opened: AsyncExitStack, url: str) -> Any:
    name = next(CLUSTER_NAMES)

    async def connect(url: str = url, **settings: Any) -> Engine:
        engine = engine_for(EngineAddress(url), EngineSettings(**{"cluster": name, **settings}))
        opened.push_async_callback(engine.close)
        await engine.open()
        return engine

    return connect
