"""DescribeTopicPartitions (key 75): topics and their partitions in pages, topics in the order of their names (KIP-966).

A response holds as many partitions as the request allows, at most 2,000, and a cursor that names the first partition of the
next page. The client sends it back with the same topics, and everything before it is left out. A page that is full at the end
of a topic points to the beginning of the next one, whether or not that exists. An empty list of topics selects all.

Topics that the client may not describe are in no page: of all topics they are left out, and named ones are refused behind each
page (`DescribeTopicPartitionsRequestHandler`).
"""

from collections.abc import Sequence
from copy import copy

from coordinator.api import Api, Exchange, Pieces, Server
from coordinator.api.error_families import TOPIC_ERRORS
from coordinator.api.guards import allowed_in_pieces
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from coordinator.protocol.spliced_array import SplicedArray
from coordinator.requests.metadata import PartitionState, partition_states
from coordinator.security.access import DESCRIBE_TOPIC, ResourceType
from coordinator.topics import names
from coordinator.topics.placements import NO_LEADER

_PARTITIONS_MAX = 2_000
_PIECE_TOPICS = 100
"""Topics that are described in about a millisecond."""
_BEFORE_TOPICS_BYTES = 5
"""ThrottleTimeMs, and the number of topics if there are none."""

_Topic = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
_Partition = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition
_Cursor = DescribeTopicPartitionsResponse.Cursor


def handle(server: Server, exchange: Exchange[DescribeTopicPartitionsRequest]) -> None:
    exchange.run_in_slices(_describe(server, exchange))


def _describe(server: Server, exchange: Exchange[DescribeTopicPartitionsRequest]) -> Pieces:
    yield  # decoding has taken some milliseconds
    request = exchange.request
    cursor = request.cursor
    first = cursor.topic_name if cursor is not None else ""
    wanted = sorted(
        name for name in {topic.name for topic in request.topics} or server.topics.topic_names() if name >= first
    )
    if "" in wanted:  # Kafka's handler stumbles over it
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    if cursor is not None and request.topics and first not in wanted:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if cursor is not None and cursor.partition_index < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    yield
    allowed = yield from allowed_in_pieces(exchange.permits, DESCRIBE_TOPIC, wanted, quiet=not request.topics)
    yield from _respond(server, exchange, wanted, allowed)


def _respond(
    server: Server, exchange: Exchange[DescribeTopicPartitionsRequest], wanted: Sequence[str], allowed: frozenset[str]
) -> Pieces:
    request, permits, topics = exchange.request, exchange.permits, server.topics.registry.topics
    cursor = request.cursor
    response = DescribeTopicPartitionsResponse()
    left = max(1, min(request.response_partition_limit, _PARTITIONS_MAX))
    for number, name in enumerate(wanted, 1):
        if not number % _PIECE_TOPICS:
            yield
        if name not in allowed:
            continue
        if not left:
            response.next_cursor = _Cursor(topic_name=name, partition_index=0)
            break
        topic = topics.get(name)
        described = _Topic(
            name=name,
            is_internal=name in names.INTERNAL,
            topic_authorized_operations=permits.operations(ResourceType.TOPIC, name),
        )
        response.topics.append(described)
        if topic is None:
            wrong = names.why_invalid(name) is not None
            described.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION if wrong else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            continue
        described.topic_id = topic.topic_id
        state_of = partition_states(server, topic)
        start = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        end = min(topic.partitions, start + left)
        described.partitions = [_partition(index, state_of(index)) for index in range(start, end)]
        if end < topic.partitions:
            response.next_cursor = _Cursor(topic_name=name, partition_index=end)
            break
        left -= len(described.partitions)
    if request.topics:
        denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        response.topics += [_Topic(name=name, error_code=denied) for name in wanted if name not in allowed]
    empty = copy(response)
    empty.topics = []
    encode = exchange.route.encode
    array = SplicedArray(encode, is_flexible=True, tail_bytes=len(encode(empty)) - _BEFORE_TOPICS_BYTES)
    exchange.reply_encoded(response, (yield from array.in_pieces(response, "topics")))


def refuse(
    request: DescribeTopicPartitionsRequest, error: KafkaError, _api_version: int
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[_Topic(name=topic.name, error_code=error.code) for topic in request.topics]
    )


def _partition(
    index: int, state: PartitionState
) -> DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition:
    """A partition whose log is damaged has no leader; the node that has the log could lead it again."""
    eligible = state.offline if state.leader == NO_LEADER else []
    return _Partition(
        partition_index=index,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=state.replicas,
        isr_nodes=state.isr,
        eligible_leader_replicas=eligible,
        last_known_elr=eligible,
        offline_replicas=state.offline,
    )


API = Api(
    key=75,
    name="DescribeTopicPartitions",
    versions=(0, 0),
    access=(DESCRIBE_TOPIC,),
    handle=handle,
    refuse=refuse,
    writes=False,
    errors=TOPIC_ERRORS | {ErrorCode.LEADER_NOT_AVAILABLE},
    elements=("topics",),
)
