"""Guards of a common shape (`Api.guard`), and the parts that the others share."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from coordinator.api.exchange import Exchange
from coordinator.api.permits import Permits
from coordinator.api.server import Server
from coordinator.security.access import Access
from coordinator.security.authorizer import CLUSTER_NAME

R = TypeVar("R")
E = TypeVar("E")

Handle = Callable[[Server, Exchange[R]], None]
Guard = Callable[[Server, Exchange[R], Permits], None]


def guarded_by(access: Access, name_of: Callable[[R], str], handle: Handle[R]) -> Guard[R]:
    """The guard of a request that concerns one resource: it is refused as a whole, or handled as it is."""

    def guard(server: Server, exchange: Exchange[R], permits: Permits) -> None:
        permits.require(access, name_of(exchange.request))
        handle(server, exchange)

    return guard


def guarded_by_cluster(access: Access, handle: Handle[R]) -> Guard[R]:
    """The guard of a request that concerns the cluster."""

    def cluster_name(_request: Any) -> str:
        return CLUSTER_NAME

    return guarded_by(access, cluster_name, handle)


def allowed_names(permits: Permits, access: Access, names: Iterable[str]) -> frozenset[str]:
    """The names with which the client may do this; each is asked about once (`AuthHelper.filterByAuthorized`)."""
    return frozenset(name for name in dict.fromkeys(names) if permits.allows(access, name))


def split_by_permit(
    permits: Permits, access: Access, elements: Sequence[E], name_of: Callable[[E], str]
) -> tuple[list[E], list[E]]:
    """The elements of a request that the client may have, and those that it may not (`AuthHelper.partitionSeqByAuthorized`)."""
    allowed = allowed_names(permits, access, map(name_of, elements))
    return (
        [each for each in elements if name_of(each) in allowed],
        [each for each in elements if name_of(each) not in allowed],
    )
