"""Runs blocking work outside the loop, such as an fdatasync, whose milliseconds every client would have to wait for."""

import asyncio
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
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
    """The real implementation: a small thread pool. An executor's future for each sync would cost as much as a commit."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int) -> None:
        self._loop = loop
        self._queue: SimpleQueue[tuple[Callable[[], Any], Done] | None] = SimpleQueue()
        self._threads = [Thread(target=self._work, name=f"disk-{each}", daemon=True) for each in range(threads)]
        for thread in self._threads:
            thread.start()

    def submit(self, function: Callable[[], Any], done: Done) -> None:
        self._queue.put((function, done))

    def _work(self) -> None:
        while (work := self._queue.get()) is not None:
            function, done = work
            try:
                outcome = function()
            except BaseException as error:  # noqa: BLE001 - passed to `done`, which decides
                outcome = error
            try:
                self._loop.call_soon_threadsafe(done, outcome)
            except RuntimeError:
                return  # the loop was closed while the function ran

    def close(self) -> None:
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()
