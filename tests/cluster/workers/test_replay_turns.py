"""The order in which shards are replayed."""

import asyncio

from coordinator.cluster.workers.replay_turns import REPLAYED_AT_ONCE, ReplayTurns


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


class Replays:
    """Replays that end when the test says so."""

    def __init__(self) -> None:
        self.turns = ReplayTurns()
        self.begun: list[int] = []
        self.tasks: dict[int, asyncio.Task[None]] = {}
        self._ends: dict[int, asyncio.Event] = {}

    def begin(self, pieces: int) -> None:
        self._ends[pieces] = asyncio.Event()
        self.tasks[pieces] = asyncio.create_task(self._run(pieces))

    async def _run(self, pieces: int) -> None:
        with self.turns.taking():
            await self.turns.begin(pieces)
            self.begun.append(pieces)
            await self._ends[pieces].wait()
            self.turns.end()

    async def end(self, pieces: int) -> None:
        self._ends[pieces].set()
        await settle()


async def test_the_shortest_log_that_waits_is_next():
    """A shard with a long log does not keep those with short ones waiting."""
    replays = Replays()
    for pieces in (500, 400, 300, 10, 200):
        replays.begin(pieces)
    await settle()
    assert replays.begun == [500, 400]
    assert len(replays.begun) == REPLAYED_AT_ONCE
    await replays.end(500)
    await replays.end(10)
    await replays.end(400)
    assert replays.begun == [500, 400, 10, 200, 300]


async def test_a_replay_that_is_cancelled_gives_its_turn_to_the_next():
    """A server that stops, or a task that fails, takes no turn with it."""
    replays = Replays()
    for pieces in (1, 2, 3, 4):
        replays.begin(pieces)
    await settle()
    replays.tasks[3].cancel()
    await settle()
    await replays.end(1)
    assert replays.begun == [1, 2, 4]
    await replays.end(2)
    await replays.end(4)
    for pieces in (5, 6):
        replays.begin(pieces)
    await settle()
    assert replays.begun == [1, 2, 4, 5, 6]


async def test_a_turn_that_was_given_to_a_replay_which_is_cancelled_is_passed_on():
    """The cancellation may come when it is its turn already."""
    replays = Replays()
    for pieces in (1, 2, 3, 4):
        replays.begin(pieces)
    await settle()
    replays.turns.end()
    replays.tasks[3].cancel()
    await settle()
    assert replays.begun == [1, 2, 4]


async def test_it_is_idle_when_the_last_shard_is_taken():
    """Event logs are filled, and snapshots made, when no shard is taken."""
    replays = Replays()
    assert replays.turns.idle.is_set()
    for pieces in (1, 2):
        replays.begin(pieces)
    await settle()
    await replays.end(1)
    assert not replays.turns.idle.is_set()
    await replays.end(2)
    assert replays.turns.idle.is_set()
