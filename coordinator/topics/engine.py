"""The data plane as one object: the topics there are, their partitions, and what must be durable before it is seen.

The operations on it are modules of their own (`create`, `delete`, `produce`, `fetch`, `list_offsets`); this one holds
what they share. Everything is synchronous and runs on the loop; disk, clock, chance and timer are handed in.

A change of the registry is a `commit` of its log (metadata_log.py): nobody sees it before it is durable. Until then the
name is *claimed*, so that a second creation of it is refused although nobody sees the first yet; a deleted topic's name
stays claimed until its folders are gone, so that a successor never finds old records.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from coordinator.log.log import Log
from coordinator.log.writer import Durability, Writer
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ConfigRecord, Message, ProducerIdsRecord
from coordinator.runtime.result import Fact, Marker
from coordinator.runtime.timers import Handle, Schedule
from coordinator.topics import metadata_records, names, topic_settings
from coordinator.topics.config import TopicsConfig
from coordinator.topics.fetch_sessions import FetchSessions
from coordinator.topics.internal_partition import InternalPartition
from coordinator.topics.metadata_log import MetadataLog
from coordinator.topics.metadata_records import TOPIC_RESOURCE
from coordinator.topics.partition import LEADER_EPOCH, Done, MakeWriter, Partition, State
from coordinator.topics.registry import NO_ID, Registry, Topic, creation, growth
from coordinator.world.clock import Clock
from coordinator.world.disk import Disk, Space
from coordinator.world.entropy import Entropy
from coordinator.world.worker import RunInWorker

__all__ = ["LEADER_EPOCH", "InternalPartition", "Topics"]

METADATA_FOLDER = f"{names.CLUSTER_METADATA}-0"
_DASH = 62
"""The six bits that url-safe base64 writes as '-'."""


def _nothing() -> None:
    """Nobody waits."""


class Topics:
    """The topics of this server. `attach_internal` and `declare` come before the first request."""

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
        run_in_worker: RunInWorker,
        schedule: Schedule,
        on_fact: Callable[[Fact], None],
    ) -> None:
        """Reads the registry and opens the partitions that were written to.

        `run_in_worker` as a Writer's. Raises DamagedLog and DecodeError for the registry's own log, OSError; a user's
        log that is damaged fails its partition only.
        """
        self.config = config
        self.node_id = node_id
        self.clock = clock
        self.schedule = schedule
        self.registry = Registry()
        self.claimed: set[str] = set()
        """Collision keys of the names that are being made or removed."""
        self.on_topics_deleted: Callable[[list[tuple[str, bytes]]], None] = lambda _topics: None
        """Told name and id of topics that are gone, after they are (their committed offsets go too)."""
        self.has_room: Callable[[], bool] = lambda: True
        """Whether there is memory for records to be read; where there is not, a Fetch finds none."""
        self.fetch_sessions = FetchSessions(config.max_incremental_fetch_session_cache_slots, entropy.bytes)
        self._data_folder = data_folder
        self._disk = disk
        self._entropy = entropy
        self._durability = durability
        self._make_writer: MakeWriter = lambda log, durable, failed: Writer(
            log, durability, run_in_worker, durable, failed
        )
        self._run_in_worker = run_in_worker
        self._on_fact = on_fact
        self._partitions: dict[str, list[Partition]] = {}
        self._internal: dict[str, list[InternalPartition]] = {}
        self.metadata = MetadataLog(
            disk,
            f"{data_folder}/{METADATA_FOLDER}",
            self.registry,
            self._make_writer,
            clock,
            replayed=self._apply_settings,
            on_fact=on_fact,
        )
        self.producer_ids_from = 0
        """Below it none is given: a log that came from elsewhere knows producers that this server never named."""
        self._producer_ids = range(0)
        self._producer_id_askers: deque[Callable[[ErrorCode, int], None]] = deque()
        for topic in self.registry.topics.values():
            self._make_partitions(topic)
        self._open_folders()
        self.metadata.compact(node_id)
        self._retention: Handle = schedule(config.log_retention_check_interval_ms, self._retain)

    # --- start and stop -----------------------------------------------------------------------------------------------

    def attach_internal(
        self, name: str, logs: Sequence[Log], *, cleanup_policy: str = "compact", synced: bool = True
    ) -> None:
        """Serves the shards' logs as a topic. The first time this enters the topic into the registry.

        Its settings there are what clients are told; the logs have theirs already. `synced`: nobody reads what is not durable.
        """
        settings = {"cleanup.policy": cleanup_policy, "compression.type": "producer"}
        if logs:
            settings["segment.bytes"] = str(logs[0].settings.segment_bytes)
        topic = self.registry.topics.get(name)
        if topic is None:
            self.metadata.commit_now(
                list(creation(Topic(name, self.new_topic_id(), len(logs), settings), self.node_id))
            )
        elif topic.configs != settings:
            self.metadata.commit_now(
                [
                    ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=name, name=key, value=settings.get(key))
                    for key in settings | dict(topic.configs)
                ]
            )
        self._partitions.pop(name, None)
        syncs = synced and self._durability == Durability.FSYNC
        self._internal[name] = [
            InternalPartition(index, log, self._run_in_worker, syncs=syncs) for index, log in enumerate(logs)
        ]

    def declare(self, name: str, partitions: int, overrides: Mapping[str, str]) -> bool:
        """Makes a topic at the start if it is not there; says whether it was made. Raises KafkaError or OSError."""
        if name in self.registry.topics:
            return False
        reason = names.why_invalid(name)
        if reason is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")
        topic = Topic(name, self.new_topic_id(), partitions, topic_settings.check(overrides.items()))
        self.metadata.commit_now(list(creation(topic, self.node_id)))
        self._make_partitions(topic)
        return True

    def close(self) -> None:
        """Makes everything durable and gives the descriptors back. No request may be under way."""
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
        """Whether nothing that was written is still on its way to the disk."""
        partitions = (partition for topic in self._partitions.values() for partition in topic)
        return self.metadata.idle and all(partition.idle for partition in partitions)

    # --- what there is ------------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """Another number after every change of the registry."""
        return self.registry.changes

    def topic_names(self) -> Sequence[str]:
        return [name for name in self.registry.topics if name not in names.UNLISTED]

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
        """A partition to read from."""
        partitions: Sequence[Partition | InternalPartition] = self._internal.get(name, self._partitions.get(name, ()))
        return partitions[index] if 0 <= index < len(partitions) else None

    def user_partition(self, name: str, index: int) -> Partition | None:
        """A partition to write to."""
        partitions = self._partitions.get(name, ())
        return partitions[index] if 0 <= index < len(partitions) else None

    def know_producers(self, wanted: Iterable[tuple[str, int]], then: Callable[[], None]) -> None:
        """Calls `then` when of each of these partitions it is known what its producers did, or it cannot be known.

        Usually before this returns; after a crash there may be some of the log to be read first.
        """
        partitions = [self.partition(name, index) for name, index in wanted]
        unknown = [partition for partition in partitions if partition is not None and not partition.producers_known]
        left, now_ms = len(unknown) + 1, self.clock.wall_ms()

        def known() -> None:
            nonlocal left
            left -= 1
            if not left:
                then()

        for partition in unknown:
            partition.know_producers(now_ms, known)
        known()

    def write_marker(self, name: str, index: int, marker: Marker, done: Done) -> None:
        """Ends a producer's transaction in a user partition; `done` when the marker is durable, or why it is not.

        It may be called before this returns. The same marker again does no harm.
        """
        partition = self.user_partition(name, index)
        if partition is None:
            done(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return

        def write() -> None:
            if partition.state is not State.ACTIVE:
                gone = partition.state is State.REMOVED
                done(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if gone else ErrorCode.KAFKA_STORAGE_ERROR)
                return
            try:
                partition.end_transaction(marker, self.clock.wall_ms(), done)
            except KafkaError as error:
                done(error.code)

        partition.know_producers(self.clock.wall_ms(), write)

    def sizes_bytes(self) -> Iterator[tuple[str, int, int]]:
        """Topic, partition and bytes on disk of every partition there is."""
        for name, topic in self.registry.topics.items():
            for index in range(topic.partitions):
                partition = self.partition(name, index)
                if partition is not None:
                    yield name, index, partition.log.size_bytes if partition.log is not None else 0

    def compacted_logs(self) -> list[Log]:
        """Logs of which the last record of each key is to be kept, the groups' own left out.

        And those left out of which it is not known yet what must stay for the sake of their producers.
        """
        now_ms = self.clock.wall_ms()
        logs: list[Log] = []
        for partitions in self._partitions.values():
            if not partitions or not partitions[0].settings.compacts:
                continue
            for partition in partitions:
                if partition.log is not None and partition.state is State.ACTIVE:
                    partition.know_producers(now_ms, _nothing)
                    if partition.producers_known:
                        logs.append(partition.log)
        return logs

    def partition_states(self) -> Iterator[tuple[str, str, str]]:
        """Name, `active`, `full` or `failed`, and why, of every user partition. Space that was made since counts."""
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
        """Of the file system that holds the data folder. OSError."""
        return self._disk.space(self._data_folder)

    def is_served_by_shards(self, name: str) -> bool:
        """Whether a topic's log is that of the groups: it can be read and not changed."""
        return name in self._internal

    def new_topic_id(self) -> bytes:
        """A random UUID; as in Kafka never one whose text begins with '-', which command lines take for an option."""
        while True:
            topic_id = bytes.fromhex(self._entropy.uuid().replace("-", ""))
            if topic_id != NO_ID and topic_id[0] >> 2 != _DASH:
                return topic_id

    def wake(self, name: str, index: int) -> None:
        """More of an internal partition became durable: its readers are told."""
        self._internal[name][index].grew(self.clock.wall_ms())

    # --- changes ------------------------------------------------------------------------------------------------------

    def create(self, topic: Topic, done: Done) -> None:
        """Makes a topic that has been checked and whose name is free; `done` when everybody may see it."""
        key = names.collision_key(topic.name)
        assert key not in self.claimed
        assert topic.name not in self.registry.topics
        self.claimed.add(key)

        def committed(error: ErrorCode) -> None:
            self.claimed.discard(key)
            if error is ErrorCode.NONE:
                self._make_partitions(topic)
            done(error)

        self.metadata.commit(list(creation(topic, self.node_id)), committed)

    def grow(self, wanted: Mapping[str, int], done: Done) -> None:
        """Gives topics that are there more partitions, all of them or none: name -> how many there shall be."""
        topics = self.registry.topics
        records = [
            record
            for name, count in wanted.items()
            for record in growth(topics[name].topic_id, range(topics[name].partitions, count), self.node_id)
        ]

        def committed(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                for name in wanted:
                    if name in self._partitions:
                        self._make_partitions(topics[name])
            done(error)

        self.metadata.commit(records, committed)

    def may_add(self, partitions: int) -> bool:
        """Whether there may be so many partitions more."""
        return self.registry.partitions + partitions <= self.config.limit_partitions

    def auto_create(self, wanted: Iterable[str]) -> None:
        """Makes topics that a client asked for by legal names that are missing, if the server may."""
        if not self.config.auto_create_topics_enable:
            return
        for name in wanted:
            key = names.collision_key(name)
            if name in names.INTERNAL or key in self.claimed or key in self.registry.collisions:
                continue
            if not self.may_add(self.config.num_partitions):
                return
            self.create(Topic(name, self.new_topic_id(), self.config.num_partitions), lambda _error: None)

    def remove(self, topic: Topic, done: Done) -> None:
        """Removes a topic and its records; `done` when its name is free again."""
        key = names.collision_key(topic.name)
        assert key not in self.claimed
        self.claimed.add(key)

        def committed(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                self.claimed.discard(key)
                done(error)
                return
            partitions = self._partitions.pop(topic.name)
            left = len(partitions)

            def stopped() -> None:
                nonlocal left
                left -= 1
                if not left:
                    gone = [self._delete_folder(partition) for partition in partitions]
                    if all(gone):
                        self.claimed.discard(key)
                    self.on_topics_deleted([(topic.name, topic.topic_id)])
                    done(ErrorCode.NONE)

            for partition in partitions:
                partition.stop(self.schedule, stopped)

        self.metadata.commit([metadata_records.removal(topic.topic_id)], committed)

    def next_producer_id(self, done: Callable[[ErrorCode, int], None]) -> None:
        """Gives a producer id that was never given before, over all restarts: ids are reserved by blocks."""
        if self._producer_ids:
            producer_id, self._producer_ids = self._producer_ids[0], self._producer_ids[1:]
            done(ErrorCode.NONE, producer_id)
            return
        self._producer_id_askers.append(done)
        if len(self._producer_id_askers) > 1:
            return
        first = max(self.registry.next_producer_id, self.producer_ids_from)
        block = range(first, first + self.config.producer_id_block_size)

        def reserved(error: ErrorCode) -> None:
            askers, self._producer_id_askers = self._producer_id_askers, deque()
            if error is ErrorCode.NONE:
                self._producer_ids = block
            for asker in askers:
                if error is ErrorCode.NONE:
                    self.next_producer_id(asker)
                else:
                    asker(error, -1)

        self.metadata.commit([ProducerIdsRecord(broker_id=self.node_id, next_producer_id=block.stop)], reserved)

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

    # --- partitions on disk -------------------------------------------------------------------------------------------

    def _make_partitions(self, topic: Topic) -> None:
        """Those that are not there yet."""
        settings = topic_settings.effective(topic.configs, self.config)
        partitions = self._partitions.setdefault(topic.name, [])
        partitions += [
            Partition(
                index,
                f"{self._data_folder}/{topic.name}-{index}",
                settings,
                self._disk,
                self._make_writer,
                self._run_in_worker,
                self.config.producer_id_expiration_ms,
            )
            for index in range(len(partitions), topic.partitions)
        ]

    def _open_folders(self) -> None:
        """Opens the partitions that were written to, and sweeps what a deletion left when it was cut short."""
        for folder in self._disk.list(self._data_folder):
            name, _, number = folder.rpartition("-")
            if not number.isdecimal() or name in names.INTERNAL or name == names.CLUSTER_METADATA:
                continue
            if name in self.registry.removed:
                self._sweep(f"{self._data_folder}/{folder}")
                continue
            partition = self.user_partition(name, int(number))
            if partition is None:
                self._on_fact(Fact("folder_of_no_topic", {"folder": folder}))
                continue
            partition.open()
            if partition.log is not None and partition.log.recovery is not None:
                report = partition.log.recovery
                self._on_fact(
                    Fact(
                        "log_tail_cut",
                        {
                            "file": report.file,
                            "bytes": report.bytes_cut,
                            "next_offset": report.next_offset,
                            "synced_offsets_lost": report.synced_offsets_lost,
                        },
                    )
                )
            if partition.state is State.FAILED:
                self._on_fact(Fact("partition_failed", {"folder": folder, "reason": partition.reason}))

    def _delete_folder(self, partition: Partition) -> bool:
        """Whether the folder is gone. What cannot be removed now is swept at the next start."""
        try:
            if partition.log is not None:
                partition.log.delete()
            elif self._disk.exists(partition.folder):
                self._sweep(partition.folder)
        except OSError as error:
            self._on_fact(Fact("topic_folder_left", {"folder": partition.folder, "error": str(error)}))
            return False
        return True

    def _sweep(self, folder: str) -> None:
        for name in self._disk.list(folder):
            self._disk.remove(f"{folder}/{name}")
        self._disk.remove_folder(folder)
        self._disk.sync_folder(self._data_folder)

    def _retain(self) -> None:
        """Deletes old segments of the topics whose policy says so, and forgets producers that were silent for long."""
        now_ms = self.clock.wall_ms()
        for name, partitions in self._partitions.items():
            for partition in partitions:
                partition.producers.expire(now_ms)
                if partition.log is None or partition.state is not State.ACTIVE or not partition.settings.deletes:
                    continue
                try:
                    partition.apply_retention(now_ms)
                except OSError as error:
                    self._on_fact(
                        Fact("retention_failed", {"topic": name, "partition": partition.index, "error": str(error)})
                    )
        self._retention = self.schedule(self.config.log_retention_check_interval_ms, self._retain)
