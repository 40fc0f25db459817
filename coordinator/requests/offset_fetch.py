"""OffsetFetch (key 9): the committed offsets of groups.

v2 can request everything that a group has committed (topics null), and has a top-level error. v7 can request stable offsets
only (KIP-447). v8 names several groups (KIP-709). v9 names the member of a consumer group (KIP-848). v10 names topics by id.

The groups of one request may live on different shards. Each shard answers for its own, and the response lists the groups in
the order of the request.
"""

from collections import deque
from collections.abc import Sequence

from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.groups.offsets.fetch import fetch, fetch_group
from coordinator.groups.state import Groups
from coordinator.protocol.errors import KafkaError
from coordinator.protocol.messages import Message, OffsetFetchRequest, OffsetFetchResponse
from coordinator.runtime.result import RequestContext, Result
from coordinator.security.access import DESCRIBE_GROUP, DESCRIBE_TOPIC

GROUP_ERROR_SINCE = 2
BATCH_SINCE = 8
TOPIC_IDS_SINCE = 10
NO_OFFSET = -1
NO_LEADER_EPOCH = -1

_RequestedGroup = OffsetFetchRequest.OffsetFetchRequestGroup
_Group = OffsetFetchResponse.OffsetFetchResponseGroup
_Topic = OffsetFetchResponse.OffsetFetchResponseTopic
_Partition = OffsetFetchResponse.OffsetFetchResponsePartition


def handle(server: Server, exchange: Exchange[OffsetFetchRequest]) -> None:
    request = exchange.request
    if exchange.api_version < BATCH_SINCE:
        server.groups.submit(request.group_id, fetch, exchange)
        return
    requested: dict[str, list[_RequestedGroup]] = {}
    for group in request.groups:
        requested.setdefault(group.group_id, []).append(group)
    by_id = exchange.api_version >= TOPIC_IDS_SINCE

    def fetch_on_shard(groups: Groups, group_ids: list[str], _context: RequestContext, _now_ms: int) -> Result:
        return Result(
            OffsetFetchResponse(
                groups=[
                    fetch_group(groups, each, by_id=by_id, require_stable=request.require_stable)
                    for group_id in group_ids
                    for each in requested[group_id]
                ]
            )
        )

    def combine(parts: Sequence[OffsetFetchResponse]) -> OffsetFetchResponse:
        fetched: dict[str, deque[_Group]] = {}
        for part in parts:
            for group in part.groups:
                fetched.setdefault(group.group_id, deque()).append(group)
        return OffsetFetchResponse(groups=[fetched[group.group_id].popleft() for group in request.groups])

    server.groups.gather_by_group(requested, fetch_on_shard, exchange, combine)


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
