"""OffsetForLeaderEpoch (key 23): the end offset of a leader epoch, by which a consumer detects lost records (KIP-320).

The current epoch ends at the high watermark, a later one is unknown (-1, -1), and one before all others ends where the log
begins, as in Kafka. One node leads every partition in epoch 0, from its creation on.
"""

from coordinator.api import Api, Exchange, Permits, Server
from coordinator.api.error_families import LEADER_ERRORS
from coordinator.api.guards import Reply, guarded_by_topic
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from coordinator.security.access import CLUSTER_ACTION, DESCRIBE_TOPIC
from coordinator.topics.partition import State

_Topic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
_Partition = OffsetForLeaderEpochResponse.EpochEndOffset


def handle(server: Server, exchange: Exchange[OffsetForLeaderEpochRequest]) -> None:
    _serve(server, exchange, exchange.request, exchange.reply)


def _serve(
    server: Server, _exchange: Exchange[OffsetForLeaderEpochRequest], request: OffsetForLeaderEpochRequest, reply: Reply
) -> None:
    reply(
        OffsetForLeaderEpochResponse(
            topics=[
                _Topic(
                    topic=topic.topic,
                    partitions=[_epoch_end(server, topic.topic, partition) for partition in topic.partitions],
                )
                for topic in request.topics
            ]
        )
    )


def refuse(request: OffsetForLeaderEpochRequest, error: KafkaError, _api_version: int) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            _Topic(
                topic=topic.topic,
                partitions=[_Partition(partition=each.partition, error_code=error.code) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )


_by_topic = guarded_by_topic(DESCRIBE_TOPIC, lambda topic: topic.topic, _serve, refuse)


def guard(server: Server, exchange: Exchange[OffsetForLeaderEpochRequest], permits: Permits) -> None:
    """A replica may ask about every topic, a consumer only about those that it may describe."""
    if permits.allows(CLUSTER_ACTION, quiet=True):
        handle(server, exchange)
    else:
        _by_topic(server, exchange, permits)


def _epoch_end(
    server: Server, name: str, requested: OffsetForLeaderEpochRequest.OffsetForLeaderPartition
) -> OffsetForLeaderEpochResponse.EpochEndOffset:
    end = _Partition(partition=requested.partition)
    partition = server.topics.partition(name, requested.partition)
    if partition is None:
        end.error_code = server.topics.why_absent(name, requested.partition)
    elif partition.state is State.FAILED:
        end.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    else:
        end.error_code = partition.epochs.check(requested.current_leader_epoch)
        if not end.error_code:
            end.leader_epoch, end.end_offset = partition.epochs.end_of(
                requested.leader_epoch, partition.start_offset, partition.high_watermark
            )
    return end


API = Api(
    key=23,
    name="OffsetForLeaderEpoch",
    versions=(2, 4),
    access=(CLUSTER_ACTION, DESCRIBE_TOPIC),
    handle=handle,
    refuse=refuse,
    guard=guard,
    writes=False,
    errors=LEADER_ERRORS,
    elements=("topics.partitions",),
)
