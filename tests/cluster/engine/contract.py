"""What the tests of all engines share: workers, appends, and what a new owner finds."""

from collections.abc import AsyncIterator, Iterable

from coordinator.cluster.engine.engine import Claim, Engine, Piece, Worker


def worker(number: int) -> Worker:
    port = 9092 + number
    return Worker(f"worker-{number}", number, "localhost", port, f"IN://localhost:{port},OUT://[::1]:{port}")


async def parts_of(data: Iterable[bytes]) -> AsyncIterator[bytes]:
    for part in data:
        yield part


async def replayed(engine: Engine, claim: Claim) -> list[bytes]:
    return [data async for data in engine.replay(claim)]


def pieces(claim: Claim, *data: bytes, first: int | None = None) -> list[Piece]:
    start = claim.next_sequence if first is None else first
    return [Piece(claim, start + number, each) for number, each in enumerate(data)]
