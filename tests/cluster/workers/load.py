"""Commits of many groups at the workers that have them, with the members of `coordinator bench`.

python -m tests.cluster.workers.load PLAN      PLAN is JSON (`Load`); prints one JSON line (`Outcome`)
"""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import cycle
from typing import Any
from urllib.request import urlopen

import uvloop

from coordinator.protocol.messages import CreateTopicsRequest, FindCoordinatorRequest, Message
from coordinator_lab.bench.load import (
    NOT_SERVING,
    PARTITIONS,
    RUN_ID,
    SERVING_WITHIN_S,
    TOPIC,
    LoadConnection,
    Plan,
    connected,
    cpu_seconds,
    member_frames,
)

TOPIC_EXISTS = 36
ERROR_AT = slice(-5, -3)
"""The error of the only partition in an answer to OffsetCommit from version 8 on: tagged fields follow, three times none."""
NO_ERROR = bytes(2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A measurement of workers, and of the database behind them."""

    bootstrap: Sequence[tuple[str, int]]
    worker_pids: Sequence[int]
    engine_pids: Sequence[int]
    metrics: Sequence[str]
    """The URLs of the workers' admin pages."""
    connections: int
    warm_up_s: float
    seconds: float
    commits: int = 0
    """It goes on until there are so many, if that takes longer; 0 for any number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    commits: int
    seconds: float
    worker_cpu_s: float
    engine_cpu_s: float
    appends: int
    """To the engine."""
    refused: int
    """Commits that were answered with an error; they are not among `commits`."""


class CommittingConnection(LoadConnection):
    """A connection that counts the answers with an error apart. At most one request is in progress."""

    def __init__(self, requests: Sequence[bytes], in_flight: int) -> None:
        super().__init__(requests, in_flight)
        self.refused = 0

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if data[ERROR_AT] != NO_ERROR:
            self.refused += 1


async def request(address: tuple[str, int], version: int, message: Message) -> Any:
    """Asks on a connection of its own."""
    client = await connected(*address)
    try:
        return await client.send(message, version)
    finally:
        client.close()


async def coordinator_of(bootstrap: tuple[str, int], group: str) -> tuple[str, int]:
    """Where the group is served, when it is."""
    async with asyncio.timeout(SERVING_WITHIN_S):
        while True:
            wanted = FindCoordinatorRequest(key=group, key_type=0)
            found = await request(bootstrap, 2, wanted)
            if not found.error_code:
                return found.host, found.port
            assert found.error_code in NOT_SERVING, found
            await asyncio.sleep(0.1)


async def connect(load: Load, bootstrap: tuple[str, int], index: int) -> CommittingConnection:
    """A connection of one member, which has joined at the worker of its group."""
    host, port = await coordinator_of(bootstrap, f"bench-{RUN_ID}-{index}")
    plan = Plan(host, port, "commit", load.connections, 1, 1, load.warm_up_s, load.seconds, 0, joins=True)
    make = partial(CommittingConnection, await member_frames(plan, index), plan.in_flight)
    _, connection = await asyncio.get_running_loop().create_connection(make, host, port)
    return connection


async def run(load: Load) -> Outcome:
    topic = CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=-1)
    wanted = CreateTopicsRequest(topics=[topic], timeout_ms=5_000)
    created = await request(load.bootstrap[0], 7, wanted)
    assert created.topics[0].error_code in {0, TOPIC_EXISTS}, created
    await asyncio.sleep(1.0)  # every worker learns it
    pairs = zip(cycle(load.bootstrap), range(load.connections), strict=False)
    connections = [await connect(load, bootstrap, index) for bootstrap, index in pairs]
    for connection in connections:
        connection.begin()
    await asyncio.sleep(load.warm_up_s)
    before, began = figures(load, connections), time.perf_counter()
    await asyncio.sleep(load.seconds)
    while sum(each.answers - each.refused for each in connections) < load.commits:  # noqa: ASYNC110 - nobody reports it
        await asyncio.sleep(0.1)
    after, seconds = figures(load, connections), time.perf_counter() - began
    for connection in connections:
        connection.stop()
    commits, worker_cpu_s, engine_cpu_s, appends, refused = (
        late - early for early, late in zip(before, after, strict=True)
    )
    return Outcome(
        commits=int(commits),
        refused=int(refused),
        seconds=seconds,
        worker_cpu_s=worker_cpu_s,
        engine_cpu_s=engine_cpu_s,
        appends=int(appends),
    )


def figures(load: Load, connections: Sequence[CommittingConnection]) -> tuple[float, float, float, float, float]:
    return (
        sum(each.answers - each.refused for each in connections),
        sum(map(cpu_seconds, load.worker_pids)),
        sum(map(cpu_seconds, load.engine_pids)),
        sum(map(appends, load.metrics)),
        sum(each.refused for each in connections),
    )


def appends(admin: str) -> float:
    """The appends of a worker since its start."""
    with urlopen(f"{admin}/metrics", timeout=60) as response:
        lines = response.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("coordinator_append_seconds_count"))


if __name__ == "__main__":
    plan = json.loads(sys.argv[1])
    plan["bootstrap"] = [tuple(address) for address in plan["bootstrap"]]
    print(json.dumps(asdict(uvloop.run(run(Load(**plan))))))
