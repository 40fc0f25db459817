"""Idempotent producers and readers of records, and the checks of a topic's log (I20, in Jepsen's terms).

A producer sends one batch at a time and retries it with the same sequence number until it is acknowledged. Each of its
values must therefore be in the partition exactly once, and in order: no *duplicate*, no *lost write*, no offset with two
different values (*inconsistent offsets*), and no value that was read may disappear.
"""

from abc import ABC, abstractmethod
from typing import Any

from coordinator.log.batch import CorruptBatch, decode_records, split
from coordinator.log.batch_builder import encode_batch
from coordinator.log.record import LogRecord
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import FetchRequest, InitProducerIdRequest, ProduceRequest
from coordinator_lab.simulation.clients import RETRIABLE, Client, World
from coordinator_lab.simulation.history import OnBroken
from coordinator_lab.simulation.wire import NoResponse

EVENTS, PARTITIONS = "events", 2
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
"""Kafka's isolation levels."""
INVARIANT = "I20 records are kept"
RETRIABLE_PRODUCE = RETRIABLE | {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_SERVER_ERROR}


class KnownRecords:
    """The records known to be in the partitions: offset -> value."""

    def __init__(self, broken: OnBroken) -> None:
        self.known: list[dict[int, str]] = [{} for _ in range(PARTITIONS)]
        self.acknowledged = 0
        self._places: list[dict[str, int]] = [{} for _ in range(PARTITIONS)]
        self._broken = broken

    def observe(self, partition: int, offset: int, value: str, how: str) -> None:
        """Checks a value that was read or acknowledged at this offset, and remembers it. `how` says which."""
        there = self.known[partition].setdefault(offset, value)
        if there != value:
            self._broken(INVARIANT, f"partition {partition} offset {offset}: {value!r} {how}, but {there!r} is there")
        place = self._places[partition].setdefault(value, offset)
        if place != offset:
            self._broken(INVARIANT, f"partition {partition}: {value!r} {how} at {offset}, but it is at {place}")


class IdempotentClient(Client, ABC):
    """A client with a producer id, its epoch and a sequence number per partition. It gets another id when it loses it."""

    def __init__(self, world: World, name: str, partitions: int) -> None:
        super().__init__(world, name)
        self.answered_s = -1.0
        """When an operation last succeeded (loop time)."""
        self._producer_id = -1
        """-1 if it has none."""
        self._epoch = -1
        self._sequences = [0] * partitions
        self._count = 0
        self._written_ms = 1_700_000_000_000 - 86_400_000
        """A day ago, because the server's clock may jump back and rejects records from the future."""

    async def run(self) -> None:
        while True:
            await self.think()
            try:
                if self._producer_id < 0:
                    await self._init_producer_id()
                else:
                    await self._next_operation()
            except NoResponse:
                continue

    @abstractmethod
    async def _init_producer_id(self) -> None:
        """Gets a producer id. Raises NoResponse."""

    @abstractmethod
    async def _next_operation(self) -> None:
        """Performs one operation with the producer id. May raise NoResponse."""


class Producer(IdempotentClient):
    """Writes numbered values and retries each batch until it is acknowledged."""

    def __init__(self, world: World, name: str, records: KnownRecords, topic: str = EVENTS) -> None:
        super().__init__(world, name, PARTITIONS)
        self.records = records
        self.topic = topic

    async def _init_producer_id(self) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        response = await self.call(request, self.random.randrange(0, 5))
        if response.error_code:
            if response.error_code not in RETRIABLE_PRODUCE:
                self.unexpected("InitProducerId", response.error_code)
            raise NoResponse
        self._producer_id, self._epoch = response.producer_id, response.producer_epoch

    async def _next_operation(self) -> None:
        """Sends one batch until it is acknowledged."""
        partition = self.random.randrange(PARTITIONS)
        values = [f"{self.name} {self._count + each}" for each in range(self.random.randint(1, 5))]
        self._count += len(values)
        batch = encode_batch(
            [LogRecord(index, self._written_ms, None, value.encode(), ()) for index, value in enumerate(values)],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=self._sequences[partition],
        )
        while True:
            try:
                answer = await self._send(partition, batch)
            except NoResponse:
                await self.think()
                continue
            code = ErrorCode(answer.error_code)
            if code is ErrorCode.NONE or code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                break
            if code not in RETRIABLE_PRODUCE:
                self.unexpected("Produce", code)
                raise NoResponse
            await self.think()
        self._sequences[partition] += len(values)
        self.records.acknowledged += len(values)
        if answer.base_offset >= 0:
            for index, value in enumerate(values):
                self.records.observe(partition, answer.base_offset + index, value, "acknowledged")
        self.answered_s = self.world.loop.time()

    async def _send(self, partition: int, batch: bytes) -> Any:
        topic = ProduceRequest.TopicProduceData(
            name=self.topic, partition_data=[ProduceRequest.PartitionProduceData(partition, batch)]
        )
        request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=5_000, topic_data=[topic])
        response = await self.call(request, self.random.randrange(3, 13))
        return response.responses[0].partition_responses[0]


