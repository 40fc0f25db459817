"""Ends tasks."""

import asyncio
from collections.abc import Iterable

AGAIN_S = 0.05


async def end(tasks: Iterable[asyncio.Task[None] | None]) -> None:
    """Cancels tasks until they are done. Python 3.11's `wait_for` can swallow a cancellation, so one may not be enough."""
    left = {task for task in tasks if task is not None and not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=AGAIN_S)
