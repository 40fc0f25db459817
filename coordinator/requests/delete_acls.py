"""DeleteAcls (key 31): deletes the ACLs that filters select, in one batch.

Kafka: `AclApis.handleDeleteAcls`, `AclControlManager.deleteAcls`.
"""

from typing import TYPE_CHECKING

from coordinator.api import Api, Exchange, Permits, Pieces, Server, denial
from coordinator.api.error_families import CONTROLLER_ERRORS
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import DeleteAclsRequest, DeleteAclsResponse, RemoveAccessControlEntryRecord
from coordinator.requests.describe_acls import (
    CHANGES_MAX,
    NO_AUTHORIZER,
    close_unread,
    has_unknown_code,
    read_filter,
    select,
)
from coordinator.security.access import ALTER_CLUSTER
from coordinator.security.acls import Acl, AclFilter

if TYPE_CHECKING:
    from coordinator.security.standard_authorizer import StandardAuthorizer

_Result = DeleteAclsResponse.DeleteAclsFilterResult
_Matching = DeleteAclsResponse.DeleteAclsMatchingAcl
_Selected = list[Acl] | KafkaError
"""What a filter selects, or why it is refused."""

PIECE_FILTERS = 100
"""Filters that name their pattern take about a millisecond."""


def handle(server: Server, exchange: Exchange[DeleteAclsRequest]) -> None:
    if has_unknown_code(exchange.request.filters):
        close_unread(exchange)
    elif server.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    else:
        metadata, selection = server.topics.metadata, _select(server, server.authorizer, exchange)
        metadata.when_current(
            lambda: exchange.run_in_slices(metadata.steps(selection), even_if_lost=True), exchange.refuse
        )


def guard(server: Server, exchange: Exchange[DeleteAclsRequest], permits: Permits) -> None:
    if not has_unknown_code(exchange.request.filters) and not permits.allows(ALTER_CLUSTER):
        raise denial(ALTER_CLUSTER.resource_type)
    handle(server, exchange)


def _select(server: Server, authorizer: "StandardAuthorizer", exchange: Exchange[DeleteAclsRequest]) -> Pieces:
    """Finds the ACLs of each filter, also those that another server has created, and deletes them when their turn comes."""
    selected: list[_Selected] = []
    for number, chosen in enumerate(map(read_filter, exchange.request.filters), 1):
        why = _why_refused(chosen)
        if why:
            selected.append(KafkaError(ErrorCode.INVALID_REQUEST, why))
            continue
        found: list[Acl] = []
        yield from select(authorizer, chosen, found)
        selected.append(found)
        if not number % PIECE_FILTERS:
            yield
    server.topics.metadata.in_turn(lambda: _delete(server, exchange, authorizer, selected), exchange.refuse)


def _why_refused(chosen: AclFilter) -> str:
    if 0 in (chosen.resource_type, chosen.pattern_type):
        return "Unknown patternFilter."
    return "Unknown entryFilter." if 0 in (chosen.operation, chosen.permission) else ""


def _delete(
    server: Server, exchange: Exchange[DeleteAclsRequest], authorizer: "StandardAuthorizer", selected: list[_Selected]
) -> None:
    still = [each if isinstance(each, KafkaError) else list(filter(authorizer.has, each)) for each in selected]
    acls = dict.fromkeys(acl for each in still if not isinstance(each, KafkaError) for acl in each)
    if len(acls) > CHANGES_MAX:
        text = f"Cannot remove more than {CHANGES_MAX} acls in a single delete operation."
        exchange.reply(exchange.refusal(KafkaError(ErrorCode.INVALID_REQUEST, text)))
        return

    def done(code: ErrorCode) -> None:
        failure = None if code is ErrorCode.NONE else KafkaError(code)
        exchange.reply_in_slices(DeleteAclsResponse(filter_results=[_result(failure or each) for each in still]))

    if acls:
        ids = [acl_id for acl in acls for acl_id in authorizer.ids(acl)]
        server.topics.metadata.commit([RemoveAccessControlEntryRecord(id=acl_id) for acl_id in ids], done)
    else:
        done(ErrorCode.NONE)


def _result(selected: _Selected) -> _Result:
    if isinstance(selected, KafkaError):
        return _Result(selected.code, selected.message)
    return _Result(error_message=None, matching_acls=[_Matching(0, None, *acl) for acl in selected])


def refuse(request: DeleteAclsRequest, error: KafkaError, _api_version: int) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[_result(error)] * len(request.filters))


API = Api(
    key=31,
    name="DeleteAcls",
    versions=(1, 3),
    access=(ALTER_CLUSTER,),
    handle=handle,
    guard=guard,
    refuse=refuse,
    errors=CONTROLLER_ERRORS | {ErrorCode.SECURITY_DISABLED},
)
