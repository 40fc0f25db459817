"""OffsetDelete (key 47): deletes committed offsets of a group (KIP-496).

Unknown topics and partitions, and topics that the client may not read, are refused here and come first in the response. Unlike
a commit, the request goes to its group even if nothing is left of it, and an error of the group is then the whole response.
"""

from collections.abc import Collection, Sequence

from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.guards import allowed_names
from coordinator.api.permits import Permits
from coordinator.api.server import Server
from coordinator.groups.offsets.delete import delete
from coordinator.groups.state import Groups
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import Message, OffsetDeleteRequest, OffsetDeleteResponse
from coordinator.runtime.result import RequestContext, Result
from coordinator.security.access import DELETE_GROUP, READ_TOPIC
from coordinator.topics.engine import Topics

_RequestedTopic = OffsetDeleteRequest.OffsetDeleteRequestTopic
_Topic = OffsetDeleteResponse.OffsetDeleteResponseTopic
_Partition = OffsetDeleteResponse.OffsetDeleteResponsePartition


def handle(server: Server, exchange: Exchange[OffsetDeleteRequest]) -> None:
    _delete(server, exchange, frozenset())


def guard(server: Server, exchange: Exchange[OffsetDeleteRequest], permits: Permits) -> None:
    request = exchange.request
    permits.require(DELETE_GROUP, request.group_id)
    names = [topic.name for topic in request.topics]
    _delete(server, exchange, set(names) - allowed_names(permits, READ_TOPIC, names))


def _delete(server: Server, exchange: Exchange[OffsetDeleteRequest], denied: Collection[str]) -> None:
    request = exchange.request
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    refused = _refuse_some(request, server.topics, denied)

    def delete_known(groups: Groups, request: OffsetDeleteRequest, context: RequestContext, now_ms: int) -> Result:
        result = delete(groups, request, context, now_ms)
        assert isinstance(result.reply, OffsetDeleteResponse)
        result.reply.topics = _joined(refused, result.reply.topics)
        return result

    server.groups.submit(request.group_id, delete_known if refused else delete, exchange)


def refuse(request: OffsetDeleteRequest, error: KafkaError, api_version: int) -> Message:
    return OffsetDeleteResponse(error_code=error.code)


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
        joined[topic.name] = topic if first is None else _Topic(topic.name, first.partitions + topic.partitions)
    return list(joined.values())


API = Api(
    key=47,
    name="OffsetDelete",
    versions=(0, 0),
    access=(DELETE_GROUP, READ_TOPIC),
    handle=handle,
    refuse=refuse,
    guard=guard,
)
