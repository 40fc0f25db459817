"""A coordinator on real shards, router, API files and codec; only sockets, disks and clock are simulated.

`ask("OffsetCommit", 8, group_id=..., ...)` takes the path of a frame: the request is encoded and decoded in its version,
handled by its API file, decided and replayed by the shard of its group, and the response is encoded and decoded. Each turn of
the loop is finished at once. `restart` kills the shards and loads their logs, entire or as a compaction may leave them.
Whether a transaction may take part is decided by `Verification`, as the test wants and when it wants.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from coordinator.groups.machine import RECORD_KEYS, GroupMachine
from coordinator.groups.offsets.write_marker import write_marker
from coordinator.groups.settings import GroupsConfig
from coordinator.log.batch import key_values
from coordinator.log.batch_builder import BatchBuilder
from coordinator.log.log import Log
from coordinator.protocol import messages
from coordinator.protocol.codec import Codec
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.releases import AS_NEWEST, Behaviours
from coordinator.requests import delete_groups, offset_commit, offset_delete, offset_fetch, txn_offset_commit
from coordinator.runtime.result import NO_LINK, Marker, Producer, Record, Result
from coordinator.runtime.router import Router
from coordinator.runtime.serde import Serde
from coordinator_lab.simulation.clock import ManualClock
from tests.runtime.event_world import STATE, EventWorld
from tests.support.catalog import Catalog
from tests.support.permitting import EVERYTHING

MODULES = (offset_commit, offset_fetch, offset_delete, delete_groups, txn_offset_commit)
APIS = {module.API.name: module.API for module in MODULES}
KEYS = ("LegacyOffsetCommitKey", "OffsetCommitKey", "GroupMetadataKey")
CODEC = Codec.of()
MINUTE_MS = 60_000


class CoordinatorShard:
    """A shard with its event log, as `EventWorld` has it, that finishes every turn of the loop at once."""

    def __init__(self, index: int, coordinator: "OffsetCoordinator") -> None:
        self.index = index
        self.coordinator = coordinator
        self.serde = Serde(CODEC, RECORD_KEYS)
        config, catalog, clock = coordinator.config, coordinator.catalog, coordinator.clock
        self.world: Any = EventWorld(
            "write", config.coordinator_events, config=config, catalog=catalog, clock=clock, index=index
        )
        self.world.settle()

    @property
    def state(self) -> GroupMachine:
        return self.world.shard.state

    @property
    def log(self) -> list[tuple[bytes, bytes | None]]:
        """Key and value of each record; markers are left out."""
        return [
            (key, value)
            for buffer, position, header in self.world.shard.log.batches()
            if not header.is_control
            for _, key, value in key_values(buffer, position, header)
        ]

    @property
    def facts(self) -> list[Any]:
        return self.world.facts

    @property
    def events(self) -> list[Record]:
        """The events of groups in the event log."""
        return [record for record in self.world.event_records() if hasattr(record.key, "group")]

    @property
    def timers(self) -> dict[Any, int]:
        """Wall clock time of each armed timer."""
        skew_ms = self.world.clock.wall_ms() - self.world.clock.monotonic_ms()
        return {key: entry.deadline + skew_ms for key, entry in self.world.shard._timers._entries.items()}

    def submit(self, operation: Any, exchange: Any) -> None:
        if self.coordinator.refusing is not None:
            exchange.send(exchange.encode(exchange.refusal(KafkaError(self.coordinator.refusing))))
            return
        self.world.shard.submit(operation, exchange)
        self.world.settle()

    def run_internal(self, change: Any) -> None:
        self.world.shard.run_internal(change)
        self.world.settle()

    def apply(self, result: Result) -> None:
        self.run_internal(lambda _state, _now_ms: result)

    def append(self, record: Record) -> None:
        self.apply(Result(records=[record]))

    def restart(self, clean: Callable[[list[Any]], list[Any]] | None) -> None:
        """SIGKILL and a new start; with `clean`, on a log that has only the records which it returns."""
        self.world.restart(self.world.disk.kill if clean is None else lambda: self._rewrite(clean(self.log)))
        self.world.settle()

    def _rewrite(self, records: list[tuple[bytes, bytes | None]]) -> None:
        log = self.world.shard.log
        assert not any(header.is_transactional for _, _, header in log.batches())
        self.world.use_new_disk()
        log = Log.open(self.world.disk, STATE, self.world.log_settings())
        for key, value in records:
            batch = BatchBuilder()
            batch.add(key, value)
            log.append(batch.build(log.end_offset, self.coordinator.now_ms), 1, self.coordinator.now_ms)
        log.sync()
        log.close()


class Exchange:
    """A decoded request that keeps its answer, decoded again."""

    def __init__(self, name: str, version: int, request: Any, behaviours: Behaviours) -> None:
        self.api = APIS[name]
        self.api_version = version
        self.client_id = "client"
        self.client_host = "/127.0.0.1"
        self.link = NO_LINK
        self.dialect = None
        self.behaviours = behaviours
        self.permits = EVERYTHING
        self.fresh_id = ""
        self.writes = self.api.writes
        self.request = request
        self.answers: list[Any] = []

    def wait(self) -> None:
        pass

    def encode(self, message: Any) -> bytes:
        return CODEC.encoder(f"{self.api.name}Response", self.api_version)(message)

    def send(self, payload: bytes) -> None:
        self.answers.append(CODEC.decoder(f"{self.api.name}Response", self.api_version)(payload, 0)[0])

    def reply(self, message: Any) -> None:
        self.send(self.encode(message))

    reply_in_slices = reply

    def run_in_slices(self, pieces: Iterator[None], *, even_if_lost: bool = False) -> None:
        for _ in pieces:
            pass

    def with_request(self, request: Any) -> "Exchange":
        self.request = request
        return self

    def refusal(self, error: KafkaError) -> Any:
        return self.api.refusal(self.request, error, self.api_version)

    def refuse(self, code: Any) -> None:
        self.reply(self.refusal(KafkaError(code)))


class Verification:
    """Answers with the error `refusing`, if it is set; answers at once, or by `answer` while `holding`."""

    needs_guard = True

    def __init__(self) -> None:
        self.refusing: Any = None
        self.holding = False
        self.asked: list[Any] = []
        self.held: list[Callable[[], None]] = []

    def check(
        self, transactional_id: str, producer: Producer, partitions: Any, adds: bool, done: Any, *, abortable: bool
    ) -> None:
        self.asked.append((transactional_id, producer, partitions, adds, abortable))
        wanted = [(topic, index) for topic, indexes in partitions.items() for index in indexes]
        refused = {} if self.refusing is None else dict.fromkeys(wanted, self.refusing)
        self.held.append(lambda: done(refused))
        if not self.holding:
            self.answer()

    def answer(self) -> None:
        held, self.held[:] = list(self.held), []
        for each in held:
            each()


class OffsetCoordinator:
    """Shards, router, topics and time."""

    def __init__(self, shards: int = 1, **config: Any) -> None:
        self.config = GroupsConfig(**config)
        self.catalog = self.topics = Catalog()
        self.clock = ManualClock(wall_ms=1_000_000_000_000)
        self.refusing: Any = None
        """The error with which every shard refuses everything, or None."""
        self.behaviours = AS_NEWEST
        self.shards = [CoordinatorShard(index, self) for index in range(shards)]
        self.groups = Router(self.shards)  # type: ignore[arg-type]
        self.verification = Verification()

    @property
    def now_ms(self) -> int:
        return self.clock.wall_ms()

    @now_ms.setter
    def now_ms(self, value: int) -> None:
        self.clock.advance(value - self.now_ms)

    @property
    def state(self) -> GroupMachine:
        """The state of the only shard."""
        (shard,) = self.shards
        return shard.state

    @property
    def log(self) -> list[tuple[bytes, bytes | None]]:
        (shard,) = self.shards
        return shard.log

    def records(self) -> list[Record]:
        """The only shard's log, decoded."""
        (shard,) = self.shards
        return [shard.serde.decode(*entry) for entry in shard.log]  # type: ignore[misc]

    def ask(self, name: str, version: int, **fields: Any) -> Any:
        """The answer to a request; exactly one must come."""
        (answer,) = self.begin(name, version, **fields).answers
        return answer

    def begin(self, name: str, version: int, **fields: Any) -> Exchange:
        """A request that may be answered later."""
        request_name = f"{name}Request"
        frame = CODEC.encoder(request_name, version)(getattr(messages, request_name)(**fields))
        request, end = CODEC.decoder(request_name, version)(frame, 0)
        assert end == len(frame)
        exchange = Exchange(name, version, request, self.behaviours)
        try:
            exchange.api.handle(self, exchange)
        except KafkaError as error:
            exchange.reply(exchange.refusal(error))
        return exchange

    def pass_time(self, ms: int) -> None:
        """Advances time; timers fire on the way, each when it is due. Members send heartbeats, so no session ends."""
        for shard in self.shards:
            for key in [key for key in shard.timers if key[0] == "classic-session"]:
                shard.world.shard._timers.disarm(key)
        end_ms = self.clock.monotonic_ms() + ms
        while True:
            due = [
                (timer[0], shard.index) for shard in self.shards for timer in shard.world.timers if timer[0] <= end_ms
            ]
            if not due:
                break
            at_ms, index = min(due)
            self.clock.advance(max(0, at_ms - self.clock.monotonic_ms()))
            self.shards[index].world.advance(0)
            self.shards[index].world.settle()
        self.clock.advance(end_ms - self.clock.monotonic_ms())

    def restart(self, clean: Callable[[list[Any]], list[Any]] | None = None) -> None:
        """Every shard is killed and loads its log, after `clean` has removed what a compaction may remove."""
        for shard in self.shards:
            shard.restart(clean)

    # --- the usual requests, short --------------------------------------------------------------------------------------

    def commit(
        self,
        group_id: str,
        offsets: dict[tuple[str, int], int],
        version: int = 8,
        *,
        generation: int = -1,
        member_id: str = "",
        metadata: str | None = "",
        **fields: Any,
    ) -> dict[tuple[str, int], int]:
        """(topic, partition) -> error code, in the order answered. Versions with topic names only."""
        request = messages.OffsetCommitRequest
        topics: dict[str, Any] = {}
        for (name, index), offset in offsets.items():
            topic = topics.setdefault(name, request.OffsetCommitRequestTopic(name=name, partitions=[]))
            topic.partitions.append(
                request.OffsetCommitRequestPartition(
                    partition_index=index, committed_offset=offset, committed_metadata=metadata
                )
            )
        answer = self.ask(
            "OffsetCommit",
            version,
            group_id=group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            topics=list(topics.values()),
            **fields,
        )
        return {
            (topic.name, each.partition_index): each.error_code for topic in answer.topics for each in topic.partitions
        }

    def txn_request(self, group_id: str, offsets: dict[tuple[str, int], int], **fields: Any) -> dict[str, Any]:
        """The fields of a TxnOffsetCommit, of producer 7 unless `producer` is given."""
        request = messages.TxnOffsetCommitRequest
        topics: dict[str, Any] = {}
        for (name, index), offset in offsets.items():
            topic_id = self.topics.topic_id(name) or bytes(16)
            topic = topics.setdefault(name, request.TxnOffsetCommitRequestTopic(name, topic_id, partitions=[]))
            topic.partitions.append(
                request.TxnOffsetCommitRequestPartition(
                    partition_index=index, committed_offset=offset, committed_metadata=fields.get("metadata", "")
                )
            )
        fields.pop("metadata", None)
        producer = fields.pop("producer", Producer(7, 0))
        return {
            "transactional_id": f"tx-{producer.id}",
            "group_id": group_id,
            "producer_id": producer.id,
            "producer_epoch": producer.epoch,
            "topics": list(topics.values()),
            **fields,
        }

    def stage(
        self, group_id: str, offsets: dict[tuple[str, int], int], version: int = 5, **fields: Any
    ) -> dict[tuple[str, int], int]:
        """(topic, partition) -> error code of a TxnOffsetCommit."""
        answer = self.ask("TxnOffsetCommit", version, **self.txn_request(group_id, offsets, **fields))
        return {
            (topic.name or self.topics.topic_name(topic.topic_id), each.partition_index): each.error_code
            for topic in answer.topics
            for each in topic.partitions
        }

    def end(self, group_id: str, *, commits: bool, producer: Producer | None = None, **fields: Any) -> None:
        """The marker of the producer's transaction, in the log of the group's shard. Raises KafkaError."""
        shard = self.shards[self.groups.shard_of(group_id).index]
        marker = Marker(*(producer or Producer(7, 0)), commits, fields.pop("coordinator_epoch", 0), **fields)
        shard.apply(write_marker(shard.state, marker, None, self.now_ms))  # type: ignore[arg-type]

    def fetch(
        self, group_id: str, partitions: Iterable[tuple[str, int]] | None = None, *, stable: bool = False
    ) -> dict[tuple[str, int], int | ErrorCode]:
        """(topic, partition) -> offset, or the error; all that the group has, if none are named."""
        topic = messages.OffsetFetchRequest.OffsetFetchRequestTopic
        topics = None if partitions is None else [topic(name, [index]) for name, index in partitions]
        answer = self.ask("OffsetFetch", 7, group_id=group_id, topics=topics, require_stable=stable)
        assert answer.error_code == 0
        return {
            (topic.name, each.partition_index): ErrorCode(each.error_code) if each.error_code else each.committed_offset
            for topic in answer.topics
            for each in topic.partitions
        }

    def delete_offsets(self, group_id: str, partitions: Iterable[tuple[str, int]]) -> Any:
        request = messages.OffsetDeleteRequest
        topics: dict[str, Any] = {}
        for name, index in partitions:
            topic = topics.setdefault(name, request.OffsetDeleteRequestTopic(name, []))
            topic.partitions.append(request.OffsetDeleteRequestPartition(index))
        return self.ask("OffsetDelete", 0, group_id=group_id, topics=list(topics.values()))

    def delete_groups(self, *group_ids: str, version: int = 2) -> list[tuple[str, int]]:
        answer = self.ask("DeleteGroups", version, groups_names=list(group_ids))
        return [(result.group_id, result.error_code) for result in answer.results]
