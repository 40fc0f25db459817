"""What an error rule does to one request: which part is refused, how, and what is left for the API."""

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, NamedTuple

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.rules import responses
from coordinator.rules.check import FIND_COORDINATOR, GROUP_COORDINATOR, TRANSACTION_COORDINATOR
from coordinator.rules.elements import split
from coordinator.rules.matching import Hit, Matcher, Seen
from coordinator.rules.model import Action

_COORDINATOR_ERRORS = {
    "moved": ErrorCode.NOT_COORDINATOR,
    "loading": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    "unavailable": ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
_NO_ID = bytes(16)


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
    if action.coordinator is not None:
        return _coordinator_failure(action.coordinator, hit, seen)
    assert action.error is not None
    code = ErrorCode[action.error]
    api, version = seen.exchange.route.name, seen.exchange.route.version
    partitions = None if action.partitions is None else frozenset(action.partitions)
    if responses.is_patched(api, code, names_partitions=partitions is not None):
        return _patched(code, partitions, matcher, seen)
    paths = responses.reach(api, version, code, hit.paths)
    part, rest = split(api, version, seen.explicit, paths, partitions)
    if part is None and partitions is not None:
        return None
    refusal = responses.refused(seen.exchange.route, part, KafkaError(code, action.message))
    return None if refusal is None else Failure(refusal, rest)


def _coordinator_failure(state: str, hit: Hit, seen: Seen) -> Failure | None:
    """As a cluster whose coordinator is elsewhere, or loads, or does not exist at the moment.

    FindCoordinator knows where the coordinator is, also while it loads; it is this node again after a move.
    """
    route = seen.exchange.route
    named = "transactional_id" if route.name in TRANSACTION_COORDINATOR else "group"
    if route.name == FIND_COORDINATOR:
        if state != "unavailable":
            return None
    elif getattr(hit.named, named) is None and route.name not in GROUP_COORDINATOR:
        return None
    part, rest = split(route.name, route.version, seen.request, hit.paths, None)
    error = KafkaError(_COORDINATOR_ERRORS[state])
    return None if part is None else Failure(route.refuse(part, error, route.version), rest)


def _patched(code: ErrorCode, partitions: frozenset[int] | None, matcher: Matcher, seen: Seen) -> Failure | None:
    route, topics = seen.exchange.route, seen.server.topics

    def is_hit(group: str | None, topic: str | None, partition: int) -> bool:
        return (partitions is None or partition in partitions) and topic is not None and matcher.is_hit(group, topic)

    def topic_name(topic: Any) -> str | None:
        topic_id = getattr(topic, "topic_id", _NO_ID)
        return topic.name or None if topic_id == _NO_ID else topics.topic_name(topic_id)

    if route.name == "Fetch":
        hit = [each for each in seen.fetched if is_hit(None, each.topic, each.partition)]
        if not hit:
            return None
        request: Any = copy(seen.request)
        request.max_wait_ms = 0  # an error is answered at once
        return Failure(rest=request, patch=lambda found: responses.patch_fetch(found, route.version, hit, code))
    patch = responses.patch_offset_fetch if route.name == "OffsetFetch" else responses.patch_metadata
    return Failure(rest=seen.request, patch=partial(patch, is_hit=is_hit, code=code, topic_name=topic_name))
