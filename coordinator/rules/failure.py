"""What an error rule does to one request: which part is refused, how, and what is left for the API."""

from collections.abc import Callable
from typing import Any, NamedTuple

from coordinator.api.declaration import Coordinator
from coordinator.protocol import messages
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.rules import responses
from coordinator.rules.elements import split
from coordinator.rules.matching import Hit, Matcher, Seen
from coordinator.rules.model import Action

_COORDINATOR_ERRORS = {
    "moved": ErrorCode.NOT_COORDINATOR,
    "loading": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    "unavailable": ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


class Failure(NamedTuple):
    """How a request fails."""

    refusal: Any = None
    """The response to the part that is refused."""
    rest: Any = None
    """The request without that part; None: nothing is left."""
    patch: Callable[[Any], object] | None = None
    """Puts the error into the response that the API gives to `rest`."""


def plan(action: Action, hit: Hit, matcher: Matcher, seen: Seen) -> Failure | None:
    """How the request fails; None if it cannot: its response has no place for the error, or it names no such partition."""
    if action.instead:
        return Failure(getattr(messages, f"{seen.exchange.route.name}Response")())
    if action.coordinator is not None:
        return _coordinator_failure(action.coordinator, hit, seen)
    assert action.error is not None
    code = ErrorCode[action.error]
    api, version = seen.exchange.route.api, seen.exchange.route.version
    partitions = None if action.partitions is None else frozenset(action.partitions)
    if responses.is_patched(api, code, names_partitions=partitions is not None):
        return _patched(code, partitions, matcher, seen)
    # An error of the whole is not one of the topics that the request names without saying so.
    request = seen.request if code in api.places.of_whole else seen.explicit
    paths = responses.reach(api, version, code, hit.paths)
    part, rest = split(api, version, request, paths, partitions)
    if part is None and partitions is not None:
        return None
    refusal = responses.refused(seen.exchange.route, part, KafkaError(code, action.message))
    return None if refusal is None else Failure(refusal, rest)


def _coordinator_failure(state: str, hit: Hit, seen: Seen) -> Failure | None:
    """As a cluster whose coordinator is elsewhere, or loads, or does not exist at the moment.

    FindCoordinator knows where the coordinator is, also while it loads; it is this node again after a move.
    """
    route = seen.exchange.route
    coordinator = route.api.coordinator
    if coordinator is Coordinator.FOUND:
        if state != "unavailable":
            return None
    elif coordinator is Coordinator.TRANSACTION and hit.named.transactional_id is None:
        return None
    part, rest = split(route.api, route.version, seen.request, hit.paths, None)
    error = KafkaError(_COORDINATOR_ERRORS[state])
    return None if part is None else Failure(route.api.refusal(part, error, route.version), rest)


def _patched(code: ErrorCode, partitions: frozenset[int] | None, matcher: Matcher, seen: Seen) -> Failure | None:
    def is_hit(group: str | None, topic: str | None, partition: int) -> bool:
        return (partitions is None or partition in partitions) and topic is not None and matcher.is_hit(group, topic)

    patch = seen.exchange.route.api.places.patch
    found = None if patch is None else patch(seen, is_hit, code)
    return None if found is None else Failure(rest=found.request, patch=found.patch)
