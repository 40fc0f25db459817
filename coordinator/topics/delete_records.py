"""DeleteRecords: what is before an offset is out of sight at once, and durably so when the answer leaves.

The disk's space comes back by whole segments. Only what readers may see can be deleted (-1 stands for all of it), and
only from topics that delete by age or size anyway: of a topic that is compacted alone, Kafka promises the last record of
each key. Deleting what is already gone is no error.
"""

from coordinator.log.log import OffsetOutOfRange
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import DeleteRecordsRequest, DeleteRecordsResponse
from coordinator.topics.engine import Topics
from coordinator.topics.partition import State

_HIGH_WATERMARK = -1
_NO_WATERMARK = -1

_Topic = DeleteRecordsResponse.DeleteRecordsTopicResult
_Partition = DeleteRecordsResponse.DeleteRecordsPartitionResult


def delete_records(topics: Topics, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Every partition by itself; of one that is named twice the last entry counts."""
    response = DeleteRecordsResponse()
    by_name: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        by_name.setdefault(topic.name, {}).update({entry.partition_index: entry.offset for entry in topic.partitions})
    for name, offsets in by_name.items():
        partitions = [_deleted(topics, name, index, offset) for index, offset in offsets.items()]
        response.topics.append(_Topic(name=name, partitions=partitions))
    return response


def refusal(request: DeleteRecordsRequest, error: KafkaError) -> DeleteRecordsResponse:
    """The same error for every partition."""
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
    """The partition's new start offset."""
    partition = topics.user_partition(name, index)
    if partition is None:
        known = topics.partition(name, index) is not None
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
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
