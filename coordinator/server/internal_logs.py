"""The internal logs of a server: where they are, what makes them durable, and who has the shards that load from them.

There are two ways, and this is the interface of both. With an embedded journal the data folder has everything, and the server
has every shard (`EmbeddedLogs`). Over an engine the engine has everything, and the server is one of several workers, each
of which has some of the shards (`EngineLogs` in cluster/sharing.py).

    open      reads what there is, before the server has any part
    load      the shards get their state, before the server listens
    join      the server accepts clients, and a worker takes the shards that it should have
    leave     a worker gives its shards back, before the listeners close
    close     after the last write
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coordinator.admin.server_view import ClusterStatistics
from coordinator.api.cluster import Cluster, OneNode
from coordinator.config.settings import ServerConfig
from coordinator.groups.machine import GroupMachine
from coordinator.groups.settings import NO_EVENTS
from coordinator.journal.journal import Journal
from coordinator.journal.recovery import read_journal
from coordinator.journal.turns import TurnJournal
from coordinator.log.catalog import Catalog, KnownLog
from coordinator.log.journaled_log import JournaledLog
from coordinator.runtime.event_log import EventLog
from coordinator.runtime.router import Router
from coordinator.runtime.shard import Shard
from coordinator.server.data_folder import (
    check_journal,
    check_not_shared,
    check_partition_count,
    cluster_id,
    make_shard_folders,
)
from coordinator.server.delivery_events import DeliveryEvents
from coordinator.server.epochs import read_epoch
from coordinator.server.event_logs import open_event_logs
from coordinator.share_state.coordinator import ShareCoordinator
from coordinator.topics.names import CONSUMER_OFFSETS, COORDINATOR_EVENTS, SHARE_GROUP_STATE, TRANSACTION_STATE
from coordinator.topics.registry import Registry
from coordinator.topics.topics import Topics
from coordinator.transactions.machine import TransactionMachine
from coordinator.transactions.marker_delivery import MarkerWriter
from coordinator.transactions.state import COORDINATOR_EPOCH
from coordinator.transactions.verification import Verification
from coordinator.world.disk import Disk
from coordinator.world.entropy import Entropy
from coordinator.world.schedule import Schedule
from coordinator.world.threads import RunInThread

if TYPE_CHECKING:
    from coordinator.security.standard_authorizer import StandardAuthorizer

_log = logging.getLogger(__name__)

Address = tuple[str, int]
Accept = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogParts:
    """What internal logs are opened with."""

    config: ServerConfig
    disk: Disk
    entropy: Entropy
    catalog: Catalog
    """That of the data folder."""
    run_in_thread: RunInThread
    soon: Callable[[Callable[[], None]], object]
    """Calls back in the next turn of the loop."""
    schedule: Schedule
    """By the machine's clock."""
    observe: Callable[[str, bytes], None] | None
    """Called with the folder and the batches of every write to an internal log."""


@dataclass(frozen=True, slots=True)
class Coordinators:
    """The parts of a server that read and write internal logs."""

    groups: Router[GroupMachine]
    transactions: Router[TransactionMachine]
    share_states: ShareCoordinator
    topics: Topics
    markers: MarkerWriter
    verification: Verification
    delivery_events: DeliveryEvents

    @property
    def shards(self) -> list[Shard[Any]]:
        """The shards of groups, those of transactions and those of share partitions."""
        return [*self.groups.shards, *self.transactions.shards, *self.share_states.router.shards]


