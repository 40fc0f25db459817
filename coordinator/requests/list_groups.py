"""ListGroups (key 16): every group of this coordinator. v4 filters by state (KIP-518), v5 by type of group (KIP-848).

A client that may not describe the cluster gets the groups that it may describe.
"""

from collections.abc import Callable
from itertools import chain
from typing import Any, TypeVar

from coordinator.api import HERE, Api, Exchange, Pieces, Server
from coordinator.api.error_families import COORDINATOR_ERRORS
from coordinator.groups.list_groups import list_groups
from coordinator.groups.state import Groups
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ListGroupsRequest, ListGroupsResponse, Message
from coordinator.runtime.internal_request import InternalRequest
from coordinator.runtime.router import Router
from coordinator.security.access import DESCRIBE_CLUSTER, DESCRIBE_GROUP

_Group = ListGroupsResponse.ListedGroup


PIECE_ELEMENTS = 100
"""A permission that was not asked for before takes about ten microseconds among a thousand ACLs."""

E = TypeVar("E")


def reply_with_list(
    shards: Router[Any],
    view: Callable[[Any, int], list[E]],
    exchange: Exchange[Any],
    response: Callable[[list[E]], Message],
    *,
    may_see: Callable[[E], bool] | None,
    match: Callable[[list[E], Callable[[list[E]], None]], None] | None = None,
) -> None:
    """Answers `response(elements)` with those of all shards. `may_see`: whether an element is for the client; None: all are.

    `match(elements, proceed)` calls `proceed`, now or later, with those that a pattern matches; None: there is no pattern.
    """

    def combine(parts: list[list[E]]) -> Message:
        return response(list(chain.from_iterable(parts)))

    if may_see is None and match is None:
        shards.gather(view, exchange, combine)
        return

    def on_listed(parts: list[list[E]] | KafkaError) -> None:
        if isinstance(parts, KafkaError):
            exchange.fail(parts)
        elif match is not None:
            exchange.wait()
            match(list(chain.from_iterable(parts)), on_matched)
        else:
            on_matched(list(chain.from_iterable(parts)))

    def on_matched(elements: list[E]) -> None:
        if not exchange.is_over:
            exchange.run_in_slices(choose(elements))

    def choose(elements: list[E]) -> Pieces:
        visible: list[E] = []
        for start in range(0, len(elements), PIECE_ELEMENTS):
            visible += filter(may_see, elements[start : start + PIECE_ELEMENTS])
            yield
        exchange.reply_in_slices(response(visible))

    def unchanged(parts: list[list[E]]) -> Any:
        return parts

    shards.gather(view, _Listing(exchange, on_listed), unchanged)


class _Listing(InternalRequest):
    """The request for all elements, whose work is shared out like that of the client's request."""

    def __init__(self, exchange: Exchange[Any], on_listed: Callable[[Any], None]) -> None:
        super().__init__(None, on_listed, writes=False)
        self._exchange = exchange

    def run_in_slices(self, pieces: Pieces, *, even_if_lost: bool = False) -> None:
        self._exchange.run_in_slices(pieces, even_if_lost=even_if_lost)

    def reply_in_slices(self, message: Message) -> None:
        self.send(message)


def handle(server: Server, exchange: Exchange[ListGroupsRequest]) -> None:
    request, permits = exchange.request, exchange.permits

    def view(groups: Groups, _now_ms: int) -> list[_Group]:
        return list_groups(groups, request.states_filter, request.types_filter, exchange.behaviours)

    def response(groups: list[_Group]) -> ListGroupsResponse:
        return ListGroupsResponse(error_code=ErrorCode.NONE, groups=groups)

    def may_see(group: _Group) -> bool:
        return permits.allows(DESCRIBE_GROUP, group.group_id, quiet=True)

    sees_all = permits.allows(DESCRIBE_CLUSTER, quiet=True)
    reply_with_list(server.groups, view, exchange, response, may_see=None if sees_all else may_see)


API = Api(
    key=16,
    name="ListGroups",
    versions=(0, 5),
    access=(DESCRIBE_CLUSTER, DESCRIBE_GROUP),
    handle=handle,
    writes=False,
    errors=COORDINATOR_ERRORS | {ErrorCode.CLUSTER_AUTHORIZATION_FAILED},
    overlay=HERE,
)
