"""A server whose groups are those of a cluster: no client comes to it, and its admin HTTP changes nothing."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from coordinator.admin.server import ProtocolFactory
from coordinator.config.settings import ServerConfig
from coordinator.overlay.brokers import Brokers
from coordinator.overlay.topics import TopicFollower
from coordinator.runtime.shard import Shard, Status
from coordinator.server import CannotStart
from coordinator.server.composition import Server
from coordinator.server.internal_logs import Coordinators, EmbeddedLogs
from coordinator.watch.shard import WatchedShard
from coordinator.watch.source import Source, watched_partitions
from coordinator.world.clock import Clock
from coordinator.world.disk import Disk
from coordinator.world.entropy import Entropy
from coordinator.world.threads import Threads

UNKNOWN = (
    "Kafka's log does not say why a member went (it left, expired or was removed), nor why a rebalance began",
    "how long members of a classic group took to join is not in Kafka's log: its rebalances are shown from the join's end on",
    "who committed an offset is not in Kafka's log; the owner of the partition is shown",
    "refused requests, heartbeats and connections leave no record in Kafka's log",
)
"""What no view of a Kafka cluster can show."""
NO_TRANSACTIONS = "transactions are not shown: "
CHANGES_NOTHING = "this is a watcher (coordinator watch): it reads the cluster, and changes nothing there"


class WatchedLogs(EmbeddedLogs):
    """The event logs of the data folder. The logs of groups and transactions are the cluster's."""

    shard_class = WatchedShard
    has_data = False

    def load(self, coordinators: Coordinators) -> None:
        if any(shard.log.end_offset for shard in coordinators.shards):
            raise CannotStart(f"{self.folder} has groups of a server: a watcher needs a data folder of its own")
        super().load(coordinators)


class WatchingServer(Server):
    """The views, metrics and events of a cluster."""

    def __init__(
        self,
        config: ServerConfig,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        disk: Disk,
        entropy: Entropy,
        threads: Threads,
        brokers: Brokers,
        *,
        history_ms: int,
        without_transactions: str = "",
    ) -> None:
        """`without_transactions`: why `__transaction_state` is not read; empty if it is."""
        super().__init__(config, loop, clock, disk, entropy, threads, open_logs=WatchedLogs)
        self._without_transactions = without_transactions
        shards = watched_partitions(self.groups.shards, [] if without_transactions else self.transactions.shards)
        self._source = Source(brokers, shards, TopicFollower(self.topics), clock.wall_ms, history_ms=history_ms)

    async def start(self) -> tuple[str, str]:
        """Serves admin HTTP, and begins to read the cluster. Raises CannotStart."""
        started = await super().start()
        unread: list[Shard[Any]] = [*self.share_states.router.shards]
        if self._without_transactions:
            unread += self.transactions.shards
        for shard in unread:
            shard.status = Status.ACTIVE
        self._source.start()
        return started

    async def stop(self) -> None:
        """Ends the reading; the event log says how far it came."""
        await self._source.stop()
        await super().stop()

    @property
    def cluster_problem(self) -> str:
        """Why views may be out of date."""
        return self._source.problem

    @property
    def unknown(self) -> Sequence[str]:
        """What views cannot show."""
        reason = self._without_transactions
        return (*UNKNOWN, f"{NO_TRANSACTIONS}{reason}") if reason else UNKNOWN

    def end_offset(self, topic: str, index: int) -> int | None:
        """The end offset of a partition of the cluster, a few seconds ago."""
        return self._source.ends.get((topic, index))

    @staticmethod
    def load_admin() -> ProtocolFactory:
        """Imports the endpoints. Those that change something, or show what did, refuse."""
        from coordinator.admin.application import protocol_factory  # noqa: PLC0415 - slow to import
        from coordinator.admin.endpoint import RefusedRequest  # noqa: PLC0415 - as above
        from coordinator.admin.routes import all_endpoints  # noqa: PLC0415 - as above

        def refuse(_server: Any, _request: Any) -> NoReturn:
            raise RefusedRequest(409, CHANGES_NOTHING)

        endpoints = [
            each if each.method == "GET" and not each.control else replace(each, handle=refuse, control=False)
            for each in all_endpoints()
        ]
        make: Callable[..., Any] = protocol_factory
        return lambda server, config, connections, token: make(server, config, connections, token, endpoints)
