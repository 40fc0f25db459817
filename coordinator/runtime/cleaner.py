"""Compacts logs in the background, one at a time, in steps of a few milliseconds.

Every `backoff_ms` the next log that is due is taken, in turn, so that a busy one does not keep the others waiting. A
step is one turn of the loop: requests that came meanwhile are served before the next. What a step hands out to block on (the
sync of a new segment) runs in a worker; if that fails the cleaning ends, the log stays whole, and the next round tries again.
"""

import logging
from collections.abc import Callable, Generator, Sequence
from typing import Any

from coordinator.log.compaction import Work, clean, is_due
from coordinator.log.log import DamagedLog, Log
from coordinator.runtime.timers import Handle, Schedule
from coordinator.world.clock import Clock
from coordinator.world.worker import RunInWorker

_log = logging.getLogger(__name__)


class Cleaner:
    """Runs until `stop`. `logs()` says which logs are compacted at the moment it is asked."""

    def __init__(
        self,
        logs: Callable[[], Sequence[Log]],
        clock: Clock,
        *,
        run_in_worker: RunInWorker,
        soon: Callable[[Callable[[], None]], object],
        schedule: Schedule,
        backoff_ms: int,
    ) -> None:
        self._logs = logs
        self._clock = clock
        self._run_in_worker = run_in_worker
        self._soon = soon
        self._schedule = schedule
        self._backoff_ms = backoff_ms
        self._position = 0
        self._steps: Generator[Work | None, None, None] | None = None
        self._stopped = False
        self._working = False
        """The file of the new segment is in a worker's hands."""
        self.cleanings = 0
        """Logs cleaned so far."""
        self._timer: Handle = schedule(backoff_ms, self._begin)

    def stop(self) -> None:
        """Ends a cleaning that is under way, at once or when its work is done; its log is whole at any step."""
        self._stopped = True
        self._timer.cancel()
        if not self._working:
            self._give_up()

    @property
    def idle(self) -> bool:
        """Whether no cleaning is under way."""
        return self._steps is None

    def _give_up(self) -> None:
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
        self._timer = self._schedule(self._backoff_ms, self._begin)

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
            self._run_in_worker(work, self._worked)

    def _worked(self, outcome: Any) -> None:
        self._working = False
        if self._stopped or self._steps is None:
            self._give_up()
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
            _log.error('event=compaction_failed reason="%s"', outcome)
        if not self._stopped:
            self._timer = self._schedule(self._backoff_ms, self._begin)
