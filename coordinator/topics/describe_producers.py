"""DescribeProducers: the producers of a partition, and where their open transactions begin.

This is Kafka's ReplicaManager.activeProducerState.

This is how a hanging transaction is found: one that is open in a partition but unknown to every coordinator. Producers that
have not appended for `producer.id.expiration.ms` are not listed.
"""

from collections.abc import Callable

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import DescribeProducersRequest, DescribeProducersResponse
from coordinator.topics import names
from coordinator.topics.allowed import IsAllowed, everything
from coordinator.topics.partition import State
from coordinator.topics.producer_state import ProducerEntry
from coordinator.topics.topics import Topics

_NO_SEQUENCE = -1

_Topic = DescribeProducersResponse.TopicResponse
_Partition = DescribeProducersResponse.PartitionResponse
_Producer = DescribeProducersResponse.ProducerState


def describe_producers(
    topics: Topics,
    request: DescribeProducersRequest,
    reply: Callable[[DescribeProducersResponse], None],
    is_allowed: IsAllowed = everything,
) -> None:
    """Calls `reply` when the producers of all partitions are loaded: usually at once.

    The response has the errors of single partitions: INVALID_TOPIC_EXCEPTION, TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR.
    """
    wanted = [
        (topic.name, index) for topic in request.topics if is_allowed(topic.name) for index in topic.partition_indexes
    ]
    topics.load_producers(wanted, lambda: reply(_answer(topics, request, is_allowed)))


def refusal(request: DescribeProducersRequest, error: ErrorCode, message: str | None) -> DescribeProducersResponse:
    """A response with the same error for every partition."""
    return DescribeProducersResponse(
        topics=[
            _Topic(name=topic.name, partitions=[_refused(index, error, message) for index in topic.partition_indexes])
            for topic in request.topics
        ]
    )


def _answer(topics: Topics, request: DescribeProducersRequest, is_allowed: IsAllowed) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            _Topic(
                name=topic.name,
                partitions=[_described(topics, topic.name, index, is_allowed) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _refused(index: int, error: ErrorCode, message: str | None = None) -> DescribeProducersResponse.PartitionResponse:
    return _Partition(partition_index=index, error_code=error, error_message=message)


def _described(
    topics: Topics, name: str, index: int, is_allowed: IsAllowed
) -> DescribeProducersResponse.PartitionResponse:
    reason = names.why_invalid(name)
    if reason is not None:
        return _refused(index, ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")
    if not is_allowed(name):
        return _refused(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
    if topics.topic_id(name) is None:
        return _refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    partition = topics.replica(name, index)
    if partition is None:
        return _refused(index, topics.why_absent(name, index))
    if partition.state is not State.ACTIVE:
        return _refused(index, ErrorCode.KAFKA_STORAGE_ERROR)
    producers = sorted(partition.producers, key=lambda producer: producer.producer_id)
    return _Partition(partition_index=index, active_producers=[_described_producer(producer) for producer in producers])


def _described_producer(producer: ProducerEntry) -> DescribeProducersResponse.ProducerState:
    return _Producer(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.batches[-1].last_sequence if producer.batches else _NO_SEQUENCE,
        last_timestamp=producer.timestamp_ms,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=producer.first_offset,
    )
