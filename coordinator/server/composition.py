"""The composition root: makes the parts of a server from its configuration, wires them, starts and stops them.

A start opens the logs, loads every shard, then listens. A server that answers has loaded everything: there is no state in which
it knows half of its groups.

A stop accepts nothing more, lets the responses in progress leave, writes what was decided, and closes. What was acknowledged is
in the log by then, as it is at any moment.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import thread_time_ns
from typing import TYPE_CHECKING, Any

from coordinator import requests
from coordinator.admin.server import AdminServer
from coordinator.api.cluster import Cluster, OneNode
from coordinator.api.declaration import Api
from coordinator.api.dispatch import Dispatcher, supported_apis
from coordinator.api.encoded_topics import EncodedTopics
from coordinator.api.server import Endpoint
from coordinator.config.security import NO_SECURITY
from coordinator.config.settings import ListenerConfig, ServerConfig
from coordinator.fastpath.bulk_replay import bulk_replayers
from coordinator.fastpath.event_encoding import EVENT_ENCODERS
from coordinator.fastpath.repeated_commit import template_learners
from coordinator.groups import group_configs
from coordinator.groups.assignors.assignor import Assignor
from coordinator.groups.commit_events import COMMIT_REFUSED
from coordinator.groups.events import EVENT_KEYS
from coordinator.groups.group_configs import ConfiguredGroups
from coordinator.groups.held_bytes import HeldBytes
from coordinator.groups.machine import BUILT_IN_ASSIGNORS, RECORD_KEYS, GroupMachine
from coordinator.groups.offsets.delete import topics_deleted
from coordinator.groups.offsets.write_marker import write_marker
from coordinator.groups.settings import NO_EVENTS
from coordinator.journal.journal import Journal
from coordinator.journal.recovery import read_journal
from coordinator.log.catalog import NO_CATALOG, NO_ID, KnownLog
from coordinator.log.journaled_log import JournaledLog
from coordinator.log.log import Log, LogSettings
from coordinator.network.connection import ConnectionLimits
from coordinator.network.listener import Listener, Protection
from coordinator.network.log_once import LogOncePerClient
from coordinator.network.turn import Turn
from coordinator.protocol.codec import Codec
from coordinator.runtime.cleaner import Cleaner
from coordinator.runtime.event_log import EventLog, ServerRun
from coordinator.runtime.group_rebalances import GroupRebalances
from coordinator.runtime.loader import BulkReplayers
from coordinator.runtime.memory import Memory
from coordinator.runtime.result import Fact
from coordinator.runtime.router import Router
from coordinator.runtime.serde import Serde
from coordinator.runtime.shard import S, Shard, Status
from coordinator.runtime.statistics import Statistics
from coordinator.server import CannotStart
from coordinator.server.catalog_keeper import CatalogKeeper
from coordinator.server.data_folder import (
    check_journal,
    check_not_shared,
    check_partition_count,
    cluster_id,
    make_shard_folders,
    read_catalog,
    shard_folder,
)
from coordinator.server.event_logs import open_event_logs
from coordinator.server.quota_keeper import QuotaKeeper
from coordinator.topics import names
from coordinator.topics.auto_creation import AutoTopicCreation
from coordinator.topics.engine import METADATA_FOLDER, Topics
from coordinator.transactions import machine as transaction_machine
from coordinator.transactions.machine import TransactionMachine
from coordinator.transactions.marker_delivery import MarkerDelivery, MarkerWriter
from coordinator.transactions.producer_id_pool import ProducerIdPool
from coordinator.transactions.state import COORDINATOR_EPOCH
from coordinator.transactions.verification import Verification
from coordinator.world import plugins
from coordinator.world.clock import Clock
from coordinator.world.disk import Disk
from coordinator.world.entropy import Entropy
from coordinator.world.protocol_clock import ProtocolClock
from coordinator.world.schedule import Handle, Schedule
from coordinator.world.worker import Done, Worker

if TYPE_CHECKING:
    from coordinator.journal.shared_journal import SharedJournal
    from coordinator.quotas.enforcement import ClientQuotas
    from coordinator.rules.interceptor import Interceptor
    from coordinator.security.standard_authorizer import StandardAuthorizer
    from coordinator.security.tls import TlsContext
    from coordinator.server.sharing import Sharing
    from coordinator.workers.statistics import WorkerStatistics

_log = logging.getLogger(__name__)

OFFSETS_TOPIC = names.CONSUMER_OFFSETS
EVENTS_TOPIC = names.COORDINATOR_EVENTS
TRANSACTIONS_TOPIC = names.TRANSACTION_STATE
REPLAYS_MAX = 4
"""Replays of a log for views of the past that may run at the same time."""
WRITES_POLL_S = 0.001
"""How often a stop checks whether the last writes are on the disk."""


class Server:
    """A running server: what API files (api/server.py) and the admin pages (admin/server_view.py) see, and its life cycle."""

    def __init__(
        self,
        config: ServerConfig,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        disk: Disk,
        entropy: Entropy,
        worker: Worker,
        *,
        fastpath: bool = True,
        observe: Callable[[str, bytes], None] | None = None,
        sharing: "Sharing | None" = None,
    ) -> None:
        """`fastpath`: False leaves out coordinator/fastpath, which changes nothing but the speed; tests compare the two.

        `sharing`: this worker's part in a shared journal, which it has joined; without one the journal is embedded.
        `observe` is called with the folder and the batches of every write to an internal log; the simulator checks them.
        """
        self._fastpath = fastpath
        self.config = config
        self._loop = loop
        self.clock = ProtocolClock(clock, self._schedule)
        self.entropy = entropy
        self.node_id = config.node_id
        self.statistics = Statistics()
        self.group_rebalances = GroupRebalances(clock.machine_ms, config.admin.metrics_groups)
        self._refused_commits = LogOncePerClient(_log, clock.machine_ms)
        self.memory = Memory(config.network.limit_memory_bytes, loop.call_soon)
        self._turn = Turn(loop.call_soon, clock.machine_ms, thread_time_ns, self.statistics.count_turn)
        self.replays = asyncio.Semaphore(REPLAYS_MAX)
        self.stopping = False
        self.closed = False
        """Whether the logs are closed."""
        self.apis: dict[int, Api[Any]] = supported_apis(requests)
        self.listeners: list[Listener] = []
        self._disk = disk
        self._worker = worker
        self._run_in_worker = self.statistics.timed(self._worker.submit)
        self.sharing = sharing
        catalog = self._catalog = read_catalog(disk, config.log_dir)
        self._shard_class: type[Shard[Any]] = Shard
        self.journal: Journal | SharedJournal
        self.cluster: Cluster
        if sharing is None:
            self._open_embedded(observe)
        else:
            self._open_shared(sharing, observe)
        logs_catalog = NO_CATALOG if sharing is not None else catalog
        self.topics = Topics(
            disk,
            config.log_dir,
            config.topics,
            node_id=config.node_id,
            durability=config.log.durability,
            clock=self.clock,
            entropy=entropy,
            run_in_worker=self._run_in_worker,
            schedule=self._schedule,
            protocol_schedule=self._periodic("log-retention"),
            on_fact=self._on_topics_fact,
            make_metadata_writer=self.journal.writer,
            catalog=catalog,
            metadata_journaled=self._journaled.get(METADATA_FOLDER, ()),
            internal_folder=self._internal_folder,
            shares_metadata=sharing is not None,
            has_data=sharing is None or sharing.has_data,
        )
        self.topics.has_room = self.memory.has_room
        self.authorizer = self._make_authorizer()
        self.encoded_topics = EncodedTopics()
        self.auto_topic_creation = AutoTopicCreation(self.topics, clock.machine_ms)
        registry = self.topics.registry
        self._group_settings = ConfiguredGroups(
            config.groups, lambda group_id: registry.configs_of(group_configs.RESOURCE_TYPE, group_id)
        )
        self.held_bytes = HeldBytes()
        """What the groups of all shards hold."""
        self._assignors = load_assignors(config.groups.group_consumer_assignors)
        writes_events = self.writes_events
        groups_topic = (OFFSETS_TOPIC, config.log.offsets_topic_num_partitions)
        transactions_topic = (TRANSACTIONS_TOPIC, config.log.transaction_state_log_num_partitions)
        events_topic = (EVENTS_TOPIC, config.log.offsets_topic_num_partitions)
        for name, number, setting in (
            (*groups_topic, "offsets.topic.num.partitions"),
            (*transactions_topic, "transaction.state.log.num.partitions"),
        ):
            check_partition_count(disk, self._internal_folder, name, number, setting, logs_catalog)
        make_shard_folders(
            disk,
            self._internal_folder,
            [groups_topic, transactions_topic],
            [events_topic] if writes_events else [],
            logs_catalog,
        )
        has_event_logs = sharing is None and (writes_events or EVENTS_TOPIC in self.topics.registry.topics)
        self._event_logs = open_event_logs(disk, config, self._journaled) if has_event_logs else []
        self._events_run = ServerRun(
            run_id=entropy.uuid(), node_id=config.node_id, policy=config.groups.coordinator_events
        )
        self.groups = Router([self._group_shard(index) for index in range(config.log.offsets_topic_num_partitions)])
        self._attach_shards(OFFSETS_TOPIC, self.groups)
        self._retention: Handle | None = None
        if self._event_logs:
            self.topics.attach_internal(EVENTS_TOPIC, self._event_logs, cleanup_policy="delete")
            self._retention = self._periodic("event-retention")(
                config.topics.log_retention_check_interval_ms, self._retain_events
            )
        self.topics.on_topics_deleted = self._topics_deleted
        self.producer_ids = ProducerIdPool(self.topics)
        self.markers = MarkerWriter(
            self.topics, self.groups, OFFSETS_TOPIC, write_marker, schedule=self._schedule, on_fact=self._on_topics_fact
        )
        self.marker_delivery = MarkerDelivery(self.markers, self._schedule)
        self.transactions = Router(
            [self._transaction_shard(index) for index in range(config.log.transaction_state_log_num_partitions)]
        )
        self.marker_delivery.transactions = self.transactions
        self._attach_shards(TRANSACTIONS_TOPIC, self.transactions)
        self.verification = Verification(
            self.transactions,
            enabled=config.transactions.transaction_partition_verification_enable,
            schedule=self._schedule,
        )
        self.cleaner = Cleaner(
            lambda: [*self._compacted_shard_logs(), *self.topics.compacted_logs()],
            self.clock,
            run_in_worker=self._run_in_worker,
            soon=loop.call_soon,
            schedule=self._schedule,
            backoff_ms=config.log.log_cleaner_backoff_ms,
        )
        self._catalog_keeper = CatalogKeeper(
            disk,
            config.log_dir,
            catalog,
            self.cluster_id,
            self._known_logs,
            lambda: self.journal.has_slots,
            run_in_worker=self._run_in_worker,
            schedule=self._schedule,
        )
        self.quota_keeper = QuotaKeeper(config.quotas, self.topics.registry, self.clock, self._schedule, self.listeners)
        self.topics.metadata_observers.append(self.quota_keeper.observe)
        self._admin: AdminServer | None = None
        self._interceptor: Interceptor | None = None

    @property
    def interceptor(self) -> "Interceptor":
        """The fault rules and recordings, made when they are first asked for: most servers never have any."""
        if self._interceptor is None:
            from coordinator.rules.interceptor import Interceptor  # noqa: PLC0415 - as above
            from coordinator.rules.passage import Clocks  # noqa: PLC0415

            self._interceptor = Interceptor(
                self,
                self.apis,
                self.clock,
                Clocks(self.clock.schedule, self._schedule),
                lambda: [listener.dispatcher for listener in self.listeners],
                lambda: [connection for listener in self.listeners for connection in listener.connections],
            )
        return self._interceptor

    @property
    def has_interceptor(self) -> bool:
        """Whether there ever were fault rules or recordings."""
        return self._interceptor is not None

    @property
    def quotas(self) -> "ClientQuotas | None":
        """The client quotas; None: there has been none since the start."""
        return self.quota_keeper.quotas

    @property
    def endpoints(self) -> list[Endpoint]:
        """The listeners, once they listen."""
        return [
            Endpoint(
                (config.dialect or config.name).upper(), listener.bound, listener.advertised, config.security.protocol
            )
            for config, listener in zip(self.config.listeners, self.listeners, strict=True)
        ]

    @property
    def worker(self) -> "WorkerStatistics | None":
        """The counts of a worker that shares its journal."""
        return None if self.sharing is None else self.sharing.statistics

    # --- parts --------------------------------------------------------------------------------------------------------

    @property
    def shards(self) -> list[Shard[Any]]:
        """The shards of groups and those of transactions."""
        return [*self.groups.shards, *self.transactions.shards]

    def _open_embedded(self, observe: Callable[[str, bytes], None] | None) -> None:
        """Reads the data folder and makes its journal."""
        config, disk, entropy = self.config, self._disk, self.entropy
        check_not_shared(disk, config.log_dir)
        self._internal_folder = config.log_dir
        self.cluster_id = cluster_id(disk, config.log_dir, entropy, self._catalog)
        self.cluster = OneNode(config.node_id)
        recovered = read_journal(disk, config.log_dir)
        check_journal(config.log_dir, self._catalog, recovered)
        self._journaled: Mapping[str, list[bytes]] = recovered.batches
        self.journal = Journal(
            disk,
            config.log_dir,
            recovered,
            durability=config.log.durability,
            file_bytes=config.log.coordinator_journal_file_bytes,
            random_bytes=entropy.bytes,
            run_in_worker=self._run_in_worker,
            soon=self._loop.call_soon,
            schedule=self._schedule,
            observe=observe,
        )

    def _open_shared(self, sharing: "Sharing", observe: Callable[[str, bytes], None] | None) -> None:
        """Begins with what the engine has of the metadata, and with no shard."""
        self._internal_folder = sharing.prepare_folder(self._disk)
        self.cluster_id = sharing.cluster_id
        self.cluster = sharing.cluster
        self._journaled = sharing.metadata
        self._shard_class = sharing.shard_class
        self.journal = sharing.make_journal(self._loop.call_soon, self._schedule, observe)
        if self.config.groups.coordinator_events != NO_EVENTS:
            _log.warning("event=events_not_recorded reason=%s", "workers that share a journal record no events")

    @property
    def writes_events(self) -> bool:
        """Whether the decisions of groups are recorded. With a shared journal they are not."""
        return self.sharing is None and self.config.groups.coordinator_events != NO_EVENTS

    def _attach_shards(self, topic: str, router: Router[Any]) -> None:
        shards = router.shards
        self.topics.attach_internal(
            topic,
            [shard.log for shard in shards],
            is_here=lambda index: 0 <= index < len(shards) and shards[index].status is not Status.ELSEWHERE,
        )

    def _compacted_shard_logs(self) -> list[JournaledLog]:
        """The logs that the cleaner compacts; those of a shared journal are compacted for its snapshots."""
        return [shard.log for shard in self.shards] if self.sharing is None else []

    def run_in_worker(self, function: Callable[[], Any], done: Done) -> None:
        """Calls the function in a worker thread, then `done` on the loop with what it returned or raised."""
        self._worker.submit(function, done)

    def _known_logs(self) -> Iterator[KnownLog]:
        yield from self.topics.known_logs()
        for shard in self.shards if self.sharing is None else ():
            known = shard.log.known(NO_ID)
            if known is not None:
                yield known

    def _event_log(self, index: int) -> EventLog | None:
        if not self.writes_events:
            return None
        return EventLog(
            index,
            self._event_logs[index],
            Serde(Codec.of(None), EVENT_KEYS),
            self.clock,
            self._events_run,
            make_writer=self.journal.writer,
            on_written=lambda index: self.topics.wake(EVENTS_TOPIC, index),
            encoders=EVENT_ENCODERS if self._fastpath else {},
        )

    def _retain_events(self) -> None:
        now_ms = self.clock.wall_ms()
        for shard in self.groups.shards:
            if shard.events is not None:
                shard.events.retain(now_ms)
        self._schedule_event_retention()

    def _schedule_event_retention(self) -> None:
        interval_ms = self.config.topics.log_retention_check_interval_ms
        self._retention = self._periodic("event-retention")(interval_ms, self._retain_events)

    def _group_shard(self, index: int) -> Shard[GroupMachine]:
        config = self.config
        return self._shard(
            OFFSETS_TOPIC,
            index,
            config.log.offsets_topic_segment_bytes,
            lambda: GroupMachine(
                config.groups,
                self.topics,
                settings=self._group_settings,
                assignors=self._assignors,
                count_all=self._count_groups,
                held_bytes=self.held_bytes.of_shard(index),
            ),
            RECORD_KEYS,
            self._event_log(index),
            bulk_replayers if self._fastpath else None,
        )

    def empty_group_state(self) -> GroupMachine:
        """The groups of a shard before the first record of its log, for a replay that concerns nobody else."""
        return GroupMachine(self.config.groups, self.topics, settings=self._group_settings, assignors=self._assignors)

    def _count_groups(self) -> int:
        return sum(shard.state.count for shard in self.groups.shards)

    def _transaction_shard(self, index: int) -> Shard[TransactionMachine]:
        config = self.config
        return self._shard(
            TRANSACTIONS_TOPIC,
            index,
            config.log.transaction_state_log_segment_bytes,
            lambda: TransactionMachine(
                config.transactions, self.producer_ids, self.marker_delivery.deliver, self._coordinator_epoch(index)
            ),
            transaction_machine.RECORD_KEYS,
        )

    def _coordinator_epoch(self, index: int) -> int:
        """The epoch of the coordinator of transactions: that of its claim, where shards move between workers."""
        return COORDINATOR_EPOCH if self.sharing is None else self.sharing.epoch_of(f"{TRANSACTIONS_TOPIC}-{index}")

    def _shard(
        self,
        topic: str,
        index: int,
        segment_bytes: int,
        make_state: Callable[[], S],
        record_keys: tuple[str, ...],
        events: EventLog | None = None,
        bulk_replayers: BulkReplayers | None = None,
    ) -> Shard[S]:
        config = self.config
        log = JournaledLog(self._disk, shard_folder(self._internal_folder, topic, index), LogSettings(
            segment_bytes=segment_bytes, segment_ms=None, retention_ms=None,
            delete_retention_ms=config.log.log_cleaner_delete_retention_ms,
        ))  # fmt: skip
        name = f"{topic}-{index}"
        log.load_journaled(
            self._journaled.get(name, ()), None if self.sharing is not None else self._catalog.known(name)
        )
        if log.recovery is not None:
            _log.warning("event=log_recovered topic=%s shard=%d recovery=%s", topic, index, log.recovery)
        return self._shard_class(
            index,
            log,
            make_state,
            Serde(Codec.of(None), record_keys),
            self.clock,
            make_writer=self.journal.writer,
            soon=self._loop.call_soon,
            at_turn_end=self.journal.at_turn_end,
            schedule=self._schedule,
            protocol_schedule=self.clock.schedule,
            commit_timeout_ms=config.log.offsets_commit_timeout_ms,
            on_fact=self._on_fact,
            on_timer=lambda index, key: self.clock.on_fired(topic, index, key),
            on_durable=lambda index: self.topics.wake(topic, index),
            events=events,
            bulk_replayers=bulk_replayers,
        )

    def _schedule(self, delay_ms: int, callback: Callable[[], None]) -> Handle:
        return self._loop.call_later(delay_ms / 1000, callback)

    def _periodic(self, name: str) -> Schedule:
        """A schedule by the clock of the protocol for what belongs to no shard."""

        def schedule(delay_ms: int, callback: Callable[[], None]) -> Handle:
            def run() -> None:
                self.clock.on_fired("", None, (name,))
                callback()

            return self.clock.schedule(delay_ms, run)

        return schedule

    def _on_fact(self, shard: int, fact: Fact) -> None:
        self.statistics.count(fact)
        self.group_rebalances.count(fact)
        if fact.name == COMMIT_REFUSED:
            # A client that does not know that it was replaced may repeat its commit without end.
            fields = fact.fields
            key = (fields["group"], fields["member"], fields["error"])
            self._refused_commits.warn(key, f"event={fact.name}{_placeholders(fact)}", *fields.values())
        else:
            _log_fact(fact, f" shard={shard}")

    def _on_topics_fact(self, fact: Fact) -> None:
        self.statistics.count(fact)
        _log_fact(fact, "")

    def _topics_deleted(self, topics: Sequence[tuple[str, bytes]]) -> None:
        for shard in self.groups.shards:
            shard.run_internal(lambda state, now_ms: topics_deleted(state, topics, now_ms))

    # --- running ------------------------------------------------------------------------------------------------------

    async def start(self) -> tuple[str, str]:
        """Loads and listens; returns the bootstrap address and the admin URL."""
        if self.sharing is None:
            self._load_shards()
        else:
            for shard in self.shards:
                shard.give_up("the server starts")
        self.journal.begin()
        self._journaled = {}  # the logs have it now
        if self.sharing is None:
            for topic in self.config.declared_topics:
                self.topics.declare(topic.name, topic.partitions, topic.configs)
        self._catalog_keeper.begin()
        for listener_config in self.config.listeners:
            self.listeners.append(await self._listen(listener_config))
            self.quota_keeper.apply()
        self._admin = AdminServer(self, self.config.admin, *self._admin_protection())
        try:
            admin_port = await self._admin.start()
        except OSError as error:
            raise CannotStart(f"cannot listen on {self.config.admin.host}:{self.config.admin.port}: {error}") from error
        host, port = self.listeners[0].advertised
        if self.sharing is not None:
            self.markers.elsewhere = self.sharing.peers.write_marker
            self.verification.elsewhere = self.sharing.ask_about_transaction
            await self.sharing.start(self.groups, self.transactions, self.topics, (host, port), self._run_in_worker)
            for topic in self.config.declared_topics:
                if topic.name not in self.topics.registry.topics:
                    self.topics.declare_in_turn(topic.name, topic.partitions, topic.configs)
        scheme = "https" if self.config.admin.admin_ssl_keystore_location else "http"
        return f"{host}:{port}", f"{scheme}://{self.config.admin.host}:{admin_port}"

    def _load_shards(self) -> None:
        for name, router in ((OFFSETS_TOPIC, self.groups), (TRANSACTIONS_TOPIC, self.transactions)):
            for shard in router.shards:
                read = shard.load()
                if read:
                    _log.info("event=shard_loaded topic=%s shard=%d records=%d", name, shard.index, read)
        self.topics.producer_ids.minimum = max(shard.state.producer_ids_from for shard in self.transactions.shards)

    def _admin_protection(self) -> "tuple[str, TlsContext | None]":
        admin = self.config.admin
        if not (admin.admin_token or admin.admin_token_file or admin.admin_ssl_keystore_location):
            return "", None
        from coordinator.server.listener_security import admin_protection  # noqa: PLC0415 - most servers need none

        return admin_protection(admin)

    def _make_authorizer(self) -> "StandardAuthorizer | None":
        """The authorizer of all listeners, if there is one."""
        if not self.config.access_control.authorizer_class_name:
            return None
        from coordinator.server.access_control import make_authorizer  # noqa: PLC0415 - most servers need none

        return make_authorizer(self.config.access_control, self.topics, self.clock.machine_ms)

    async def _listen(self, config: ListenerConfig) -> Listener:
        network = self.config.network
        codec = Codec.of(config.dialect, network.limit_request_elements)
        listener = Listener(
            Dispatcher(self, self.apis, codec, template_learners(codec) if self._fastpath else {}, self.authorizer),
            ConnectionLimits(
                frame_bytes_max=min(network.limit_request_bytes, network.socket_request_max_bytes),
                produce_bytes_max=network.socket_request_max_bytes,
                requests_in_flight_max=network.limit_requests_in_flight,
                write_buffer_bytes_max=network.limit_write_buffer_bytes,
                idle_ms_max=network.connections_max_idle_ms,
                frame_ms_max=network.limit_frame_time_ms,
                drain_ms_max=network.limit_write_time_ms,
            ),
            self.memory,
            self._turn,
            advertised=(config.advertised_host or config.host, config.advertised_port or 0),
            connections_max=network.max_connections,
            connections_per_ip_max=network.max_connections_per_ip,
            connections_per_second_max=network.max_connection_creation_rate,
            now_ms=self.clock.machine_ms,
            **self._protection(config),
        )
        try:
            await listener.start(config.host, config.port)
        except OSError as error:
            raise CannotStart(f"cannot listen on {config.host}:{config.port}: {error}") from error
        return listener

    def _protection(self, config: ListenerConfig) -> Protection:
        if config.security == NO_SECURITY:
            return {}
        # Slow to import, and a plain listener needs nothing of it.
        from coordinator.server.listener_security import make_protection  # noqa: PLC0415

        return make_protection(
            config.name, config.security, self.topics.registry, self.clock, self.entropy, self._run_in_worker
        )

    async def stop(self) -> None:
        """Lets responses leave, then closes. What was decided is written and synced."""
        self.stopping = True
        if self.sharing is not None:
            await self.sharing.give_back()
        await asyncio.gather(*(listener.stop(self.config.shutdown_time_ms) for listener in self.listeners))
        if self._admin is not None:
            await self._admin.stop()
        self.cleaner.stop()
        if self._retention is not None:
            self._retention.cancel()
        self.markers.stop()
        self._catalog_keeper.stop()
        for shard in self.shards:
            shard.stop()
        while not (  # noqa: ASYNC110 - once per process
            self.cleaner.idle
            and self.topics.idle
            and self._catalog_keeper.idle
            and all(shard.idle for shard in self.shards)
            and self.journal.idle
        ):
            await asyncio.sleep(WRITES_POLL_S)
        events = [(shard, shard.events) for shard in self.groups.shards if shard.events is not None]
        for shard, event_log in events:
            if shard.status is not Status.FAILED:
                event_log.finish(shard.offset_durable)
        while not self.journal.idle:  # noqa: ASYNC110 - as above
            await asyncio.sleep(WRITES_POLL_S)
        self.journal.stop()
        self._worker.close()
        await asyncio.sleep(0)
        self.closed = True
        for shard in self.shards:
            if self.sharing is None:
                _close(shard.log)
            else:
                shard.log.close_files()
        for _, event_log in events:
            event_log.close()
        self.topics.close()
        self.journal.settle()
        self._catalog_keeper.write()
        self.journal.close()


def _close(log: Log) -> None:
    """Closes the log of a shard. What cannot be synced is in the journal."""
    try:
        if log.failed is None:
            log.close()
    except OSError as error:
        _log.warning("event=log_not_synced log=%s reason=%s", log.folder, error)
    finally:
        log.close_files()


def load_assignors(names: Sequence[str]) -> dict[str, Assignor]:
    """Finds the assignors by name, in this order. Raises CannotStart for one that no package provides."""
    assignors: dict[str, Assignor] = {}
    for name in names:
        built_in = BUILT_IN_ASSIGNORS.get(name)
        try:
            assignors[name] = plugins.load(plugins.ASSIGNORS, name) if built_in is None else built_in
        except Exception as error:
            raise CannotStart(f"group.consumer.assignors: {name}: {type(error).__name__}: {error}") from error
        if not callable(getattr(assignors[name], "assign", None)):
            raise CannotStart(f"group.consumer.assignors: {name} has no method `assign`")
    return assignors


def _log_fact(fact: Fact, where: str) -> None:
    _log.info(f"event={fact.name}{where}{_placeholders(fact)}", *fact.fields.values())


def _placeholders(fact: Fact) -> str:
    return "".join(f" {name}=%s" for name in fact.fields)
