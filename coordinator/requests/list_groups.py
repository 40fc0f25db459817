"""ListGroups (key 16): every group of this coordinator. v4 filters by state (KIP-518), v5 by type of group (KIP-848).

A client that may not describe the cluster gets the groups that it may describe.
"""

from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.api.visible_lists import reply_with_list
from coordinator.groups.list_groups import list_groups
from coordinator.groups.state import Groups
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ListGroupsRequest, ListGroupsResponse
from coordinator.security.access import DESCRIBE_CLUSTER, DESCRIBE_GROUP

_Group = ListGroupsResponse.ListedGroup


def handle(server: Server, exchange: Exchange[ListGroupsRequest]) -> None:
    request, permits = exchange.request, exchange.permits

    def view(groups: Groups, _now_ms: int) -> list[_Group]:
        return list_groups(groups, request.states_filter, request.types_filter)

    def response(groups: list[_Group]) -> ListGroupsResponse:
        return ListGroupsResponse(error_code=ErrorCode.NONE, groups=groups)

    def may_see(group: _Group) -> bool:
        return permits.allows(DESCRIBE_GROUP, group.group_id, quiet=True)

    sees_all = permits.allows(DESCRIBE_CLUSTER, quiet=True)
    reply_with_list(server.groups, view, exchange, response, None if sees_all else may_see)


def refuse(request: ListGroupsRequest, error: KafkaError, api_version: int) -> ListGroupsResponse:
    return ListGroupsResponse(error_code=error.code)


API = Api(
    key=16,
    name="ListGroups",
    versions=(0, 5),
    access=(DESCRIBE_CLUSTER, DESCRIBE_GROUP),
    handle=handle,
    refuse=refuse,
    writes=False,
)
