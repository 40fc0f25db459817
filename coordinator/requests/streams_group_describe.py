"""StreamsGroupDescribe (key 89): topology, epochs, members and tasks of streams groups (KIP-1071).

v1 adds the assignor in use (KIP-1357) and, on request, a description of the topology (KIP-1331). In Kafka a plugin stores that
description; here it is always answered as not stored.
"""

from functools import partial

from coordinator.api.declaration import Api
from coordinator.api.described_groups import describe_groups, invalid_ids_first
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.groups.kinds import Kind
from coordinator.groups.streams.describe import describe_streams_group
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
from coordinator.security.access import DESCRIBE_GROUP, DESCRIBE_TOPIC

_Described = StreamsGroupDescribeResponse.DescribedGroup


def handle(server: Server, exchange: Exchange[StreamsGroupDescribeRequest]) -> None:
    request = exchange.request
    if Kind.STREAMS.label not in server.config.groups.group_coordinator_rebalance_protocols:
        exchange.refuse(ErrorCode.UNSUPPORTED_VERSION)
        return

    describe_groups(
        server.groups,
        invalid_ids_first(request.group_ids),
        exchange,
        partial(describe_streams_group, wants_description=request.include_topology_description),
        lambda groups: StreamsGroupDescribeResponse(groups=groups),
    )


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
