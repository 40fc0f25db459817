"""What the APIs of ACLs share: filters, and requests that Kafka cannot read."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from coordinator.api.exchange import Exchange
from coordinator.api.sliced_work import Pieces
from coordinator.security.access import AclOperation, ResourceType
from coordinator.security.acls import Acl, AclFilter, PatternType, PermissionType

if TYPE_CHECKING:
    from coordinator.security.standard_authorizer import StandardAuthorizer

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
