"""OffsetDelete (key 47). An administrator takes back offsets of a group (KIP-496).

Unknown topics and partitions are refused here and lead the answer; unlike a commit, the request reaches its group even
when nothing else is left, and an error of the group then is the whole answer.
"""

from collections.abc import Sequence
from typing import Any

from coordinator.api.access import DELETE_GROUP, READ_TOPIC
from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.groups.offsets.delete import delete
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import Message, OffsetDeleteRequest, OffsetDeleteResponse
from coordinator.runtime.result import RequestContext, Result

_AskedTopic = OffsetDeleteRequest.OffsetDeleteRequestTopic
_Topic = OffsetDeleteResponse.OffsetDeleteResponseTopic
_Partition = OffsetDeleteResponse.OffsetDeleteResponsePartition


def handle(server: Server, exchange: Exchange[OffsetDeleteRequest]) -> None:
    request = exchange.request
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    refused = _refuse_unknown(request, server.topics)

    def delete_rest(state: Any, request: OffsetDeleteRequest, context: RequestContext, now_ms: int) -> Result:
        result = delete(state, request, context, now_ms)
        assert isinstance(result.reply, OffsetDeleteResponse)
        result.reply.topics = _joined(refused, result.reply.topics)
        return result

    server.groups.submit(request.group_id, delete_rest if refused else delete, exchange)


def refuse(request: OffsetDeleteRequest, error: KafkaError, api_version: int) -> Message:
    return OffsetDeleteResponse(error_code=error.code)


def _refuse_unknown(request: OffsetDeleteRequest, catalog: Any) -> list[_Topic]:
    """Leaves in the request what exists; answers for the rest."""
    left: list[_AskedTopic] = []
    refused: list[_Topic] = []
    for topic in request.topics:
        count = catalog.partition_count(topic.name)
        exists = [each for each in topic.partitions if count is not None and 0 <= each.partition_index < count]
        missing = [each for each in topic.partitions if count is None or not 0 <= each.partition_index < count]
        if exists:
            left.append(_AskedTopic(topic.name, exists))
        if missing or count is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            refused.append(_Topic(topic.name, [_Partition(each.partition_index, code) for each in missing]))
    request.topics = left
    return refused


def _joined(refused: Sequence[_Topic], topics: Sequence[_Topic]) -> list[_Topic]:
    """Both in this order; a topic that is in both is answered once."""
    joined: dict[str, _Topic] = {}
    for topic in (*refused, *topics):
        begun = joined.get(topic.name)
        joined[topic.name] = topic if begun is None else _Topic(topic.name, begun.partitions + topic.partitions)
    return list(joined.values())


API = Api(
    key=47,
    name="OffsetDelete",
    versions=(0, 0),
    access=(DELETE_GROUP, READ_TOPIC),
    handle=handle,
    refuse=refuse,
)
