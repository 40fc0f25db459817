"""Looks into the records of large and compressed batches outside the event loop, one batch at a time.

The headers of batches are read on the loop, but the records of one batch may be a hundred thousand, and a few hundred bytes can
decompress to 64 MiB: half a second in which no heartbeat would be answered. Only one thread does this, because it competes with
the loop for the interpreter, and because the other threads of the worker sync the logs.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from coordinator.log.batch import BatchHeader
from coordinator.world.threads import Done, RunInThread

RECORDS_ON_LOOP_MAX = 500


def is_long_walk(header: BatchHeader) -> bool:
    """Whether looking into the records of this batch takes too long for the loop."""
    return header.record_count > RECORDS_ON_LOOP_MAX or bool(header.compression)


class RecordWalks:
    """Runs functions in a thread, one at a time and in order."""

    def __init__(self, run_in_thread: RunInThread) -> None:
        self._run_in_thread = run_in_thread
        self._waiting: deque[tuple[Callable[[], Any], Done]] = deque()
        self._is_busy = False

    @property
    def idle(self) -> bool:
        return not self._is_busy

    def submit(self, walk: Callable[[], Any], done: Done) -> None:
        """Calls `walk` in a thread, then `done` on the loop with the value that it returned or the exception it raised."""
        self._waiting.append((walk, done))
        if not self._is_busy:
            self._begin()

    def _begin(self) -> None:
        self._is_busy = True
        walk, done = self._waiting.popleft()

        def finish(outcome: Any) -> None:
            self._is_busy = False
            try:
                done(outcome)
            finally:
                if self._waiting and not self._is_busy:
                    self._begin()

        self._run_in_thread(walk, finish)
