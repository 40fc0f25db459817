"""DeleteGroups (key 42): deletes groups that have no members, with their offsets (KIP-229).

v3 has a message for each error (KIP-1043); the errors that occur here have none. A group that is named twice is answered once,
and the results come in the order of the request, whatever shards hold the groups; behind them come the groups that the client
may not delete.
"""

from collections.abc import Collection, Sequence
from functools import partial

from coordinator.api import HERE, Api, Coordinator, Exchange, Server
from coordinator.api.error_families import GROUP_ERRORS
from coordinator.api.guards import ask_in_slices
from coordinator.groups.delete_groups import delete_groups, deletion_weight
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import DeleteGroupsRequest, DeleteGroupsResponse, Message
from coordinator.security.access import DELETE_GROUP

_Result = DeleteGroupsResponse.DeletableGroupResult


def handle(server: Server, exchange: Exchange[DeleteGroupsRequest]) -> None:
    named = list(dict.fromkeys(exchange.request.groups_names))
    ask_in_slices(exchange, exchange.permits, DELETE_GROUP, named, partial(_delete, server, exchange, named))


def _delete(
    server: Server, exchange: Exchange[DeleteGroupsRequest], named: Sequence[str], allowed: Collection[str]
) -> None:
    group_ids = [group_id for group_id in named if group_id in allowed]

    def combine(parts: list[DeleteGroupsResponse]) -> DeleteGroupsResponse:
        results = {result.group_id: result for part in parts for result in part.results}
        refused = [
            _Result(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED) for group_id in named if group_id not in allowed
        ]
        return DeleteGroupsResponse(results=[*(results[group_id] for group_id in group_ids), *refused])

    server.groups.gather_by_group(group_ids, delete_groups, exchange, combine, refused=_refused, weigh=deletion_weight)


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
    errors=GROUP_ERRORS | {ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_DELETION_FAILED},
    elements=("groups_names",),
    coordinator=Coordinator.GROUP,
    overlay=HERE,
)
