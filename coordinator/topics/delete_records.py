"""DeleteRecords: deletes the records before an offset (Kafka's ReplicaManager.deleteRecords).

They are invisible at once, and durably so when the response is sent; disk space is freed in whole segments. Only records that
readers can see can be deleted (-1 stands for all of them), and only from topics that delete by age or size anyway: of a topic
that is only compacted, Kafka guarantees the last record of each key. Deleting records that are gone already is no error.
"""

from coordinator.log.log import OffsetOutOfRange
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import DeleteRecordsRequest, DeleteRecordsResponse
from coordinator.topics.allowed import IsAllowed, everything
from coordinator.topics.partition import State
from coordinator.topics.topics import Topics

_HIGH_WATERMARK = -1
_NO_WATERMARK = -1

_Topic = DeleteRecordsResponse.DeleteRecordsTopicResult
_Partition = DeleteRecordsResponse.DeleteRecordsPartitionResult


def delete_records(
    topics: Topics, request: DeleteRecordsRequest, is_allowed: IsAllowed = everything
) -> DeleteRecordsResponse:
    """Deletes, and returns the response; the last entry counts for a partition that is named twice.

    The response has the errors of single partitions: TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION,
    INVALID_TOPIC_EXCEPTION (the log of a shard), OFFSET_OUT_OF_RANGE, POLICY_VIOLATION (the topic is only compacted),
    KAFKA_STORAGE_ERROR.
    """
    response = DeleteRecordsResponse()
    by_name: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        for entry in topic.partitions:
            by_name.setdefault(topic.name, {})[entry.partition_index] = entry.offset
    for name, offsets in by_name.items():
        if is_allowed(name):
            partitions = [_deleted(topics, name, index, offset) for index, offset in offsets.items()]
        else:
            error = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            partitions = [_refused(index, error) for index in offsets]
        response.topics.append(_Topic(name=name, partitions=partitions))
    return response


def refusal(request: DeleteRecordsRequest, error: KafkaError) -> DeleteRecordsResponse:
    """A response with the same error for every partition."""
    return DeleteRecordsResponse(
        topics=[
            _Topic(name=topic.name, partitions=[_refused(entry.partition_index, error) for entry in topic.partitions])
            for topic in request.topics
        ]
    )


def _refused(index: int, error: KafkaError) -> DeleteRecordsResponse.DeleteRecordsPartitionResult:
    return _Partition(partition_index=index, low_watermark=_NO_WATERMARK, error_code=error.code)


def _deleted(topics: Topics, name: str, index: int, offset: int) -> DeleteRecordsResponse.DeleteRecordsPartitionResult:
    try:
        return _Partition(partition_index=index, low_watermark=_delete(topics, name, index, offset))
    except KafkaError as error:
        return _refused(index, error)


def _delete(topics: Topics, name: str, index: int, offset: int) -> int:
    """Deletes, and returns the partition's new start offset."""
    partition = topics.user_partition(name, index)
    if partition is None:
        is_internal = topics.partition(name, index) is not None
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION if is_internal else topics.why_absent(name, index))
    if partition.state is not State.ACTIVE:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    if partition.settings.compacts and not partition.settings.deletes:
        raise KafkaError(ErrorCode.POLICY_VIOLATION)
    try:
        partition.delete_before(partition.high_watermark if offset == _HIGH_WATERMARK else offset)
    except OffsetOutOfRange as error:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE) from error
    except OSError as error:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) from error
    return partition.start_offset