class InternalLogs(ABC):
    """The internal logs of one server."""

    shard_class: type[Shard[Any]] = Shard
    shares_metadata: bool
    """Whether others change the metadata log, too."""
    has_data: bool
    """Whether the records of topics are here."""
    is_cache: bool
    """Whether the logs are copies of what an engine has: they may be missing, and nobody compacts them."""
    writes_events: bool
    """Whether the decisions of groups are recorded."""
    cluster_statistics: ClusterStatistics | None = None
    """What a worker counts of its part in a cluster; None: this server is alone."""

    def __init__(
        self,
        parts: LogParts,
        *,
        folder: str,
        cluster_id: str,
        cluster: Cluster,
        journal: TurnJournal,
        journaled: Mapping[str, Sequence[bytes]],
        catalog: Catalog,
    ) -> None:
        """`journaled`: folder -> batches that the journal has and the segments may lack. `catalog`: that of these logs."""
        self.folder = folder
        self.cluster_id = cluster_id
        self.cluster = cluster
        self.journal = journal
        self.journaled = journaled
        self._config = parts.config
        self._disk = parts.disk
        self._catalog = catalog

    # --- opening ------------------------------------------------------------------------------------------------------

    def make_folders(self, registry: Registry | None) -> None:
        """Makes the folders that are missing. Raises CannotStart if there is another number of them, or the topics have one.

        `registry`: None for a supervisor, whose workers know the topics.
        """
        log = self._config.log
        counts = {
            CONSUMER_OFFSETS: (log.offsets_topic_num_partitions, "offsets.topic.num.partitions"),
            TRANSACTION_STATE: (
                log.transaction_state_log_num_partitions,
                "transaction.state.log.num.partitions",
            ),
            SHARE_GROUP_STATE: (
                log.share_coordinator_state_topic_num_partitions,
                "share.coordinator.state.topic.num.partitions",
            ),
        }
        for topic, (count, setting) in counts.items():
            found = registry.topics.get(topic) if registry is not None else None
            registered = found.partitions if found is not None else None
            check_partition_count(
                self._disk, self.folder, topic, count, setting, registered=registered, catalog=self._catalog
            )
        make_shard_folders(
            self._disk,
            self.folder,
            [(topic, count) for topic, (count, _) in counts.items()],
            [(COORDINATOR_EVENTS, log.offsets_topic_num_partitions)] if self.writes_events else [],
            self._catalog,
        )

    def load_log(self, log: JournaledLog, name: str) -> None:
        """Loads a log of this name, with what the journal has of it. Raises OSError and DamagedLog."""
        log.load_journaled(self.journaled.get(name, ()), self._catalog.known(name))
        if log.recovery is not None:
            _log.warning("event=log_recovered log=%s recovery=%s", name, log.recovery)

    @abstractmethod
    def open_event_logs(self, topics: Topics) -> list[JournaledLog]:
        """The event log of every shard of groups, if decisions are recorded or were."""

    def has_events(self, index: int) -> bool:  # noqa: ARG002 - a worker has those of its shards
        """Whether readers may have the event log of this shard here."""
        return True

    def retain_events(self, logs: Iterable[EventLog], now_ms: int) -> None:
        """Deletes the oldest events that exceed the retention time or size."""
        for log in logs:
            log.retain(now_ms)

    # --- the life of a server -----------------------------------------------------------------------------------------

    @abstractmethod
    def check_may_ask(self, authorizer: "StandardAuthorizer | None") -> None:
        """Raises CannotStart unless other workers, if there may be any, will answer this one."""

    @abstractmethod
    def load(self, coordinators: Coordinators) -> None:
        """Loads the shards that this server has before it listens."""

    @abstractmethod
    async def join(self, coordinators: Coordinators, addresses: Sequence[Address], admin: str, accept: Accept) -> None:
        """Lets the listeners accept clients, with `accept`, as soon as they can be answered. Raises CannotStart.

        `addresses`: what the listeners advertise, in their order. `admin`: the URL of admin HTTP, empty behind a supervisor.
        """

    @abstractmethod
    async def mark_worker(self, *, is_leaving: bool | None = None, wants: str = "") -> None:
        """Gives the shards to other workers, or takes a share again; or takes the shard of a log. Alone, a server keeps all."""

    @abstractmethod
    async def leave(self) -> None:
        """The server is about to close its listeners."""

    @abstractmethod
    def prune(self, log: JournaledLog, offset: int) -> None:
        """Deletes the records of a log before an offset, which its shard needs no more. A later call deletes the rest."""

    @abstractmethod
    def close_log(self, log: JournaledLog) -> None:
        """Closes the log of a shard, after the last write."""

    def note_logs(self, logs: Iterable[KnownLog]) -> bool:  # noqa: ARG002 - workers of one machine note them
        """Notes what the catalog of the data folder has to say. Returns False if this server keeps the catalog."""
        return False

    # --- what else differs --------------------------------------------------------------------------------------------

    @abstractmethod
    def coordinator_epoch(self, log: str) -> int:
        """The epoch of the coordinator that has this log of transactions."""


