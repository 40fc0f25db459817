"""What a server has in addition if it shares its journal with other workers: the engine, its shards there, what all know.

A start opens the engine, joins the other workers (workers/joining.py) and makes a server, which has no shard at first. When it
listens, it takes the shards that it should have (workers/ownership.py). A stop gives them back first, so that others serve them
while the last responses leave.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from coordinator.config.settings import ServerConfig
from coordinator.config.sharing import SharedConfig
from coordinator.engine.engine import Engine, EngineRefused, EngineSettings, EngineUnavailable, OutcomeUnknown, Worker
from coordinator.journal.shared_journal import SharedJournal
from coordinator.journal.slot import slot_numbers
from coordinator.runtime.router import Router
from coordinator.runtime.shard import Shard
from coordinator.server import CannotStart
from coordinator.server.data_folder import CACHE_FOLDER, new_cluster_id
from coordinator.topics import names
from coordinator.topics.engine import METADATA_FOLDER, Topics, new_topic_id
from coordinator.transactions.add_partitions import Addition
from coordinator.transactions.machine import TransactionMachine
from coordinator.workers.cluster import Workers
from coordinator.workers.joining import CannotJoin, InternalTopic, Joined, check_data_plane, join
from coordinator.workers.lease import Lease, LeasedShard
from coordinator.workers.metadata_sharing import MetadataSharing
from coordinator.workers.ownership import Ownership, TakeOver
from coordinator.workers.peers import Peers
from coordinator.workers.snapshots import Snapshots
from coordinator.workers.statistics import WorkerStatistics
from coordinator.workers.take_over import SharedShard
from coordinator.world.clock import Clock
from coordinator.world.disk import Disk
from coordinator.world.entropy import Entropy
from coordinator.world.schedule import Schedule
from coordinator.world.worker import RunInWorker

BEATS = 6
"""How often a worker beats in the time after which the engine declares it dead."""
LOCAL = "local"


class Sharing:
    """One worker's part in a shared journal. `join` must be called before a server is made with it."""

    def __init__(
        self, config: ServerConfig, engine: Engine, settings: EngineSettings, clock: Clock, entropy: Entropy
    ) -> None:
        self.engine = engine
        self.cluster = Workers()
        self.peers = Peers(self.cluster)
        self.has_data = config.shared.data_plane == LOCAL
        self._config = config
        self._settings = settings
        self._clock = clock
        self._entropy = entropy
        self._lease = Lease(clock.machine_ms, settings.beat_timeout_ms * (BEATS - 1) // BEATS)
        self.statistics = WorkerStatistics(self.cluster, self._lease)
        self._worker = self._as_worker(*_address(config))
        self._runs: set[asyncio.Task[Any]] = set()
        self.joined: Joined | None = None
        self._journal: SharedJournal | None = None
        self._ownership: Ownership | None = None
        self._metadata: MetadataSharing | None = None
        self._snapshots: Snapshots | None = None

    def _as_worker(self, host: str, port: int) -> Worker:
        return Worker(self._entropy.uuid(), self._config.node_id, host, port)

    # --- before the server --------------------------------------------------------------------------------------------

    async def join(self) -> None:
        """Opens the engine and joins. Raises CannotStart."""
        if not self.has_data and len(self._config.listeners) > 1:
            raise CannotStart("data.plane=none: workers know one address of each other, so there must be one listener")
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
        ]  # fmt: skip
        try:
            await self.engine.open()
            self.joined = await join(
                self.engine,
                self._worker,
                topics,
                has_local_data=self.has_data,
                new_cluster_id=lambda: new_cluster_id(self._entropy),
                new_topic_id=lambda: new_topic_id(self._entropy),
                now_ms=self._clock.wall_ms,
                dead_after_ms=self._settings.beat_timeout_ms,
            )
        except (EngineRefused, EngineUnavailable, OutcomeUnknown, CannotJoin) as error:
            raise CannotStart(str(error)) from error

    def prepare_folder(self, disk: Disk) -> str:
        """Empties the cache in the data folder, and returns it. Raises CannotStart if the folder has another journal."""
        data_folder = self._config.log_dir
        check_not_embedded(disk, data_folder)
        folder = f"{data_folder}/{CACHE_FOLDER}"
        for name in disk.list(folder) if disk.exists(folder) else ():
            for file in disk.list(f"{folder}/{name}"):
                disk.remove(f"{folder}/{name}/{file}")
            disk.remove_folder(f"{folder}/{name}")
        disk.make_folder(folder)
        return folder

    # --- parts of the server ------------------------------------------------------------------------------------------

    shard_class = LeasedShard

    @property
    def cluster_id(self) -> str:
        assert self.joined is not None
        return self.joined.cluster_id

    @property
    def metadata(self) -> dict[str, list[bytes]]:
        """What the engine has of the metadata log, as a journal has it."""
        assert self.joined is not None
        return {METADATA_FOLDER: list(self.joined.metadata)}

    def make_journal(
        self,
        soon: Callable[[Callable[[], None]], object],
        schedule: Schedule,
        observe: Callable[[str, bytes], None] | None,
    ) -> SharedJournal:
        self._journal = SharedJournal(
            self.engine,
            run=self._run,
            soon=soon,
            schedule=schedule,
            now_ms=self._clock.machine_ms,
            observe=observe,
            observe_append=self.statistics.appended,
        )
        self.statistics.journal = self._journal
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

    async def start(
        self,
        groups: Router[Any],
        transactions: Router[TransactionMachine],
        topics: Topics,
        address: tuple[str, int],
        run_in_worker: RunInWorker,
    ) -> None:
        """Follows the metadata, and takes the shards that this worker should have. Raises CannotStart."""
        assert self._journal is not None
        assert self.joined is not None
        self._worker = self._worker._replace(host=address[0], port=address[1])
        journal, worker = self._journal, self._worker
        self._metadata = MetadataSharing(self.engine, worker, journal, topics, self.joined.next_sequence)
        self._metadata.start()
        shards = {
            names.CONSUMER_OFFSETS: self._shared(names.CONSUMER_OFFSETS, groups.shards),
            names.TRANSACTION_STATE: self._shared(names.TRANSACTION_STATE, transactions.shards),
        }

        def on_taken(taken: TakeOver) -> None:
            self.statistics.taken(taken)
            ids = [shard.state.producer_ids_from for shard in transactions.here]
            topics.producer_ids.minimum = max([topics.producer_ids.minimum, *ids])

        self._ownership = Ownership(
            self.engine,
            worker,
            shards,
            self.cluster,
            self._lease,
            beat_ms=self._settings.beat_timeout_ms // BEATS,
            dead_after_ms=self._settings.beat_timeout_ms,
            now_ms=self._clock.machine_ms,
            on_taken=on_taken,
        )
        try:
            await self._ownership.start()
            await check_data_plane(self.engine, worker, has_local_data=self.has_data)
        except (EngineUnavailable, CannotJoin) as error:
            raise CannotStart(str(error)) from error
        self._snapshots = Snapshots(
            self.engine,
            journal,
            [each for topic in shards.values() for each in topic],
            run_in_worker,
            self._clock.wall_ms,
        )
        self._snapshots.start()

    def _shared(self, topic: str, shards: Sequence[Shard[Any]]) -> list[SharedShard]:
        assert self._journal is not None
        for shard in shards:
            assert isinstance(shard, LeasedShard)
            shard.lease = self._lease
        return [SharedShard(f"{topic}-{shard.index}", shard, self._journal) for shard in shards]

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

    async def give_back(self) -> None:
        """Gives every shard to the other workers, when what was decided is durable."""
        if self._snapshots is not None:
            await self._snapshots.stop()
        if self._ownership is not None:
            await self._ownership.stop()
        if self._metadata is not None:
            await self._metadata.stop()

    async def close(self) -> None:
        """Closes the connections to the other workers and to the engine."""
        await self.peers.stop()
        await self.engine.close()


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
    first = config.listeners[0]
    return first.advertised_host or first.host, first.advertised_port or first.port
