"""In which order the shards that a worker takes are replayed: the shortest log first, and two at a time.

All of them share one loop and one way to the engine. Side by side they would all be served late; one after another most of them
are served early, and the last one not later. It takes two, so that one is applied while the engine answers the other.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from itertools import count

REPLAYED_AT_ONCE = 2


class ReplayTurns:
    """The turns of one worker."""

    def __init__(self) -> None:
        self.idle = asyncio.Event()
        """Set while no shard is taken. What is less urgent waits for it."""
        self.idle.set()
        self.filling = asyncio.Lock()
        """Held by the event log that is filled: one at a time."""
        self._taken = 0
        self._free = REPLAYED_AT_ONCE
        self._order = count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    @contextmanager
    def taking(self) -> Iterator[None]:
        """Surrounds everything that is done to take a shard."""
        self._taken += 1
        self.idle.clear()
        try:
            yield
        finally:
            self._taken -= 1
            if not self._taken:
                self.idle.set()

    async def begin(self, pieces: int) -> None:
        """Returns when it is the turn of a log with so many pieces. `end` must follow, unless this is cancelled."""
        if self._free:
            self._free -= 1
            return
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (pieces, next(self._order), mine))
        try:
            await mine
        except asyncio.CancelledError:
            if not mine.cancelled():
                self.end()
            raise

    def end(self) -> None:
        """Lets the next one begin."""
        while self._waiting:
            *_, waiting = heappop(self._waiting)
            if not waiting.done():
                waiting.set_result(None)
                return
        self._free += 1
