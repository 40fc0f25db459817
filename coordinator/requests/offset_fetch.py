"""OffsetFetch (key 9): the committed offsets of groups.

v2 can request everything that a group has committed (topics null), and has a top-level error. v7 can request stable offsets
only (KIP-447). v8 names several groups (KIP-709). v9 names the member of a consumer group (KIP-848). v10 names topics by id.

The groups of one request may live on different shards. Each shard answers for its own, and the response lists the groups in
the order of the request.

A topic that the client may not describe is refused behind the others; of all offsets of a group it is left out.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from functools import cache, partial
from operator import itemgetter
from typing import Any, TypeVar

from coordinator.api import HERE, Api, Coordinator, Exchange, Permits, Pieces, Server
from coordinator.api.declaration import ErrorPlaces, Fields, IsHit, Patched, Recorded, Seen
from coordinator.api.error_families import MEMBER_ERRORS, TOPIC_ERRORS
from coordinator.api.guards import PIECE_NAMES, allowed_in_pieces
from coordinator.api.payloads import error_name
from coordinator.groups.catalog import Catalog
from coordinator.groups.offsets.fetch import fetch, fetch_group
from coordinator.groups.state import Groups
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import Message, OffsetFetchRequest, OffsetFetchResponse
from coordinator.runtime.result import RequestContext, Result
from coordinator.security.access import DESCRIBE_GROUP, DESCRIBE_TOPIC

GROUP_ERROR_SINCE = 2
BATCH_SINCE = 8
TOPIC_IDS_SINCE = 10
NO_OFFSET = -1
NO_LEADER_EPOCH = -1
_PIECE_GROUPS = 200
"""Requested groups that are prepared in about a millisecond."""
_OFFSETS_LIKE_A_GROUP = 20
"""Offsets that are fetched in the time that a group without offsets takes."""
_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED

_RequestedGroup = OffsetFetchRequest.OffsetFetchRequestGroup
_Group = OffsetFetchResponse.OffsetFetchResponseGroup
_GroupTopic = OffsetFetchResponse.OffsetFetchResponseTopics
_GroupPartition = OffsetFetchResponse.OffsetFetchResponsePartitions
_Topic = OffsetFetchResponse.OffsetFetchResponseTopic
_Partition = OffsetFetchResponse.OffsetFetchResponsePartition
MaySee = Callable[[str], bool]
"""Whether the client may describe the topic of a name; it remembers what it has said."""
_Fetch = Callable[[Groups, OffsetFetchRequest, RequestContext, int], Result]
P = TypeVar("P")
T = TypeVar("T", _Topic, _GroupTopic)


def handle(server: Server, exchange: Exchange[OffsetFetchRequest]) -> None:
    if exchange.api_version < BATCH_SINCE:
        exchange.run_in_slices(_fetch_of_one(server, exchange, fetch))
    else:
        exchange.run_in_slices(_fetch_groups(server, exchange, exchange.request.groups, list))


def guard(server: Server, exchange: Exchange[OffsetFetchRequest], permits: Permits) -> None:
    is_batch = exchange.api_version >= BATCH_SINCE
    exchange.run_in_slices((_fetch_visible_groups if is_batch else _fetch_visible)(server, exchange, permits))


def _fetch_visible(server: Server, exchange: Exchange[OffsetFetchRequest], permits: Permits) -> Pieces:
    request = exchange.request
    permits.require(DESCRIBE_GROUP, request.group_id)
    named = list(dict.fromkeys(topic.name for topic in request.topics or ()))
    allowed = yield from allowed_in_pieces(permits, DESCRIBE_TOPIC, named)
    may_see = cache(partial(permits.allows, DESCRIBE_TOPIC, quiet=True))
    if request.topics is None:
        yield from _ask_about_committed(server, [request.group_id], may_see)
    yield from _fetch_of_one(server, exchange, _visible_part(request, allowed, may_see))


def _fetch_of_one(server: Server, exchange: Exchange[OffsetFetchRequest], operation: _Fetch) -> Pieces:
    """Fetches what a request of one group asks for; the response, which may be large, is encoded in later slices."""
    request = exchange.request
    return server.groups.gather_of_group(
        request.group_id, [request], operation, exchange, itemgetter(0), refused=lambda _, error: KafkaError(error)
    )


def _fetch_visible_groups(server: Server, exchange: Exchange[OffsetFetchRequest], permits: Permits) -> Pieces:
    groups, by_id = exchange.request.groups, exchange.api_version >= TOPIC_IDS_SINCE
    group_ids = list(dict.fromkeys(group.group_id for group in groups))
    allowed_groups = yield from allowed_in_pieces(permits, DESCRIBE_GROUP, group_ids)
    names = {
        server.topics.topic_name(topic.topic_id) if by_id else topic.name: None
        for group in groups
        if group.group_id in allowed_groups
        for topic in group.topics or ()
    }
    allowed = yield from allowed_in_pieces(permits, DESCRIBE_TOPIC, [name for name in names if name is not None])
    may_see = cache(partial(permits.allows, DESCRIBE_TOPIC, quiet=True))
    all_of = [group.group_id for group in groups if group.topics is None and group.group_id in allowed_groups]
    yield from _ask_about_committed(server, dict.fromkeys(all_of), may_see)
    catalog = server.topics if by_id else None
    visible: list[_VisiblePart] = []
    for number, group in enumerate(groups, 1):
        is_refused = group.group_id not in allowed_groups
        visible.append(_VisiblePart(group, allowed, may_see, catalog, is_refused=is_refused))
        if not number % _PIECE_GROUPS:
            yield

    def compose(fetched: Iterable[_Group]) -> list[_Group]:
        each_fetched = iter(fetched)
        return [each.refusal() if each.is_refused else each.answer(next(each_fetched)) for each in visible]

    yield from _fetch_groups(server, exchange, [each.rest for each in visible if not each.is_refused], compose)


def _ask_about_committed(server: Server, group_ids: Iterable[str], may_see: MaySee) -> Pieces:
    """Asks about the topics that groups have offsets of, before all of these are fetched. `may_see` remembers the answers."""
    done = 0
    for group_id in group_ids:
        committed = server.groups.shard_of(group_id).state.offsets.by_group.get(group_id, ())
        for name in ("", *dict.fromkeys(topic for topic, _ in committed)):
            if name:
                may_see(name)
            done += 1  # to look a group up costs as much as to ask about a name
            if not done % PIECE_NAMES:
                yield


def _fetch_groups(
    server: Server,
    exchange: Exchange[OffsetFetchRequest],
    groups: Sequence[_RequestedGroup],
    compose: Callable[[Iterable[_Group]], list[_Group]],
) -> Pieces:
    """Fetches the offsets of some groups; `compose` makes the response's groups of theirs, which are in the same order."""
    if not exchange.request.groups and exchange.behaviours.offsets_of_no_groups_are_not_sent:
        return
    yield  # decoding has taken some milliseconds
    requested: dict[str, list[_RequestedGroup]] = {}
    for group in groups:
        requested.setdefault(group.group_id, []).append(group)
    yield
    by_id = exchange.api_version >= TOPIC_IDS_SINCE
    require_stable = exchange.request.require_stable

    def fetch_on_shard(groups: Groups, group_ids: list[str], _context: RequestContext, _now_ms: int) -> Result:
        fetched: list[_Group] = []
        for group_id in group_ids:
            all_offsets: dict[tuple[str | None, int], _Group] = {}
            for each in requested[group_id]:
                asked_by = each.member_id, each.member_epoch
                found = all_offsets.get(asked_by) if each.topics is None else None
                if found is None:
                    found = fetch_group(groups, each, by_id=by_id, require_stable=require_stable)
                if each.topics is None:  # a client may name a large group a hundred times
                    all_offsets[asked_by] = found
                fetched.append(found)
        return Result(OffsetFetchResponse(groups=fetched))

    def refused(group_ids: list[str], error: ErrorCode) -> OffsetFetchResponse:
        # A group that is named twice is answered twice.
        return OffsetFetchResponse(groups=[_Group(name, [], error) for name in group_ids for _ in requested[name]])

    def combine(parts: Sequence[OffsetFetchResponse]) -> OffsetFetchResponse:
        fetched: dict[str, deque[_Group]] = {}
        for part in parts:
            for group in part.groups:
                fetched.setdefault(group.group_id, deque()).append(group)
        return OffsetFetchResponse(groups=compose([fetched[group.group_id].popleft() for group in groups]))

    def weigh(groups: Groups, group_id: str) -> int:
        offsets = len(groups.offsets.by_group.get(group_id, ()))
        for each in requested[group_id]:
            offsets += sum(len(topic.partition_indexes) for topic in each.topics or ())
        return 1 + offsets // _OFFSETS_LIKE_A_GROUP

    server.groups.gather_by_group(requested, fetch_on_shard, exchange, combine, refused=refused, weigh=weigh)


