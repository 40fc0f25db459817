"""What the supervisor gives to the admin HTTP of its workers. It is imported at the start; the rest by the first connection."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from coordinator.config.settings import ServerConfig
from coordinator.log.journaled_log import JournaledLog
from coordinator.topics.partition import Reader
from coordinator.world.threads import RunInThread


class WorkerAddress(Protocol):
    """A worker process, through all of its restarts."""

    @property
    def number(self) -> int:
        """From 0."""

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""

    @property
    def admin_port(self) -> int | None:
        """Where its admin HTTP is on loopback, while it is ready."""


@dataclass(kw_only=True)
class Machine:
    """One machine: its workers and the logs that are kept for them."""

    config: ServerConfig
    token: str
    """By which workers know the supervisor."""
    addresses: Sequence[str]
    """HOST:PORT of each listener that the workers share, as clients get it."""
    workers: Sequence[WorkerAddress]
    owner_of: Callable[[str], int | None]
    """The number of the worker that has a log; None: no worker has it at the moment."""
    not_served: Callable[[], Sequence[str]]
    """The logs of shards that no living worker has."""
    metrics: Callable[[], str]
    """The supervisor's own samples."""
    event_logs: Sequence[JournaledLog]
    """By shard; none if decisions are not recorded."""
    event_readers: Callable[[int], dict[Reader, None]]
    """Who is notified when the event log of a shard has more."""
    wall_ms: Callable[[], int]
    run_in_thread: RunInThread
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
