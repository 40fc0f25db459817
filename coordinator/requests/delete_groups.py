"""DeleteGroups (key 42): deletes groups that have no members, with their offsets (KIP-229).

v3 has a message for each error (KIP-1043); the errors that occur here have none. A group that is named twice is answered once,
and the results come in the order of the request, whatever shards hold the groups; behind them come the groups that the client
may not delete.
"""

from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.guards import split_by_permit
from coordinator.api.server import Server
from coordinator.groups.delete_groups import delete_groups
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import DeleteGroupsRequest, DeleteGroupsResponse, Message
from coordinator.security.access import DELETE_GROUP

_Result = DeleteGroupsResponse.DeletableGroupResult


def handle(server: Server, exchange: Exchange[DeleteGroupsRequest]) -> None:
    group_ids, denied = split_by_permit(
        exchange.permits, DELETE_GROUP, list(dict.fromkeys(exchange.request.groups_names)), str
    )

    def combine(parts: list[DeleteGroupsResponse]) -> DeleteGroupsResponse:
        results = {result.group_id: result for part in parts for result in part.results}
        refused = [_Result(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED) for group_id in denied]
        return DeleteGroupsResponse(results=[*(results[group_id] for group_id in group_ids), *refused])

    server.groups.gather_by_group(group_ids, delete_groups, exchange, combine, refused=_refused)


def refuse(request: DeleteGroupsRequest, error: KafkaError, api_version: int) -> Message:
    return _refused(request.groups_names, error.code)


def _refused(group_ids: list[str], error: ErrorCode) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[_Result(group_id, error) for group_id in group_ids])


API = Api(
    key=42,
    name="DeleteGroups",
    versions=(0, 3),
    access=(DELETE_GROUP,),
    handle=handle,
    refuse=refuse,
)
