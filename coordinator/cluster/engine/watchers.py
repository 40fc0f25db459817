"""Those who wait for a change of the owners or workers of an engine."""

import asyncio
from collections.abc import AsyncIterator


class Watchers:
    """Wakes everybody who watches an engine."""

    def __init__(self, poll_ms: int) -> None:
        """`poll_ms`: they wake at the latest after so long, because a notification may get lost."""
        self._poll_s = poll_ms / 1000
        self._changed: set[asyncio.Event] = set()
        self._is_closed = False

    async def changes(self) -> AsyncIterator[None]:
        """Yields at once, at each notification and after each `poll_ms` without one, until the engine is closed."""
        changed = asyncio.Event()
        self._changed.add(changed)
        try:
            while not self._is_closed:
                yield
                try:
                    async with asyncio.timeout(self._poll_s):
                        await changed.wait()
                except TimeoutError:
                    continue
                changed.clear()
        finally:
            self._changed.discard(changed)

    def notify(self) -> None:
        for changed in self._changed:
            changed.set()

    def close(self) -> None:
        """Ends all who watch."""
        self._is_closed = True
        self.notify()
