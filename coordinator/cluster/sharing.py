"""What a server has in addition if it shares its journal with other workers: the engine, its shards there, what all know.

A start opens the engine, joins the other workers (workers/joining.py) and makes a server, which has no shard at first. When it
listens, it takes the shards that it should have (workers/ownership.py). A stop gives them back first, so that others serve them
while the last responses leave.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any

from coordinator.cluster.engine.engine import (
    ADMIN,
    Engine,
    EngineRefused,
    EngineSettings,
    EngineUnavailable,
    OutcomeUnknown,
    Worker,
)
from coordinator.cluster.engine_writer import EngineWriter
from coordinator.cluster.workers.cluster import Workers
from coordinator.cluster.workers.inter_broker import check_may_ask, peer_access
from coordinator.cluster.workers.joining import CannotJoin, InternalTopic, Joined, check_data_plane, join
from coordinator.cluster.workers.lease import Lease, LeasedShard
from coordinator.cluster.workers.metadata_sharing import PIECES_MAX, MetadataSharing
from coordinator.cluster.workers.ownership import Ownership, TakeOver
from coordinator.cluster.workers.peers import Peers
from coordinator.cluster.workers.replay_turns import ReplayTurns
from coordinator.cluster.workers.shared_events import EventRetention, SharedEventLog
from coordinator.cluster.workers.snapshots import Snapshots
from coordinator.cluster.workers.statistics import WorkerStatistics
from coordinator.cluster.workers.take_over import SharedShard
from coordinator.config.inter_broker import inter_broker_listener
from coordinator.config.settings import ServerConfig, joined
from coordinator.config.sharing import SharedConfig
from coordinator.groups.settings import NO_EVENTS
from coordinator.journal.slot import slot_numbers
from coordinator.log.catalog import NO_CATALOG, KnownLog
from coordinator.log.journaled_log import JournaledLog
from coordinator.runtime.event_log import EventLog
from coordinator.runtime.shard import Shard
from coordinator.security.standard_authorizer import StandardAuthorizer
from coordinator.server import CannotStart, EngineAway
from coordinator.server.data_folder import CACHE_FOLDER, new_cluster_id
from coordinator.server.event_logs import make_event_logs
from coordinator.server.internal_logs import Accept, Address, Coordinators, InternalLogs, LogParts
from coordinator.topics import names
from coordinator.topics.topics import METADATA_FOLDER, Topics, new_topic_id
from coordinator.transactions.add_partitions import Addition
from coordinator.world.clock import Clock
from coordinator.world.disk import Disk
from coordinator.world.entropy import Entropy
from coordinator.world.schedule import Schedule
from coordinator.world.threads import RunInThread

_log = logging.getLogger(__name__)

BEATS = 6
"""How often a worker beats in the time after which the engine declares it dead."""
LOCAL = "local"


class Sharing:
    """One worker's part in a cluster. `join` must be called before a server is made with it."""

    metadata_pieces = PIECES_MAX
    """From how many pieces on the metadata log is compacted."""

    def __init__(
        self, config: ServerConfig, engine: Engine, settings: EngineSettings, clock: Clock, entropy: Entropy
    ) -> None:
        self.engine = engine
        self.cluster = Workers()
        self._access = peer_access(config)
        self.peers = Peers(self.cluster, self._access)
        self.has_data = config.shared.data_plane == LOCAL
        self.is_alone = self.has_data
        """Whether there must be no other worker."""
        self._config = config
        self._settings = settings
        self._clock = clock
        self._entropy = entropy
        self._lease = Lease(clock.machine_ms, settings.beat_timeout_ms * (BEATS - 1) // BEATS)
        self.statistics = WorkerStatistics(self.cluster, self._lease)
        self.worker = Worker(entropy.uuid(), config.node_id, *_address(config))
        self._runs: set[asyncio.Task[Any]] = set()
        self.joined: Joined | None = None
        self._journal: EngineWriter | None = None
        self._ownership: Ownership | None = None
        self._metadata: MetadataSharing | None = None
        self._snapshots: Snapshots | None = None
        self._turns = ReplayTurns()
        self.event_logs: dict[int, SharedEventLog] = {}
        """By shard."""
        self._retention: EventRetention | None = None
        self._pruned: dict[JournaledLog, SharedShard] = {}
        """The shards of share partitions, whose logs are not compacted."""

    # --- before the server --------------------------------------------------------------------------------------------

    async def join(self) -> None:
        """Opens the engine and joins. Raises CannotStart; EngineAway if trying again may help."""
        log = self._config.log
        topics = [
            InternalTopic(
                names.CONSUMER_OFFSETS, log.offsets_topic_num_partitions, log.offsets_topic_segment_bytes,
                "offsets.topic.num.partitions",
            ),
            InternalTopic(
                names.TRANSACTION_STATE, log.transaction_state_log_num_partitions,
                log.transaction_state_log_segment_bytes, "transaction.state.log.num.partitions",
            ),
            InternalTopic(
                names.SHARE_GROUP_STATE, log.share_coordinator_state_topic_num_partitions,
                log.share_coordinator_state_topic_segment_bytes, "share.coordinator.state.topic.num.partitions",
                cleanup_policy="delete",
            ),
            InternalTopic(
                names.COORDINATOR_EVENTS, log.offsets_topic_num_partitions, log.coordinator_events_segment_bytes,
                "offsets.topic.num.partitions", cleanup_policy="delete", is_wanted=records_events(self._config),
            ),
        ]  # fmt: skip
        try:
            await self.engine.open()
            self.joined = await join(
                self.engine,
                self.worker,
                topics,
                has_local_data=self.is_alone,
                new_cluster_id=lambda: new_cluster_id(self._entropy),
                new_topic_id=lambda: new_topic_id(self._entropy),
                now_ms=self._clock.wall_ms,
                dead_after_ms=self._settings.beat_timeout_ms,
            )
        except (EngineUnavailable, OutcomeUnknown) as error:
            raise EngineAway(str(error)) from error
        except (EngineRefused, CannotJoin) as error:
            raise CannotStart(str(error)) from error

    def prepare_folder(self, disk: Disk) -> str:
        """Empties the cache in the data folder, and returns it. Raises CannotStart if the folder has another journal."""
        data_folder = self._config.log_dir
        check_not_embedded(disk, data_folder)
        return empty_cache(disk, f"{data_folder}/{CACHE_FOLDER}")

    async def begin(self) -> None:
        """Called before the first shard is taken. Raises EngineUnavailable."""

    def note_logs(self, logs: Iterable[KnownLog]) -> bool:  # noqa: ARG002 - workers of one machine note them
        """Notes what the catalog of the data folder has to say. Returns False if this server keeps the catalog."""
        return False

    # --- parts of the server ------------------------------------------------------------------------------------------

    def open_logs(self, parts: LogParts) -> InternalLogs:
        """The internal logs of the server that is made with this worker's part. Raises CannotStart."""
        return EngineLogs(parts, self)

    def make_journal(
        self,
        soon: Callable[[Callable[[], None]], object],
        schedule: Schedule,
        observe: Callable[[str, bytes], None] | None,
    ) -> EngineWriter:
        self._journal = EngineWriter(
            self.engine,
            run=self._run,
            soon=soon,
            schedule=schedule,
            now_ms=self._clock.machine_ms,
            observe=observe,
            observe_append=self.statistics.appended,
        )
        self.statistics.writer = self._journal
        return self._journal

    def _run(self, coroutine: Coroutine[Any, Any, Any], done: Callable[[Any], None]) -> None:
        async def run() -> None:
            try:
                outcome = await coroutine
            except Exception as error:  # noqa: BLE001 - passed on
                outcome = error
            done(outcome)

        task = asyncio.get_running_loop().create_task(run())
        self._runs.add(task)
        task.add_done_callback(self._runs.discard)

    # --- the life of the server ---------------------------------------------------------------------------------------

    def check_may_ask(self, authorizer: StandardAuthorizer | None) -> None:
        """Raises CannotStart unless other workers will answer this one."""
        if not self.is_alone:
            check_may_ask(self._config, self._access, authorizer)

    async def start(
        self,
        coordinators: Coordinators,
        event_logs: Sequence[JournaledLog],
        addresses: Sequence[Address],
        admin: str,
        accept: Accept,
        run_in_thread: RunInThread,
    ) -> None:
        """Follows the metadata, lets the listeners `accept` clients, and takes the shards that this worker should have.

        `event_logs`: those of all shards.

        Raises CannotStart.
        """
        assert self._journal is not None
        assert self.joined is not None
        self.worker = self._located(addresses, admin)
        journal, worker, topics = self._journal, self.worker, coordinators.topics
        transactions = coordinators.transactions
        self._metadata = MetadataSharing(
            self.engine, worker, self.cluster, journal, topics, self.joined.next_sequence,
            pieces_max=self.metadata_pieces,
        )  # fmt: skip
        self._metadata.start()
        self._share_events(coordinators.groups.shards, event_logs, topics, run_in_thread)
        shards = {
            names.CONSUMER_OFFSETS: self._shared(names.CONSUMER_OFFSETS, coordinators.groups.shards),
            names.TRANSACTION_STATE: self._shared(names.TRANSACTION_STATE, transactions.shards),
        }
        compacted = [each for topic in shards.values() for each in topic]
        pruned = self._shared(names.SHARE_GROUP_STATE, coordinators.share_states.router.shards)
        shards[names.SHARE_GROUP_STATE] = pruned
        self._pruned = {shard.log: shard for shard in pruned}

        def on_taken(taken: TakeOver) -> None:
            self.statistics.taken(taken)
            ids = [shard.state.producer_ids_from for shard in transactions.here]
            topics.producer_ids.minimum = max([topics.producer_ids.minimum, *ids])
            write_markers(taken.log)

        def write_markers(log: str) -> None:
            topic, _, index = log.rpartition("-")
            if topic == names.CONSUMER_OFFSETS:
                coordinators.markers.on_moved(topic, int(index))

        self.cluster.on_claimed = write_markers

        self._ownership = Ownership(
            self.engine,
            worker,
            shards,
            self.cluster,
            self._lease,
            self._turns,
            beat_ms=self._settings.beat_timeout_ms // BEATS,
            dead_after_ms=self._settings.beat_timeout_ms,
            now_ms=self._clock.machine_ms,
            on_taken=on_taken,
        )
        try:
            await self.begin()
            await self._ownership.enter()
            await accept()
            await self._ownership.start()
            await check_data_plane(self.engine, worker, has_local_data=self.is_alone)
        except (EngineUnavailable, CannotJoin) as error:
            raise CannotStart(str(error)) from error
        snapshot_bytes, now_ms = self._config.shared.journal_snapshot_bytes, self._clock.wall_ms
        self._snapshots = Snapshots(self.engine, journal, compacted, self._turns, run_in_thread, now_ms, snapshot_bytes)
        self._snapshots.start()

    def _share_events(
        self, shards: Sequence[Shard[Any]], logs: Sequence[JournaledLog], topics: Topics, run_in_thread: RunInThread
    ) -> None:
        assert self._journal is not None
        for index, log in enumerate(logs):
            events = shards[index].events
            if events is None:
                self._journal.writer(log, lambda _end_offset: None, lambda _error: None)
            self.event_logs[index] = SharedEventLog(
                f"{names.COORDINATOR_EVENTS}-{index}", log, events, self._journal, run_in_thread, self._turns,
                lambda: names.COORDINATOR_EVENTS in topics.registry.topics,
            )  # fmt: skip
        self._retention = EventRetention(self.engine, [*self.event_logs.values()])

    def _shared(self, topic: str, shards: Sequence[Shard[Any]]) -> list[SharedShard]:
        assert self._journal is not None
        for shard in shards:
            assert isinstance(shard, LeasedShard)
            shard.lease = self._lease
        event_logs = self.event_logs if topic == names.CONSUMER_OFFSETS else {}
        return [
            SharedShard(f"{topic}-{shard.index}", shard, self._journal, event_logs.get(shard.index)) for shard in shards
        ]

    def retain_events(self, now_ms: int) -> None:
        """Deletes the oldest events that exceed the retention time or size, here and in the engine."""
        if self._retention is not None:
            self._retention.begin(now_ms)

    def prune(self, log: JournaledLog, offset: int) -> None:
        """Deletes the records of a log of share states before an offset, here and in the engine."""

        def done(outcome: Any) -> None:
            if isinstance(outcome, Exception):
                _log.warning("event=log_not_pruned log=%s reason=%s", log.folder, outcome)

        self._run(self._pruned[log].prune(self.engine, offset, self._config.shared.journal_snapshot_bytes), done)

    def _located(self, addresses: Sequence[Address], admin: str) -> Worker:
        """This worker with the addresses of its listeners and of its admin HTTP, whose ports are known now."""
        found = {listener.name: at for listener, at in zip(self._config.listeners, addresses, strict=True)}
        host, port = found[inter_broker_listener(self._config).name]
        entries = [f"{name}://{joined(*at)}" for name, at in found.items()] + [f"{ADMIN}{admin}"] * bool(admin)
        return self.worker._replace(host=host, port=port, listeners=",".join(entries))

    def epoch_of(self, log: str) -> int:
        """The epoch of this worker's claim of a log; 0 without one."""
        return 0 if self._journal is None else self._journal.epoch_of(log)

    def ask_about_transaction(self, shard: int, addition: Addition, adds: bool, done: Callable[[Any], None]) -> None:
        """Asks the worker that has a shard of transactional ids (`Peers.add_partitions`)."""
        self.peers.add_partitions(f"{names.TRANSACTION_STATE}-{shard}", addition, adds, done)

    async def take_snapshot(self, log: str) -> None:
        """Takes a snapshot of a log that this worker has. Raises as `Snapshots.take`."""
        assert self._snapshots is not None
        await self._snapshots.take(log)

    async def mark_worker(self, *, is_leaving: bool | None = None, wants: str = "") -> None:
        """As `Ownership.mark`, which raises nothing here."""
        assert self._ownership is not None
        with suppress(EngineUnavailable):
            await self._ownership.mark(is_leaving=is_leaving, wants=wants)

    async def give_back(self) -> None:
        """Gives every shard to the other workers, when what was decided is durable."""
        if self._snapshots is not None:
            await self._snapshots.stop()
        if self._ownership is not None:
            await self._ownership.stop()
        if self._retention is not None:
            await self._retention.stop()
        if self._metadata is not None:
            await self._metadata.stop()

    async def close(self) -> None:
        """Closes the connections to the other workers and to the engine."""
        await self.peers.stop()
        await self.engine.close()


class EngineLogs(InternalLogs):
    """A worker begins with what the engine has of the metadata, and with no shard."""

    shard_class = LeasedShard
    shares_metadata = True
    is_cache = True

    def __init__(self, parts: LogParts, sharing: Sharing) -> None:
        """Empties the copies of an earlier run. Raises CannotStart if the data folder has an embedded journal."""
        joined = sharing.joined
        assert joined is not None
        super().__init__(
            parts,
            folder=sharing.prepare_folder(parts.disk),
            cluster_id=joined.cluster_id,
            cluster=sharing.cluster,
            journal=sharing.make_journal(parts.soon, parts.schedule, parts.observe),
            journaled={METADATA_FOLDER: joined.metadata},
            catalog=NO_CATALOG,
        )
        self.has_data = sharing.has_data
        self.cluster_statistics = sharing.statistics
        self._sharing = sharing
        self._run_in_thread = parts.run_in_thread
        self._event_logs: list[JournaledLog] = []
        self.writes_events = records_events(parts.config)

    def open_event_logs(self, topics: Topics) -> list[JournaledLog]:  # noqa: ARG002 - another worker may make the topic later
        """They begin when their shards are taken."""
        self._event_logs = make_event_logs(self._disk, self._config, self.folder)
        for log in self._event_logs:
            log.load()
        return self._event_logs

    def has_events(self, index: int) -> bool:
        log = self._sharing.event_logs.get(index)
        return log is not None and log.is_shown

    def retain_events(self, logs: Iterable[EventLog], now_ms: int) -> None:  # noqa: ARG002 - the engine has them, too
        self._sharing.retain_events(now_ms)

    def check_may_ask(self, authorizer: StandardAuthorizer | None) -> None:
        self._sharing.check_may_ask(authorizer)

    def load(self, coordinators: Coordinators) -> None:
        for shard in coordinators.shards:
            shard.give_up("the server starts")
        self.journal.begin()
        self.journaled = {}  # the log of the metadata has it now

    async def join(self, coordinators: Coordinators, addresses: Sequence[Address], admin: str, accept: Accept) -> None:
        """Accepts clients, and takes the shards that this worker should have. Raises CannotStart."""
        coordinators.markers.elsewhere = self._sharing.peers.write_marker
        coordinators.markers.is_data_elsewhere = self._sharing.cluster.data_node is not None
        coordinators.verification.elsewhere = self._sharing.ask_about_transaction
        coordinators.share_states.elsewhere = self._sharing.peers.ask_share_coordinator
        coordinators.share_states.end_offsets_elsewhere = self._sharing.peers.end_offsets
        coordinators.delivery_events.elsewhere = self._sharing.peers.append_events
        await self._sharing.start(coordinators, self._event_logs, addresses, admin, accept, self._run_in_thread)
        topics = coordinators.topics
        for topic in self._config.declared_topics:
            if topic.name not in topics.registry.topics:
                topics.declare_in_turn(topic.name, topic.partitions, topic.configs)

    async def mark_worker(self, *, is_leaving: bool | None = None, wants: str = "") -> None:
        await self._sharing.mark_worker(is_leaving=is_leaving, wants=wants)

    async def leave(self) -> None:
        """Gives the shards to the other workers."""
        await self._sharing.give_back()

    def prune(self, log: JournaledLog, offset: int) -> None:
        self._sharing.prune(log, offset)

    def close_log(self, log: JournaledLog) -> None:
        """Nobody reads the copy again."""
        log.close_files()

    def note_logs(self, logs: Iterable[KnownLog]) -> bool:
        return self._sharing.note_logs(logs)

    def coordinator_epoch(self, log: str) -> int:
        """The epoch of the claim, so that the markers of an earlier coordinator are refused."""
        return self._sharing.epoch_of(log)


def records_events(config: ServerConfig) -> bool:
    """Whether a worker with these settings records the decisions of its groups."""
    return config.groups.coordinator_events != NO_EVENTS


def empty_cache(disk: Disk, folder: str) -> str:
    """Makes a folder for copies of logs, without those of an earlier run. Raises OSError."""
    for name in disk.list(folder) if disk.exists(folder) else ():
        for file in disk.list(f"{folder}/{name}"):
            disk.remove(f"{folder}/{name}/{file}")
        disk.remove_folder(f"{folder}/{name}")
    disk.make_folder(folder)
    return folder


def check_not_embedded(disk: Disk, data_folder: str) -> None:
    """Raises CannotStart if the data folder has groups or topics of a server with an embedded journal."""
    logs = (f"{names.CONSUMER_OFFSETS}-0", METADATA_FOLDER)
    if any(disk.exists(f"{data_folder}/{name}") for name in logs) or slot_numbers(disk, data_folder):
        raise CannotStart(
            f"{data_folder} has the groups and topics of a server with an embedded journal: with coordinator.journal choose"
            " another folder"
        )


def engine_settings(config: SharedConfig) -> EngineSettings:
    """How this worker uses its engine."""
    return EngineSettings(
        cluster=config.journal_cluster,
        replication=config.journal_replication,
        append_timeout_ms=config.journal_append_timeout_ms,
        beat_timeout_ms=config.journal_beat_timeout_ms,
    )


def _address(config: ServerConfig) -> tuple[str, int]:
    listener = inter_broker_listener(config)
    return listener.advertised_host or listener.host, listener.advertised_port or listener.port
