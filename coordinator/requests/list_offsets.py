"""ListOffsets (key 2): the offset of a timestamp, or the first or last one, of partitions (topics/list_offsets.py)."""

from coordinator.api import Api, Exchange, Server
from coordinator.api.error_families import LEADER_ERRORS
from coordinator.api.guards import Reply, guarded_by_topic
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ListOffsetsRequest, ListOffsetsResponse
from coordinator.security.access import DESCRIBE_TOPIC
from coordinator.topics.list_offsets import list_offsets


def handle(server: Server, exchange: Exchange[ListOffsetsRequest]) -> None:
    _serve(server, exchange, exchange.request, exchange.reply)


def _serve(server: Server, exchange: Exchange[ListOffsetsRequest], request: ListOffsetsRequest, reply: Reply) -> None:
    list_offsets(server.topics, request, exchange.api_version, reply, exchange.run_in_slices, lambda: exchange.is_over)


def refuse(request: ListOffsetsRequest, error: KafkaError, _api_version: int) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponse.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsResponse.ListOffsetsPartitionResponse(
                        partition_index=partition.partition_index, error_code=error.code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


API = Api(
    key=2,
    name="ListOffsets",
    versions=(1, 11),
    access=(DESCRIBE_TOPIC,),
    handle=handle,
    refuse=refuse,
    guard=guarded_by_topic(DESCRIBE_TOPIC, lambda topic: topic.name, _serve, refuse),
    writes=False,
    errors=LEADER_ERRORS | {ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT},
    elements=("topics.partitions",),
)
