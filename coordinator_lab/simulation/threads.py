"""Simulated threads: a function runs at a random moment within its delay, and `done` is called at the end of it.

When within its duration an fdatasync captures the file's content is unknown, so the moment is random. If it is early, data
written meanwhile is not covered; if it is late, a crash before it loses everything. Code that relies on either is caught.
"""

from collections.abc import Callable
from contextvars import copy_context
from random import Random
from typing import Any

from coordinator.world.threads import Done
from coordinator_lab.simulation.loop import SimulatedLoop


class SimulatedThreads:
    """The simulated twin of `world.threads.ThreadPool`. `delay_s()` returns the duration of the next function."""

    def __init__(self, loop: SimulatedLoop, random: Random, delay_s: Callable[[], float]) -> None:
        self._loop = loop
        self._random = random
        self._delay_s = delay_s
        self._under_way: dict[_Job, None] = {}
        self._closed = False

    def submit(self, function: Callable[[], Any], done: Done) -> None:
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        delay_s = self._delay_s()
        job = _Job(function, done, delay_s)
        self._under_way[job] = None
        self._loop.call_later(delay_s * self._random.random(), job.work)
        self._loop.call_later(delay_s, self._end, job)

    def _end(self, job: "_Job") -> None:
        if job in self._under_way:
            del self._under_way[job]
            job.work()
            job.done(job.outcome)

    @property
    def longest_s(self) -> float:
        """The duration of the longest function under way."""
        return max((job.delay_s for job in self._under_way), default=0.0)

    def hurry(self) -> None:
        """Ends everything that is under way: the disk is not slow any more."""
        for job in self._under_way:
            self._loop.call_soon(self._end, job, context=job.context)

    def close(self) -> None:
        self._closed = True
        for job in self._under_way:
            job.work()
            self._loop.call_soon(self._end, job)


class _Job:
    """A function and its outcome."""

    __slots__ = ("context", "delay_s", "done", "function", "outcome", "worked")

    def __init__(self, function: Callable[[], Any], done: Done, delay_s: float) -> None:
        self.delay_s = delay_s
        self.function = function
        self.done = done
        self.context = copy_context()
        """The process that the job belongs to (loop.py)."""
        self.outcome: Any = None
        self.worked = False

    def work(self) -> None:
        if self.worked:
            return
        self.worked = True
        try:
            self.outcome = self.function()
        except OSError as error:
            self.outcome = error
