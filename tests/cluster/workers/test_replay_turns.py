"""When the shards that a worker takes are replayed."""

import asyncio

from coordinator.cluster.workers.replay_turns import REPLAYED_AT_ONCE, ReplayTurns


async def test_two_logs_are_replayed_at_a_time_and_it_is_idle_when_all_are_taken():
    """Event logs are filled, and snapshots made, when no shard is taken."""
    turns, begun, ends = ReplayTurns(), [], [asyncio.Event() for _ in range(4)]

    async def take(number: int) -> None:
        with turns.taking():
            async with turns.replaying:
                begun.append(number)
                await ends[number].wait()

    async def end(number: int) -> None:
        ends[number].set()
        await asyncio.gather(tasks[number])
        await asyncio.sleep(0)

    assert turns.idle.is_set()
    tasks = [asyncio.create_task(take(number)) for number in range(4)]
    await asyncio.sleep(0)
    assert begun == [0, 1]
    assert len(begun) == REPLAYED_AT_ONCE
    for number in (1, 0, 2):
        await end(number)
        assert not turns.idle.is_set()
    assert begun == [0, 1, 2, 3]
    await end(3)
    assert turns.idle.is_set()
