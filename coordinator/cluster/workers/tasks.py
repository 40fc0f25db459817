"""Ends tasks, and awaits what runs outside the loop."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from coordinator.world.threads import RunInThread

AGAIN_S = 0.05


async def end(tasks: Iterable[asyncio.Task[None] | None]) -> None:
    """Cancels tasks until they are done. Python 3.11's `wait_for` can swallow a cancellation, so one may not be enough."""
    left = [task for task in tasks if task is not None and not task.done()]
    while left:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=AGAIN_S)
        left = [task for task in left if not task.done()]


async def in_thread(run_in_thread: RunInThread, function: Callable[[], Any]) -> Any:
    """Runs a function outside the loop; returns or raises what it does. A cancelled caller waits for its end, too."""
    outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    run_in_thread(function, outcome.set_result)
    try:
        await asyncio.shield(outcome)
    except asyncio.CancelledError:
        while not outcome.done():
            with suppress(asyncio.CancelledError):
                await asyncio.shield(outcome)
        raise
    result = outcome.result()
    if isinstance(result, BaseException):
        raise result
    return result
