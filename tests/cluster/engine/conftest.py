"""The engines that the conformance suite runs over."""

import itertools
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, ClassVar

import pytest

from coordinator.cluster.engine.address import EngineAddress, engine_for
from coordinator.cluster.engine.engine import Engine, EngineSettings
from coordinator_lab.simulation.memory_engine import MemoryEngine, MemoryStore
from tests.cluster.engine.local import LocalConnector
from tests.support.kafka_cluster import KafkaCluster
from tests.support.postgresql import Cluster
from tests.support.server_process import ServerProcess

KAFKA = pytest.param("kafka", marks=pytest.mark.kafka)
POSTGRESQL = pytest.param("postgresql", marks=pytest.mark.database)
COMPATIBLE = pytest.param("compatible", marks=pytest.mark.process)
CLUSTER_NAMES = (f"test_{number}" for number in itertools.count())
LONG = os.environ.get("ENGINE_TESTS") == "long"


class CompatibleServer(ServerProcess):
    """A coordinator as the cluster of other coordinators. It is alone, so nothing is replicated."""

    settings_of_engine: ClassVar = {"replication": "optional"}

    def url(self) -> str:
        return f"kafka://{self.bootstrap}"


@pytest.fixture(scope="session")
def postgresql_cluster() -> Iterator[Cluster]:
    """A primary with two synchronous standbys, for tests that leave it as it was."""
    pytest.importorskip("asyncpg", reason="asyncpg is not installed")
    cluster = Cluster()
    yield cluster
    cluster.close()


@pytest.fixture(scope="session")
def compatible_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CompatibleServer]:
    """One broker that is not Apache Kafka's: a coordinator."""
    with CompatibleServer(tmp_path_factory.mktemp("compatible")) as server:
        yield server


@pytest.fixture(params=["memory", POSTGRESQL, "local", COMPATIBLE, KAFKA])
async def connect(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    """Opens another connection to one shared engine, as a worker process has it."""
    if request.param == "local" and request.node.get_closest_marker("snapshots"):
        pytest.skip("the supervisor compacts the logs itself, and keeps no snapshots")
    async with AsyncExitStack() as opened:
        if request.param == "memory":
            yield memory_connector(opened)
        elif request.param == "local":
            yield LocalConnector(opened, tmp_path)
        else:
            cluster = request.getfixturevalue(f"{request.param}_cluster")
            yield connector(opened, cluster.url(), **getattr(cluster, "settings_of_engine", {}))


@pytest.fixture(params=[POSTGRESQL, "local", KAFKA])
async def connect_real(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    """`connect`, over the engines that write to a disk."""
    async with AsyncExitStack() as opened:
        if request.param == "local":
            yield LocalConnector(opened, tmp_path)
        else:
            yield connector(opened, request.getfixturevalue(f"{request.param}_cluster").url())


@pytest.fixture
async def connect_local(tmp_path: Path) -> AsyncIterator[LocalConnector]:
    """`connect`, over a supervisor's store in this process."""
    async with AsyncExitStack() as opened:
        yield LocalConnector(opened, tmp_path)


@pytest.fixture
async def connect_postgresql(postgresql_cluster: Cluster) -> AsyncIterator[Any]:
    """`connect`, over PostgreSQL."""
    async with AsyncExitStack() as opened:
        yield connector(opened, postgresql_cluster.url())


@pytest.fixture
async def connect_kafka(kafka_cluster: KafkaCluster) -> AsyncIterator[Any]:
    """`connect`, over Kafka."""
    async with AsyncExitStack() as opened:
        yield connector(opened, kafka_cluster.url())


@pytest.fixture
async def own_cluster() -> AsyncIterator[tuple[Cluster, Any]]:
    """A cluster of the test's own, whose primary it may kill, and `connect` to it."""
    pytest.importorskip("asyncpg", reason="asyncpg is not installed")
    cluster = Cluster()
    try:
        async with AsyncExitStack() as opened:
            yield cluster, connector(opened, cluster.url())
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


def connector(opened: AsyncExitStack, url: str, **defaults: Any) -> Any:
    name = next(CLUSTER_NAMES)

    async def connect(url: str = url, **settings: Any) -> Engine:
        engine = engine_for(EngineAddress(url), EngineSettings(**{"cluster": name, **defaults, **settings}))
        opened.push_async_callback(engine.close)
        await engine.open()
        return engine

    return connect
