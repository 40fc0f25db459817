"""A coordinator in memory, on virtual time: real API files, real router, real codec; only log, sockets and clock are ours.

`ask("OffsetCommit", 8, group_id=..., ...)` goes the way a frame goes: the request is encoded and decoded in its version,
handled by its API file, decided and replayed by the shard of its group, and the answer is encoded and decoded. Records are
kept as bytes; `restart` replays them, all or those a compaction would leave. Whether a transaction may take part is asked of
`Verification`, which says what a test wants, when it wants.
"""

from collections.abc import Callable, Iterable
from typing import Any

from coordinator.groups.machine import GroupMachine
from coordinator.groups.offsets.write_marker import write_marker
from coordinator.groups.settings import GroupsConfig
from coordinator.protocol import messages
from coordinator.protocol.codec import Codec
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.requests import delete_groups, offset_commit, offset_delete, offset_fetch, txn_offset_commit
from coordinator.runtime.result import Marker, Producer, Record, Result
from coordinator.runtime.router import Router
from coordinator.runtime.serde import Serde
from tests.support.catalog import Catalog

MODULES = (offset_commit, offset_fetch, offset_delete, delete_groups, txn_offset_commit)
APIS = {module.API.name: module.API for module in MODULES}
KEYS = ("LegacyOffsetCommitKey", "OffsetCommitKey", "GroupMetadataKey")
CODEC = Codec.of()
MINUTE_MS = 60_000


class MemoryShard:
    """One shard: what runtime/shard.py does, minus the disk."""

    def __init__(self, index: int, coordinator: "OffsetCoordinator") -> None:
        self.index = index
        self.coordinator = coordinator
        self.log: list[Any] = []
        """Key and value of each record; of a transaction's its producer, too; and markers."""
        self.serde = Serde(CODEC, KEYS)
        self.timers: dict[Any, int] = {}
        self.facts: list[Any] = []
        self.events: list[Record] = []
        self.state: GroupMachine
        self.load(self.log)

    def load(self, log: Iterable[tuple[bytes, bytes | None]]) -> None:
        self.state = GroupMachine(self.coordinator.config, self.coordinator.catalog)
        self.timers.clear()
        for entry in log:
            if isinstance(entry, Marker):
                self.state.replay_marker(entry)
                continue
            record = self.serde.decode(*entry[:2])
            assert record is not None
            if entry[2:]:
                self.state.replay_pending(record, entry[2])
            else:
                self.state.replay(record)
        self.apply(self.state.loaded(self.coordinator.now_ms))

    def submit(self, operation: Any, exchange: Any) -> None:
        if self.coordinator.refusing is not None:
            exchange.send(exchange.encode(exchange.refusal(KafkaError(self.coordinator.refusing))))
            return
        try:
            result = operation(self.state, exchange.request, exchange, self.coordinator.now_ms)
        except KafkaError as error:
            self.apply(Result(facts=error.facts))
            exchange.send(exchange.encode(exchange.refusal(error)))
        else:
            self.apply(result)
            if result.reply is not None:
                exchange.send(exchange.encode(result.reply))

    def run_internal(self, change: Any) -> None:
        self.apply(change(self.state, self.coordinator.now_ms))

    def apply(self, result: Result) -> None:
        state_offset = len(self.log)
        for record in result.records:
            self.append(record, result.producer)
        if result.marker is not None:
            self.state.replay_marker(result.marker)
            self.log.append(result.marker)
        for key, delay_ms in result.timers:
            if delay_ms is None:
                self.timers.pop(key, None)
            else:
                self.timers[key] = self.coordinator.now_ms + delay_ms
        self.facts += [fact for fact in result.facts if fact.name]
        for fact in result.facts:
            if fact.event is not None:
                self.events.append(fact.event.record(state_offset, self.coordinator.now_ms))

    def append(self, record: Record, producer: Producer | None = None) -> None:
        if producer is None:
            self.state.replay(record)
            self.log.append(self.serde.encode(record))
        else:
            self.state.replay_pending(record, producer)
            self.log.append((*self.serde.encode(record), producer))


class Exchange:
    """A decoded request that keeps its answer, decoded again."""

    def __init__(self, name: str, version: int, request: Any) -> None:
        self.api = APIS[name]
        self.api_version = version
        self.client_id = "client"
        self.client_host = "/127.0.0.1"
        self.fresh_id = ""
        self.writes = self.api.writes
        self.request = request
        self.answers: list[Any] = []

    def encode(self, message: Any) -> bytes:
        return CODEC.encoder(f"{self.api.name}Response", self.api_version)(message)

    def send(self, payload: bytes) -> None:
        self.answers.append(CODEC.decoder(f"{self.api.name}Response", self.api_version)(payload, 0)[0])

    def reply(self, message: Any) -> None:
        self.send(self.encode(message))

    def refusal(self, error: KafkaError) -> Any:
        return self.api.refuse(self.request, error, self.api_version)

    def refuse(self, code: Any) -> None:
        self.reply(self.refusal(KafkaError(code)))


class Verification:
    """Refuses what `refusing` says, if it says something; answers at once, or with `answer` while `holding`."""

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
        self.now_ms = 1_000_000_000_000
        self.refusing: Any = None
        """The error with which every shard refuses everything, or None."""
        self.shards = [MemoryShard(index, self) for index in range(shards)]
        self.groups = Router(self.shards)  # type: ignore[arg-type]
        self.verification = Verification()

    @property
    def state(self) -> GroupMachine:
        """Of the only shard."""
        (shard,) = self.shards
        return shard.state

    @property
    def log(self) -> list[tuple[bytes, bytes | None]]:
        (shard,) = self.shards
        return shard.log

    def records(self) -> list[Record]:
        """The only shard's log, decoded."""
        (shard,) = self.shards
        return [shard.serde.decode(*entry[:2]) for entry in shard.log]  # type: ignore[misc]

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
        exchange = Exchange(name, version, request)
        try:
            exchange.api.handle(self, exchange)
        except KafkaError as error:
            exchange.reply(exchange.refusal(error))
        return exchange

    def pass_time(self, ms: int) -> None:
        """Time goes by; timers fire on the way, each at its moment. Members send heartbeats, so no session ends."""
        for shard in self.shards:
            shard.timers = {key: at for key, at in shard.timers.items() if key[0] != "classic-session"}
        end_ms = self.now_ms + ms
        while True:
            due = [(at, shard.index, key) for shard in self.shards for key, at in shard.timers.items() if at <= end_ms]
            if not due:
                break
            at, index, key = min(due, key=lambda each: each[:2])
            self.now_ms = max(self.now_ms, at)
            shard = self.shards[index]
            del shard.timers[key]
            shard.apply(shard.state.fire(key, self.now_ms))
        self.now_ms = end_ms

    def restart(self, clean: Callable[[list[Any]], list[Any]] = list) -> None:
        """Every shard forgets its memory and loads its log, after `clean` has removed what a compaction may."""
        for shard in self.shards:
            shard.log[:] = clean(shard.log)
            shard.load(shard.log)

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
        """The fields of a TxnOffsetCommit with topic names, of producer 7 unless `producer` is given."""
        request = messages.TxnOffsetCommitRequest
        topics: dict[str, Any] = {}
        for (name, index), offset in offsets.items():
            topic = topics.setdefault(name, request.TxnOffsetCommitRequestTopic(name=name, partitions=[]))
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
            (topic.name, each.partition_index): each.error_code for topic in answer.topics for each in topic.partitions
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
