"""Several workers in this process, with real sockets, over one engine in memory whose network a test can cut."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from coordinator.cluster.engine.engine import EngineSettings
from coordinator.cluster.sharing import Sharing
from coordinator.cluster.workers import ownership
from coordinator.config.load import load
from coordinator.config.paths import CONFIGS
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    CreateTopicsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    TxnOffsetCommitRequest,
)
from coordinator.runtime.shard import Status
from coordinator.server.composition import Server
from coordinator.world.clock import RealClock
from coordinator.world.disk import RealDisk
from coordinator.world.entropy import RealEntropy
from coordinator.world.threads import ThreadPool
from coordinator_lab.simulation.memory_engine import Delivery, MemoryEngine, MemoryStore
from tests.rules.world import Client
from tests.support.server_process import TOPICS

SHORT_LEASES = EngineSettings(beat_timeout_ms=3_000, append_timeout_ms=3_000)
"""A worker that does not reach the engine is dead soon: for tests that wait for this."""
PATIENT = EngineSettings(beat_timeout_ms=600_000, append_timeout_ms=600_000)
"""No lease ends, and no answer of the engine comes too late, however slow the machine is."""
SHARDS = 6
WITHIN_S = 20.0


class Wire:
    """The network between a worker and the engine."""

    is_cut = False

    def draw(self, _statement: str) -> Delivery:
        return Delivery((), None) if self.is_cut else Delivery()


class WorkerUnderTest:
    """One worker: a server, and its way to the engine."""

    def __init__(
        self,
        world: "Workers",
        node_id: int,
        settings: tuple[str, ...],
        advertise: str | None = None,
        admin: str = "127.0.0.1:0",
    ) -> None:
        self.wire = Wire()
        self.node_id = node_id
        self.config = load(
            CONFIGS / "test.yaml",
            [
                f"node.id={node_id}",
                f"offsets.topic.num.partitions={SHARDS}",
                f"transaction.state.log.num.partitions={SHARDS + 1}",
                "journal=memory",
                f"topics={json.dumps(TOPICS)}",
                *settings,
            ],
            {"listen": "127.0.0.1:0", "admin": admin, "data_dir": str(world.folder / f"worker-{node_id}")}
            | ({} if advertise is None else {"advertise": advertise}),
            {},
        )
        Path(self.config.log_dir).mkdir(exist_ok=True)
        self.settings = world.settings
        self.engine = MemoryEngine(world.store, self.settings, self.wire)
        self.clients: list[Client] = []

    async def start(self) -> "WorkerUnderTest":
        loop, clock, entropy = asyncio.get_running_loop(), RealClock(), RealEntropy()
        self.sharing = Sharing(self.config, self.engine, self.settings, clock, entropy)
        await self.sharing.join()
        self.server = Server(
            self.config, loop, clock, RealDisk(), entropy, ThreadPool(loop, 1), open_logs=self.sharing.open_logs
        )
        self.bootstrap, self.admin = await self.server.start()
        return self

    async def client(self, listener: int = 0) -> Client:
        host, port = self.server.listeners[listener].bound
        client = Client(*await asyncio.open_connection(host, port), "test")
        self.clients.append(client)
        return client

    @property
    def shards(self) -> set[int]:
        """The shards of groups that it serves."""
        return {shard.index for shard in self.server.groups.shards if shard.status is Status.ACTIVE}

    async def stop(self) -> None:
        for client in self.clients:
            client.close()
        await self.server.stop()
        await self.sharing.close()


class Workers:
    """All of them."""

    def __init__(self, folder: Path, settings: EngineSettings = PATIENT) -> None:
        self.folder = folder
        self.settings = settings
        self.store = MemoryStore()
        self.running: list[WorkerUnderTest] = []

    async def start(self, *node_ids: int, settings: tuple[str, ...] = ("data.plane=none",)) -> list[WorkerUnderTest]:
        started = [WorkerUnderTest(self, node_id, settings) for node_id in node_ids]
        for worker in started:
            self.running.append(await worker.start())
        return started

    async def stop(self, worker: WorkerUnderTest) -> None:
        self.running.remove(worker)
        await worker.stop()

    def owner(self, index: int) -> WorkerUnderTest | None:
        owners = [worker for worker in self.running if index in worker.shards]
        return owners[0] if len(owners) == 1 else None

    def owner_of_transactions(self, index: int) -> WorkerUnderTest | None:
        """The worker that serves a shard of transactions."""
        statuses = [(worker, worker.server.transactions.shards[index].status) for worker in self.running]
        return next((worker for worker, status in statuses if status is Status.ACTIVE), None)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(WITHIN_S):
            while not holds():  # noqa: ASYNC110 - there is nothing to wait for
                await asyncio.sleep(0.01)

    async def until_spread(self) -> None:
        """Returns when every shard has one owner that all workers know, and no worker has two of groups or of transactions
        more than another."""
        await self.until(self.is_spread)

    def is_spread(self) -> bool:
        served = [len(worker.shards) for worker in self.running]
        owners = [self.owner(index) for index in range(SHARDS)]
        if max(served) - min(served) > 1 or not all(self.is_known(index, owner) for index, owner in enumerate(owners)):
            return False
        routers = [worker.server.transactions for worker in self.running]
        active = [sum(shard.status is Status.ACTIVE for shard in router.shards) for router in routers]
        return sum(active) == SHARDS + 1 and max(active) - min(active) <= 1

    def is_known(self, index: int, owner: WorkerUnderTest | None) -> bool:
        """Whether every worker has heard from the engine who serves a shard of groups."""
        known = [worker.sharing.cluster.owner_of(f"__consumer_offsets-{index}") for worker in self.running]
        return owner is not None and all(each is not None and each.node_id == owner.node_id for each in known)


async def create_topic(worker: WorkerUnderTest, name: str, partitions: int = 1) -> int:
    client = await worker.client()
    topic = CreateTopicsRequest.CreatableTopic(name, partitions, -1)
    response = await client.call("CreateTopics", 5, topics=[topic], timeout_ms=5_000)
    return response.topics[0].error_code


async def find(client: Client, key: str) -> Any:
    found = await client.call("FindCoordinator", 4, key_type=0, coordinator_keys=[key])
    return found.coordinators[0]


async def commit(client: Client, group: str, topic: str, offset: int) -> int:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(0, offset)
    of_topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=[partition])
    response = await client.call("OffsetCommit", 8, group_id=group, generation_id_or_member_epoch=-1, topics=[of_topic])
    return response.topics[0].partitions[0].error_code


async def fetch(client: Client, group: str, topic: str) -> tuple[int, int]:
    """Error and offset."""
    of_topic = OffsetFetchRequest.OffsetFetchRequestTopic(topic, [0])
    response = await client.call("OffsetFetch", 5, group_id=group, topics=[of_topic])
    if response.error_code:
        return response.error_code, -1
    return 0, response.topics[0].partitions[0].committed_offset


async def eventually(ask: Callable[[], Any], wanted: Any) -> None:
    """Repeats a question while the answer is that the coordinator is loading, elsewhere or not available."""
    retriable = {
        ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }  # fmt: skip
    async with asyncio.timeout(WITHIN_S):
        while True:
            answer = await ask()
            code = answer[0] if isinstance(answer, tuple) else answer
            if code not in retriable:
                assert answer == wanted
                return
            await asyncio.sleep(0.02)


@asynccontextmanager
async def workers(folder: Path, settings: EngineSettings = PATIENT) -> AsyncIterator[Workers]:
    world = Workers(folder, settings)
    try:
        yield world
    finally:
        # Nobody needs the shards any more, so a worker does not wait until others have taken them.
        with patch.object(ownership, "DRAIN_S", 0):
            for worker in list(world.running):
                worker.wire.is_cut = False
                await world.stop(worker)


ADDS_ITSELF = 5


def names_apart(world):
    """A transactional id and a group, at different workers, and these."""
    server = world.running[0].server
    for number in range(100):
        name = f"name-{number}"
        here = world.owner_of_transactions(server.transactions.shard_of(name).index)
        there = world.owner(server.groups.shard_of(name).index)
        if here is not there and here is not None and there is not None:
            return name, here, there
    raise AssertionError("all are at one worker")


async def topic_and_names_apart(world):
    """The same, when shards are spread and every worker knows the topic t."""
    await world.until_spread()
    assert await create_topic(world.running[0], "t") == 0
    await world.until(lambda: all("t" in each.server.topics.registry.topics for each in world.running))
    return names_apart(world)


async def begin(client, transactional_id):
    response = None
    async with asyncio.timeout(20):
        while response is None or response.error_code:
            response = await client.call(
                "InitProducerId", 4, transactional_id=transactional_id, transaction_timeout_ms=30_000
            )
            assert response.error_code in {
                0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.CONCURRENT_TRANSACTIONS,
            }  # fmt: skip
    return response.producer_id, response.producer_epoch


async def commit_in(client, version, name, producer, offset):
    partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(0, offset)
    topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name="t", partitions=[partition])
    response = await client.call(
        "TxnOffsetCommit", version, transactional_id=name, group_id=name, producer_id=producer[0],
        producer_epoch=producer[1], topics=[topic],
    )  # fmt: skip
    return response.topics[0].partitions[0].error_code


async def end(client, version, name, producer, *, committed):
    response = await client.call(
        "EndTxn", version, transactional_id=name, producer_id=producer[0], producer_epoch=producer[1],
        committed=committed,
    )  # fmt: skip
    return response.error_code
