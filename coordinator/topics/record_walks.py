"""Looks into the records of large batches outside the event loop, one batch at a time.

The headers of batches are read on the loop, but the records of one batch may be a hundred thousand, and a few kilobytes can
decompress to 64 MiB: half a second in which no heartbeat would be answered. Only one thread does this, because it competes with
the loop for the interpreter, and because the other threads of the worker sync the logs.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from coordinator.log.batch import BatchHeader
from coordinator.world.worker import Done, RunInWorker

RECORDS_ON_LOOP_MAX = 500
COMPRESSED_BYTES_ON_LOOP_MAX = 4_096
"""Larger compressed batches may become megabytes, whatever their number of records."""


def is_long_walk(header: BatchHeader) -> bool:
    """Whether looking into the records of this batch takes too long for the loop."""
    return header.record_count > RECORDS_ON_LOOP_MAX or (
        bool(header.compression) and header.size_bytes > COMPRESSED_BYTES_ON_LOOP_MAX
    )


class RecordWalks:
    """Runs functions in the worker, one at a time and in order."""

    def __init__(self, run_in_worker: RunInWorker) -> None:
        self._run_in_worker = run_in_worker
        self._waiting: deque[tuple[Callable[[], Any], Done]] = deque()
        self._is_busy = False

    @property
    def idle(self) -> bool:
        return not self._is_busy

    def submit(self, walk: Callable[[], Any], done: Done) -> None:
        """Calls `walk` in the worker, then `done` on the loop with the value that it returned or the exception it raised."""
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

        self._run_in_worker(walk, finish)
