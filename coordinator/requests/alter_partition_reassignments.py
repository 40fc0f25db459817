"""AlterPartitionReassignments (key 45): moves the replicas of partitions, or cancels a move (KIP-455).

There is one copy of the records, so a move is over when it is durable, and there is never one to cancel. On a server that is
one broker the one replica is here already. As in Kafka, a request that may take no time at all fails as a whole.
"""

from typing import TYPE_CHECKING

from coordinator.api import Api, Exchange, Server
from coordinator.api.error_families import CONTROLLER_ERRORS, TOPIC_ERRORS
from coordinator.api.guards import guarded_by_cluster
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse
from coordinator.security.access import ALTER_CLUSTER
from coordinator.topics.placements import check_brokers
from coordinator.topics.registry import Topic

if TYPE_CHECKING:
    from coordinator.nodes.brokers import Placed  # most servers are one broker

_Topic = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
_Partition = AlterPartitionReassignmentsResponse.ReassignablePartitionResponse


def handle(server: Server, exchange: Exchange[AlterPartitionReassignmentsRequest]) -> None:
    request = exchange.request
    if request.topics and request.timeout_ms <= 0:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None if request.topics else "",
    )
    if server.topics.may_move:
        _move(server, exchange, response)
        return
    response.responses = [
        _Topic(name=topic.name, partitions=[_altered(server, topic.name, each) for each in topic.partitions])
        for topic in request.topics
    ]
    exchange.reply(response)


def _move(
    server: Server,
    exchange: Exchange[AlterPartitionReassignmentsRequest],
    response: AlterPartitionReassignmentsResponse,
) -> None:
    """Moves the replicas among the brokers of this server; answers when they are there."""
    from coordinator.nodes.brokers import Brokers  # noqa: PLC0415 - most servers are one broker

    brokers, request = server.cluster, exchange.request
    assert isinstance(brokers, Brokers)

    def plan() -> "list[Placed]":
        changes: list[Placed] = []
        for wanted in request.topics:
            response.responses.append(_Topic(name=wanted.name))
            for each in wanted.partitions:
                error = None
                try:
                    topic, replicas = _find(server, wanted.name, each)
                    place = brokers.move(
                        topic, each.partition_index, replicas, may_resize=request.allow_replication_factor_change
                    )
                    changes.append((topic, each.partition_index, place))
                except KafkaError as refusal:
                    error = refusal
                response.responses[-1].partitions.append(_result(each.partition_index, error))
        return changes

    def done(error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            exchange.reply(response)
        else:
            exchange.refuse(error)

    brokers.change(plan, done)


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
        _, replicas = _find(server, name, wanted)
        check_brokers(server.topics.nodes, replicas)
    except KafkaError as error:
        return _result(wanted.partition_index, error)
    return _result(wanted.partition_index, None)


def _find(
    server: Server, name: str, wanted: AlterPartitionReassignmentsRequest.ReassignablePartition
) -> tuple[Topic, list[int]]:
    """What to move, and where to, as Kafka's ReplicationControlManager.alterPartitionReassignment finds it.

    Raises:
        UNKNOWN_TOPIC_OR_PARTITION
        NO_REASSIGNMENT_IN_PROGRESS    the request cancels a move
    """
    topic = server.topics.registry.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    if not 0 <= wanted.partition_index < topic.partitions:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{wanted.partition_index}."
        )
    if wanted.replicas is None:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    return topic, wanted.replicas


def _result(
    partition_index: int, error: KafkaError | None
) -> AlterPartitionReassignmentsResponse.ReassignablePartitionResponse:
    if error is None:
        return _Partition(partition_index=partition_index, error_message=None)
    return _Partition(partition_index=partition_index, error_code=error.code, error_message=error.message)


_ERRORS = CONTROLLER_ERRORS | TOPIC_ERRORS | {
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ErrorCode.INVALID_REPLICATION_FACTOR,
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
