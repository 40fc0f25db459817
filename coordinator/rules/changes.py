"""Waiting for news: a long poll looks again whenever something has changed."""

import asyncio
from collections.abc import Callable


class Changes:
    """Wakes those who wait for something to change."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    def notify(self) -> None:
        """Something has changed."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def wait(self, is_true: Callable[[], bool], timeout_ms: int) -> bool:
        """Returns whether the condition is true, now or within this time (of the machine's clock)."""
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + timeout_ms / 1000
        while not is_true():
            left_s = ends_s - loop.time()
            if left_s <= 0:
                return False
            future = loop.create_future()
            self._waiting.append(future)
            await asyncio.wait([future], timeout=left_s)
            future.cancel()
        return True
