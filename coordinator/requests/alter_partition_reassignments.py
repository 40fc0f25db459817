"""AlterPartitionReassignments (key 45): moves the replicas of partitions, or cancels a move (KIP-455).

A partition's one replica is on this node already. Moving it here is accepted and changes nothing; any other replica list is
refused, and there is never a move to cancel. As in Kafka, a request that may take no time at all fails as a whole.
"""

from coordinator.api.declaration import Api
from coordinator.api.error_families import CONTROLLER_ERRORS, TOPIC_ERRORS
from coordinator.api.exchange import Exchange
from coordinator.api.guards import guarded_by_cluster
from coordinator.api.server import Server
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse
from coordinator.security.access import ALTER_CLUSTER
from coordinator.topics.placements import check_brokers

_Topic = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
_Partition = AlterPartitionReassignmentsResponse.ReassignablePartitionResponse


def handle(server: Server, exchange: Exchange[AlterPartitionReassignmentsRequest]) -> None:
    request = exchange.request
    if request.topics and request.timeout_ms <= 0:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
    exchange.reply(
        AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=request.allow_replication_factor_change,
            error_message=None if request.topics else "",
            responses=[
                _Topic(name=topic.name, partitions=[_altered(server, topic.name, each) for each in topic.partitions])
                for topic in request.topics
            ],
        )
    )


def refuse(
    request: AlterPartitionReassignmentsRequest, error: KafkaError, _api_version: int
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        error_code=error.code,
        error_message=error.message,
        responses=[
            _Topic(name=topic.name, partitions=[_result(each.partition_index, error) for each in topic.partitions])
            for topic in request.topics
        ],
    )


def _altered(
    server: Server, name: str, wanted: AlterPartitionReassignmentsRequest.ReassignablePartition
) -> AlterPartitionReassignmentsResponse.ReassignablePartitionResponse:
    try:
        _check(server, name, wanted)
    except KafkaError as error:
        return _result(wanted.partition_index, error)
    return _result(wanted.partition_index, None)


def _check(server: Server, name: str, wanted: AlterPartitionReassignmentsRequest.ReassignablePartition) -> None:
    """Checks one move, as Kafka's ReplicationControlManager.alterPartitionReassignment does.

    Raises:
        UNKNOWN_TOPIC_OR_PARTITION
        NO_REASSIGNMENT_IN_PROGRESS    the request cancels a move
        INVALID_REPLICA_ASSIGNMENT     the replicas are not this node alone
    """
    count = server.topics.partition_count(name)
    if count is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    if not 0 <= wanted.partition_index < count:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{wanted.partition_index}."
        )
    if wanted.replicas is None:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    check_brokers(server.topics.nodes, wanted.replicas)


def _result(
    partition_index: int, error: KafkaError | None
) -> AlterPartitionReassignmentsResponse.ReassignablePartitionResponse:
    if error is None:
        return _Partition(partition_index=partition_index, error_message=None)
    return _Partition(partition_index=partition_index, error_code=error.code, error_message=error.message)


_ERRORS = CONTROLLER_ERRORS | TOPIC_ERRORS | {
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, ErrorCode.INVALID_REPLICA_ASSIGNMENT,
}  # fmt: skip

API = Api(
    key=45,
    name="AlterPartitionReassignments",
    versions=(0, 1),
    access=(ALTER_CLUSTER,),
    handle=handle,
    refuse=refuse,
    guard=guarded_by_cluster(ALTER_CLUSTER, handle),
    writes=False,
    errors=_ERRORS,
    elements=("topics.partitions",),
)
