"""A worker that clients cannot reach gives its shards to the others, and comes back when they can."""

import asyncio

import pytest

from coordinator.cluster.engine.engine import Worker
from coordinator.cluster.workers.cluster import Workers
from coordinator.cluster.workers.reachability import FAILURES, Reachability
from tests.cluster.workers.world import SHARDS, WorkerUnderTest

WORKERS = [Worker(f"id-{number}", number, "host", number) for number in (1, 2, 3)]


class Network:
    """Whose address answers."""

    def __init__(self, living):
        self.dead = set()
        self.cluster = Workers()
        self.cluster.me, self.cluster.living = WORKERS[0], living
        self.changes = []
        self.reachability = Reachability(
            self.cluster, lambda: self.changes.append(self.reachability.is_cut_off), 3_000, self.answers
        )

    async def answers(self, address):
        return address[1] not in self.dead

    async def looks(self, count):
        for _ in range(count):
            await self.reachability.look()


@pytest.mark.parametrize(
    ("living", "dead", "after", "is_cut_off"),
    [
        (WORKERS, {1}, FAILURES, True),
        (WORKERS, {2}, 12, False),
        (WORKERS, {2, 3}, FAILURES + 6, True),
        (WORKERS[:2], {2}, 12, False),
        (WORKERS[:1], {1}, FAILURES, True),
    ],
    ids=["own address", "one other", "both others", "the only other", "alone"],
)
async def test_which_silence_means_that_this_worker_is_cut_off(living, dead, after, is_cut_off):
    network = Network(living)
    await network.looks(1)
    network.dead = dead
    await network.looks(after - 1)
    assert network.changes == []
    await network.looks(1)
    assert network.reachability.is_cut_off == is_cut_off
    network.dead = set()
    await network.looks(1)
    assert not network.reachability.is_cut_off


async def test_an_address_that_never_answered_says_nothing():
    network = Network(WORKERS)
    network.dead = {1}
    await network.looks(5)
    assert network.changes == []


class Front:
    """The address that clients get: what is behind it can be cut off."""

    async def open(self):
        self.reached = asyncio.Event()
        self.server = await asyncio.start_server(self._pass, "127.0.0.1", getattr(self, "port", 0))
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def _pass(self, _reader, writer):
        self.reached.set()
        writer.close()

    def cut(self):
        self.server.close()


@pytest.mark.usefixtures("short_leases")
async def test_the_shards_of_a_worker_without_clients_move_and_come_back(world):
    front = await Front().open()
    behind = WorkerUnderTest(world, 1, ("data.plane=none",), f"127.0.0.1:{front.port}")
    world.running.append(await behind.start())
    second, third = await world.start(2, 3)
    await world.until_spread()
    await asyncio.wait_for(front.reached.wait(), 20)
    front.cut()
    await world.until(lambda: len(second.shards) + len(third.shards) == SHARDS)
    await world.until(lambda: [each.node_id for each in second.sharing.cluster.living] == [2, 3])
    await front.open()
    await world.until_spread()
    front.cut()
