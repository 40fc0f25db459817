"""DescribeAcls (key 29): the ACLs that a filter selects, by resource pattern (Kafka: `AclApis.handleDescribeAcls`)."""

from typing import TYPE_CHECKING

from coordinator.api.acl_requests import PIECE_ACLS, close_unread, has_unknown_code, read_filter, select
from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.permits import Permits, denial
from coordinator.api.server import Server
from coordinator.api.sliced_work import Pieces
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import DescribeAclsRequest, DescribeAclsResponse
from coordinator.security.access import DESCRIBE_CLUSTER
from coordinator.security.acls import Acl

if TYPE_CHECKING:
    from coordinator.security.standard_authorizer import StandardAuthorizer

_Resource = DescribeAclsResponse.DescribeAclsResource
_Description = DescribeAclsResponse.AclDescription


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


def refuse(_request: DescribeAclsRequest, error: KafkaError, _api_version: int) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=error.code, error_message=error.message)


API = Api(
    key=29,
    name="DescribeAcls",
    versions=(1, 3),
    access=(DESCRIBE_CLUSTER,),
    handle=handle,
    guard=guard,
    refuse=refuse,
    writes=False,
)