# --- what the client may see ------------------------------------------------------------------------------------------


def _visible_part(request: OffsetFetchRequest, allowed: frozenset[str], may_see: MaySee) -> _Fetch:
    """`fetch` for the topics that the client may describe; others come last in the response, if the client has named them."""
    rest = copy(request)
    refused: list[_Topic] = []
    if request.topics is not None:
        rest.topics = [topic for topic in request.topics if topic.name in allowed]
        refused += [_refused(topic, _DENIED) for topic in request.topics if topic.name not in allowed]

    def fetch_visible(groups: Groups, _request: OffsetFetchRequest, context: RequestContext, now_ms: int) -> Result:
        result = fetch(groups, rest, context, now_ms)
        response = result.reply
        assert isinstance(response, OffsetFetchResponse)
        if rest.topics is None:
            response.topics = _visible(response.topics, may_see)
        response.topics += refused
        return result

    return fetch_visible


class _VisiblePart:
    """What the client may see of a requested group (v8 and later)."""

    __slots__ = ("_may_see", "_refused", "is_refused", "rest")

    def __init__(
        self,
        requested: _RequestedGroup,
        allowed: frozenset[str],
        may_see: MaySee,
        catalog: Catalog | None,
        *,
        is_refused: bool,
    ) -> None:
        """`allowed`: the named topics that may be seen. `catalog`: has the names of topics named by id; else None."""
        self._may_see = may_see
        self._refused: list[_GroupTopic] = []
        self.rest = copy(requested)
        """The request without the topics that are refused here."""
        self.is_refused = is_refused
        if self.is_refused or requested.topics is None:
            return
        names = [topic.name if catalog is None else catalog.topic_name(topic.topic_id) for topic in requested.topics]
        self.rest.topics = []
        for topic, name in zip(requested.topics, names, strict=True):
            if name in allowed:
                self.rest.topics.append(topic)
            else:
                code = ErrorCode.UNKNOWN_TOPIC_ID if name is None else _DENIED
                partitions = [_refused_partition(_GroupPartition, index, code) for index in topic.partition_indexes]
                self._refused.append(_GroupTopic(topic.name, topic.topic_id, partitions))

    def refusal(self) -> _Group:
        return _Group(self.rest.group_id, [], ErrorCode.GROUP_AUTHORIZATION_FAILED)

    def answer(self, fetched: _Group) -> _Group:
        """The group's entry of the response: what was fetched of `rest`, then the refused topics."""
        if not fetched.error_code:
            if self.rest.topics is None:
                fetched.topics = _visible(fetched.topics, self._may_see)
            fetched.topics += self._refused
        return fetched


