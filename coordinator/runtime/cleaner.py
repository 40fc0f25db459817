"""Compacts logs in the background, one at a time, in steps of a few milliseconds (Kafka's LogCleaner).

Every `backoff_ms` the next log that is due is compacted, in turn, so that a busy one does not keep the others waiting. A step
is one turn of the loop: requests that arrived meanwhile are served before the next step. Blocking work of a step, such as the
sync of a new segment, runs in a thread. If it fails the compaction ends, the log stays intact, and the next round tries again.
"""

import logging
from collections.abc import Callable, Generator, Sequence
from typing import Any

from coordinator.log.compaction import Work, clean, is_due
from coordinator.log.log import DamagedLog, Log
from coordinator.world.clock import Clock
from coordinator.world.schedule import Handle, Schedule
from coordinator.world.threads import RunInThread

_log = logging.getLogger(__name__)


class Cleaner:
    """Runs until `stop`. `logs()` returns the logs that are to be compacted at that moment."""

    def __init__(
        self,
        logs: Callable[[], Sequence[Log]],
        clock: Clock,
        *,
        run_in_thread: RunInThread,
        soon: Callable[[Callable[[], None]], object],
        schedule: Schedule,
        backoff_ms: int,
    ) -> None:
        self._logs = logs
        self._clock = clock
        self._run_in_thread = run_in_thread
        self._soon = soon
        self._schedule = schedule
        self.backoff_ms = backoff_ms
        self._position = 0
        self._steps: Generator[Work | None, None, None] | None = None
        self._stopped = False
        self._working = False
        """Whether a worker is using the file of the new segment."""
        self.cleanings = 0
        """The number of compactions so far."""
        self._timer: Handle = schedule(backoff_ms, self._begin)

    def stop(self) -> None:
        """Ends a compaction in progress, at once or when the worker is done. The log is intact after every step."""
        self._stopped = True
        self._timer.cancel()
        if not self._working:
            self._abandon()

    @property
    def idle(self) -> bool:
        """Whether no compaction is in progress."""
        return self._steps is None

    def _abandon(self) -> None:
        steps, self._steps = self._steps, None
        if steps is not None:
            steps.close()

    def _begin(self) -> None:
        logs, now_ms = self._logs(), self._clock.wall_ms()
        for turn in range(len(logs)):
            position = (self._position + turn) % len(logs)
            log = logs[position]
            if log.failed is None and is_due(log, now_ms):
                self._position = position + 1
                self._steps = self._clean(log)
                self._soon(self._step)
                return
        self._timer = self._schedule(self.backoff_ms, self._begin)

    def _clean(self, log: Log) -> Generator[Work | None, None, None]:
        before_bytes = log.size_bytes
        yield from clean(log, self._clock.wall_ms())
        self.cleanings += 1
        _log.info("event=log_compacted log=%s bytes_before=%d bytes_after=%d", log.folder, before_bytes, log.size_bytes)

    def _step(self) -> None:
        if self._steps is None:
            return
        try:
            work = next(self._steps)
        except (StopIteration, OSError, DamagedLog) as ended:
            self._ended(ended)
            return
        if work is None:
            self._soon(self._step)
        else:
            self._working = True
            self._run_in_thread(work, self._on_work_done)

    def _on_work_done(self, outcome: Any) -> None:
        self._working = False
        if self._stopped or self._steps is None:
            self._abandon()
            return
        if isinstance(outcome, Exception):
            try:
                self._steps.throw(outcome)
            except (StopIteration, OSError, DamagedLog) as ended:
                self._ended(ended)
            return
        self._soon(self._step)

    def _ended(self, outcome: Exception) -> None:
        self._steps = None
        if not isinstance(outcome, StopIteration):
            _log.error("event=compaction_failed reason=%s", outcome)
        if not self._stopped:
            self._timer = self._schedule(self.backoff_ms, self._begin)
