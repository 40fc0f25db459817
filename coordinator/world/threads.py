"""Runs blocking work outside the loop, such as an fdatasync, whose milliseconds every client would have to wait for."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

Done = Callable[[Any], None]
"""Called on the loop with the value that the function returned or the exception that it raised."""
RunInThread = Callable[[Callable[[], Any], Done], None]
"""`run_in_thread(function, done)`: `Threads.submit`, possibly wrapped to measure each call."""


class Threads(Protocol):
    """Runs blocking functions outside the loop."""

    def submit(self, function: Callable[[], Any], done: Done) -> None:
        """Calls the function in a thread, then `done` on the loop. Concurrent functions may finish in any order."""

    def close(self) -> None:
        """Waits for running functions; their `done` callbacks run in the next turn of the loop."""


class ThreadPool:
    """The real implementation: a small thread pool."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int) -> None:
        self._loop = loop
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="disk")

    def submit(self, function: Callable[[], Any], done: Done) -> None:
        self._pool.submit(self._work, function, done)

    def _work(self, function: Callable[[], Any], done: Done) -> None:
        try:
            outcome = function()
        except BaseException as error:  # noqa: BLE001 - passed to `done`, which decides
            outcome = error
        self._loop.call_soon_threadsafe(done, outcome)

    def close(self) -> None:
        self._pool.shutdown(wait=True)
