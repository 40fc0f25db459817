"""The part of the server that the admin routes can see. They read it, and submit commands to the shards of groups."""

from asyncio import Semaphore
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from coordinator.config.settings import ServerConfig
from coordinator.groups.held_bytes import HeldBytes
from coordinator.groups.machine import GroupMachine
from coordinator.journal.turns import TurnJournal
from coordinator.network.listener import Listener
from coordinator.runtime.group_rebalances import GroupRebalances
from coordinator.runtime.memory import Memory
from coordinator.runtime.router import Router
from coordinator.runtime.shard import Shard
from coordinator.runtime.statistics import Statistics
from coordinator.topics.engine import Topics
from coordinator.transactions.machine import TransactionMachine
from coordinator.transactions.marker_delivery import MarkerDelivery
from coordinator.world.protocol_clock import ProtocolClock
from coordinator.world.worker import Done

if TYPE_CHECKING:
    from coordinator.quotas.enforcement import ClientQuotas
    from coordinator.rules.interceptor import Interceptor  # imported when there are rules
    from coordinator.security.standard_authorizer import StandardAuthorizer
    from coordinator.workers.statistics import WorkerStatistics


class RunsInWorker(Protocol):
    """What has threads for work that takes long."""

    def run_in_worker(self, function: Callable[[], Any], done: Done) -> None:
        """Calls the function outside the loop, then `done` on the loop with what it returned or raised."""
        ...


class ServerView(RunsInWorker, Protocol):
    """The running server (server/composition.py), as the admin routes see it."""

    @property
    def config(self) -> ServerConfig: ...
    @property
    def groups(self) -> Router[GroupMachine]: ...
    @property
    def transactions(self) -> Router[TransactionMachine]: ...
    @property
    def shards(self) -> Sequence[Shard[Any]]:
        """The shards of groups and of transactions."""
        ...

    @property
    def all_listeners(self) -> Sequence[Listener]: ...
    @property
    def statistics(self) -> Statistics: ...
    @property
    def group_rebalances(self) -> GroupRebalances: ...
    @property
    def topics(self) -> Topics: ...
    @property
    def authorizer(self) -> "StandardAuthorizer | None": ...
    @property
    def journal(self) -> TurnJournal: ...
    @property
    def worker(self) -> "WorkerStatistics | None":
        """The counts of a worker that shares its journal; None: the journal is embedded."""
        ...

    @property
    def memory(self) -> Memory: ...
    @property
    def replays(self) -> Semaphore:
        """Bounds the replays of a log for views of the past that run at the same time."""
        ...

    def empty_group_state(self) -> GroupMachine:
        """The groups of a shard before the first record of its log."""
        ...

    @property
    def clock(self) -> ProtocolClock: ...
    @property
    def marker_delivery(self) -> MarkerDelivery: ...
    @property
    def held_bytes(self) -> HeldBytes: ...
    @property
    def interceptor(self) -> "Interceptor":
        """The fault rules and recordings."""
        ...

    @property
    def has_interceptor(self) -> bool:
        """Whether there ever were some."""
        ...

    @property
    def quotas(self) -> "ClientQuotas | None":
        """The client quotas; None: there has been none since the start."""
        ...

    @property
    def awaits_cluster(self) -> bool:
        """Whether this server stands in front of a cluster that it does not know yet."""
        ...

    @property
    def stopping(self) -> bool:
        """Whether the server is draining and accepts no new connections."""
        ...
