"""Those who wait for a change of the owners or workers of an engine."""

import asyncio
from collections.abc import AsyncIterator


class Watchers:
    """Wakes everybody who watches an engine."""

    def __init__(self) -> None:
        self._changed: set[asyncio.Event] = set()
        self._is_closed = False
        self._death: asyncio.TimerHandle | None = None

    async def changes(self) -> AsyncIterator[None]:
        """Yields at once and at each notification, until the engine is closed."""
        changed = asyncio.Event()
        self._changed.add(changed)
        try:
            while not self._is_closed:
                yield
                await changed.wait()
                changed.clear()
        finally:
            self._changed.discard(changed)

    def notify(self) -> None:
        for changed in self._changed:
            changed.set()

    def expect_death(self, left_ms: float | None) -> None:
        """Notifies after this time, unless it is called again before: with each beat, which says when the next worker is dead.

        None: there is no other worker.
        """
        if self._death is not None:
            self._death.cancel()
        loop = asyncio.get_running_loop()
        self._death = None if left_ms is None or self._is_closed else loop.call_later(left_ms / 1000, self.notify)

    def close(self) -> None:
        """Ends all who watch."""
        self._is_closed = True
        self.expect_death(None)
        self.notify()
