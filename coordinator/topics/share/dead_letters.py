"""Dead-letter queues (KIP-1191): the topics into which records go that a share group rejects, or gets too often.

The leader of a share partition takes three steps: the records are durably ARCHIVING; they are durable in the queue's topic;
they are archived. A leader that takes over goes on where the last one stopped: a crash loses no record, but may write one
twice. If the queue cannot be written, the records are archived regardless, as in Kafka.

A record of the queue has headers that say where it comes from and why, and the key and the value only if the group copies
records; it never has the headers of the original. The partition is that of the original, modulo their number. Nobody's
permissions are asked: the server writes.

Kafka: ShareGroupDLQStateManager, ShareGroupDLQRecordFetcher.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from coordinator.log.batch import HEADER, BatchHeader, CorruptBatch, UnsupportedCompression, decode_records, split
from coordinator.log.batch_builder import encode_batch, encode_records
from coordinator.log.log import DamagedLog, OffsetOutOfRange
from coordinator.log.record import LogRecord
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import CreateTopicsRequest, CreateTopicsResponse, ProduceResponse
from coordinator.runtime.result import Fact
from coordinator.share_state.share_state import SharePartition
from coordinator.topics.append import Entry, append
from coordinator.topics.batch_validation import Batch
from coordinator.topics.create import create_topics
from coordinator.topics.internal_partition import InternalPartition
from coordinator.topics.partition import Partition, nobody_waits
from coordinator.topics.share.outcomes import InQueue, OffsetRange, Outcomes, Place
from coordinator.topics.topic_settings import GROUP_DEAD_LETTERS
from coordinator.topics.topics import Topics

REJECTED = "Offset rejected by client."
DELIVERED_TOO_OFTEN = "Offset delivery count exceeded the threshold."
FAILED = "dead_letters_not_written"
"""The name of the fact that records were archived without being written."""
TRIES_MAX = 5
"""How often the creation of a topic is tried."""
RETRY_MS = 1_000
"""The first pause between two tries; each further one is twice as long."""
RECORDS_AT_ONCE = 500
"""The most records of a batch, so that making it does not keep clients waiting."""
_TRY_AGAIN = frozenset({ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.THROTTLING_QUOTA_EXCEEDED})
_HEADER = "__dlq.errors."
_Originals = Mapping[int, tuple[bytes | None, bytes | None]]
"""Offset -> key and value."""


class Queue(NamedTuple):
    """What a group says about its dead letters."""

    topic: str
    """Empty: the group has no queue."""
    copies: bool
    """Whether keys and values are copied."""


NO_QUEUE = Queue("", copies=False)


class Dead(NamedTuple):
    """Records of a share partition that were delivered equally often. Both offsets are inclusive."""

    place: Place
    source: Partition | InternalPartition
    first_offset: int
    last_offset: int
    delivery_count: int
    cause: str

    @property
    def key(self) -> SharePartition:
        return self.place.key


@dataclass(slots=True, eq=False)
class DeadLetters:
    """The way to the queues of all groups. `queue_of(group_id)`: the queue that is in force now."""

    topics: Topics
    queue_of: Callable[[str], Queue]
    outcomes: Outcomes
    on_fact: Callable[[Fact], None]

    def write(self, dead: Dead, done: Callable[[], None]) -> None:
        """Calls `done` when the records are durable in the queue, or cannot be written."""
        _Writing(self, dead, done).go_on()

    def why_refused(self, group_id: str, topic: str) -> str:
        """Why the group may not write to this topic; empty if it may. The words are Kafka's."""
        topics, config = self.topics, self.topics.config
        prefix = config.errors_deadletterqueue_topic_name_prefix
        known = topics.registry.topics.get(topic)
        if not topic:
            return f"Configured DLQ topic name in share group: {group_id} is empty."
        if topic.startswith("__"):
            return f"Configured DLQ topic name in share group: {group_id} cannot start with __, topic: {topic}."
        if known is not None and known.configs.get(GROUP_DEAD_LETTERS, "").strip().lower() != "true":
            return f"DLQ is not enabled on configured DLQ topic for share group: {group_id}, topic: {topic}."
        if known is None and not config.errors_deadletterqueue_auto_create_topics_enable:
            return (
                f"DLQ topic does not exist and auto create is disabled on cluster for share group: {group_id}, "
                f"topic: {topic}."
            )
        if not topic.startswith(prefix):
            return (
                f"Configured DLQ topic name does not comply with the DLQ topic prefix in share group: {group_id}, "
                f"topic: {topic}, prefix: {prefix}."
            )
        return ""


