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
from operator import attrgetter
from typing import TypeVar

from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.guards import allowed_names, split_by_permit
from coordinator.api.permits import Permits
from coordinator.api.server import Server
from coordinator.groups.catalog import Catalog
from coordinator.groups.offsets.fetch import fetch, fetch_group
from coordinator.groups.state import Groups
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import Message, OffsetFetchRequest, OffsetFetchResponse
from coordinator.runtime.result import RequestContext, Result
from coordinator.runtime.router import PART_GROUPS
from coordinator.security.access import DESCRIBE_GROUP, DESCRIBE_TOPIC

GROUP_ERROR_SINCE = 2
BATCH_SINCE = 8
TOPIC_IDS_SINCE = 10
NO_OFFSET = -1
NO_LEADER_EPOCH = -1
_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED

_RequestedGroup = OffsetFetchRequest.OffsetFetchRequestGroup
_Group = OffsetFetchResponse.OffsetFetchResponseGroup
_GroupTopic = OffsetFetchResponse.OffsetFetchResponseTopics
_GroupPartition = OffsetFetchResponse.OffsetFetchResponsePartitions
_Topic = OffsetFetchResponse.OffsetFetchResponseTopic
_Partition = OffsetFetchResponse.OffsetFetchResponsePartition
P = TypeVar("P")
T = TypeVar("T", _Topic, _GroupTopic)


def handle(server: Server, exchange: Exchange[OffsetFetchRequest]) -> None:
    if exchange.api_version < BATCH_SINCE:
        server.groups.submit(exchange.request.group_id, fetch, exchange)
    else:
        _fetch_groups(server, exchange, exchange.request.groups, list)


def guard(server: Server, exchange: Exchange[OffsetFetchRequest], permits: Permits) -> None:
    request = exchange.request
    if exchange.api_version < BATCH_SINCE:
        permits.require(DESCRIBE_GROUP, request.group_id)
        server.groups.submit(request.group_id, _visible_part(request, permits), exchange)
        return
    catalog = server.topics if exchange.api_version >= TOPIC_IDS_SINCE else None
    visible = [_VisiblePart(group, permits, catalog) for group in request.groups]

    def compose(fetched: Iterable[_Group]) -> list[_Group]:
        each_fetched = iter(fetched)
        return [each.refusal() if each.is_refused else each.answer(next(each_fetched)) for each in visible]

    _fetch_groups(server, exchange, [each.rest for each in visible if not each.is_refused], compose)


def _fetch_groups(
    server: Server,
    exchange: Exchange[OffsetFetchRequest],
    groups: Sequence[_RequestedGroup],
    compose: Callable[[Iterable[_Group]], list[_Group]],
) -> None:
    """Fetches the offsets of some groups; `compose` makes the response's groups of theirs, which are in the same order."""
    requested: dict[str, list[_RequestedGroup]] = {}
    for group in groups:
        requested.setdefault(group.group_id, []).append(group)
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

    # All offsets of one group may be many.
    part_groups = 1 if any(group.topics is None for group in groups) else PART_GROUPS
    server.groups.gather_by_group(
        requested, fetch_on_shard, exchange, combine, refused=refused, part_groups=part_groups
    )


# --- what the client may see ------------------------------------------------------------------------------------------


def _visible_part(
    request: OffsetFetchRequest, permits: Permits
) -> Callable[[Groups, OffsetFetchRequest, RequestContext, int], Result]:
    """`fetch` for the topics that the client may describe; others come last in the response, if the client has named them."""
    rest = copy(request)
    refused: list[_Topic] = []
    if request.topics is not None:
        rest.topics, denied = split_by_permit(permits, DESCRIBE_TOPIC, request.topics, attrgetter("name"))
        refused += [_refused(topic, _DENIED) for topic in denied]

    def fetch_visible(groups: Groups, _request: OffsetFetchRequest, context: RequestContext, now_ms: int) -> Result:
        result = fetch(groups, rest, context, now_ms)
        response = result.reply
        assert isinstance(response, OffsetFetchResponse)
        if rest.topics is None:
            response.topics = _visible(response.topics, permits)
        response.topics += refused
        return result

    return fetch_visible


class _VisiblePart:
    """What the client may see of a requested group (v8 and later)."""

    __slots__ = ("_permits", "_refused", "is_refused", "rest")

    def __init__(self, requested: _RequestedGroup, permits: Permits, catalog: Catalog | None) -> None:
        """`catalog`: finds the names of topics that are named by id; None: they are named by name."""
        self._permits = permits
        self._refused: list[_GroupTopic] = []
        self.rest = copy(requested)
        """The request without the topics that are refused here."""
        self.is_refused = not permits.allows(DESCRIBE_GROUP, requested.group_id)
        if self.is_refused or requested.topics is None:
            return
        names = [topic.name if catalog is None else catalog.topic_name(topic.topic_id) for topic in requested.topics]
        allowed = allowed_names(permits, DESCRIBE_TOPIC, (name for name in names if name is not None))
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
                fetched.topics = _visible(fetched.topics, self._permits)
            fetched.topics += self._refused
        return fetched


def _visible(topics: Iterable[T], permits: Permits) -> list[T]:
    return [each for each in topics if permits.allows(DESCRIBE_TOPIC, each.name, quiet=True)]


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


API = Api(
    key=9,
    name="OffsetFetch",
    versions=(1, 10),
    access=(DESCRIBE_GROUP, DESCRIBE_TOPIC),
    handle=handle,
    refuse=refuse,
    guard=guard,
    writes=False,
)
