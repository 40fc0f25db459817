"""Brokers of a Kafka-compatible cluster in memory, on a simulated loop, with the faults that a network and brokers have.

Requests and answers are late, lost or arrive twice, and arrive after their sender has given up; partitions change their leader.
A batch that a leader has appended and lost again before it was replicated is one whose request was lost: nobody has read it.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from coordinator.client.asynchronous import Client
from coordinator.cluster.engine.kafka.cluster import APACHE_FEATURE
from coordinator.log import batch
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    ApiVersionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    FetchRequest,
    FetchResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    Message,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
)
from coordinator_lab.simulation.memory_engine import Deliveries

NODES = (1, 2, 3)
PAGE_BATCHES = 40
START_MS = 1_700_000_000_000


@dataclass
class StoredPartition:
    leader: int
    begin: int = 0
    end: int = 0
    batches: list[tuple[int, bytes]] = field(default_factory=list)
    """Base offset and bytes."""
    producers: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Epoch and next sequence, by producer id."""
    appended: asyncio.Event = field(default_factory=asyncio.Event)


class SimulatedBrokers:
    """What all brokers have. `connect` stands for `kafka/link.py`'s."""

    def __init__(self, random: Random, deliveries: Deliveries, *, is_apache: bool) -> None:
        self.random = random
        self.is_apache = is_apache
        self.topics: dict[str, list[StoredPartition]] = {}
        self.epochs: dict[str, int] = {}
        self._deliveries = deliveries
        self._waiting: set[asyncio.Future[None]] = set()
        self._acts: dict[type[Message], Callable[[int, Any], Any]] = {
            MetadataRequest: self._metadata,
            CreateTopicsRequest: self._create,
            DescribeConfigsRequest: self._describe,
            FindCoordinatorRequest: lambda node, _: FindCoordinatorResponse(node_id=node),
            InitProducerIdRequest: self._init,
            ProduceRequest: self._produce,
            FetchRequest: self._fetch,
            ListOffsetsRequest: self._offsets,
            DeleteRecordsRequest: self._delete,
        }

    async def connect(self, host: str, _port: int, _address: Any, _limit_s: float) -> Client:
        return SimulatedLink(self, int(host))  # type: ignore[return-value]

    def move_leaders(self) -> None:
        """Every partition gets some leader."""
        for partitions in self.topics.values():
            for partition in partitions:
                partition.leader = self.random.choice(NODES)

    # --- requests -----------------------------------------------------------------------------------------------------

    def receive(self, node: int, request: Message, answer: Callable[[Message], None]) -> None:
        loop = asyncio.get_running_loop()
        arrivals, answer_after, _ = self._deliveries.draw(request.NAME)

        def arrive(is_first: bool) -> None:
            result = self._acts[type(request)](node, request)
            if isinstance(request, FetchRequest) and request.max_wait_ms and not self._has_records(result):
                self._wait(node, request, answer)
            elif is_first and answer_after is not None:
                loop.call_later(answer_after, answer, result)

        for number, after in enumerate(arrivals):
            loop.call_later(after, arrive, number == 0)

    def _wait(self, node: int, request: FetchRequest, answer: Callable[[Message], None]) -> None:
        wanted = request.topics[0].partitions[0]
        partition = self.topics[request.topics[0].topic][wanted.partition]

        async def wait() -> None:
            try:
                async with asyncio.timeout(request.max_wait_ms / 1000):
                    while partition.end <= wanted.fetch_offset:
                        partition.appended.clear()
                        await partition.appended.wait()
            except TimeoutError:
                pass
            answer(self._fetch(node, request))

        waiting = asyncio.ensure_future(wait())
        self._waiting.add(waiting)
        waiting.add_done_callback(self._waiting.discard)

    @staticmethod
    def _has_records(response: FetchResponse) -> bool:
        found = response.responses[0].partitions[0]
        return bool(found.records) or bool(found.error_code)

    def _metadata(self, _node: int, request: MetadataRequest) -> MetadataResponse:
        wanted = [*self.topics] if request.topics is None else [topic.name or "" for topic in request.topics]
        answered = []
        for name in wanted:
            partitions = [
                MetadataResponse.MetadataResponsePartition(
                    partition_index=number, leader_id=partition.leader, replica_nodes=[*NODES]
                )
                for number, partition in enumerate(self.topics.get(name, ()))
            ]
            code = ErrorCode.NONE if name in self.topics else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            answered.append(MetadataResponse.MetadataResponseTopic(error_code=code, name=name, partitions=partitions))
        brokers = [MetadataResponse.MetadataResponseBroker(node_id=node, host=str(node), port=9092) for node in NODES]
        return MetadataResponse(brokers=brokers, topics=answered)

    def _create(self, _node: int, request: CreateTopicsRequest) -> CreateTopicsResponse:
        [topic] = request.topics
        code = ErrorCode.TOPIC_ALREADY_EXISTS if topic.name in self.topics else ErrorCode.NONE
        if not code:
            self.topics[topic.name] = [StoredPartition(self.random.choice(NODES)) for _ in range(topic.num_partitions)]
        return CreateTopicsResponse(
            topics=[CreateTopicsResponse.CreatableTopicResult(name=topic.name, error_code=code)]
        )

    def _describe(self, _node: int, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        settings = {
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "retention.bytes": "-1",
            "message.timestamp.type": "LogAppendTime",
            "min.insync.replicas": "2",
            "unclean.leader.election.enable": "false",
            "max.message.bytes": "300",
        }
        configs = [
            DescribeConfigsResponse.DescribeConfigsResourceResult(name=name, value=value)
            for name, value in settings.items()
        ]
        return DescribeConfigsResponse(
            results=[
                DescribeConfigsResponse.DescribeConfigsResult(resource_name=each.resource_name, configs=configs)
                for each in request.resources
            ]
        )

    def _init(self, _node: int, request: InitProducerIdRequest) -> InitProducerIdResponse:
        name = request.transactional_id or ""
        self.epochs[name] = self.epochs.get(name, -1) + 1
        return InitProducerIdResponse(producer_id=100 + [*self.epochs].index(name), producer_epoch=self.epochs[name])

    # --- partitions ---------------------------------------------------------------------------------------------------

    def _led(self, node: int, topic: str, number: int) -> StoredPartition | None:
        partition = self.topics[topic][number]
        return partition if partition.leader == node else None

    def _produce(self, node: int, request: ProduceRequest) -> ProduceResponse:
        responses = []
        for topic in request.topic_data:
            answers = []
            for data in topic.partition_data:
                partition = self._led(node, topic.name, data.index)
                code, offset = (
                    (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
                    if partition is None
                    else self._append(partition, data.records or b"")
                )
                answers.append(ProduceResponse.PartitionProduceResponse(data.index, code, offset))
            responses.append(ProduceResponse.TopicProduceResponse(topic.name, partition_responses=answers))
        return ProduceResponse(responses=responses)

    def _append(self, partition: StoredPartition, records: bytes) -> tuple[ErrorCode, int]:
        header = batch.check_batch(records)
        assert header.size_bytes <= 300, "a batch larger than the topic takes"
        if header.producer_id >= 0:
            epoch, following = partition.producers.get(header.producer_id, (-1, 0))
            if header.producer_epoch < epoch:
                return ErrorCode.INVALID_PRODUCER_EPOCH, -1
            if header.base_sequence != (following if header.producer_epoch == epoch else 0):
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            partition.producers[header.producer_id] = header.producer_epoch, header.base_sequence + header.record_count
        offset = partition.end
        time_ms = START_MS + int(asyncio.get_running_loop().time() * 1000)
        partition.batches.append((offset, batch.restamp(batch.with_log_append_time(records, time_ms), offset, 0)))
        partition.end += header.record_count
        partition.appended.set()
        return ErrorCode.NONE, offset

    def _fetch(self, node: int, request: FetchRequest) -> FetchResponse:
        wanted = request.topics[0].partitions[0]
        answer = FetchResponse.PartitionData(partition_index=wanted.partition)
        partition = self._led(node, request.topics[0].topic, wanted.partition)
        if partition is None:
            answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif not partition.begin <= wanted.fetch_offset <= partition.end:
            answer.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            answer.high_watermark, answer.log_start_offset = partition.end, partition.begin
            found = [
                data for offset, data in partition.batches if batch.read_header(data).next_offset > wanted.fetch_offset
            ]
            answer.records = b"".join(found[:PAGE_BATCHES])
        return FetchResponse(responses=[FetchResponse.FetchableTopicResponse(partitions=[answer])])

    def _offsets(self, node: int, request: ListOffsetsRequest) -> ListOffsetsResponse:
        wanted = request.topics[0].partitions[0]
        partition = self._led(node, request.topics[0].name, wanted.partition_index)
        answer = ListOffsetsResponse.ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
        if partition is None:
            answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        else:
            answer.offset = partition.end if wanted.timestamp == -1 else partition.begin
        return ListOffsetsResponse(topics=[ListOffsetsResponse.ListOffsetsTopicResponse(partitions=[answer])])

    def _delete(self, node: int, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
        wanted = request.topics[0].partitions[0]
        partition = self._led(node, request.topics[0].name, wanted.partition_index)
        answer = DeleteRecordsResponse.DeleteRecordsPartitionResult(partition_index=wanted.partition_index)
        if partition is None:
            answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        else:
            partition.begin = max(partition.begin, wanted.offset)
            partition.batches = [
                each for each in partition.batches if batch.read_header(each[1]).next_offset > partition.begin
            ]
        return DeleteRecordsResponse(topics=[DeleteRecordsResponse.DeleteRecordsTopicResult(partitions=[answer])])


class SimulatedLink:
    """Stands for `Client`."""

    def __init__(self, brokers: SimulatedBrokers, node: int) -> None:
        self.name = f"broker {node}"
        features = [APACHE_FEATURE] if brokers.is_apache else []
        finalized = [ApiVersionsResponse.FinalizedFeatureKey(name=name) for name in features]
        self.api_versions = ApiVersionsResponse(finalized_features=finalized)
        self.is_lost = False
        self._brokers = brokers
        self._node = node

    def send(self, request: Message, _version: int) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._brokers.receive(self._node, request, lambda message: answer.done() or answer.set_result(message))
        return answer

    def close(self, _text: str = "") -> None:
        self.is_lost = True