class _Writing:
    """Some records on their way to the queue."""

    __slots__ = ("_dead", "_done", "_letters", "_next_offset", "_tries")

    def __init__(self, letters: DeadLetters, dead: Dead, done: Callable[[], None]) -> None:
        self._letters = letters
        self._dead = dead
        self._done = done
        self._next_offset = dead.first_offset
        self._tries = 0

    @property
    def _queue(self) -> Queue:
        return self._letters.queue_of(self._dead.key.group_id)

    def go_on(self) -> None:
        """Writes the records that are left, some at a time."""
        topics, queue = self._letters.topics, self._queue
        why = self._letters.why_refused(self._dead.key.group_id, queue.topic)
        if why:
            self._give_up(why)
        elif topics.topic_id(queue.topic) is None:
            self._create(queue.topic)
        else:
            partition = self._partition(queue.topic)
            if partition is not None and queue.copies:
                # Kafka reads as much at a time as one batch of the queue may have.
                bytes_max = partition.settings.max_message_bytes
                records = self._read(bytes_max)
                topics.record_walks.submit(
                    partial(_originals, records, self._next_offset, self._dead.last_offset, bytes_max), self._copied
                )
            else:
                self._append({}, self._dead.last_offset)

    # --- the topic ----------------------------------------------------------------------------------------------------

    def _create(self, name: str) -> None:
        setting = CreateTopicsRequest.CreatableTopicConfig
        topic = CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            configs=[setting(GROUP_DEAD_LETTERS, "true"), setting("message.timestamp.type", "CreateTime")],
        )
        create_topics(self._letters.topics, CreateTopicsRequest(topics=[topic]), self._created)

    def _created(self, response: CreateTopicsResponse) -> None:
        (result,) = response.topics
        error = ErrorCode(result.error_code)
        if error is ErrorCode.NONE:
            self.go_on()
        elif error in _TRY_AGAIN and self._tries < TRIES_MAX - 1:
            self._tries += 1
            self._letters.topics.schedule(RETRY_MS << (self._tries - 1), self.go_on)
        else:
            self._give_up(f"{error.name}: {result.error_message}")

    def _partition(self, name: str) -> Partition | None:
        """The partition of the queue for these records; None if it is not there."""
        index = self._partition_index(name)
        return None if index < 0 else self._letters.topics.user_partition(name, index)

    def _partition_index(self, name: str) -> int:
        """-1 if the topic is gone."""
        count = self._letters.topics.partition_count(name)
        return self._dead.key.partition % count if count else -1

    # --- the original records -----------------------------------------------------------------------------------------

    def _read(self, bytes_max: int) -> bytes:
        source = self._dead.source
        try:
            return (
                b""
                if source.log is None
                else source.log.read(self._next_offset, bytes_max, offset_end=source.high_watermark)
            )
        except (OSError, ValueError, DamagedLog, OffsetOutOfRange):
            return b""  # they are deleted, or cannot be read: the queue gets what is known of them

    def _copied(self, found: tuple[_Originals, int] | BaseException) -> None:
        if isinstance(found, BaseException):  # damaged: as for what cannot be read
            found = {}, self._dead.last_offset
        self._append(*found)

    # --- the queue ----------------------------------------------------------------------------------------------------

    def _append(self, originals: _Originals, last_offset: int) -> None:
        """Appends the records up to this offset, or as many as fit into a batch."""
        topics, name = self._letters.topics, self._queue.topic
        partition = self._partition(name)
        if partition is None:
            self._give_up(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name)
            return
        now_ms = topics.clock.wall_ms()
        last_offset = min(last_offset, self._next_offset + RECORDS_AT_ONCE - 1)
        letters = [
            LogRecord(number, now_ms, *originals.get(offset, (None, None)), self._headers(offset))
            for number, offset in enumerate(range(self._next_offset, last_offset + 1))
        ]
        letters = letters[: _fitting(encode_records(letters, 0, now_ms), partition.settings.max_message_bytes)]
        data = encode_batch(letters, base_sequence=-1)
        batch = Batch(data, BatchHeader._make(HEADER.unpack_from(data)))
        if not partition.producers_loaded:
            partition.load_producers(now_ms, nobody_waits)
        response = ProduceResponse.PartitionProduceResponse()

        def appended(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                self._appended(len(letters), InQueue(name, self._partition_index(name), response.base_offset))
            else:
                self._give_up(error.name)

        append(Entry(name, partition, batch, response, appended), now_ms, None, acked=True)

    def _headers(self, offset: int) -> tuple[tuple[str, bytes], ...]:
        key, group_id, partition = self._dead.key, self._dead.key.group_id, self._dead.key.partition
        topic = self._letters.topics.topic_name(key.topic_id) or ""
        return (
            (_HEADER + "topic", topic.encode()),
            (_HEADER + "partition", str(partition).encode()),
            (_HEADER + "offset", str(offset).encode()),
            (_HEADER + "group", group_id.encode()),
            (_HEADER + "delivery.count", str(self._dead.delivery_count).encode()),
            (_HEADER + "message", self._dead.cause.encode()),
        )

    def _appended(self, count: int, queue: InQueue) -> None:
        self._report(self._next_offset + count - 1, queue)
        self._next_offset += count
        if self._next_offset > self._dead.last_offset:
            self._done()
        else:
            self.go_on()

    def _give_up(self, why: str) -> None:
        dead = self._dead
        self._report(dead.last_offset, InQueue(self._queue.topic, reason=why))
        self._letters.on_fact(
            Fact(
                FAILED,
                {
                    "group": dead.key.group_id,
                    "topic": self._letters.topics.topic_name(dead.key.topic_id),
                    "partition": dead.key.partition,
                    "offsets": f"{self._next_offset}-{dead.last_offset}",
                    "reason": why,
                },
            )
        )
        self._done()

    def _report(self, last_offset: int, queue: InQueue) -> None:
        dead = self._dead
        records = OffsetRange(self._next_offset, last_offset, dead.delivery_count, -1)
        self._letters.outcomes.on_dead(dead.place, records, dead.cause, queue)


def _originals(records: bytes, first_offset: int, last_offset: int, bytes_max: int) -> tuple[_Originals, int]:
    """The records of these offsets, and to which offset they were looked for. Those that are too large are left out."""
    found: dict[int, tuple[bytes | None, bytes | None]] = {}
    looked_to = first_offset - 1
    for position, header in split(records):
        if header.base_offset > last_offset:
            break
        looked_to = header.last_offset
        try:
            decoded: Sequence[LogRecord] = decode_records(records, position, header)
        except (CorruptBatch, UnsupportedCompression):
            continue
        found |= {
            each.offset: (each.key, each.value)
            for each in decoded
            if first_offset <= each.offset <= last_offset and len(each.key or b"") + len(each.value or b"") <= bytes_max
        }
    return found, last_offset if looked_to < first_offset else min(looked_to, last_offset)


def _fitting(encoded: Sequence[bytes], bytes_max: int) -> int:
    """How many of these records fit into a batch of this size: the first in any case."""
    size = HEADER.size
    for count, record in enumerate(encoded):
        size += len(record)
        if size > bytes_max and count:
            return count
    return len(encoded)
