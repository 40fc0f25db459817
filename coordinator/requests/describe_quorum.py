"""DescribeQuorum (key 55): describes the quorum of the metadata log, of which this node is the only voter (KIP-595, KIP-836).

Kafka describes `__cluster_metadata-0` only if the request names this partition and nothing else; any other partition is
UNKNOWN_TOPIC_OR_PARTITION. v2 lists the controllers' listeners. Here the node is listed without any, because no listener of
this server speaks Kafka's quorum protocol.
"""

from coordinator.api import Api, Exchange, Forwarded, Server
from coordinator.api.guards import guarded_by_cluster
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import DescribeQuorumRequest, DescribeQuorumResponse
from coordinator.security.access import DESCRIBE_CLUSTER
from coordinator.topics import names
from coordinator.topics.leader_epochs import LEADER_EPOCH

_METADATA = {(names.CLUSTER_METADATA, 0)}
_NODES_SINCE = 2
_ELSEWHERE = "This server does not host this topic-partition."

_Topic = DescribeQuorumResponse.TopicData
_Partition = DescribeQuorumResponse.PartitionData
_Node = DescribeQuorumResponse.Node
_Replica = DescribeQuorumResponse.ReplicaState


def handle(server: Server, exchange: Exchange[DescribeQuorumRequest]) -> None:
    request = exchange.request
    partitions = [(topic.topic_name, each.partition_index) for topic in request.topics for each in topic.partitions]
    if len(partitions) == len(request.topics) == 1 and set(partitions) == _METADATA:
        exchange.reply(_described(server, exchange.api_version))
    else:
        exchange.reply(_unknown(request))


def _described(server: Server, api_version: int) -> DescribeQuorumResponse:
    """The quorum, one voter or all brokers of this process: each has always just fetched, as Kafka's leader says of itself."""
    log = server.topics.metadata
    now_ms = server.topics.clock.wall_ms()
    voters = [
        _Replica(
            replica_id=node_id,
            log_end_offset=log.end_offset,
            last_fetch_timestamp=now_ms,
            last_caught_up_timestamp=now_ms,
        )
        for node_id in server.topics.nodes
    ]
    partition = _Partition(
        leader_id=server.controller_id,
        leader_epoch=LEADER_EPOCH,
        high_watermark=log.high_watermark,
        current_voters=voters,
    )
    topic = _Topic(topic_name=names.CLUSTER_METADATA, partitions=[partition])
    nodes = [_Node(node_id=node_id) for node_id in server.topics.nodes] if api_version >= _NODES_SINCE else []
    return DescribeQuorumResponse(topics=[topic], nodes=nodes)


def _unknown(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(
        topics=[
            _Topic(
                topic_name=topic.topic_name,
                partitions=[
                    _Partition(
                        partition_index=each.partition_index,
                        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        error_message=_ELSEWHERE,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


_ERRORS = frozenset({
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
})  # fmt: skip

API = Api(
    key=55,
    name="DescribeQuorum",
    versions=(0, 2),
    access=(DESCRIBE_CLUSTER,),
    handle=handle,
    guard=guarded_by_cluster(DESCRIBE_CLUSTER, handle),
    writes=False,
    errors=_ERRORS,
    elements=("topics.partitions",),
    overlay=Forwarded(last=1),
)
