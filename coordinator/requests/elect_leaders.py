"""ElectLeaders: every partition has the one leader it can have, so no election is needed.

Asked for all partitions (null) the answer names no partition: those that have the wanted leader are left out.
"""

from coordinator.api.access import ALTER_CLUSTER
from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ElectLeadersRequest, ElectLeadersResponse

_PREFERRED, _UNCLEAN = 0, 1
_NOT_NEEDED = "Leader election not needed for topic partition."

_Topic = ElectLeadersResponse.ReplicaElectionResult
_Partition = ElectLeadersResponse.PartitionResult


def handle(server: Server, exchange: Exchange[ElectLeadersRequest]) -> None:
    request = exchange.request
    if request.election_type not in {_PREFERRED, _UNCLEAN}:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    if request.topic_partitions is None:
        results = [_Topic(topic=name) for name in server.topics.registry.topics]
    else:
        results = [
            _Topic(
                topic=asked.topic, partition_result=[_elected(server, asked.topic, index) for index in asked.partitions]
            )
            for asked in request.topic_partitions
        ]
    exchange.reply(ElectLeadersResponse(replica_election_results=results))


def refuse(request: ElectLeadersRequest, error: KafkaError, _api_version: int) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=error.code,
        replica_election_results=[
            _Topic(
                topic=asked.topic,
                partition_result=[
                    _Partition(partition_id=index, error_code=error.code, error_message=error.message)
                    for index in asked.partitions
                ],
            )
            for asked in request.topic_partitions or ()
        ],
    )


def _elected(server: Server, name: str, index: int) -> ElectLeadersResponse.PartitionResult:
    count = server.topics.partition_count(name)
    if count is None:
        error, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}"
    elif not 0 <= index < count:
        error, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}"
    else:
        error, message = ErrorCode.ELECTION_NOT_NEEDED, _NOT_NEEDED
    return _Partition(partition_id=index, error_code=error, error_message=message)


API = Api(
    key=43,
    name="ElectLeaders",
    versions=(0, 2),
    access=(ALTER_CLUSTER,),
    handle=handle,
    refuse=refuse,
    writes=False,
)
