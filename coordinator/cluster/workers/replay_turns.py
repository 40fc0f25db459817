"""In which order the shards that a worker takes are replayed: of those claimed together the shortest log first, two at a time.

All of them share one loop and one way to the engine. Side by side they would all be served late; one after another most of them
are served early, and the last one not later. It takes two, so that one is applied while the engine answers the other.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

REPLAYED_AT_ONCE = 2


class ReplayTurns:
    """The turns of one worker."""

    def __init__(self) -> None:
        self.idle = asyncio.Event()
        """Set while no shard is taken. What is less urgent waits for it."""
        self.idle.set()
        self.replaying = asyncio.Semaphore(REPLAYED_AT_ONCE)
        """Held by each log that is replayed; those that wait get it in the order in which they came."""
        self.filling = asyncio.Lock()
        """Held by the event log that is filled: one at a time."""
        self._taken = 0

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
