"""The composition root: makes the parts of a server from its configuration, wires them, starts and stops them.

A start opens the logs, loads every shard, then listens. A server that answers has loaded everything: there is no state in which
it knows half of its groups.

A stop accepts nothing more, lets the responses in progress leave, writes what was decided, and closes. What was acknowledged is
in the log by then, as it is at any moment.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import thread_time_ns
from typing import TYPE_CHECKING, Any

from coordinator import requests
from coordinator.admin.server import AdminServer, ProtocolFactory, import_application
from coordinator.admin.server_view import ClusterStatistics
from coordinator.api.cluster import Cluster
from coordinator.api.declaration import Api, supported_apis
from coordinator.api.share_partitions import share_settings_of, when
from coordinator.api.sliced_work import BackgroundWork
from coordinator.config.broker_configs import Endpoint
from coordinator.config.features import has_dead_letters
from coordinator.config.settings import ServerConfig, joined
from coordinator.fastpath.bulk_replay import bulk_replayers
from coordinator.fastpath.event_encoding import EVENT_ENCODERS
from coordinator.groups import group_configs
from coordinator.groups.events import EVENT_KEYS
from coordinator.groups.group_configs import ConfiguredGroups
from coordinator.groups.held_bytes import HeldBytes
from coordinator.groups.machine import RECORD_KEYS, GroupMachine
from coordinator.groups.offsets.delete import topics_deleted
from coordinator.groups.offsets.write_marker import write_marker
from coordinator.groups.rebalance_interval import settings_changed
from coordinator.groups.settings import ALL_EVENTS
from coordinator.groups.share.deliveries import NO_QUEUE, Deliveries
from coordinator.groups.share.update import topics_deleted as share_topics_deleted
from coordinator.log.catalog import NO_ID, KnownLog
from coordinator.log.journaled_log import JournaledLog
from coordinator.log.log import LogSettings
from coordinator.network.dispatch import Dispatcher
from coordinator.network.listener import Listener
from coordinator.network.turn import Turn
from coordinator.protocol.codec import Codec
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import ConfigRecord, CreateTopicsRequest, CreateTopicsResponse, Message
from coordinator.quotas.keeper import QuotaKeeper
from coordinator.runtime.cleaner import Cleaner
from coordinator.runtime.event_log import EventLog, ServerRun
from coordinator.runtime.loader import BulkReplayers
from coordinator.runtime.memory import Memory
from coordinator.runtime.pattern_matcher import PatternMatcher
from coordinator.runtime.result import Result
from coordinator.runtime.router import Router
from coordinator.runtime.serde import Serde
from coordinator.runtime.shard import PERMITS, S, Shard, Status
from coordinator.security.delegation_tokens import DelegationTokens
from coordinator.server import CannotStart
from coordinator.server.admin_protection import admin_protection
from coordinator.server.assignors import load_assignors
from coordinator.server.catalog_keeper import CatalogKeeper
from coordinator.server.data_folder import read_catalog, shard_folder
from coordinator.server.delivery_events import DeliveryEvents
from coordinator.server.dynamic_settings import DynamicSettings
from coordinator.server.facts import Facts
from coordinator.server.internal_logs import Coordinators, EmbeddedLogs, InternalLogs, LogParts
from coordinator.server.listeners import Listeners
from coordinator.share_state import machine as share_state_machine
from coordinator.share_state.coordinator import ShareCoordinator, StatesOfGroups
from coordinator.share_state.delete import topics_deleted as share_states_deleted
from coordinator.share_state.machine import ShareStateMachine
from coordinator.topics import names
from coordinator.topics.auto_creation import AutoTopicCreation
from coordinator.topics.create import create_topics
from coordinator.topics.encoded_topics import EncodedTopics
from coordinator.topics.share.manager import ShareManager
from coordinator.topics.share.outcomes import Report
from coordinator.topics.topics import METADATA_FOLDER, Topics
from coordinator.transactions import machine as transaction_machine
from coordinator.transactions.machine import TransactionMachine
from coordinator.transactions.marker_delivery import MarkerDelivery, MarkerWriter
from coordinator.transactions.producer_id_pool import ProducerIdPool
from coordinator.transactions.verification import Verification, Verifier
from coordinator.world.clock import Clock
from coordinator.world.disk import Disk
from coordinator.world.entropy import Entropy
from coordinator.world.protocol_clock import ProtocolClock
from coordinator.world.schedule import Handle, Schedule
from coordinator.world.threads import Done, Threads

if TYPE_CHECKING:
    from coordinator.nodes.brokers import Brokers
    from coordinator.overlay.overlay import Overlay
    from coordinator.quotas.enforcement import ClientQuotas
    from coordinator.rules.interceptor import Interceptor
    from coordinator.security.standard_authorizer import StandardAuthorizer

_log = logging.getLogger(__name__)

OFFSETS_TOPIC = names.CONSUMER_OFFSETS
EVENTS_TOPIC = names.COORDINATOR_EVENTS
TRANSACTIONS_TOPIC = names.TRANSACTION_STATE
SHARE_TOPIC = names.SHARE_GROUP_STATE
REPLAYS_MAX = 4
"""Replays of a log for views of the past that may run at the same time."""
WRITES_POLL_S = 0.001
"""How often a stop checks whether the last writes are on the disk."""


class Server:
    """A running server: what API files (api/server.py) and the admin pages (admin/server_view.py) see, and its life cycle."""

    load_admin: Callable[[], ProtocolFactory] = staticmethod(import_application)
    """Imports the endpoints of admin HTTP."""

    def __init__(
        self,
        config: ServerConfig,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        disk: Disk,
        entropy: Entropy,
        threads: Threads,
        *,
        fastpath: bool = True,
        observe: Callable[[str, bytes], None] | None = None,
        open_logs: Callable[[LogParts], InternalLogs] = EmbeddedLogs,
    ) -> None:
        """`fastpath`: False leaves out coordinator/fastpath, which changes nothing but the speed; tests compare the two.

        `open_logs`: opens the internal logs; without it they are in the data folder, with its journal.
        `observe` is called with the folder and the batches of every write to an internal log; the simulator checks them.
        """
        self.config = config
        self.node_id = config.node_id
        self.clock = ProtocolClock(clock, self._schedule)
        self.entropy = entropy
        self.apis: dict[int, Api[Any]] = supported_apis(requests)
        self.stopping = False
        self.closed = False
        """Whether the logs are closed."""
        self._loop = loop
        self._disk = disk
        self._threads = threads
        self._fastpath = fastpath
        self._repeating: dict[str, Handle] = {}
        """The timers of `_repeat`."""
        self._admin: AdminServer | None = None
        self._interceptor: Interceptor | None = None
        # Each step uses what those before it have made.
        self._make_what_all_share()
        self._open_logs(open_logs, observe)
        self._make_data_plane()
        self._make_groups()
        self._make_transactions()
        self._make_share_states()
        self._make_keepers()
        self._overlay = self._make_overlay()

    def _make_what_all_share(self) -> None:
        """What bounds and counts the work of all: memory, turns of the loop, threads, statistics."""
        config, now_ms = self.config, self.clock.machine_ms
        self._facts = Facts(now_ms, config.admin.metrics_groups)
        self.statistics = self._facts.statistics
        self.group_rebalances = self._facts.group_rebalances
        self.memory = Memory(config.network.limit_memory_bytes, self._loop.call_soon)
        self.replays = asyncio.Semaphore(REPLAYS_MAX)
        self._turn = Turn(self._loop.call_soon, now_ms, thread_time_ns, self.statistics.count_turn)
        self._background = BackgroundWork(self._turn)
        self._run_in_thread = self.statistics.timed(self._threads.submit)
        self.match_patterns = PatternMatcher(
            self._run_in_thread, self._background.add, config.groups.limit_pattern_bytes
        )

    def _open_logs(
        self, open_logs: Callable[[LogParts], InternalLogs], observe: Callable[[str, bytes], None] | None
    ) -> None:
        self._catalog = read_catalog(self._disk, self.config.log_dir)
        self._logs = open_logs(self._log_parts(observe))
        self.journal = self._logs.journal
        self.cluster_id = self._logs.cluster_id
        self.cluster: Cluster = self._logs.cluster
        self.writes_events = self._logs.writes_events

    def _make_data_plane(self) -> None:
        """Topics, and what is in their metadata log: the brokers of this process, permissions, tokens, settings."""
        config = self.config
        self.topics = self._make_topics()
        self.topics.has_room = self.memory.has_room
        registry = self.topics.registry
        self.brokers = self._make_brokers()
        if self.brokers is not None:
            self.cluster = self.brokers
        self.authorizer = self._make_authorizer()
        self.delegation_tokens = DelegationTokens(
            config.delegation_tokens, registry.delegation_tokens, self.clock.wall_ms
        )
        if self.delegation_tokens.is_enabled:
            interval_ms = config.delegation_tokens.delegation_token_expiry_check_interval_ms
            self._repeat("delegation-tokens", interval_ms, self._expire_tokens)
        self.encoded_topics = EncodedTopics()
        self.auto_topic_creation = AutoTopicCreation(self._create_topics, self.clock.machine_ms)
        self._dynamic = DynamicSettings(config, registry)
        self._for_clients = Listeners(
            self, self.apis, self._dynamic, self._turn, self._run_in_thread, fastpath=self._fastpath
        )
        self.listeners = self._for_clients.opened
        self._group_settings = ConfiguredGroups(
            config.groups, partial(registry.configs_of, group_configs.RESOURCE_TYPE)
        )

    def _make_groups(self) -> None:
        """The shards of groups with their event logs."""
        config, logs = self.config, self._logs
        self.held_bytes = HeldBytes()
        """What the groups of all shards hold."""
        self._assignors = load_assignors(config.groups.group_consumer_assignors)
        logs.make_folders(self.topics.registry)
        self._event_logs = logs.open_event_logs(self.topics)
        self._events_run = self._make_events_run()
        self.groups = Router([self._group_shard(index) for index in range(config.log.offsets_topic_num_partitions)])
        self._attach_shards(OFFSETS_TOPIC, self.groups)
        if self._event_logs:
            self._attach_events()
        self.topics.on_topics_deleted = self._topics_deleted
        self.topics.in_background = self._background.add

    def _make_transactions(self) -> None:
        """The shards of transactional ids, and how their markers reach topics and groups."""
        config = self.config
        self.producer_ids = ProducerIdPool(self.topics)
        self.markers = MarkerWriter(
            self.topics,
            self.groups,
            OFFSETS_TOPIC,
            write_marker,
            schedule=self._schedule,
            on_fact=self._facts.of_topics,
        )
        self.marker_delivery = MarkerDelivery(self.markers, self._schedule)
        self.transactions = Router(
            [self._transaction_shard(index) for index in range(config.log.transaction_state_log_num_partitions)]
        )
        self.marker_delivery.transactions = self.transactions
        self._attach_shards(TRANSACTIONS_TOPIC, self.transactions)
        self._verification = Verification(
            self.transactions,
            enabled=config.transactions.transaction_partition_verification_enable,
            schedule=self._schedule,
        )

    def _make_share_states(self) -> None:
        """The shards of share partitions, and those that this server leads."""
        count = self.config.log.share_coordinator_state_topic_num_partitions
        router = Router([self._share_state_shard(index) for index in range(count)])
        self.share_states = ShareCoordinator(router)
        self._attach_shards(SHARE_TOPIC, router, cleanup_policy="delete")
        self.share_partitions = ShareManager(
            self.topics,
            self.share_states,
            when,
            share_settings_of(self._group_settings, partial(has_dead_letters, self.topics.registry)),
            self.clock,
            self.clock.schedule,
            self.config.groups.group_share_max_share_sessions,
            on_fact=self._facts.of_topics,
        )
        self.delivery_events = DeliveryEvents(self.groups, self.clock, self._schedule)
        self.topics.append_internal = self.delivery_events.append
        self.share_partitions.outcomes.report = self._note_deliveries
        self.share_partitions.outcomes.reports_all = self.config.groups.coordinator_events == ALL_EVENTS

    def _note_deliveries(self, report: Report) -> None:
        """Puts what became of records of a share group among the group's events."""
        key, loaded_ms = report.place
        deliveries = Deliveries(
            report.outcome,
            key.group_id,
            report.member_id,
            self.topics.topic_name(key.topic_id) or "",
            key.topic_id,
            key.partition,
            report.cause,
            report.records,
            report.ranges,
            loaded_ms,
            report.number,
            report.queue or NO_QUEUE,
        )
        self.delivery_events.note(deliveries)

    def _make_keepers(self) -> None:
        """What keeps the logs compact, their catalog, quotas and settings up to date."""
        self.cleaner = self._make_cleaner()
        self._catalog_keeper = self._make_catalog_keeper()
        if self.brokers is not None:
            self.brokers.catalog = self._catalog_keeper
        self.quota_keeper = QuotaKeeper(
            self.config.quotas, self.topics.registry, self.clock, self._schedule, self.listeners
        )
        self._follow_settings()

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
                lambda: [listener.dispatcher for listener in self.all_listeners],
                lambda: [connection for listener in self.all_listeners for connection in listener.connections],
            )
        return self._interceptor

    @property
    def verification(self) -> Verifier:
        """Asks the coordinators of transactions: this server's, or the cluster's."""
        return self._verification if self._overlay is None else self._overlay.verification

    @property
    def has_interceptor(self) -> bool:
        """Whether there ever were fault rules or recordings."""
        return self._interceptor is not None

    @property
    def quotas(self) -> "ClientQuotas | None":
        """The client quotas; None: there has been none since the start."""
        return self.quota_keeper.quotas

    @property
    def cluster_problem(self) -> str:
        """What is wrong with the cluster that this server stands in front of; empty: nothing, or there is none."""
        return self._overlay.cluster_problem if self._overlay is not None else ""

    def end_offset(self, topic: str, index: int) -> int | None:
        """The high watermark of a partition; None if it is not here, or offline."""
        partition = self.topics.user_partition(topic, index)
        return None if partition is None or partition.is_offline else partition.high_watermark

    @property
    def unknown(self) -> Sequence[str]:
        """What views cannot show: nothing, because the log of groups is this server's."""
        return ()

    @property
    def addresses(self) -> list[str]:
        """HOST:PORT of each listener, as clients get it."""
        return [joined(*listener.advertised) for listener in self.all_listeners]

    @property
    def all_listeners(self) -> list[Listener]:
        """The listeners of the configuration, and those that stand for the brokers of a cluster."""
        return [*self.listeners, *(self._overlay.listeners if self._overlay is not None else ())]

    @property
    def endpoints(self) -> list[Endpoint]:
        """The listeners, once they listen; of several brokers those of the first."""
        return self._for_clients.endpoints(0)

    @property
    def controller_id(self) -> int:
        """The broker that Metadata names as the controller."""
        return self.node_id if self.brokers is None else self.brokers.controller

    @property
    def cluster_statistics(self) -> ClusterStatistics | None:
        """What this worker counts of its part in a cluster; None: it is alone."""
        return self._logs.cluster_statistics

    async def mark_worker(self, *, is_leaving: bool | None = None, wants: str = "") -> None:
        """As `InternalLogs.mark_worker`."""
        await self._logs.mark_worker(is_leaving=is_leaving, wants=wants)

    # --- parts --------------------------------------------------------------------------------------------------------

    @property
    def shards(self) -> list[Shard[Any]]:
        """The shards of groups, those of transactions and those of share partitions."""
        return [*self.groups.shards, *self.transactions.shards, *self.share_states.router.shards]

    def _log_parts(self, observe: Callable[[str, bytes], None] | None) -> LogParts:
        return LogParts(
            config=self.config,
            disk=self._disk,
            entropy=self.entropy,
            catalog=self._catalog,
            run_in_thread=self._run_in_thread,
            soon=self._loop.call_soon,
            schedule=self._schedule,
            observe=observe,
        )

    def _make_topics(self) -> Topics:
        config, logs = self.config, self._logs
        return Topics(
            self._disk,
            config.log_dir,
            config.topics,
            node_id=config.node_id,
            durability=config.log.durability,
            clock=self.clock,
            entropy=self.entropy,
            run_in_thread=self._run_in_thread,
            schedule=self._schedule,
            protocol_schedule=self._periodic("log-retention"),
            on_fact=self._facts.of_topics,
            make_metadata_writer=self.journal.writer,
            catalog=self._catalog,
            metadata_journaled=logs.journaled.get(METADATA_FOLDER, ()),
            internal_folder=logs.folder,
            shares_metadata=logs.shares_metadata,
            has_data=logs.has_data,
            nodes=config.node_ids if config.nodes > 1 else (),
        )

    def _make_events_run(self) -> ServerRun:
        policy = self.config.groups.coordinator_events
        return ServerRun(
            run_id=self.entropy.uuid(),
            node_id=self.node_id,
            policy=policy,
            is_complete=policy == ALL_EVENTS,
        )

    def _attach_events(self) -> None:
        """Serves the event logs as a topic, and begins to delete what is too old."""
        self.topics.attach_internal(
            EVENTS_TOPIC,
            self._event_logs,
            cleanup_policy="delete",
            is_here=self._logs.has_events,
            makes_topic=not self._logs.shares_metadata,
        )
        self._repeat("event-retention", self.config.topics.log_retention_check_interval_ms, self._retain_events)

    def _make_cleaner(self) -> Cleaner:
        return Cleaner(
            lambda: [*self._own_shard_logs(self.groups, self.transactions), *self.topics.compacted_logs()],
            self.clock,
            run_in_thread=self._run_in_thread,
            soon=self._loop.call_soon,
            schedule=self._schedule,
            backoff_ms=self.config.log.log_cleaner_backoff_ms,
        )

    def _make_catalog_keeper(self) -> CatalogKeeper:
        return CatalogKeeper(
            self._disk,
            self.config.log_dir,
            self._catalog,
            self.cluster_id,
            self._known_logs,
            lambda: self.journal.has_slots,
            run_in_thread=self._run_in_thread,
            schedule=self._schedule,
            note_logs=self._logs.note_logs,
        )

    def _follow_settings(self) -> None:
        """Puts the settings that clients can change in force, now and after each change."""
        self._dynamic.appliers += [self._configure]
        self.topics.metadata_observers += [self.quota_keeper.observe, self._settings_changed, self._dynamic.observe]
        self._dynamic.start()

    def _attach_shards(self, topic: str, router: Router[Any], cleanup_policy: str = "compact") -> None:
        shards = router.shards
        self.topics.attach_internal(
            topic,
            [shard.log for shard in shards],
            cleanup_policy=cleanup_policy,
            is_here=lambda index: 0 <= index < len(shards) and shards[index].status is not Status.ELSEWHERE,
        )

    def _own_shard_logs(self, *routers: Router[Any]) -> list[JournaledLog]:
        return [] if self._logs.is_cache else [shard.log for router in routers for shard in router.shards]

    def run_in_thread(self, function: Callable[[], Any], done: Done) -> None:
        """Calls the function in a thread, then `done` on the loop with what it returned or raised."""
        self._threads.submit(function, done)

    def _known_logs(self) -> Iterator[KnownLog]:
        yield from self.topics.known_logs()
        for log in self._own_shard_logs(self.groups, self.transactions, self.share_states.router):
            known = log.known(NO_ID)
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
        event_logs = [shard.events for shard in self.groups.shards if shard.events is not None]
        self._logs.retain_events(event_logs, self.clock.wall_ms())

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
                match_patterns=self.match_patterns,
                share_states=StatesOfGroups(lambda: self.share_states),
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
                self._dynamic.config.transactions,
                self.producer_ids,
                self.marker_delivery.deliver,
                self._logs.coordinator_epoch(f"{TRANSACTIONS_TOPIC}-{index}"),
            ),
            transaction_machine.RECORD_KEYS,
        )

    def _share_state_shard(self, index: int) -> Shard[ShareStateMachine]:
        config = self.config

        def shard() -> Shard[ShareStateMachine]:
            return self.share_states.router.shards[index]

        return self._shard(
            SHARE_TOPIC,
            index,
            config.log.share_coordinator_state_topic_segment_bytes,
            lambda: ShareStateMachine(
                config.share_states,
                self.topics,
                position=lambda: shard().offset_replayed,
                prune=lambda offset: self._logs.prune(shard().log, offset),
            ),
            share_state_machine.RECORD_KEYS,
            commit_timeout_ms=config.share_states.share_coordinator_write_timeout_ms,
        )

    def _shard(
        self,
        topic: str,
        index: int,
        segment_bytes: int,
        make_state: Callable[[], S],
        record_keys: tuple[str, ...],
        events: EventLog | None = None,
        bulk_replayers: BulkReplayers | None = None,
        commit_timeout_ms: int | None = None,
    ) -> Shard[S]:
        """`commit_timeout_ms`: None for that of offsets."""
        config = self.config
        log = JournaledLog(self._disk, shard_folder(self._logs.folder, topic, index), LogSettings(
            segment_bytes=segment_bytes, segment_ms=None, retention_ms=None,
            delete_retention_ms=config.log.log_cleaner_delete_retention_ms,
        ))  # fmt: skip
        self._logs.load_log(log, f"{topic}-{index}")
        return self._logs.shard_class(
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
            commit_timeout_ms=commit_timeout_ms or config.log.offsets_commit_timeout_ms,
            on_fact=self._facts.of_shard,
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

    def _repeat(self, name: str, interval_ms: int, run: Callable[[], None]) -> None:
        """Calls `run` every `interval_ms`, from now until the stop."""

        def again() -> None:
            run()
            self._repeat(name, interval_ms, run)

        self._repeating[name] = self._periodic(name)(interval_ms, again)

    def _create_topics(self, request: CreateTopicsRequest, done: Callable[[CreateTopicsResponse], None]) -> None:
        """Creates topics that no client asked for."""
        if self._overlay is None:
            create_topics(self.topics, request, done)
        else:
            self._overlay.create_topics(request, done)

    def _topics_deleted(self, topics: Sequence[tuple[str, bytes]]) -> None:
        if self._overlay is not None:
            self._overlay.forget_topics(topic_id for _, topic_id in topics)
        self.share_partitions.topics_deleted({topic_id for _, topic_id in topics})
        self._background.add(self._delete_offsets(dict(topics)))

    def _delete_offsets(self, topic_ids: Mapping[str, bytes]) -> Iterator[None]:
        for shard in self.groups.shards:
            shard.run_internal(partial(topics_deleted, topic_ids, self._background.add))
            shard.run_internal(partial(share_topics_deleted, topic_ids))
            yield
        ids = frozenset(topic_ids.values())
        for of_share_partitions in self.share_states.router.shards:
            of_share_partitions.run_internal(partial(share_states_deleted, ids))
            yield

    def _configure(self, config: ServerConfig) -> None:
        """Puts the settings in force that clients can change. What reads another setting has read it at the start."""
        self.topics.configure(config.topics)
        self._group_settings.configure(config.groups)
        self._verification.enabled = config.transactions.transaction_partition_verification_enable
        for coordinator in self.transactions.shards:
            coordinator.state.config = config.transactions
        self.cleaner.backoff_ms = config.log.log_cleaner_backoff_ms
        for shard in self.shards:
            retention_ms = config.log.log_cleaner_delete_retention_ms
            shard.log.settings = replace(shard.log.settings, delete_retention_ms=retention_ms)
        self._for_clients.limit_connections()

    def _expire_tokens(self) -> None:
        """Removes the tokens that have expired."""
        metadata = self.topics.metadata

        def remove() -> None:
            records = self.delegation_tokens.expired()
            if records:
                metadata.commit(records, lambda _error: None)

        if self.delegation_tokens.expired():
            metadata.in_turn(remove)

    def _settings_changed(self, records: Sequence[Message]) -> None:
        """Settings of groups have changed, here or at another worker: their timers change, too."""
        of_groups = (each for each in records if isinstance(each, ConfigRecord))
        names = dict.fromkeys(
            each.resource_name for each in of_groups if each.resource_type == group_configs.RESOURCE_TYPE
        )
        for name in names:
            self.groups.run_internal(name, partial(_apply_settings, name))

    # --- running ------------------------------------------------------------------------------------------------------

    async def start(self) -> tuple[str, str]:
        """Loads and listens; returns the bootstrap address and the admin URL.

        A worker accepts clients when it knows the others: a client forgets what Metadata does not name.
        """
        coordinators = Coordinators(
            self.groups,
            self.transactions,
            self.share_states,
            self.topics,
            self.markers,
            self._verification,
            self.delivery_events,
        )
        self._logs.check_may_ask(self.authorizer)
        self._logs.load(coordinators)
        self._catalog_keeper.begin()
        if self.brokers is not None:
            self.brokers.begin()
        for listener_config in self.config.listeners:
            await self._for_clients.listen(listener_config)
            self.quota_keeper.apply()
            if self._overlay is not None:
                self._overlay.advertise(self.listeners[0].advertised)
        self._admin = AdminServer(self, self.config.admin, *admin_protection(self.config.admin), self.load_admin)
        try:
            admin_port = await self._admin.start()
        except OSError as error:
            raise CannotStart(f"cannot listen on {self.config.admin.host}:{self.config.admin.port}: {error}") from error
        addresses = [listener.advertised for listener in self.listeners[:: self.config.nodes]]
        admin = self.config.admin
        scheme = "https" if admin.admin_ssl_keystore_location else "http"
        admin_host = addresses[0][0] if admin.host in {"0.0.0.0", "::"} else admin.host  # noqa: S104 - it listens everywhere
        reached = "" if admin.behind else f"{scheme}://{joined(admin_host, admin_port)}"
        await self._logs.join(coordinators, addresses, reached, self._open_listeners)
        bootstrap = ",".join(joined(*listener.advertised) for listener in self.listeners[: self.config.nodes])
        return bootstrap, f"{scheme}://{admin.host}:{admin_port}"

    async def _open_listeners(self) -> None:
        for listener in self.listeners:
            await listener.open()

    def _make_authorizer(self) -> "StandardAuthorizer | None":
        """The authorizer of all listeners, if there is one."""
        if not self.config.access_control.authorizer_class_name:
            return None
        from coordinator.server.access_control import make_authorizer  # noqa: PLC0415 - most servers need none

        return make_authorizer(self.config.access_control, self.topics, self.clock.machine_ms)

    def _make_overlay(self) -> "Overlay | None":
        """This server's part in front of a cluster, if there is one behind."""
        if not self.config.overlay.data_bootstrap_servers:
            return None
        from coordinator.overlay.overlay import CannotStand, Overlay  # noqa: PLC0415 - most servers need none

        codec, learners = self._for_clients.dialect(self.config.listeners[0])
        try:
            overlay = Overlay(
                self.config,
                self,
                self.groups,
                self.markers,
                self.topics,
                self.memory,
                self.cluster,
                self.apis,
                codec,
                learners,
            )
        except CannotStand as error:
            raise CannotStart(str(error)) from error
        self.cluster = overlay.cluster
        self._for_clients.overlay = overlay
        return overlay

    async def follow_cluster(self) -> bool:
        """Follows the cluster behind, if there is one, after `start`; returns when it is known. Raises CannotStart."""
        overlay = self._overlay
        if overlay is None:
            return True
        from coordinator.overlay.overlay import CannotStand  # noqa: PLC0415 - as above

        config = self.config.listeners[0]

        async def listen(port: int, make_dispatcher: Callable[[], Dispatcher]) -> Listener:
            listener = self._for_clients.make(replace(config, port=port, advertised_port=None), make_dispatcher())
            await listener.start(config.host, port)
            if self._interceptor is not None:
                self._interceptor.intercept(listener.dispatcher)
            await listener.open()
            return listener

        try:
            await overlay.start(listen)
        except CannotStand as error:
            raise CannotStart(str(error)) from error
        return True

    def _make_brokers(self) -> "Brokers | None":
        """The brokers that this server is; None: it is one."""
        if self.config.nodes == 1:
            return None
        from coordinator.nodes.brokers import Brokers  # noqa: PLC0415 - most servers are one

        brokers = Brokers(self.config.node_ids, self.config.nodes_racks, self.topics)
        brokers.on_moved = self._leader_moved
        return brokers

    def _leader_moved(self, topic: str, index: int) -> None:
        """The new coordinator of a shard loads its log, as in Kafka; who waits for the old one hears NOT_COORDINATOR."""
        routers: dict[str, Router[Any]] = {
            OFFSETS_TOPIC: self.groups, TRANSACTIONS_TOPIC: self.transactions, SHARE_TOPIC: self.share_states.router
        }  # fmt: skip
        router = routers.get(topic)
        if router is not None and router.shards[index].status not in {Status.FAILED, Status.STOPPED}:
            router.shards[index].fail_over(0)

    async def take_broker_down(self, broker_id: int) -> ErrorCode:
        """Ends a broker as a crash does: its connections close, and others lead what it led. Returns when that is durable."""
        assert self.brokers is not None
        await self._for_clients.stop_broker(broker_id - self.node_id)
        return await self.brokers.take_down(broker_id)

    async def bring_broker_up(self, broker_id: int) -> ErrorCode:
        """Starts a broker again, at its addresses. Returns when its replicas are in sync. Raises OSError."""
        assert self.brokers is not None
        await self._for_clients.start_broker(broker_id - self.node_id)
        self.quota_keeper.apply()
        return await self.brokers.bring_up(broker_id)

    @property
    def has_cluster_behind(self) -> bool:
        """Whether this server stands in front of a cluster."""
        return self._overlay is not None

    @property
    def emulates(self) -> str:
        """The release of Kafka that clients see, at listeners that have none of their own."""
        return self._for_clients.emulates

    def emulate(self, release: str) -> int:
        """As `Listeners.emulate`."""
        return self._for_clients.emulate(release)

    async def stop(self) -> None:
        """Lets responses leave, then closes. What was decided is written and synced."""
        self.stopping = True
        await self._logs.leave()
        drain_ms, overlay = self.config.shutdown_time_ms, self._overlay
        closing = [listener.stop(drain_ms) for listener in self.listeners]
        self._for_clients.release_ports()
        await asyncio.gather(*closing, *([] if overlay is None else [overlay.close_listeners(drain_ms)]))
        if overlay is not None:
            await overlay.stop()
        if self._admin is not None:
            await self._admin.stop()
        self.cleaner.stop()
        for timer in self._repeating.values():
            timer.cancel()
        self.markers.stop()
        self._catalog_keeper.stop()
        self._background.finish()
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
            if PERMITS[shard.status].writes:
                event_log.finish(shard.offset_durable)
        while not self.journal.idle:  # noqa: ASYNC110 - as above
            await asyncio.sleep(WRITES_POLL_S)
        self.journal.stop()
        self._threads.close()
        await asyncio.sleep(0)
        self.closed = True
        for shard in self.shards:
            self._logs.close_log(shard.log)
        for log in self._event_logs:
            self._logs.close_log(log)
        self.topics.close()
        self.journal.settle()
        # An old catalog may still ask for the journal, and the next start would refuse a folder without it.
        self.journal.close(keeps_files=not self._catalog_keeper.write())


def _apply_settings(group_id: str, groups: GroupMachine, now_ms: int) -> Result:
    return settings_changed(groups, group_id, now_ms)
