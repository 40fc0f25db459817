"""DescribeGroups (key 15): state, protocol and members of classic groups, in the order of the request.

v3 may request the operations that the client is authorized to perform (KIP-430). v6 answers GROUP_ID_NOT_FOUND for an unknown
group (KIP-1043), where earlier versions report it as Dead.
"""

from coordinator.api.declaration import Api
from coordinator.api.described_groups import describe_groups
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.groups.classic.describe import describe_group
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import DescribeGroupsRequest, DescribeGroupsResponse
from coordinator.security.access import DESCRIBE_GROUP

_Described = DescribeGroupsResponse.DescribedGroup


def handle(server: Server, exchange: Exchange[DescribeGroupsRequest]) -> None:
    api_version = exchange.api_version
    describe_groups(
        server.groups,
        exchange.request.groups,
        exchange,
        lambda groups, group_id: describe_group(groups, group_id, api_version),
        lambda groups: DescribeGroupsResponse(groups=groups),
        refused=_refused,
    )


def refuse(request: DescribeGroupsRequest, error: KafkaError, api_version: int) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[_refused(group_id, error.code) for group_id in request.groups])


def _refused(group_id: str, error: ErrorCode) -> _Described:
    return _Described(error_code=error, group_id=group_id)


API = Api(
    key=15,
    name="DescribeGroups",
    versions=(0, 6),
    access=(DESCRIBE_GROUP,),
    handle=handle,
    refuse=refuse,
    writes=False,
)
