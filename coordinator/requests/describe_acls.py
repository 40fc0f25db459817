"""DescribeAcls (key 29): the ACLs that a filter selects, by resource pattern (Kafka: `AclApis.handleDescribeAcls`)."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from coordinator.api import Api, Exchange, Permits, Pieces, Server, denial
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import DescribeAclsRequest, DescribeAclsResponse
from coordinator.security.access import DESCRIBE_CLUSTER, AclOperation, ResourceType
from coordinator.security.acls import Acl, AclFilter, PatternType, PermissionType

if TYPE_CHECKING:
    from coordinator.security.standard_authorizer import StandardAuthorizer

_Resource = DescribeAclsResponse.DescribeAclsResource
_Description = DescribeAclsResponse.AclDescription


CHANGES_MAX = 10_000
"""The most ACLs that one request can create or delete (`QuorumController.MAX_RECORDS_PER_USER_OP`)."""
NO_AUTHORIZER = "No Authorizer is configured."
"""The message of SECURITY_DISABLED."""
PIECE_ACLS = 500
"""ACLs that a filter looks at in about a millisecond."""


class Filter(Protocol):
    """A filter in a request."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


def read_filter(given: Filter) -> AclFilter:
    return AclFilter(
        ResourceType(given.resource_type_filter),
        given.resource_name_filter,
        PatternType(given.pattern_type_filter),
        given.principal_filter,
        given.host_filter,
        AclOperation(given.operation),
        PermissionType(given.permission_type),
    )


def has_unknown_code(filters: Iterable[Filter]) -> bool:
    """Whether a filter has the code that stands for UNKNOWN. One that Kafka does not define is no such code."""
    return any(
        0 in (each.resource_type_filter, each.pattern_type_filter, each.operation, each.permission_type)
        for each in filters
    )


def close_unread(exchange: Exchange[Any]) -> None:
    """Closes the connection of a client that has sent the code UNKNOWN, as Kafka does, which cannot parse such requests."""
    exchange.close(f"{exchange.route.name} with a code 0, which stands for UNKNOWN")


def select(authorizer: "StandardAuthorizer", chosen: AclFilter, found: list[Acl]) -> Pieces:
    """Adds the ACLs that the filter selects, in pieces."""
    candidates = authorizer.candidates(chosen)
    for start in range(0, len(candidates), PIECE_ACLS):
        if start:
            yield
        found += filter(chosen.selects, candidates[start : start + PIECE_ACLS])


def handle(server: Server, exchange: Exchange[DescribeAclsRequest]) -> None:
    if has_unknown_code([exchange.request]):
        close_unread(exchange)
    elif server.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    else:
        exchange.run_in_slices(_describe(server.authorizer, exchange))


def guard(server: Server, exchange: Exchange[DescribeAclsRequest], permits: Permits) -> None:
    if not has_unknown_code([exchange.request]) and not permits.allows(DESCRIBE_CLUSTER):
        raise denial(DESCRIBE_CLUSTER.resource_type)
    handle(server, exchange)


def _describe(authorizer: "StandardAuthorizer", exchange: Exchange[DescribeAclsRequest]) -> Pieces:
    found: list[Acl] = []
    yield from select(authorizer, read_filter(exchange.request), found)
    resources: dict[tuple[int, str, int], _Resource] = {}
    for count, acl in enumerate(found, 1):
        pattern = acl.resource_type, acl.resource_name, acl.pattern_type
        resource = resources.setdefault(pattern, _Resource(*pattern))
        resource.acls.append(_Description(acl.principal, acl.host, acl.operation, acl.permission))
        if not count % PIECE_ACLS:
            yield
    exchange.reply(DescribeAclsResponse(resources=list(resources.values())))


API = Api(
    key=29,
    name="DescribeAcls",
    versions=(1, 3),
    access=(DESCRIBE_CLUSTER,),
    handle=handle,
    guard=guard,
    writes=False,
    errors=frozenset({ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.SECURITY_DISABLED}),
)
