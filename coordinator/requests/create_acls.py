"""CreateAcls (key 30): adds ACLs to the metadata log (Kafka: `AclApis.handleCreateAcls`, `AclControlManager.createAcls`).

The valid ACLs of a request are one batch. An ACL that exists already is created again without a record.
"""

from typing import TYPE_CHECKING

from coordinator.api import Api, Exchange, Permits, Pieces, Server, denial
from coordinator.api.error_families import CONTROLLER_ERRORS
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import AccessControlEntryRecord, CreateAclsRequest, CreateAclsResponse
from coordinator.requests.describe_acls import CHANGES_MAX, NO_AUTHORIZER, close_unread
from coordinator.security import hosts
from coordinator.security.access import ALTER_CLUSTER, AclOperation, ResourceType
from coordinator.security.acls import Acl, PatternType, PermissionType
from coordinator.security.authorizer import CLUSTER_NAME

if TYPE_CHECKING:
    from coordinator.security.standard_authorizer import StandardAuthorizer

_Creation = CreateAclsRequest.AclCreation
_Result = CreateAclsResponse.AclCreationResult

PIECE_ACLS = 200
"""ACLs that are validated in about a millisecond."""


def handle(server: Server, exchange: Exchange[CreateAclsRequest]) -> None:
    authorizer = server.authorizer
    if _has_unknown_code(exchange.request):
        close_unread(exchange)
    elif authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    else:
        exchange.run_in_slices(_validate(server, authorizer, exchange))


def guard(server: Server, exchange: Exchange[CreateAclsRequest], permits: Permits) -> None:
    if not _has_unknown_code(exchange.request) and not permits.allows(ALTER_CLUSTER):
        raise denial(ALTER_CLUSTER.resource_type)
    handle(server, exchange)


def _has_unknown_code(request: CreateAclsRequest) -> bool:
    return any(
        0 in (each.resource_type, each.resource_pattern_type, each.operation, each.permission_type)
        for each in request.creations
    )


def _read(creation: _Creation) -> Acl:
    """Raises UNKNOWN_SERVER_ERROR for a code that only filters have, as in Kafka."""
    acl = Acl(
        ResourceType(creation.resource_type),
        creation.resource_name,
        PatternType(creation.resource_pattern_type),
        creation.principal,
        creation.host,
        AclOperation(creation.operation),
        PermissionType(creation.permission_type),
    )
    if (
        1 in (acl.resource_type, acl.pattern_type, acl.operation, acl.permission)
        or acl.pattern_type == PatternType.MATCH
    ):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return acl


def _validate(server: Server, authorizer: "StandardAuthorizer", exchange: Exchange[CreateAclsRequest]) -> Pieces:
    """Validates a few ACLs in each step, and creates them when every earlier change is made. Raises as `_read`."""
    acls: list[Acl] = []
    errors: list[KafkaError | None] = []
    for number, creation in enumerate(exchange.request.creations, 1):
        if not number % PIECE_ACLS:
            yield
        acls.append(_read(creation))
        errors.append(_error(acls[-1]))
    server.topics.metadata.in_turn(lambda: _create(server, authorizer, exchange, acls, errors), exchange.refuse)


def _create(
    server: Server,
    authorizer: "StandardAuthorizer",
    exchange: Exchange[CreateAclsRequest],
    acls: list[Acl],
    errors: list[KafkaError | None],
) -> None:
    new = dict.fromkeys(
        acl for acl, error in zip(acls, errors, strict=True) if error is None and not authorizer.has(acl)
    )
    if len(new) > CHANGES_MAX:
        text = "Unable to perform excessively large batch operation."
        exchange.reply(exchange.refusal(KafkaError(ErrorCode.POLICY_VIOLATION, text)))
        return

    def done(code: ErrorCode) -> None:
        failure = None if code is ErrorCode.NONE else KafkaError(code)
        exchange.reply_in_slices(CreateAclsResponse(results=[_result(error or failure) for error in errors]))

    if new:
        server.topics.metadata.commit([_record(server, acl) for acl in new], done)
    else:
        done(ErrorCode.NONE)


def _error(acl: Acl) -> KafkaError | None:
    """Why an ACL cannot be created: INVALID_REQUEST, with Kafka's text."""
    reason = _why_invalid(acl)
    return KafkaError(ErrorCode.INVALID_REQUEST, reason) if reason else None


def _why_invalid(acl: Acl) -> str:
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not acl.resource_name:
        return "Invalid empty resource name"
    for what, code in (
        ("resourceType", acl.resource_type),
        ("patternType", acl.pattern_type),
        ("operation", acl.operation),
        ("permissionType", acl.permission),
    ):
        if not code:
            return f"Invalid {what} {code.name}"
    if ":" not in acl.principal:
        return (
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the principal type from the"
            " principal name)"
        )
    try:
        hosts.check(acl.host)
    except ValueError as error:
        return str(error)
    return ""


def _record(server: Server, acl: Acl) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(bytes.fromhex(server.entropy.uuid().replace("-", "")), *acl)


def _result(error: KafkaError | None) -> _Result:
    return _Result() if error is None else _Result(error.code, error.message)


def refuse(request: CreateAclsRequest, error: KafkaError, _api_version: int) -> CreateAclsResponse:
    return CreateAclsResponse(results=[_result(error)] * len(request.creations))


API = Api(
    key=30,
    name="CreateAcls",
    versions=(1, 3),
    access=(ALTER_CLUSTER,),
    handle=handle,
    guard=guard,
    refuse=refuse,
    errors=CONTROLLER_ERRORS | {ErrorCode.SECURITY_DISABLED, ErrorCode.POLICY_VIOLATION},
)