class PartitionReader(Client, ABC):
    """Repeatedly picks a partition of its topic and reads it from beginning to end."""

    def __init__(self, world: World, name: str, topic: str, partitions: int, isolation_level: int) -> None:
        super().__init__(world, name)
        self.topic = topic
        self.partitions = partitions
        self.isolation_level = isolation_level

    async def run(self) -> None:
        while True:
            await self.think()
            try:
                await self.read_all(self.random.randrange(self.partitions))
            except NoResponse:
                continue

    @abstractmethod
    async def read_all(self, partition: int) -> None:
        """Reads a partition completely and checks it. Raises NoResponse."""

    async def fetch_some(self, partition: int, offset: int) -> Any:
        """The partition's part of the response, without an error. Raises NoResponse."""
        asked = FetchRequest.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=2_000)
        request = FetchRequest(
            max_wait_ms=self.random.choice([0, 500]),
            min_bytes=self.random.choice([0, 1]),
            max_bytes=10_000,
            isolation_level=self.isolation_level,
            session_epoch=-1,
            topics=[FetchRequest.FetchTopic(topic=self.topic, partitions=[asked])],
        )
        response = await self.call(request, self.random.randrange(4, 13))
        if response.throttle_time_ms and not response.responses:
            raise NoResponse  # a quota
        answer = response.responses[0].partitions[0]
        if answer.error_code:
            if answer.error_code not in RETRIABLE_PRODUCE:
                self.unexpected("Fetch", answer.error_code)
            raise NoResponse
        return answer


class Reader(PartitionReader):
    """Checks that every known record is there, in the order in which it was written."""

    def __init__(self, world: World, number: int, records: KnownRecords) -> None:
        super().__init__(world, f"reader-{number}", EVENTS, PARTITIONS, READ_UNCOMMITTED)
        self.records = records

    async def read_all(self, partition: int) -> None:
        """Every record known when this began must be there. Raises NoResponse."""
        must_have = dict(self.records.known[partition])
        offset = 0
        seen: dict[int, str] = {}
        last: dict[str, int] = {}
        while True:
            records, high_watermark = await self._fetch(partition, offset)
            for record in records:
                if record.offset < offset:
                    continue
                if record.offset != offset:
                    self.world.broken(INVARIANT, f"partition {partition}: {record.offset} follows {offset - 1}")
                value = (record.value or b"").decode()
                self.records.observe(partition, record.offset, value, "read")
                seen[record.offset] = value
                producer, _, number = value.rpartition(" ")
                if int(number) <= last.get(producer, -1):
                    self.world.broken(INVARIANT, f"partition {partition}: {value!r} at {record.offset}, out of order")
                last[producer] = int(number)
                offset = record.offset + 1
            if offset >= high_watermark:
                break
        lost = [(each, must_have[each]) for each in must_have if each not in seen]
        if lost:
            self.world.broken(INVARIANT, f"partition {partition} ends at {offset} and has lost {lost[:3]}")

    async def _fetch(self, partition: int, offset: int) -> tuple[list[LogRecord], int]:
        answer = await self.fetch_some(partition, offset)
        content = answer.records or b""
        try:
            records = [record for at, header in split(content) for record in decode_records(content, at, header)]
        except CorruptBatch as error:
            self.world.broken(INVARIANT, f"partition {partition} at {offset}: {error}")
            raise NoResponse from None
        if not records and offset < answer.high_watermark:
            raise NoResponse
        return records, answer.high_watermark
