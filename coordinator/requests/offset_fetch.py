"""OffsetFetch (key 9). Where did this group get to?

v2 can ask for everything a group has (topics null) and has an error of the whole group; v7 asks for stable offsets only
(KIP-447); v8 asks for several groups at once (KIP-709); v9 names the member of a consumer group (KIP-848); v10 names
topics by id.

Groups of one request live on different shards: each shard answers for its own, and the answer lists them as they were
asked.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any

from coordinator.api.access import DESCRIBE_GROUP, DESCRIBE_TOPIC
from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.groups.offsets.fetch import fetch, fetch_group
from coordinator.protocol.errors import KafkaError
from coordinator.protocol.messages import Message, OffsetFetchRequest, OffsetFetchResponse
from coordinator.runtime.result import RequestContext, Result

GROUP_ERROR_SINCE = 2
BATCH_SINCE = 8
TOPIC_IDS_SINCE = 10
NO_OFFSET = -1
NO_LEADER_EPOCH = -1

_AskedGroup = OffsetFetchRequest.OffsetFetchRequestGroup
_Group = OffsetFetchResponse.OffsetFetchResponseGroup
_Topic = OffsetFetchResponse.OffsetFetchResponseTopic
_Partition = OffsetFetchResponse.OffsetFetchResponsePartition


def handle(server: Server, exchange: Exchange[OffsetFetchRequest]) -> None:
    request = exchange.request
    if exchange.api_version < BATCH_SINCE:
        server.groups.submit(request.group_id, fetch, exchange)
        return
    asked: dict[str, list[_AskedGroup]] = {}
    for group in request.groups:
        asked.setdefault(group.group_id, []).append(group)
    by_id = exchange.api_version >= TOPIC_IDS_SINCE

    def fetch_part(state: Any, group_ids: Sequence[str], context: RequestContext, now_ms: int) -> Result:
        return Result(
            OffsetFetchResponse(
                groups=[
                    fetch_group(state, each, by_id=by_id, require_stable=request.require_stable)
                    for group_id in group_ids
                    for each in asked[group_id]
                ]
            )
        )

    def combine(parts: Sequence[OffsetFetchResponse]) -> OffsetFetchResponse:
        answers: dict[str, deque[_Group]] = {}
        for part in parts:
            for group in part.groups:
                answers.setdefault(group.group_id, deque()).append(group)
        return OffsetFetchResponse(groups=[answers[group.group_id].popleft() for group in request.groups])

    server.groups.gather_by_group(asked, fetch_part, exchange, combine)


def refuse(request: OffsetFetchRequest, error: KafkaError, api_version: int) -> Message:
    code = error.code
    if api_version >= BATCH_SINCE:
        return OffsetFetchResponse(groups=[_Group(group.group_id, [], code) for group in request.groups])
    if api_version >= GROUP_ERROR_SINCE:
        return OffsetFetchResponse(error_code=code)
    return OffsetFetchResponse(
        topics=[
            _Topic(
                topic.name,
                [_Partition(index, NO_OFFSET, NO_LEADER_EPOCH, "", code) for index in topic.partition_indexes],
            )
            for topic in request.topics or ()
        ]
    )


API = Api(
    key=9,
    name="OffsetFetch",
    versions=(1, 10),
    access=(DESCRIBE_GROUP, DESCRIBE_TOPIC),
    handle=handle,
    refuse=refuse,
    writes=False,
)