class EmbeddedLogs(InternalLogs):
    """All logs are in the data folder, and its journal makes them durable."""

    shares_metadata = False
    is_cache = False

    def __init__(self, parts: LogParts) -> None:
        """Reads the data folder. Raises CannotStart and DamagedLog."""
        config, disk = parts.config, parts.disk
        self.has_data = not config.overlay.data_bootstrap_servers
        check_not_shared(disk, config.log_dir)
        identity = cluster_id(disk, config.log_dir, parts.entropy, parts.catalog)
        recovered = read_journal(disk, config.log_dir)
        check_journal(config.log_dir, parts.catalog, recovered)
        journal = Journal(
            disk,
            config.log_dir,
            recovered,
            durability=config.log.durability,
            file_bytes=config.log.coordinator_journal_file_bytes,
            random_bytes=parts.entropy.bytes,
            run_in_thread=parts.run_in_thread,
            soon=parts.soon,
            schedule=parts.schedule,
            observe=parts.observe,
        )
        super().__init__(
            parts,
            folder=config.log_dir,
            cluster_id=identity,
            cluster=OneNode(config.node_id),
            journal=journal,
            journaled=recovered.batches,
            catalog=parts.catalog,
        )
        self.writes_events = config.groups.coordinator_events != NO_EVENTS
        self._epoch = read_epoch(disk, config.log_dir) or COORDINATOR_EPOCH

    def open_event_logs(self, topics: Topics) -> list[JournaledLog]:
        if not self.writes_events and COORDINATOR_EVENTS not in topics.registry.topics:
            return []
        return open_event_logs(self._disk, self._config, self.journaled)

    def check_may_ask(self, authorizer: "StandardAuthorizer | None") -> None:
        """There are no others."""

    def load(self, coordinators: Coordinators) -> None:
        routers: dict[str, Router[Any]] = {
            CONSUMER_OFFSETS: coordinators.groups,
            TRANSACTION_STATE: coordinators.transactions,
            SHARE_GROUP_STATE: coordinators.share_states.router,
        }
        for name, router in routers.items():
            for shard in router.shards:
                read = shard.load()
                if read:
                    _log.info("event=shard_loaded topic=%s shard=%d records=%d", name, shard.index, read)
        topics = coordinators.topics
        topics.producer_ids.minimum = max(shard.state.producer_ids_from for shard in coordinators.transactions.shards)
        self.journal.begin()
        self.journaled = {}  # the logs have it now
        for topic in self._config.declared_topics:
            topics.declare(topic.name, topic.partitions, topic.configs)

    async def join(
        self, _coordinators: Coordinators, _addresses: Sequence[Address], _admin: str, accept: Accept
    ) -> None:
        """There is nobody to join."""
        await accept()

    async def mark_worker(self, *, is_leaving: bool | None = None, wants: str = "") -> None:
        """There are no other workers."""

    async def leave(self) -> None:
        """There is nobody to leave."""

    def prune(self, log: JournaledLog, offset: int) -> None:
        """What only the journal has stays: a start appends it to the segments, whole batches from their end on."""
        offset = min(offset, log.synced_offset)
        if offset <= log.start_offset or log.failed is not None:
            return
        try:
            log.truncate_before(offset)
        except OSError as error:
            _log.warning("event=log_not_pruned log=%s reason=%s", log.folder, error)

    def close_log(self, log: JournaledLog) -> None:
        """What cannot be synced is in the journal."""
        try:
            if log.failed is None:
                log.close()
        except OSError as error:
            _log.warning("event=log_not_synced log=%s reason=%s", log.folder, error)
        finally:
            log.close_files()

    def coordinator_epoch(self, log: str) -> int:  # noqa: ARG002 - workers have one for each log
        """Always the same: no other process has the log. Workers had it with lower ones, if there were any."""
        return self._epoch
