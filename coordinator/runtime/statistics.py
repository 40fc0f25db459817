"""The server's counters as plain numbers: counted where things happen, read when somebody asks for metrics.

A counter of a metrics library costs more than decoding a request. So the server's own counters are integers and dicts of
integers, and `admin/metrics.py` turns them into metrics at each scrape. Keys come from our code (names of facts, causes), never
from a client; a limit makes sure that this stays harmless should it change.
"""

from bisect import bisect_left
from collections.abc import Callable
from time import perf_counter
from typing import Any

from coordinator.runtime.result import Fact
from coordinator.world.threads import RunInThread

KEYS_MAX = 64
"""The most keys of one counter. Further keys are counted as "other"."""

LAG_EVERY_S = 0.25

SYNC_BOUNDS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
TURN_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.25, 0.5, 1.0, 5.0)
LAG_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
REBALANCE_BOUNDS_S = (0.01, 0.05, 0.1, 0.5, 1.0, 3.0, 5.0, 10.0, 30.0, 60.0, 300.0)


class Histogram:
    """Counts of values by upper bound. The last count is for values above every bound."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Statistics:
    """The counters of one server."""

    __slots__ = (
        "_began_s", "expired", "facts", "lag_s", "rebalances", "rebalances_s", "syncs_failed", "syncs_s", "turns_cpu_s",
        "turns_s",
    )  # fmt: skip

    def __init__(self) -> None:
        self._began_s = perf_counter()
        self.facts: dict[str, int] = {}
        """Facts of the core, by name."""
        self.rebalances: dict[str, dict[str, int]] = {}
        """Rebalances that began, by kind of group and by cause."""
        self.expired = {"session": 0, "pending": 0, "sync": 0}
        """Expired members, by the timeout that they missed."""
        self.rebalances_s = Histogram(REBALANCE_BOUNDS_S)
        """From the cause to the new generation; in a consumer group, until its last member has reached the new target."""
        self.syncs_s = Histogram(SYNC_BOUNDS_S)
        """Duration of a job with an fdatasync in a thread."""
        self.syncs_failed = 0
        self.lag_s = Histogram(LAG_BOUNDS_S)
        """How late the loop is for a timer (`watch_lag`)."""

        self.turns_s = Histogram(TURN_BOUNDS_S)
        """Length of the loop's turns that handled more than a few requests (network/turn.py)."""

        self.turns_cpu_s = Histogram(TURN_BOUNDS_S)
        """The CPU time of these turns."""

    @property
    def uptime_ms(self) -> int:
        """How long this has counted."""
        return round((perf_counter() - self._began_s) * 1000)

    def count_turn(self, turn_ms: int, cpu_ns: int) -> None:
        """Counts the length and the CPU time of a turn of the loop."""
        self.turns_s.observe(turn_ms / 1000)
        self.turns_cpu_s.observe(cpu_ns / 1e9)

    def count(self, fact: Fact) -> None:
        """Counts one fact of the core."""
        _count(self.facts, fact.name)
        if fact.name == "rebalance_started":
            _count(self.rebalances.setdefault(fact.fields["kind"], {}), fact.fields["cause"])
        elif fact.name == "member_expired":
            _count(self.expired, fact.fields["timeout"])
        elif fact.name in ("generation_formed", "rebalance_ended"):
            self.rebalances_s.observe(fact.fields["waited_ms"] / 1000)

    def watch_lag(self, call_later: Callable[[float, Callable[[], None]], object]) -> None:
        """Measures from now on how late the loop is. A timer four times a second costs nothing noticeable."""
        due_s = perf_counter() + LAG_EVERY_S

        def look() -> None:
            nonlocal due_s
            now_s = perf_counter()
            self.lag_s.observe(max(0.0, now_s - due_s))
            due_s = now_s + LAG_EVERY_S
            call_later(LAG_EVERY_S, look)

        call_later(LAG_EVERY_S, look)

    def timed(self, run_in_thread: RunInThread) -> RunInThread:
        """The same `run_in_thread`, which also measures each function that it runs."""

        def measured(function: Callable[[], Any], done: Callable[[Any], None]) -> None:
            began = finished = 0.0

            def work() -> Any:
                nonlocal began, finished
                began = perf_counter()
                try:
                    return function()
                finally:
                    finished = perf_counter()

            def count(outcome: Any) -> None:
                self.syncs_s.observe(finished - began)
                self.syncs_failed += isinstance(outcome, BaseException)
                done(outcome)

            run_in_thread(work, count)

        return measured


def _count(counts: dict[str, int], key: str) -> None:
    if key not in counts and len(counts) >= KEYS_MAX:
        key = "other"
    counts[key] = counts.get(key, 0) + 1
