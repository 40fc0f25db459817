"""What the tests of all engines share: workers, appends, and what a new owner finds."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from random import Random

from coordinator.cluster.engine.engine import Claim, Engine, Piece, Worker
from tests.cluster.engine.history import Appender


def worker(number: int) -> Worker:
    port = 9092 + number
    return Worker(f"worker-{number}", number, "localhost", port, f"IN://localhost:{port},OUT://[::1]:{port}")


async def parts_of(data: Iterable[bytes]) -> AsyncIterator[bytes]:
    for part in data:
        yield part


async def replayed(engine: Engine, claim: Claim) -> list[bytes]:
    return [data async for _, data in engine.read(claim.log, claim)]


def pieces(claim: Claim, *data: bytes, first: int | None = None) -> list[Piece]:
    start = claim.next_sequence if first is None else first
    return [Piece(claim, start + number, each) for number, each in enumerate(data)]


LOGS = ["__consumer_offsets-0", "__consumer_offsets-1", "__transaction_state-0"]


async def take_over_in_turn(appenders: list[Appender], takeovers: int, random: Random) -> None:
    """One worker after another takes all logs from the one that appends to them, and sometimes it makes snapshots."""
    running: set[asyncio.Task[None]] = set()
    for number in range(takeovers):
        appender = appenders[number % len(appenders)]
        for log in LOGS:
            await appender.take(log)
        # Several appends under way at once, as a worker has whose next turn ends before the last one is durable.
        for _ in range(random.randint(1, 3)):
            running.add(asyncio.create_task(appender.append_until_fenced()))
        if random.random() < 0.3:
            running.add(asyncio.create_task(appender.snapshot(random.choice(LOGS))))
        await asyncio.sleep(random.choice([0, random.uniform(0, 0.02)]))
        done = {task for task in running if task.done()}
        for task in done:
            task.result()
        running -= done
    for log in LOGS:
        await appenders[takeovers % len(appenders)].take(log)
    await asyncio.gather(*running)
