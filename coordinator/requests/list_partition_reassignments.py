"""ListPartitionReassignments (key 46): lists the moves of replicas in progress, of which there never are any (KIP-455).

Unknown topics and partitions are left out without an error, as in Kafka.
"""

from coordinator.api import Api, Exchange, Server
from coordinator.api.error_families import CONTROLLER_ERRORS, TOPIC_ERRORS
from coordinator.api.guards import guarded_by_cluster
from coordinator.protocol.errors import KafkaError
from coordinator.protocol.messages import ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse
from coordinator.security.access import DESCRIBE_CLUSTER

_Topic = ListPartitionReassignmentsResponse.OngoingTopicReassignment
_Partition = ListPartitionReassignmentsResponse.OngoingPartitionReassignment


def handle(server: Server, exchange: Exchange[ListPartitionReassignmentsRequest]) -> None:
    exchange.reply(ListPartitionReassignmentsResponse(error_message=None))


def refuse(
    request: ListPartitionReassignmentsRequest, error: KafkaError, _api_version: int
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(
        error_code=error.code,
        error_message=error.message,
        topics=[
            _Topic(name=topic.name, partitions=[_Partition(partition_index=index) for index in topic.partition_indexes])
            for topic in request.topics or ()
        ],
    )


API = Api(
    key=46,
    name="ListPartitionReassignments",
    versions=(0, 0),
    access=(DESCRIBE_CLUSTER,),
    handle=handle,
    refuse=refuse,
    guard=guarded_by_cluster(DESCRIBE_CLUSTER, handle),
    writes=False,
    errors=CONTROLLER_ERRORS | TOPIC_ERRORS,
    mentions=("topics",),
)
