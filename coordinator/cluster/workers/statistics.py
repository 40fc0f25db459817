"""Counts of one worker, for its metrics."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from coordinator.cluster.engine.engine import Worker
from coordinator.cluster.engine_writer import EngineWriter
from coordinator.cluster.workers.cluster import Workers
from coordinator.cluster.workers.lease import Lease
from coordinator.cluster.workers.ownership import TakeOver
from coordinator.runtime.statistics import Histogram
from coordinator.world.shared_count import SharedCount

APPEND_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
TAKE_OVER_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class WorkerStatistics:
    """Take-overs and appends since the start, and what admin HTTP asks about the cluster (`ClusterStatistics`)."""

    def __init__(self, cluster: Workers, lease: Lease) -> None:
        self._cluster = cluster
        self._lease = lease
        self.writer: EngineWriter | None = None
        self.take_overs_s = Histogram(TAKE_OVER_S)
        """From the claim until requests were served: mostly the replay."""
        self.records_replayed = 0
        self.appends_s = Histogram(APPEND_S)
        self.on_fault_acted: Callable[[dict[str, Any]], None] = lambda _acted: None
        """Called with every action of a fault rule, as JSON has it."""
        self.shared_count: Callable[[str], SharedCount] | None = None

    def taken(self, taken: TakeOver) -> None:
        """A shard was taken."""
        self.take_overs_s.observe(taken.ms / 1000)
        self.records_replayed += taken.records

    def appended(self, ms: int) -> None:
        """An append was answered, or given up."""
        self.appends_s.observe(ms / 1000)

    @property
    def workers(self) -> int:
        return len(self._cluster.living)

    @property
    def is_leaving(self) -> bool:
        return self._cluster.me is not None and self._cluster.me.is_leaving

    @property
    def pieces_to_replay(self) -> int:
        return self._cluster.pieces_to_replay

    @property
    def owned(self) -> Mapping[str, bool]:
        return {log: log in self._cluster.held for log in self._cluster.owners}

    @property
    def others(self) -> Sequence[Worker]:
        return [each for each in self._cluster.living if self._cluster.me is None or each.id != self._cluster.me.id]

    def other_owner(self, log: str) -> Worker | None:
        owner = self._cluster.owner_of(log)
        return None if owner is self._cluster.me else owner

    @property
    def may_be_replaced(self) -> bool:
        return self._lease.is_over

    @property
    def fenced_appends(self) -> int:
        return 0 if self.writer is None else self.writer.fenced_appends

    @property
    def unknown_appends(self) -> int:
        return 0 if self.writer is None else self.writer.unknown_appends
