"""ListOffsets: the offset at a timestamp, or at one of the special places with a negative number (ReplicaManager.fetchOffset).

The special places came with later versions; an older version that asks for one gets UNSUPPORTED_VERSION for that partition.
There is no tiered storage, so everything is "local", and the places in tiered storage have no offset (-1). Only durable records
count, and for readers of committed records only stable ones: a record that a reader cannot fetch has no offset yet.
"""

from collections.abc import Callable

from coordinator.log.log import DamagedLog, TimestampOffset
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ListOffsetsRequest, ListOffsetsResponse
from coordinator.topics.engine import LEADER_EPOCH, InternalPartition, Topics
from coordinator.topics.partition import Partition

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
_SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1
_NO_EPOCH = -1
_EPOCH_SINCE = 4

_Response = ListOffsetsResponse.ListOffsetsPartitionResponse


def list_offsets(
    topics: Topics, request: ListOffsetsRequest, api_version: int, reply: Callable[[ListOffsetsResponse], None]
) -> None:
    """Calls `reply` at once, or when the producers are loaded, because only then the last stable offset is known.

    The response has the errors of single partitions: UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST (a partition named twice),
    UNKNOWN_LEADER_EPOCH, FENCED_LEADER_EPOCH, UNSUPPORTED_VERSION, KAFKA_STORAGE_ERROR. Raises UNKNOWN_SERVER_ERROR for an
    unknown isolation level.
    """
    if request.isolation_level not in {_READ_UNCOMMITTED, _READ_COMMITTED}:
        # As in Kafka, which has no error code for this.
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    if request.isolation_level != _READ_COMMITTED:
        reply(_offsets(topics, request, api_version))
        return
    asked = [(topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions]
    topics.load_producers(asked, lambda: reply(_offsets(topics, request, api_version)))


def _offsets(topics: Topics, request: ListOffsetsRequest, api_version: int) -> ListOffsetsResponse:
    committed = request.isolation_level == _READ_COMMITTED
    response = ListOffsetsResponse()
    by_name: dict[str, dict[int, list[ListOffsetsRequest.ListOffsetsPartition]]] = {}
    for topic in request.topics:
        partitions = by_name.setdefault(topic.name, {})
        for partition in topic.partitions:
            partitions.setdefault(partition.partition_index, []).append(partition)
    for name, partitions in by_name.items():
        responses = [
            _Response(partition_index=index, error_code=ErrorCode.INVALID_REQUEST)
            if len(asked) > 1
            else _partition_response(topics, name, asked[0], api_version, committed=committed)
            for index, asked in partitions.items()
        ]
        response.topics.append(ListOffsetsResponse.ListOffsetsTopicResponse(name=name, partitions=responses))
    return response


def _partition_response(
    topics: Topics, name: str, asked: ListOffsetsRequest.ListOffsetsPartition, api_version: int, *, committed: bool
) -> ListOffsetsResponse.ListOffsetsPartitionResponse:
    response = _Response(partition_index=asked.partition_index)
    partition = topics.partition(name, asked.partition_index)
    if partition is None:
        response.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return response
    if partition.is_offline:
        response.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return response
    if asked.current_leader_epoch not in {_NO_EPOCH, LEADER_EPOCH}:
        newer = asked.current_leader_epoch > LEADER_EPOCH
        response.error_code = ErrorCode.UNKNOWN_LEADER_EPOCH if newer else ErrorCode.FENCED_LEADER_EPOCH
        return response
    try:
        _find(partition, asked.timestamp, api_version, response, committed=committed)
        if api_version < _EPOCH_SINCE:
            response.leader_epoch = _NO_EPOCH
    except KafkaError as error:
        response.error_code = error.code
    except (OSError, ValueError, DamagedLog):
        response.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    return response


def _find(
    partition: Partition | InternalPartition, timestamp: int, api_version: int, response: _Response, *, committed: bool
) -> None:
    if timestamp < 0 and api_version < _SINCE.get(timestamp, api_version + 1):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    log = partition.log
    offset_end = partition.last_stable_offset if committed else partition.high_watermark
    if timestamp == LATEST:
        response.offset, response.leader_epoch = offset_end, LEADER_EPOCH
    elif timestamp in {EARLIEST, EARLIEST_LOCAL}:
        response.offset, response.leader_epoch = partition.start_offset, LEADER_EPOCH
    elif timestamp in {LATEST_TIERED, EARLIEST_PENDING_UPLOAD} or log is None:
        pass
    else:
        found: TimestampOffset | None = (
            log.latest_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_time(timestamp)
        )
        if found is not None and found.offset < offset_end:
            response.timestamp, response.offset, response.leader_epoch = (
                found.timestamp,
                found.offset,
                found.leader_epoch,
            )
