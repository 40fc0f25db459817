"""ElectLeaders (key 43): lets the first replica of a partition lead it again, or any (KIP-460).

One node answers that no election is needed, because a partition has one possible leader. A request for all partitions (null) is
answered without those that need none.
"""

from coordinator.api import Api, Exchange, Server
from coordinator.api.error_families import CONTROLLER_ERRORS, TOPIC_ERRORS
from coordinator.api.guards import guarded_by_cluster
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ElectLeadersRequest, ElectLeadersResponse
from coordinator.security.access import ALTER_CLUSTER

_PREFERRED, _UNCLEAN = 0, 1
_ERROR_SINCE = 1
_NOT_NEEDED = "Leader election not needed for topic partition."

_Topic = ElectLeadersResponse.ReplicaElectionResult
_Partition = ElectLeadersResponse.PartitionResult


def handle(server: Server, exchange: Exchange[ElectLeadersRequest]) -> None:
    request = exchange.request
    if request.election_type not in {_PREFERRED, _UNCLEAN} and request.topic_partitions != []:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    if server.topics.may_move:
        _elect(server, exchange)
        return
    if request.topic_partitions is None:
        results = [_Topic(topic=name) for name in server.topics.registry.topics]
    else:
        results = [
            _Topic(
                topic=topic.topic, partition_result=[_result(server, topic.topic, index) for index in topic.partitions]
            )
            for topic in request.topic_partitions
        ]
    exchange.reply(ElectLeadersResponse(replica_election_results=results))


def _elect(server: Server, exchange: Exchange[ElectLeadersRequest]) -> None:
    """Elects among the brokers of this server; answers when the leaders are in office."""
    from coordinator.nodes.brokers import Brokers, Placed  # noqa: PLC0415 - most servers are one broker

    brokers, topics, request = server.cluster, server.topics.registry.topics, exchange.request
    assert isinstance(brokers, Brokers)
    wanted = [(each.topic, each.partitions) for each in request.topic_partitions or ()]
    if request.topic_partitions is None:
        wanted = [(name, list(range(topic.partitions))) for name, topic in topics.items()]
    is_unclean = request.election_type == _UNCLEAN
    results: list[ElectLeadersResponse.ReplicaElectionResult] = []

    def plan() -> list[Placed]:
        changes: list[Placed] = []
        for name, indexes in wanted:
            results.append(_Topic(topic=name))
            for index in indexes:
                result = _result(server, name, index)
                if result.error_code == ErrorCode.ELECTION_NOT_NEEDED:
                    try:
                        elected = brokers.elect(topics[name], index, unclean=is_unclean)
                        changes.append((topics[name], index, elected))
                        result.error_code, result.error_message = ErrorCode.NONE, None
                    except KafkaError as error:
                        result.error_code, result.error_message = error.code, error.message
                if request.topic_partitions is not None or result.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                    results[-1].partition_result.append(result)
        return changes

    def done(error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            exchange.reply(ElectLeadersResponse(replica_election_results=results))
        else:
            exchange.refuse(error)

    brokers.change(plan, done)


def refuse(request: ElectLeadersRequest, error: KafkaError, api_version: int) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=error.code if api_version >= _ERROR_SINCE else ErrorCode.NONE,
        replica_election_results=[
            _Topic(
                topic=topic.topic,
                partition_result=[
                    _Partition(partition_id=index, error_code=error.code, error_message=error.message)
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def _result(server: Server, name: str, index: int) -> ElectLeadersResponse.PartitionResult:
    count = server.topics.partition_count(name)
    if count is None:
        error, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}"
    elif not 0 <= index < count:
        error, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}"
    else:
        error, message = ErrorCode.ELECTION_NOT_NEEDED, _NOT_NEEDED
    return _Partition(partition_id=index, error_code=error, error_message=message)


_ERRORS = CONTROLLER_ERRORS | TOPIC_ERRORS | {
    ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}  # fmt: skip

API = Api(
    key=43,
    name="ElectLeaders",
    versions=(0, 2),
    access=(ALTER_CLUSTER,),
    handle=handle,
    refuse=refuse,
    guard=guarded_by_cluster(ALTER_CLUSTER, handle),
    writes=False,
    errors=_ERRORS,
    elements=("topic_partitions.partitions",),
)