def _visible(topics: Iterable[T], may_see: MaySee) -> list[T]:
    return [each for each in topics if may_see(each.name)]


def refuse(request: OffsetFetchRequest, error: KafkaError, api_version: int) -> Message:
    code = error.code
    if api_version >= BATCH_SINCE:
        return OffsetFetchResponse(groups=[_Group(group.group_id, [], code) for group in request.groups])
    if api_version >= GROUP_ERROR_SINCE:
        return OffsetFetchResponse(error_code=code)
    return OffsetFetchResponse(topics=[_refused(topic, code) for topic in request.topics or ()])


def _refused(topic: OffsetFetchRequest.OffsetFetchRequestTopic, code: ErrorCode) -> _Topic:
    return _Topic(topic.name, [_refused_partition(_Partition, index, code) for index in topic.partition_indexes])


def _refused_partition(make: Callable[[int, int, int, str, int], P], index: int, code: ErrorCode) -> P:
    return make(index, NO_OFFSET, NO_LEADER_EPOCH, "", code)


def _patch(seen: Seen, is_hit: IsHit, code: ErrorCode) -> Patched:
    """Replaces the offsets of these partitions by the error."""

    def patch(response: Any) -> None:
        for group_id, topics in [(None, response.topics), *((each.group_id, each.topics) for each in response.groups)]:
            for topic in topics:
                name = seen.topic(topic)
                topic.partitions = [
                    _refused_partition(type(each), each.partition_index, code)
                    if is_hit(group_id, name, each.partition_index)
                    else each
                    for each in topic.partitions
                ]

    return Patched(seen.request, patch)


def _recorded_request(seen: Seen, request: Any) -> Fields:
    groups = request.groups or [request]
    return {
        "require_stable": request.require_stable,
        "groups": [
            {
                "group_id": group.group_id,
                "member_id": getattr(group, "member_id", None),
                "member_epoch": getattr(group, "member_epoch", None),
                "partitions": None
                if group.topics is None
                else [
                    {"topic": seen.topic(topic), "partition": index}
                    for topic in group.topics
                    for index in topic.partition_indexes
                ],
            }
            for group in groups
        ],
    }


def _recorded_response(seen: Seen, response: Any) -> Fields:
    groups = response.groups or [response]
    return {
        "throttle_time_ms": response.throttle_time_ms,
        "groups": [
            {
                "group_id": getattr(group, "group_id", None) or getattr(seen.request, "group_id", None),
                "error": error_name(group.error_code),
                "partitions": [
                    {
                        "topic": seen.topic(topic),
                        "partition": each.partition_index,
                        "offset": each.committed_offset,
                        "leader_epoch": each.committed_leader_epoch,
                        "metadata": each.metadata,
                        "error": error_name(each.error_code),
                    }
                    for topic in group.topics
                    for each in topic.partitions
                ],
            }
            for group in groups
        ],
    }


API = Api(
    key=9,
    name="OffsetFetch",
    versions=(1, 10),
    access=(DESCRIBE_GROUP, DESCRIBE_TOPIC),
    handle=handle,
    refuse=refuse,
    guard=guard,
    writes=False,
    errors=MEMBER_ERRORS | TOPIC_ERRORS | {ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNSTABLE_OFFSET_COMMIT},
    elements=("topics.partition_indexes", "groups.topics.partition_indexes"),
    coordinator=Coordinator.GROUP,
    overlay=HERE,
    places=ErrorPlaces(of_elements=TOPIC_ERRORS | {ErrorCode.UNSTABLE_OFFSET_COMMIT}, patch=_patch),
    recorded=Recorded(_recorded_request, _recorded_response),
)
