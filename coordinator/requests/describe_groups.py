"""DescribeGroups (key 15): state, protocol and members of classic groups, in the order of the request.

v3 may ask what the caller is allowed to do with the group (KIP-430); v6 says of an unknown group that it is unknown, where
earlier versions call it Dead.
"""

from typing import Any

from coordinator.api import authorized_operations
from coordinator.api.access import DESCRIBE_GROUP
from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.groups.classic.describe import describe_group
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import DescribeGroupsRequest, DescribeGroupsResponse
from coordinator.runtime.result import RequestContext, Result

_Described = DescribeGroupsResponse.DescribedGroup


def handle(server: Server, exchange: Exchange[DescribeGroupsRequest]) -> None:
    request = exchange.request

    def combine(parts: list[Any]) -> DescribeGroupsResponse:
        described: dict[str, _Described] = {group.group_id: group for part in parts for group in part}
        if request.include_authorized_operations:
            for group in described.values():
                if group.error_code == ErrorCode.NONE:
                    group.authorized_operations = authorized_operations.GROUP
        return DescribeGroupsResponse(groups=[described[group_id] for group_id in request.groups])

    server.groups.gather_by_group(dict.fromkeys(request.groups), _describe, exchange, combine)


def _describe(groups: Any, group_ids: Any, context: RequestContext, now_ms: int) -> Result:
    described: Any = [describe_group(groups, group_id, context.api_version) for group_id in group_ids]
    return Result(described)


def refuse(request: DescribeGroupsRequest, error: KafkaError, api_version: int) -> DescribeGroupsResponse:
    groups = [_Described(error_code=error.code, group_id=group_id) for group_id in request.groups]
    return DescribeGroupsResponse(groups=groups)


API = Api(
    key=15,
    name="DescribeGroups",
    versions=(0, 6),
    access=(DESCRIBE_GROUP,),
    handle=handle,
    refuse=refuse,
    writes=False,
)
