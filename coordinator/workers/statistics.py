"""Counts of one worker, for its metrics."""

from collections.abc import Callable
from typing import Any

from coordinator.journal.shared_journal import SharedJournal
from coordinator.runtime.statistics import Histogram
from coordinator.workers.cluster import Workers
from coordinator.workers.lease import Lease
from coordinator.workers.ownership import TakeOver

APPEND_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
TAKE_OVER_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class WorkerStatistics:
    """Take-overs and appends since the start."""

    def __init__(self, cluster: Workers, lease: Lease) -> None:
        self.cluster = cluster
        self.lease = lease
        self.journal: SharedJournal | None = None
        self.take_overs_s = Histogram(TAKE_OVER_S)
        """From the claim until requests were served: mostly the replay."""
        self.records_replayed = 0
        self.appends_s = Histogram(APPEND_S)
        self.on_fault_acted: Callable[[dict[str, Any]], None] = lambda _acted: None
        """Called with every action of a fault rule, as JSON has it."""

    def taken(self, taken: TakeOver) -> None:
        """A shard was taken."""
        self.take_overs_s.observe(taken.ms / 1000)
        self.records_replayed += taken.records

    def appended(self, ms: int) -> None:
        """An append was answered, or given up."""
        self.appends_s.observe(ms / 1000)
