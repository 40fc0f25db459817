"""Workers over an engine whose statements and answers are late, lost and doubled, while workers are cut off in turn."""

import asyncio
import random
from itertools import groupby

import pytest

from coordinator.cluster.engine.engine import OutcomeUnknown
from coordinator.protocol.errors import ErrorCode
from coordinator_lab.simulation.memory_engine import Delivery, Unreliable
from tests.cluster.workers.events import check_agreement
from tests.cluster.workers.world import SHARDS, commit, create_topic, eventually, fetch
from tests.rules.world import Closed

SECONDS = 3.0
GROUPS = [f"group-{number}" for number in range(8)]


class Chaotic:
    """A network that loses everything while it is cut, and something otherwise."""

    def __init__(self, seed):
        self.is_cut = False
        self.is_calm = True
        self._unreliable = Unreliable(random.Random(seed), 0.05, 0.2)

    def draw(self, statement):
        if self.is_cut:
            return Delivery((), None)
        return Delivery() if self.is_calm else self._unreliable.draw(statement)


async def commit_until(world, group, over, acknowledged):
    """Commits rising offsets at whoever serves the group, and remembers the highest that was acknowledged."""
    offset = 0
    while not over.is_set():
        offset += 1
        owner = world.owner(world.running[0].server.groups.shard_of(group).index)
        if owner is None:
            await asyncio.sleep(0.02)
            continue
        try:
            async with asyncio.timeout(5.0):
                if await commit(await owner.client(), group, "t", offset) == 0:
                    acknowledged[group] = offset
        except (Closed, TimeoutError):
            continue
        await asyncio.sleep(0.005)


def divided(engine):
    """Makes the appends of an engine several statements, one for each log, of which each may get lost."""
    append = engine.append

    async def append_each(pieces):
        refused, lost = set(), None
        for _, of_log in groupby(pieces, lambda piece: piece.claim.log):
            try:
                refused |= await append([*of_log])
            except OutcomeUnknown as error:
                lost = error
        if lost is not None:
            raise lost
        return frozenset(refused)

    engine.append = append_each


@pytest.mark.usefixtures("short_leases")
@pytest.mark.parametrize(("seed", "is_divided"), [(1, False), (3, True)])
async def test_no_acknowledged_commit_is_lost(world, seed, is_divided):
    """What a client got acknowledged, or something later, is what the next owner has. The events agree with the state."""
    chance = random.Random(seed)
    await world.start(1, 2, 3)
    for worker in world.running:
        worker.wire = worker.engine._deliveries = Chaotic(f"{seed} {worker.node_id}")
        if is_divided:
            divided(worker.engine)
    assert await create_topic(world.running[0], "t") == 0
    await world.until(lambda: all("t" in each.server.topics.registry.topics for each in world.running))
    over, acknowledged = asyncio.Event(), {}
    async with asyncio.TaskGroup() as group:
        for name in GROUPS:
            group.create_task(commit_until(world, name, over, acknowledged))
        for worker in world.running:
            worker.wire.is_calm = False
        async with asyncio.timeout(SECONDS * 10):
            for _ in range(int(SECONDS)):
                worker = chance.choice(world.running)
                worker.wire.is_cut = True
                await asyncio.sleep(1.4)
                worker.wire.is_cut = False
        for worker in world.running:
            worker.wire.is_calm = True
        await world.until(lambda: acknowledged.keys() == {*GROUPS})
        over.set()
    await world.until_spread()
    for name, offset in acknowledged.items():
        owner = world.owner(world.running[0].server.groups.shard_of(name).index)
        error, found = await fetch(await owner.client(), name, "t")
        assert error == ErrorCode.NONE
        assert found >= offset, name
    assert sum(len(worker.shards) for worker in world.running) == SHARDS
    await eventually(lambda: commit_at(world, GROUPS[0]), 0)
    assert sum(check_agreement(world, index) for index in range(SHARDS)) >= len(GROUPS)


async def commit_at(world, group):
    owner = world.owner(world.running[0].server.groups.shard_of(group).index)
    return ErrorCode.NOT_COORDINATOR if owner is None else await commit(await owner.client(), group, "t", 1 << 40)
