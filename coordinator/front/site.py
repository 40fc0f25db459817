"""What the supervisor gives to the admin HTTP of its workers. It is imported at the start; the rest by the first connection."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coordinator.config.settings import ServerConfig
from coordinator.engine.engine import Owner
from coordinator.log.journaled_log import JournaledLog
from coordinator.supervisor.processes import WorkerProcess
from coordinator.topics.partition import Reader
from coordinator.world.worker import RunInWorker


@dataclass(kw_only=True)
class Site:
    """One machine: its workers and the logs that are kept for them."""

    config: ServerConfig
    token: str
    """By which workers know the supervisor."""
    workers: Sequence[WorkerProcess]
    owners: Callable[[], Mapping[str, Owner]]
    """The newest claim of every log."""
    not_served: Callable[[], Sequence[str]]
    """The logs of shards that no living worker has."""
    metrics: Callable[[], str]
    """The supervisor's own samples."""
    event_logs: Sequence[JournaledLog]
    """By shard; none if decisions are not recorded."""
    event_readers: Callable[[int], dict[Reader, None]]
    """Who is notified when the event log of a shard has more."""
    wall_ms: Callable[[], int]
    run_in_worker: RunInWorker
    on_worker_ready: Callable[[int], None] | None = None
    on_fault_acted: Callable[[dict[str, Any]], None] | None = None

    def worker_ready(self, number: int) -> None:
        """A worker has started again."""
        if self.on_worker_ready is not None:
            self.on_worker_ready(number)

    def fault_acted(self, acted: dict[str, Any]) -> None:
        """A fault rule has acted at a worker."""
        if self.on_fault_acted is not None:
            self.on_fault_acted(acted)
