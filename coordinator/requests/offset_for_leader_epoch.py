"""OffsetForLeaderEpoch: where the records of an epoch end, so that a consumer finds out what a lost leader took along.

One node leads every partition from its creation on, in epoch 0: that epoch ends where the log ends, a later one is not
known (-1, -1), and an earlier one ends where the log begins, as Kafka has it.
"""

from coordinator.api.access import CLUSTER_ACTION, DESCRIBE_TOPIC
from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from coordinator.topics.engine import LEADER_EPOCH
from coordinator.topics.partition import State

_NO_EPOCH = -1

_Topic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
_Partition = OffsetForLeaderEpochResponse.EpochEndOffset


def handle(server: Server, exchange: Exchange[OffsetForLeaderEpochRequest]) -> None:
    request = exchange.request
    exchange.reply(
        OffsetForLeaderEpochResponse(
            topics=[
                _Topic(topic=topic.topic, partitions=[_end(server, topic.topic, asked) for asked in topic.partitions])
                for topic in request.topics
            ]
        )
    )


def refuse(request: OffsetForLeaderEpochRequest, error: KafkaError, _api_version: int) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            _Topic(
                topic=topic.topic,
                partitions=[_Partition(partition=asked.partition, error_code=error.code) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _end(
    server: Server, name: str, asked: OffsetForLeaderEpochRequest.OffsetForLeaderPartition
) -> OffsetForLeaderEpochResponse.EpochEndOffset:
    answer = _Partition(partition=asked.partition)
    partition = server.topics.partition(name, asked.partition)
    if partition is None:
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif partition.state is State.FAILED:
        answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    elif asked.current_leader_epoch not in {_NO_EPOCH, LEADER_EPOCH}:
        newer = asked.current_leader_epoch > LEADER_EPOCH
        answer.error_code = ErrorCode.UNKNOWN_LEADER_EPOCH if newer else ErrorCode.FENCED_LEADER_EPOCH
    elif asked.leader_epoch == LEADER_EPOCH:
        answer.leader_epoch, answer.end_offset = LEADER_EPOCH, partition.high_watermark
    elif asked.leader_epoch < _NO_EPOCH:
        answer.leader_epoch, answer.end_offset = asked.leader_epoch, partition.start_offset
    return answer


API = Api(
    key=23,
    name="OffsetForLeaderEpoch",
    versions=(2, 4),
    access=(CLUSTER_ACTION, DESCRIBE_TOPIC),
    handle=handle,
    refuse=refuse,
    writes=False,
)
