"""StreamsGroupDescribe (key 89): topology, epochs, members and tasks of streams groups (KIP-1071).

v1 says which assignor is in force (KIP-1357), and may ask for a description of the topology (KIP-1331), which a plugin of
Kafka's keeps; there is none here, so it is answered as not stored.
"""

from functools import partial
from typing import Any

from coordinator.api.access import DESCRIBE_GROUP, DESCRIBE_TOPIC
from coordinator.api.declaration import Api
from coordinator.api.described_groups import in_order
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.groups.settings import STREAMS
from coordinator.groups.streams.describe import describe_streams_group
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
from coordinator.runtime.result import RequestContext, Result

_Described = StreamsGroupDescribeResponse.DescribedGroup


def handle(server: Server, exchange: Exchange[StreamsGroupDescribeRequest]) -> None:
    request = exchange.request
    if STREAMS not in server.config.groups.group_coordinator_rebalance_protocols:
        exchange.refuse(ErrorCode.UNSUPPORTED_VERSION)
        return

    def combine(parts: list[Any]) -> StreamsGroupDescribeResponse:
        return StreamsGroupDescribeResponse(groups=in_order(request, parts))

    describe = partial(_describe, request.include_topology_description)
    server.groups.gather_by_group(dict.fromkeys(request.group_ids), describe, exchange, combine)


def _describe(wants_description: bool, groups: Any, group_ids: Any, context: RequestContext, now_ms: int) -> Result:
    described: Any = [
        describe_streams_group(groups, group_id, wants_description=wants_description) for group_id in group_ids
    ]
    return Result(described)


def refuse(request: StreamsGroupDescribeRequest, error: KafkaError, api_version: int) -> StreamsGroupDescribeResponse:
    groups = [_Described(error_code=error.code, group_id=group_id) for group_id in request.group_ids]
    return StreamsGroupDescribeResponse(groups=groups)


API = Api(
    key=89,
    name="StreamsGroupDescribe",
    versions=(0, 1),
    access=(DESCRIBE_GROUP, DESCRIBE_TOPIC),
    handle=handle,
    refuse=refuse,
    writes=False,
)
