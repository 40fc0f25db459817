"""The data plane as one object: the topics, their partitions, and the changes of both.

The operations on it are modules of their own (`create`, `delete`, `produce`, `fetch`, `list_offsets` ...); this one has
their common parts. Everything is synchronous and runs on the loop; disk, clock, random source and timers are passed in.

A change of the registry is a `commit` to its log (metadata_log.py) and becomes visible when it is durable. Until then the
name is *claimed*, so that a second creation is refused although nobody can see the first one yet. The name of a deleted topic
stays claimed until its folders are gone, so that a topic of the same name never finds old records.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial

from coordinator.log.batch import split
from coordinator.log.catalog import NO_CATALOG, Catalog, KnownLog
from coordinator.log.journaled_log import JournaledLog
from coordinator.log.log import DamagedLog, Log
from coordinator.log.writer import MakeWriter, Writer
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ConfigRecord, Message, PartitionRecord, RemoveTopicRecord
from coordinator.runtime.result import Fact, Marker
from coordinator.topics import metadata_records, names, topic_settings
from coordinator.topics.config import TopicsConfig
from coordinator.topics.fetch_sessions import FetchSessions
from coordinator.topics.internal_partition import InternalPartition
from coordinator.topics.metadata_log import MetadataLog, messages_in
from coordinator.topics.metadata_records import TOPIC_RESOURCE
from coordinator.topics.partition import Done, Partition, State, nobody_waits
from coordinator.topics.partition_folders import PartitionFolders
from coordinator.topics.placements import NO_LEADER, NOWHERE, REPLICAS_DEFAULT, Place, Placements, on_one
from coordinator.topics.producer_id_blocks import ProducerIdBlocks
from coordinator.topics.record_walks import RecordWalks
from coordinator.topics.registry import NO_ID, Registry, Topic, creation, growth, internal_topic
from coordinator.world.clock import Clock
from coordinator.world.disk import Disk, Space
from coordinator.world.entropy import Entropy
from coordinator.world.schedule import Handle, Schedule
from coordinator.world.threads import RunInThread

__all__ = ["NO_LEADER", "InternalPartition", "Topics"]

METADATA_FOLDER = f"{names.CLUSTER_METADATA}-0"
_DASH = 62
"""The six bits that are '-' in url-safe base64."""


def new_topic_id(entropy: Entropy) -> bytes:
    """A random UUID. As in Kafka its text never begins with '-', which command lines would take for an option."""
    while True:
        topic_id = bytes.fromhex(entropy.uuid().replace("-", ""))
        if topic_id != NO_ID and topic_id[0] >> 2 != _DASH:
            return topic_id


CountMutation = Callable[[int], None]
"""`count_mutation(partitions)` counts partitions to create or delete. It may raise THROTTLING_QUOTA_EXCEEDED."""


def nobody_counts(_partitions: int) -> None:
    """For changes that nobody asked for."""


def at_once(pieces: Iterator[None]) -> None:
    """Does all of the work now."""
    for _ in pieces:
        pass


NO_REPLICA = -1
DECLARE_AGAIN_MS = 1_000
"""How long after a failure a topic of the configuration is declared again, when servers share the metadata."""
_DELETIONS_KEPT = 1_000
_PIECE_PARTITIONS = 200
"""Partitions without a folder that are deleted in about a millisecond."""


AppendInternal = Callable[[str, int, bytes | None], ErrorCode]


class Topics:
    """The topics of this server. `attach_internal` and `declare` must be called before the first request."""

    def __init__(
        self,
        disk: Disk,
        data_folder: str,
        config: TopicsConfig,
        *,
        node_id: int,
        durability: str,
        clock: Clock,
        entropy: Entropy,
        run_in_thread: RunInThread,
        schedule: Schedule,
        protocol_schedule: Schedule,
        on_fact: Callable[[Fact], None],
        make_metadata_writer: MakeWriter,
        catalog: Catalog = NO_CATALOG,
        metadata_journaled: Sequence[bytes] = (),
        internal_folder: str | None = None,
        shares_metadata: bool = False,
        has_data: bool = True,
        nodes: Sequence[int] = (),
    ) -> None:
        """Reads the registry and opens the partitions that have been written to. `catalog`: the logs that should be there.

        `metadata_journaled`: what the journal has of the metadata log. `schedule` goes by the machine's clock,
        `protocol_schedule`, for retention, by that of the protocol. `internal_folder`: where the metadata log is, if it is not
        the data folder. `shares_metadata`: other servers write it too. `has_data`: False if no server has any records.
        `nodes`: the ids of the brokers that this server is, if it is several.

        Raises OSError, and DamagedLog or DecodeError for the metadata log. The damaged log of a user topic fails only its
        partition.
        """
        self.config = config
        self.node_id = node_id
        self.clock = clock
        self.schedule = schedule
        self._protocol_schedule = protocol_schedule
        self.registry = Registry(Placements(nodes) if nodes else None)
        self.nodes = nodes or (node_id,)
        """The ids of the brokers that this server is."""
        self.up: Container[int] = self.nodes if self.registry.placements is None else self.registry.placements.up
        """Those that are up."""
        self.may_move = bool(nodes)
        """Whether partitions change their leaders."""
        self.claimed: set[str] = set()
        """Collision keys of the names that are being created or deleted."""
        self.deletions: dict[str, tuple[int, str]] = {}
        """Topic -> when a client of this server deleted it (wall clock, ms), and who; of the last ones."""
        self.offline: dict[str, frozenset[int]] = {}
        """Topic -> partitions whose log was damaged at the start."""
        self.on_topics_deleted: Callable[[list[tuple[str, bytes]]], None] = lambda _topics: None
        """Called with the names and ids of topics after their deletion: their committed offsets are deleted too."""
        self.in_background: Callable[[Iterator[None]], None] = at_once
        """Does work that may be much, in pieces."""
        self.metadata_observers: list[Callable[[Sequence[Message]], None]] = []
        """Called with the records of each change of the registry, once they are in it."""
        self.has_room: Callable[[], bool] = lambda: True
        """Whether there is memory for more records. If there is none, a Fetch returns no records."""
        self.fetch_sessions = FetchSessions(config.max_incremental_fetch_session_cache_slots, entropy.bytes)
        self.has_data = has_data
        self._shares_metadata = shares_metadata
        self._data_folder = data_folder
        self._disk = disk
        self._entropy = entropy
        self._make_writer: MakeWriter = lambda log, durable, failed: Writer(
            log, durability, run_in_thread, durable, failed
        )
        self._run_in_thread = run_in_thread
        self.record_walks = RecordWalks(run_in_thread)
        self._on_fact = on_fact
        self._catalog = catalog
        self._listed: tuple[int, Sequence[str]] = (-1, ())
        """The names that are listed, and the state of the registry that has them: many patterns may wait with them."""
        self._partitions: dict[str, list[Partition]] = {}
        self._stopping: dict[str, list[Partition]] = {}
        """The partitions of topics that another server has removed, until their folders are deleted."""
        self._internal: dict[str, list[InternalPartition]] = {}
        self._is_here: dict[str, Callable[[int], bool]] = {}
        self.append_internal: AppendInternal = lambda _name, _index, _records: ErrorCode.INVALID_TOPIC_EXCEPTION
        """What becomes of a batch that is produced to a partition of an internal topic."""
        folder = f"{internal_folder or data_folder}/{METADATA_FOLDER}"
        self.metadata = self._open_metadata(folder, make_metadata_writer, metadata_journaled)
        self.producer_ids = ProducerIdBlocks(
            self.metadata, self.registry, node_id=node_id, block_size=config.producer_id_block_size
        )
        self._folders = PartitionFolders(disk, data_folder, on_fact)
        self._open_partitions()
        if not shares_metadata:
            self.metadata.compact(node_id)
        self._retention: Handle = protocol_schedule(config.log_retention_check_interval_ms, self._retain)

    # --- start and stop -----------------------------------------------------------------------------------------------

    def _open_metadata(self, folder: str, make_writer: MakeWriter, journaled: Sequence[bytes]) -> MetadataLog:
        return MetadataLog(
            self._disk,
            folder,
            self.registry,
            make_writer,
            self.clock,
            None if self._shares_metadata else self._catalog.known(METADATA_FOLDER),
            journaled,
            on_replayed=self._replayed,
            on_fact=self._on_fact,
            delay=self._after_visibility_delay
            if self.config.topic_visibility_delay_ms and not self._shares_metadata
            else None,
            is_shared=self._shares_metadata,
        )

    def _open_partitions(self) -> None:
        """Makes the partitions of the registry's topics, and opens the logs of those that have one."""
        for topic in self.registry.topics.values():
            self._make_partitions(topic)
        if self.has_data:
            self._folders.open_all(self.registry, self._catalog, self.user_partition)
        for name, partitions in self._partitions.items():
            offline = frozenset(partition.index for partition in partitions if partition.is_offline)
            if offline:
                self.offline[name] = offline

    def attach_internal(
        self,
        name: str,
        logs: Sequence[JournaledLog],
        *,
        cleanup_policy: str = "compact",
        is_here: Callable[[int], bool] = lambda _index: True,
        makes_topic: bool = True,
    ) -> None:
        """Serves the logs of shards as a topic, which is added to the registry the first time.

        Clients see the settings in the registry; the logs have their own. `is_here`: whether this server has the log of a
        shard. With `makes_topic` False the topic is in the registry already, or others add it later.
        """
        if makes_topic or name in self.registry.topics:
            segment_bytes = logs[0].settings.segment_bytes if logs else None
            records = internal_topic(
                self.registry, name, len(logs), segment_bytes, cleanup_policy, self.new_topic_id, self.spread(name)
            )
            if records:
                self.metadata.commit_now(records)
        self._partitions.pop(name, None)
        self.offline.pop(name, None)
        self._internal[name] = [InternalPartition(index, log, self._run_in_thread) for index, log in enumerate(logs)]
        self._is_here[name] = is_here

    def declare(self, name: str, partitions: int, overrides: Mapping[str, str]) -> bool:
        """Creates a topic at the start unless it exists; returns whether it was created.

        Raises INVALID_TOPIC_EXCEPTION, INVALID_CONFIG, or OSError.
        """
        if name in self.registry.topics:
            return False
        topic = self._declared(name, partitions, overrides)
        self.metadata.commit_now(list(creation(topic, self.spread(topic.name))))
        self._make_partitions(topic)
        return True

    def declare_in_turn(self, name: str, partitions: int, overrides: Mapping[str, str]) -> None:
        """As `declare`, if other servers share the metadata: the topic is created soon, unless another one creates it."""
        topic = self._declared(name, partitions, overrides)

        def create() -> None:
            key = names.collision_key(name)
            if key not in self.claimed and key not in self.registry.collisions:
                self.create(topic, created)

        def created(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                self.schedule(DECLARE_AGAIN_MS, lambda: self.metadata.when_leading(create))

        self.metadata.when_leading(create)

    def _declared(self, name: str, partitions: int, overrides: Mapping[str, str]) -> Topic:
        reason = names.why_invalid(name)
        if reason is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")
        return Topic(name, self.new_topic_id(), partitions, topic_settings.check(overrides.items()))

    def close(self) -> None:
        """Makes everything durable and closes all files. No request may be in progress."""
        self._retention.cancel()
        opened = [p for partitions in self._partitions.values() for p in partitions if p.log is not None]
        closing = [(partition.folder, partition.close) for partition in opened]
        for folder, close in [*closing, (self.metadata.folder, self.metadata.close)]:
            try:
                close()
            except OSError as error:
                self._on_fact(Fact("topic_log_close_failed", {"folder": folder, "error": str(error)}))

    @property
    def idle(self) -> bool:
        """Whether all writes are finished, and everything that may lead to one."""
        partitions = (partition for topic in self._partitions.values() for partition in topic)
        return self.metadata.idle and self.record_walks.idle and all(partition.idle for partition in partitions)

    # --- queries ------------------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """A number that changes with the topics."""
        return self.registry.changes

    def topic_names(self) -> Sequence[str]:
        """The names that lists and patterns show."""
        changes, listed = self._listed
        if changes != self.registry.changes:
            listed = tuple(name for name in self.registry.topics if name not in names.UNLISTED)
            self._listed = self.registry.changes, listed
        return listed

    def topic_id(self, name: str) -> bytes | None:
        topic = self.registry.topics.get(name)
        return topic.topic_id if topic is not None else None

    def topic_name(self, topic_id: bytes) -> str | None:
        topic = self.registry.by_id.get(topic_id)
        return topic.name if topic is not None else None

    def partition_count(self, name: str) -> int | None:
        topic = self.registry.topics.get(name)
        return topic.partitions if topic is not None else None

    def partition(self, name: str, index: int) -> Partition | InternalPartition | None:
        """A partition for reading."""
        if name in self._is_here and not self._is_here[name](index):
            return None
        partitions: Sequence[Partition | InternalPartition] = self._internal.get(name, self._partitions.get(name, ()))
        return partitions[index] if 0 <= index < len(partitions) else None

    def replica(self, name: str, index: int) -> Partition | InternalPartition | None:
        """As `partition`, also where a follower may answer."""
        return self.partition(name, index)

    def preferred_replica(self, name: str, index: int, rack: str) -> int:  # noqa: ARG002 - of several brokers
        """The follower that a consumer in this rack should read from (KIP-392); NO_REPLICA: this broker."""
        return NO_REPLICA

    def why_absent(self, name: str, index: int) -> ErrorCode:
        """The error for a partition that is not here: NOT_LEADER_OR_FOLLOWER if it exists, else UNKNOWN_TOPIC_OR_PARTITION."""
        topic = self.registry.topics.get(name)
        exists = topic is not None and 0 <= index < topic.partitions
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def user_partition(self, name: str, index: int) -> Partition | None:
        """A partition for writing."""
        partitions = self._partitions.get(name, ())
        return partitions[index] if 0 <= index < len(partitions) else None

    def load_producers(self, wanted: Iterable[tuple[str, int]], then: Callable[[], None]) -> None:
        """Calls `then` when the producers of all these partitions are loaded, or cannot be.

        Usually before this returns; after a crash there may be part of a log to read first.
        """
        partitions = [self.partition(name, index) for name, index in wanted]
        not_loaded = [partition for partition in partitions if partition is not None and not partition.producers_loaded]
        left, now_ms = len(not_loaded) + 1, self.clock.wall_ms()

        def on_loaded() -> None:
            nonlocal left
            left -= 1
            if not left:
                then()

        for partition in not_loaded:
            partition.load_producers(now_ms, on_loaded)
        on_loaded()

    def write_marker(self, name: str, index: int, marker: Marker, done: Done) -> None:
        """Ends a producer's transaction in a user partition (the part of Kafka's WriteTxnMarkers that appends).

        Calls `done`, possibly before this returns, with NONE when the marker is durable, or with:

            UNKNOWN_TOPIC_OR_PARTITION
            KAFKA_STORAGE_ERROR
            INVALID_PRODUCER_EPOCH            the partition has seen a later epoch of the producer
            TRANSACTION_COORDINATOR_FENCED    the partition has seen a later epoch of the coordinator

        Repeating a marker does no harm.
        """
        partition = self.user_partition(name, index)
        if partition is None:
            done(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return

        def write() -> None:
            if partition.state is not State.ACTIVE:
                is_removed = partition.state is State.REMOVED
                done(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_removed else ErrorCode.KAFKA_STORAGE_ERROR)
                return
            try:
                partition.end_transaction(marker, self.clock.wall_ms(), done)
            except KafkaError as error:
                done(error.code)

        partition.load_producers(self.clock.wall_ms(), write)

    def sizes_bytes(self) -> Iterator[tuple[str, int, int]]:
        """Topic, partition and bytes on disk of every partition."""
        for name, topic in self.registry.topics.items():
            for index in range(topic.partitions):
                partition = self.partition(name, index)
                if partition is not None and not partition.is_offline:
                    yield name, index, partition.log.size_bytes if partition.log is not None else 0

    def known_logs(self) -> Iterator[KnownLog]:
        """What the catalog has to say about the logs. Of an offline partition it says what it said. Raises OSError."""
        metadata = None if self._shares_metadata else self.metadata.known()
        if metadata is not None:
            yield metadata
        for name, partitions in self._partitions.items():
            topic_id = self.registry.topics[name].topic_id.hex()
            for partition in partitions:
                known = self._catalog.known(partition.name, topic_id) if partition.is_offline else None
                if partition.log is not None:
                    known = partition.log.known(topic_id)
                if known is not None:
                    yield known

    def compacted_logs(self) -> list[Log]:
        """The logs of compacted user topics, without those whose producers are not loaded.

        Compaction must keep the last batch of each producer, so it has to know them.
        """
        now_ms = self.clock.wall_ms()
        logs: list[Log] = []
        for partitions in self._partitions.values():
            if not partitions or not partitions[0].settings.compacts:
                continue
            for partition in partitions:
                if partition.log is not None and partition.state is State.ACTIVE:
                    partition.load_producers(now_ms, nobody_waits)
                    if partition.producers_loaded:
                        logs.append(partition.log)
        return logs

    def partition_states(self) -> Iterator[tuple[str, str, str]]:
        """Name, state (`active`, `full` or `failed`) and reason of every user partition.

        A partition whose last write found no space is active again when there is space.
        """
        full = "" if self.metadata.has_room else "full"
        for partitions in self._partitions.values():
            for partition in partitions:
                if partition.state is State.FAILED:
                    yield partition.name, "failed", partition.reason
                elif partition.full and full:
                    yield partition.name, full, "the disk is full; records are refused until there is space"
                else:
                    yield partition.name, "active", ""

    def space(self) -> Space:
        """The space of the file system that has the data folder. Raises OSError."""
        return self._disk.space(self._data_folder)

    def partitions_of(self, topic_id: bytes) -> int:
        """The number of partitions of a topic; 0 if there is none with this id."""
        topic = self.registry.by_id.get(topic_id)
        return 0 if topic is None else topic.partitions

    def is_served_by_shards(self, name: str) -> bool:
        """Whether a topic's partitions are the logs of shards, which clients can read but not change."""
        return name in self._internal

    def new_topic_id(self) -> bytes:
        return new_topic_id(self._entropy)

    def wake(self, name: str, index: int) -> None:
        """Notifies the readers of an internal partition of more durable records."""
        partition = self._internal[name][index]
        if partition.readers or partition.stable_readers:
            partition.on_durable(self.clock.wall_ms())

    # --- changes ------------------------------------------------------------------------------------------------------

    def create(self, topic: Topic, done: Done, place: Place | None = None) -> None:
        """Creates a topic that has been validated and whose name is free. Calls `done` when the topic is visible.

        `place`: where its partitions are; None: the server decides.

        `done` gets NONE or KAFKA_STORAGE_ERROR, here and in the other changes. With `topic.visibility.delay.ms` it is called
        before that.
        """
        done = _once(done)
        key = names.collision_key(topic.name)
        assert key not in self.claimed
        assert topic.name not in self.registry.topics
        self.claimed.add(key)

        def on_committed(error: ErrorCode) -> None:
            self.claimed.discard(key)
            if error is ErrorCode.NONE:
                self._make_partitions(topic)
            done(error)

        self.metadata.commit(list(creation(topic, place or self.spread(topic.name))), on_committed, done)

    def grow(self, wanted: Mapping[str, int], done: Done, places: Mapping[str, Place] = NOWHERE) -> None:
        """Adds partitions to existing topics, to all of them or to none. `wanted`: name -> new number of partitions.

        `places`: where the new ones are, of the topics for which the client says so.
        """
        done = _once(done)
        topics = self.registry.topics
        records = [
            record
            for name, count in wanted.items()
            for record in growth(
                topics[name].topic_id, range(topics[name].partitions, count), self._grown(topics[name], places)
            )
        ]

        def on_committed(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                for name in wanted:
                    if name in self._partitions:
                        self._make_partitions(topics[name])
            done(error)

        self.metadata.commit(records, on_committed, done)

    def spread(self, name: str, factor: int = REPLICAS_DEFAULT) -> Place:
        """Where the partitions of a topic are whose creator does not say so."""
        placements = self.registry.placements
        return on_one(self.node_id) if placements is None else placements.spread(name, factor)

    def _grown(self, topic: Topic, places: Mapping[str, Place]) -> Place:
        """Where new partitions of a topic are: they have as many replicas as its first one."""
        if topic.name in places or self.registry.placements is None:
            return places.get(topic.name) or on_one(self.node_id)
        return self.spread(topic.name, len(self.registry.placements[topic.topic_id, 0].replicas))

    def lacks_replicas(self, name: str, index: int) -> bool:
        """Whether fewer replicas of a partition are in sync than its topic asks for. Not on a server that is one broker."""
        placements, topic = self.registry.placements, self.registry.topics[name]
        assert placements is not None
        key = topic_settings.MIN_INSYNC_REPLICAS
        of_cluster = self.registry.configs_of(topic_settings.BROKER_RESOURCE, "")
        wanted = topic.configs.get(key) or of_cluster.get(key, "1")
        return len(placements[topic.topic_id, index].isr) < int(wanted)

    def may_add(self, partitions: int) -> bool:
        """Whether `limit.partitions` allows this many more partitions."""
        return self.registry.partitions + partitions <= self.config.limit_partitions

    def auto_create(self, wanted: Iterable[str]) -> None:
        """Creates missing topics that clients asked for, if the settings allow it. The names must be legal."""
        if not self.config.auto_create_topics_enable:
            return
        missing = list(wanted)
        self.metadata.when_leading(lambda: self._auto_create(missing))

    def _auto_create(self, missing: Iterable[str]) -> None:
        for name in missing:
            key = names.collision_key(name)
            if name in names.INTERNAL or key in self.claimed or key in self.registry.collisions:
                continue
            if not self.may_add(self.config.num_partitions):
                return
            self.create(Topic(name, self.new_topic_id(), self.config.num_partitions), lambda _error: None)

    def remove(self, topic: Topic, done: Done, asked_by: str = "") -> None:
        """Deletes a topic and its records. Calls `done` when its name is free again. `asked_by`: the client, if one did."""
        done = _once(done)
        key = names.collision_key(topic.name)
        assert key not in self.claimed
        self.claimed.add(key)

        def on_committed(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                self.claimed.discard(key)
                done(error)
                return
            if asked_by:
                self.deletions.pop(topic.name, None)
                self.deletions[topic.name] = self.clock.wall_ms(), asked_by
                if len(self.deletions) > _DELETIONS_KEPT:
                    del self.deletions[next(iter(self.deletions))]
            self.offline.pop(topic.name, None)
            partitions = self._partitions.pop(topic.name)
            left, is_gone = len(partitions), True

            def on_stopped(partition: Partition) -> None:
                nonlocal left, is_gone
                left -= 1
                is_gone &= self._folders.delete(partition)
                if not left:
                    finish()

            def finish() -> None:
                if is_gone:
                    self.claimed.discard(key)
                self.on_topics_deleted([(topic.name, topic.topic_id)])
                done(ErrorCode.NONE)

            if partitions:
                self.in_background(self._stop(partitions, on_stopped))
            else:
                finish()

        self.metadata.commit([metadata_records.removal(topic.topic_id)], on_committed, done)

    def _stop(self, partitions: list[Partition], on_stopped: Callable[[Partition], None]) -> Iterator[None]:
        """Stops partitions that nobody finds any more, and empties the list, a piece in each step."""
        partitions.reverse()
        while partitions:
            partition = partitions.pop()
            partition.stop(self.schedule, partial(on_stopped, partition))
            if partition.was_opened or not len(partitions) % _PIECE_PARTITIONS:
                yield

    def next_producer_id(self, done: Callable[[ErrorCode, int], None]) -> None:
        """Calls `done` with a new producer id (producer_id_blocks.py)."""
        self.producer_ids.next_id(done)

    def _after_visibility_delay(self, replay: Callable[[], None]) -> Handle:
        return self.schedule(self.config.topic_visibility_delay_ms, replay)

    def _replayed(self, records: Sequence[Message]) -> None:
        self._apply_settings(records)
        for observe in self.metadata_observers:
            observe(records)

    def _apply_settings(self, records: Sequence[Message]) -> None:
        changed = {
            record.resource_name
            for record in records
            if isinstance(record, ConfigRecord) and record.resource_type == TOPIC_RESOURCE
        }
        for name in changed & self._partitions.keys():
            settings = topic_settings.effective(self.registry.topics[name].configs, self.config)
            for partition in self._partitions[name]:
                partition.apply(settings)

    def configure(self, config: TopicsConfig) -> None:
        """Changes the server's settings of topics: they apply to what comes next, as those of a topic do."""
        self.config = config
        for name, partitions in self._partitions.items():
            settings = topic_settings.effective(self.registry.topics[name].configs, config)
            for partition in partitions:
                partition.apply(settings)
                partition.keep_producers(config.producer_id_expiration_ms)

    def catch_up(self, pieces: Sequence[bytes]) -> None:
        """Applies the whole content of the metadata log, of which other servers have removed a part that is not here.

        What is not in it was removed meanwhile.
        """
        later = Registry()
        for batches in pieces:
            for position, header in split(batches):
                for message in messages_in(batches, position, header):
                    later.replay(message)
        removals = [*self.registry.removals(later)]
        for record in removals:
            self._follow_record(record)
        self._replayed(removals)
        for batches in pieces:
            self.follow(batches)

    def _follow_record(self, record: Message) -> None:
        removed = self.registry.by_id.get(record.topic_id) if isinstance(record, RemoveTopicRecord) else None
        self.registry.replay(record)
        if removed is not None:
            self._delete_followed(removed.name)
            self.offline.pop(removed.name, None)
            self.on_topics_deleted([(removed.name, removed.topic_id)])

    def follow(self, batches: bytes) -> None:
        """Applies changes that another server has made durable (`MetadataLog.follow`)."""
        records: list[Message] = []

        def replay(record: Message) -> None:
            self._follow_record(record)
            records.append(record)

        self.metadata.follow(batches, replay)
        for topic_id in {record.topic_id for record in records if isinstance(record, PartitionRecord)}:
            topic = self.registry.by_id.get(topic_id)
            if topic is not None and topic.name not in self._internal and topic.name not in self._stopping:
                self._make_partitions(topic)
        self._replayed(records)

    def _delete_followed(self, name: str) -> None:
        """Deletes the partitions of a topic that another server has removed, before those of a new one of this name."""
        left = self._stopping[name] = list(self._partitions.pop(name, ()))

        def on_stopped(partition: Partition) -> None:
            self._folders.delete(partition)
            left.remove(partition)
            settle()

        def settle() -> None:
            if not left and self._stopping.get(name) is left:
                del self._stopping[name]
                topic = self.registry.topics.get(name)
                if topic is not None and name not in self._partitions:
                    self._make_partitions(topic)

        self.in_background(self._stop(list(left), on_stopped))
        settle()

    # --- partitions ---------------------------------------------------------------------------------------------------

    def _make_partitions(self, topic: Topic) -> None:
        """Adds the partitions of a topic that are missing here."""
        if not self.has_data:
            self._partitions[topic.name] = []
            self.offline[topic.name] = frozenset(range(self.registry.topics[topic.name].partitions))
            return
        settings = topic_settings.effective(topic.configs, self.config)
        partitions = self._partitions.setdefault(topic.name, [])
        partitions += [
            Partition(
                index,
                self._folders.path(topic.name, index),
                settings,
                self._disk,
                self._make_writer,
                self._run_in_thread,
                self.config.producer_id_expiration_ms,
            )
            for index in range(len(partitions), topic.partitions)
        ]

    def _retain(self) -> None:
        """Applies the retention of topics and the expiry of producers."""
        now_ms = self.clock.wall_ms()
        for name, partitions in self._partitions.items():
            for partition in partitions:
                partition.producers.expire(now_ms)
                if partition.log is None or partition.state is not State.ACTIVE or not partition.settings.deletes:
                    continue
                try:
                    partition.apply_retention(now_ms)
                except (OSError, DamagedLog) as error:
                    self._on_fact(
                        Fact("retention_failed", {"topic": name, "partition": partition.index, "error": str(error)})
                    )
        self._retention = self._protocol_schedule(self.config.log_retention_check_interval_ms, self._retain)


def _once(done: Done) -> Done:
    """Calls `done` the first time only."""
    is_called = False

    def first(error: ErrorCode) -> None:
        nonlocal is_called
        if not is_called:
            is_called = True
            done(error)

    return first
