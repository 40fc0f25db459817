"""OffsetDelete (key 47): deletes committed offsets of a group (KIP-496).

Unknown topics and partitions, and topics that the client may not read, are refused here and come first in the response. Unlike
a commit, the request goes to its group even if nothing is left of it, and an error of the group is then the whole response.
"""

from collections.abc import Collection, Iterator, Sequence

from coordinator.api import HERE, Api, Coordinator, Exchange, Permits, Pieces, Server
from coordinator.api.declaration import ErrorPlaces
from coordinator.api.error_families import GROUP_ERRORS, TOPIC_ERRORS
from coordinator.api.guards import allowed_in_pieces, allowed_names, check_group_is_named
from coordinator.groups.offsets.delete import delete
from coordinator.groups.state import Groups
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import OffsetDeleteRequest, OffsetDeleteResponse
from coordinator.runtime.result import RequestContext, Result
from coordinator.security.access import DELETE_GROUP, READ_TOPIC
from coordinator.topics.topics import Topics

_RequestedTopic = OffsetDeleteRequest.OffsetDeleteRequestTopic
_Topic = OffsetDeleteResponse.OffsetDeleteResponseTopic
_Partition = OffsetDeleteResponse.OffsetDeleteResponsePartition

PIECE_ELEMENTS = 200
"""Topics and partitions whose offsets are deleted in about a millisecond. A larger request is handled in slices."""
_PARTITIONS_ERRORS = TOPIC_ERRORS | {ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}
"""Each partition has its own."""


def handle(server: Server, exchange: Exchange[OffsetDeleteRequest]) -> None:
    request = exchange.request
    check_group_is_named(request.group_id)
    if sum(1 + len(topic.partitions) for topic in request.topics) > PIECE_ELEMENTS:
        exchange.run_in_slices(_delete_in_slices(server, exchange), even_if_lost=True)
        return
    names = [topic.name for topic in request.topics]
    denied = set(names) - allowed_names(exchange.permits, READ_TOPIC, names)
    refused = _refuse_some(request, server.topics, denied)

    def delete_known(groups: Groups, request: OffsetDeleteRequest, context: RequestContext, now_ms: int) -> Result:
        result = delete(groups, request, context, now_ms)
        assert isinstance(result.reply, OffsetDeleteResponse)
        result.reply.topics = _joined(refused, result.reply.topics)
        return result

    server.groups.submit(request.group_id, delete_known if refused else delete, exchange)


def guard(server: Server, exchange: Exchange[OffsetDeleteRequest], permits: Permits) -> None:
    permits.require(DELETE_GROUP, exchange.request.group_id)
    handle(server, exchange)


def _delete_in_slices(server: Server, exchange: Exchange[OffsetDeleteRequest]) -> Pieces:
    """Each partition has its own answer, so the group is asked about some at a time.

    If the group refuses a part although it let an earlier one pass, the partitions of that part have its error.
    """
    request = exchange.request
    names = list(dict.fromkeys(topic.name for topic in request.topics))
    denied = set(names) - (yield from allowed_in_pieces(exchange.permits, READ_TOPIC, names))
    parts = list(_parts(request))
    refused: list[_Topic] = []
    for part in parts:
        refused += _refuse_some(part, server.topics, denied)
        yield

    def refuse_part(part: OffsetDeleteRequest, error: ErrorCode) -> OffsetDeleteResponse:
        topics = [
            _Topic(topic.name, [_Partition(each.partition_index, error) for each in topic.partitions])
            for topic in part.topics
        ]
        return OffsetDeleteResponse(error_code=error, topics=topics)

    def combine(answers: list[OffsetDeleteResponse]) -> OffsetDeleteResponse:
        if all(answer.error_code for answer in answers):
            return OffsetDeleteResponse(error_code=answers[0].error_code)
        return OffsetDeleteResponse(topics=_joined(refused, [each for answer in answers for each in answer.topics]))

    yield from server.groups.gather_of_group(request.group_id, parts, delete, exchange, combine, refused=refuse_part)


def _parts(request: OffsetDeleteRequest) -> Iterator[OffsetDeleteRequest]:
    """The request in parts that take about a millisecond each."""
    part, elements = OffsetDeleteRequest(request.group_id), 0
    for topic in request.topics:
        for first in range(0, len(topic.partitions) or 1, PIECE_ELEMENTS):
            partitions = topic.partitions[first : first + PIECE_ELEMENTS]
            part.topics.append(_RequestedTopic(topic.name, partitions))
            elements += 1 + len(partitions)
            if elements >= PIECE_ELEMENTS:
                yield part
                part, elements = OffsetDeleteRequest(request.group_id), 0
    if part.topics:
        yield part


def _refuse_some(request: OffsetDeleteRequest, topics: Topics, denied: Collection[str]) -> list[_Topic]:
    """Leaves partitions that exist in the request, of topics not `denied`; returns the response's entries for the others."""
    left: list[_RequestedTopic] = []
    refused: list[_Topic] = []
    for topic in request.topics:
        is_denied = topic.name in denied
        count = None if is_denied else topics.partition_count(topic.name)
        exists = [each for each in topic.partitions if count is not None and 0 <= each.partition_index < count]
        missing = [each for each in topic.partitions if count is None or not 0 <= each.partition_index < count]
        if exists:
            left.append(_RequestedTopic(topic.name, exists))
        if missing or count is None:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED if is_denied else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            refused.append(_Topic(topic.name, [_Partition(each.partition_index, code) for each in missing]))
    request.topics = left
    return refused


def _joined(refused: Sequence[_Topic], topics: Sequence[_Topic]) -> list[_Topic]:
    """Both lists, in this order; a topic that is in both has one entry."""
    joined: dict[str, _Topic] = {}
    for topic in (*refused, *topics):
        first = joined.get(topic.name)
        if first is None:
            joined[topic.name] = topic
        else:
            first.partitions += topic.partitions
    return list(joined.values())


def _shape(request: OffsetDeleteRequest, error: KafkaError, _version: int) -> OffsetDeleteResponse | None:
    if error.code not in _PARTITIONS_ERRORS:
        return None
    topics = [
        _Topic(topic.name, [_Partition(each.partition_index, error.code) for each in topic.partitions])
        for topic in request.topics
    ]
    return OffsetDeleteResponse(topics=topics)


API = Api(
    key=47,
    name="OffsetDelete",
    versions=(0, 0),
    access=(DELETE_GROUP, READ_TOPIC),
    handle=handle,
    guard=guard,
    errors=GROUP_ERRORS | _PARTITIONS_ERRORS | {ErrorCode.NON_EMPTY_GROUP},
    elements=("topics.partitions",),
    coordinator=Coordinator.GROUP,
    overlay=HERE,
    places=ErrorPlaces(of_elements=_PARTITIONS_ERRORS, shape=_shape),
)
