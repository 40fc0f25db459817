"""The layer that asks for permissions, guards of a common shape (`Api.guard`), and the parts that the others share."""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from copy import copy
from functools import partial
from typing import Any, TypeVar

from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange, ReplyQueue
from coordinator.api.permits import DENIED, Permits, denial
from coordinator.api.server import Server
from coordinator.api.sliced_work import Pieces
from coordinator.config import features
from coordinator.groups.kinds import Kind
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import Message
from coordinator.security.access import DESCRIBE_CLUSTER, Access, ResourceType
from coordinator.security.authorizer import Authorizer

R = TypeVar("R")
E = TypeVar("E")

Handle = Callable[[Server, Exchange[R]], None]
Guard = Callable[[Server, Exchange[R], Permits], None]
Reply = Callable[[Any], None]
Serve = Callable[[Server, Exchange[R], R, Reply], None]
"""Handles a request that may be a part of the exchange's, and gives `reply` the response."""
Refuse = Callable[[R, KafkaError, int], Message]
PIECE_NAMES = 100
"""Names that the authorizer is asked about in about a millisecond, where there are many rules."""


class Guards:
    """The layer of a server with an authorizer: each API's guard in place of its handler."""

    has_answers = False

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def concerns(self, api: Api[Any]) -> bool:
        return api.guard is not None

    def around(self, api: Api[Any], handle: Handle[Any]) -> Handle[Any]:
        guard, authorizer = api.guard, self._authorizer
        assert guard is not None

        def ask(server: Server, exchange: Exchange[Any]) -> None:
            guard(server, exchange, exchange.permits)

        def ask_once(server: Server, exchange: Exchange[Any]) -> None:
            queue = exchange.queue
            cached, version = queue.cached_request, authorizer.version
            if cached.request is not exchange.request:
                ask(server, exchange)
            elif cached.permitted == version:
                handle(server, exchange)
            else:
                ask(server, exchange)
                if queue.cached_request is cached:
                    queue.cached_request = cached._replace(permitted=version)

        return ask_once if api.is_cacheable and api.is_guarded_whole else ask

    def needs_all(self, _queue: ReplyQueue, _client_id: str | None) -> bool:
        """A template asks by itself (fastpath/repeated_commit.py)."""
        return False


def guarded_by(access: Access, name_of: Callable[[R], str], handle: Handle[R]) -> Guard[R]:
    """The guard of a request that concerns one resource: it is refused as a whole, or handled as it is."""

    def guard(server: Server, exchange: Exchange[R], permits: Permits) -> None:
        permits.require(access, name_of(exchange.request))
        handle(server, exchange)

    return guard


def guarded_by_cluster(access: Access, handle: Handle[R]) -> Guard[R]:
    """The guard of a request that concerns the cluster."""

    def guard(server: Server, exchange: Exchange[R], permits: Permits) -> None:
        if not permits.allows(access):
            raise denial(access.resource_type)
        handle(server, exchange)

    return guard


def serves(server: Server, kind: Kind) -> bool:
    """Whether members may use the protocol of this kind of group now."""
    return features.serves(server.config, server.topics.registry, kind)


def check_group_is_named(group_id: str) -> None:
    """Raises INVALID_GROUP_ID for the empty id, whoever has its shard (`GroupCoordinatorService.isGroupIdNotEmpty`)."""
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)


def allowed_names(permits: Permits, access: Access, names: Iterable[str], *, quiet: bool = False) -> frozenset[str]:
    """The names with which the client may do this; each is asked about once (`AuthHelper.filterByAuthorized`)."""
    return frozenset(name for name in dict.fromkeys(names) if permits.allows(access, name, quiet=quiet))


def allowed_in_pieces(
    permits: Permits, access: Access, names: Sequence[str], *, quiet: bool = False
) -> Generator[None, None, frozenset[str]]:
    """What `allowed_names` returns for names that differ, some of them in each step."""
    allowed: set[str] = set()
    for first in range(0, len(names), PIECE_NAMES):
        allowed |= allowed_names(permits, access, names[first : first + PIECE_NAMES], quiet=quiet)
        yield
    return frozenset(allowed)


def ask_in_slices(
    exchange: Exchange[Any],
    permits: Permits,
    access: Access,
    names: Iterable[str],
    then: Callable[[frozenset[str]], None],
    *,
    quiet: bool = False,
) -> None:
    """Calls `then` with the names with which the client may do this: at once, or after slices if there are many names."""
    wanted = list(dict.fromkeys(names))

    def pieces() -> Pieces:
        then((yield from allowed_in_pieces(permits, access, wanted, quiet=quiet)))

    if len(wanted) <= PIECE_NAMES:
        then(allowed_names(permits, access, wanted, quiet=quiet))
    else:
        exchange.run_in_slices(pieces())


def guarded_by_topic(access: Access, name_of: Callable[[Any], str], serve: Serve[R], refuse: Refuse[R]) -> Guard[R]:
    """The guard of a request with an array `topics`: what the client may have is served, and the rest refused after it.

    The response has an array `topics` as well.
    """

    def guard(server: Server, exchange: Exchange[R], permits: Permits) -> None:
        topics: list[Any] = exchange.request.topics  # type: ignore[attr-defined]
        ask_in_slices(exchange, permits, access, map(name_of, topics), partial(serve_allowed, server, exchange))

    def serve_allowed(server: Server, exchange: Exchange[R], names: frozenset[str]) -> None:
        request: Any = exchange.request
        denied = [topic for topic in request.topics if name_of(topic) not in names]
        if not denied:
            serve(server, exchange, request, exchange.reply)
            return
        refused: Any = refuse(
            with_topics(request, denied), KafkaError(DENIED[access.resource_type]), exchange.api_version
        )

        def reply(response: Any) -> None:
            response.topics += refused.topics
            exchange.reply(response)

        allowed = [topic for topic in request.topics if name_of(topic) in names]
        if allowed:
            serve(server, exchange, with_topics(request, allowed), reply)
        else:
            exchange.reply(refused)

    return guard


def with_topics(request: R, topics: list[Any]) -> R:
    """A copy of the request with other topics: the exchange keeps the whole one, so that a failure refuses all of it."""
    narrowed: Any = copy(request)
    narrowed.topics = topics
    result: R = narrowed
    return result


def named_once(names: Iterable[str]) -> list[str]:
    """The names that are there once. The others are refused for that, whoever asks, before a permission counts."""
    return [name for name, times in Counter(names).items() if times == 1]


def cluster_operations(permits: Permits) -> int:
    """The bit field of authorized operations of the cluster: none for a client that may not describe it."""
    return permits.operations(ResourceType.CLUSTER) if permits.allows(DESCRIBE_CLUSTER) else 0
