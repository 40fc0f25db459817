"""The part of the server that the admin routes can see. They read it, and submit commands to the shards of groups."""

from asyncio import Semaphore
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from coordinator.api.server import Server
from coordinator.groups.held_bytes import HeldBytes
from coordinator.groups.machine import GroupMachine
from coordinator.journal.turns import TurnJournal
from coordinator.network.listener import Listener
from coordinator.protocol.errors import ErrorCode
from coordinator.runtime.group_rebalances import GroupRebalances
from coordinator.runtime.shard import Shard
from coordinator.runtime.statistics import Histogram, Statistics
from coordinator.transactions.marker_delivery import MarkerDelivery
from coordinator.world.protocol_clock import ProtocolClock
from coordinator.world.shared_count import SharedCount
from coordinator.world.threads import Done

if TYPE_CHECKING:
    from coordinator.nodes.brokers import Brokers  # imported where there are several
    from coordinator.quotas.enforcement import ClientQuotas
    from coordinator.rules.interceptor import Interceptor  # imported when there are rules


class RunsInThread(Protocol):
    """What has threads for work that takes long."""

    def run_in_thread(self, function: Callable[[], Any], done: Done) -> None:
        """Calls the function outside the loop, then `done` on the loop with what it returned or raised."""
        ...


class OtherWorker(Protocol):
    """Another worker of the cluster, while it lives."""

    @property
    def node_id(self) -> int: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int:
        """With `host`: where other workers reach it."""
        ...

    @property
    def admin(self) -> str:
        """The URL of its admin HTTP; empty where a supervisor answers for it."""
        ...

    @property
    def is_leaving(self) -> bool:
        """Whether it gives its shards to the others."""
        ...


class ClusterStatistics(Protocol):
    """What one of several workers knows of their cluster, and counts of its own part in it."""

    take_overs_s: Histogram
    """From the claim of a shard until its requests were served: mostly the replay."""
    records_replayed: int
    appends_s: Histogram
    on_fault_acted: Callable[[dict[str, Any]], None]
    """Called with every action of a fault rule, as JSON has it."""
    shared_count: Callable[[str], SharedCount] | None
    """Makes, or finds, the count of this name that all workers of the machine have; None: each is alone on its machine."""

    @property
    def workers(self) -> int:
        """How many live, as the engine says."""
        ...

    @property
    def is_leaving(self) -> bool:
        """Whether it gives its shards to the others."""
        ...

    @property
    def pieces_to_replay(self) -> int:
        """The lag of its replay: pieces of the logs that it has claimed and does not serve yet."""
        ...

    @property
    def owned(self) -> Mapping[str, bool]:
        """Every log that was claimed, and whether this worker has claimed it."""
        ...

    @property
    def others(self) -> Sequence[OtherWorker]:
        """Those that live beside this one."""
        ...

    def other_owner(self, log: str) -> OtherWorker | None:
        """The other worker that has a log."""
        ...

    @property
    def may_be_replaced(self) -> bool:
        """Whether other workers may have the shards of this one: its lease is over."""
        ...

    @property
    def fenced_appends(self) -> int:
        """Claims that an append found fenced."""
        ...

    @property
    def unknown_appends(self) -> int:
        """Appends without a certain outcome."""
        ...


class ServerView(Server, RunsInThread, Protocol):
    """The running server (server/composition.py): what API files see of it, and what else the admin routes do."""

    @property
    def shards(self) -> Sequence[Shard[Any]]:
        """The shards of groups, of transactions and of share partitions."""
        ...

    @property
    def addresses(self) -> list[str]:
        """HOST:PORT of each listener, as clients get it."""
        ...

    @property
    def all_listeners(self) -> Sequence[Listener]: ...
    @property
    def statistics(self) -> Statistics: ...
    @property
    def group_rebalances(self) -> GroupRebalances: ...
    @property
    def journal(self) -> TurnJournal: ...
    @property
    def cluster_statistics(self) -> "ClusterStatistics | None":
        """What this worker counts of its part in a cluster; None: it is alone."""
        ...

    async def mark_worker(self, *, is_leaving: bool | None = None, wants: str = "") -> None:
        """Gives the shards to other workers, or takes a share again; or takes the shard of a log."""
        ...

    @property
    def replays(self) -> Semaphore:
        """Bounds the replays of a log for views of the past that run at the same time."""
        ...

    def empty_group_state(self) -> GroupMachine:
        """The groups of a shard before the first record of its log."""
        ...

    @property
    def brokers(self) -> "Brokers | None":
        """The brokers that this server is; None: it is one."""
        ...

    async def take_broker_down(self, broker_id: int) -> ErrorCode:
        """Ends a broker as a crash does."""
        ...

    async def bring_broker_up(self, broker_id: int) -> ErrorCode:
        """Starts a broker again. Raises OSError."""
        ...

    @property
    def emulates(self) -> str:
        """The release of Kafka that clients see."""
        ...

    @property
    def has_cluster_behind(self) -> bool: ...
    def emulate(self, release: str) -> int:
        """Becomes another release; returns how many connections that ended."""
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
    def cluster_problem(self) -> str:
        """What is wrong with the cluster that this server stands in front of; empty: nothing, or there is none."""
        ...

    def end_offset(self, topic: str, index: int) -> int | None:
        """The high watermark of a partition.

        None: this server does not have the partition, or it is offline, so that nobody knows where its log ends.
        """
        ...

    @property
    def unknown(self) -> Sequence[str]:
        """What views cannot show, because the log of groups was written by a Kafka; nothing if it is this server's."""
        ...

    @property
    def stopping(self) -> bool:
        """Whether the server is draining and accepts no new connections."""
        ...
