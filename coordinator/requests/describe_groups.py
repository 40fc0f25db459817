"""DescribeGroups (key 15): state, protocol and members of classic groups, in the order of the request.

v3 may request the operations that the client is authorized to perform (KIP-430). v6 answers GROUP_ID_NOT_FOUND for an unknown
group (KIP-1043), where earlier versions report it as Dead.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from coordinator.api import HERE, Api, Coordinator, Exchange, Overlay, Permits, Server
from coordinator.api.error_families import GROUP_ERRORS
from coordinator.api.guards import allowed_names, ask_in_slices, serves
from coordinator.groups.classic.describe import describe_group
from coordinator.groups.kinds import Kind
from coordinator.groups.machine import GroupMachine
from coordinator.groups.state import Groups
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import DescribeGroupsRequest, DescribeGroupsResponse, Message
from coordinator.runtime.internal_request import DONE
from coordinator.runtime.result import RequestContext, Result
from coordinator.runtime.router import Router
from coordinator.security.access import DESCRIBE_GROUP, DESCRIBE_TOPIC, AclOperation, ResourceType

_Described = DescribeGroupsResponse.DescribedGroup
CONFIG_OPERATIONS = 1 << AclOperation.DESCRIBE_CONFIGS | 1 << AclOperation.ALTER_CONFIGS
"""As bits of authorized operations."""
_OPERATIONS_SINCE = 3
"""The version of DescribeGroups that has them; the other APIs always have."""


class DescribeRequest(Protocol):
    """Such a request: it may ask what the client is allowed to do with the groups (KIP-430)."""

    include_authorized_operations: bool


class DescribedGroup(Protocol):
    """Such a response's entry."""

    group_id: str
    error_code: int
    authorized_operations: int


R = TypeVar("R", bound=DescribeRequest)
D = TypeVar("D", bound=DescribedGroup)


def describe_groups(
    groups: Router[GroupMachine],
    group_ids: Sequence[str],
    exchange: Exchange[R],
    describe: Callable[[Groups, str], D],
    response: Callable[[list[D]], Message],
    *,
    refused: Callable[[str, ErrorCode], D],
    hide: Callable[[Permits, list[D]], list[D]] | None = None,
    sort: Callable[[list[str]], list[str]] = list,
) -> None:
    """Describes every group on its own shard, and answers `response(descriptions)`.

    They come in the order of the ids, or as `sort` orders these. Groups that the client may not describe come first, as
    `refused(group id, error)`, which also stands for those of a shard that is loading or elsewhere. `hide` replaces
    descriptions of which the client may not see all.
    """
    permits = exchange.permits
    hidden = CONFIG_OPERATIONS if exchange.behaviours.groups_have_no_config_operations else 0
    described: dict[str, D] = {}
    may: set[str] = set()

    def describe_on_shard(state: Groups, ids: list[str], _context: RequestContext, _now_ms: int) -> Result:
        for group_id in ids:
            group = described[group_id] = describe(state, group_id)
            if exchange.request.include_authorized_operations and group.error_code == ErrorCode.NONE:
                group.authorized_operations = permits.operations(ResourceType.GROUP, group_id) & ~hidden
            elif exchange.api_version >= _OPERATIONS_SINCE and exchange.behaviours.unrequested_operations_are_0:
                group.authorized_operations = 0
        return Result(DONE)

    def refuse_part(ids: list[str], error: ErrorCode) -> object:
        described.update({group_id: refused(group_id, error) for group_id in ids})
        return DONE

    def combine(_parts: list[object]) -> Message:
        descriptions = [refused(each, ErrorCode.GROUP_AUTHORIZATION_FAILED) for each in group_ids if each not in may]
        descriptions += [described[each] for each in sort([each for each in group_ids if each in may])]
        return response(descriptions if hide is None or permits.everything else hide(permits, descriptions))

    def describe_allowed(allowed: frozenset[str]) -> None:
        may.update(allowed)
        ids = [group_id for group_id in dict.fromkeys(group_ids) if group_id in allowed]
        groups.gather_by_group(ids, describe_on_shard, exchange, combine, refused=refuse_part)

    ask_in_slices(exchange, permits, DESCRIBE_GROUP, group_ids, describe_allowed)


@dataclass(frozen=True, slots=True)
class DescribesKind:
    """An API that describes groups of one kind, if the server serves this kind.

    `describe(exchange, groups, group id)` returns a `described`, of which `response` has a list. A description with a topic of
    `topics_of` that the client may not describe becomes an error with the text `hidden`.
    """

    kind: Kind
    response: Callable[..., Message]
    described: Callable[..., Any]
    describe: Callable[[Exchange[Any], Groups, str], Any]
    topics_of: Callable[[Any], Iterable[str]]
    hidden: str

    def api(self, key: int, name: str, versions: tuple[int, int], overlay: Overlay) -> Api[Any]:
        """The declaration."""
        return Api(
            key=key,
            name=name,
            versions=versions,
            access=(DESCRIBE_GROUP, DESCRIBE_TOPIC),
            handle=self.handle,
            refuse=self.refuse,
            writes=False,
            errors=GROUP_ERRORS | {ErrorCode.TOPIC_AUTHORIZATION_FAILED},
            elements=("group_ids",),
            coordinator=Coordinator.GROUP,
            overlay=overlay,
        )

    def handle(self, server: Server, exchange: Exchange[Any]) -> None:
        if not serves(server, self.kind):
            exchange.refuse(ErrorCode.UNSUPPORTED_VERSION)
            return
        describe_groups(
            server.groups,
            exchange.request.group_ids,
            exchange,
            partial(self.describe, exchange),
            lambda groups: self.response(groups=groups),
            refused=self._refused,
            sort=_invalid_ids_first,
            hide=self._hide,
        )

    def refuse(self, request: Any, error: KafkaError, _api_version: int) -> Message:
        return self.response(groups=[self._refused(group_id, error.code) for group_id in request.group_ids])

    def _refused(self, group_id: str, error: ErrorCode, text: str | None = None) -> Any:
        return self.described(error_code=error, group_id=group_id, error_message=text)

    def _hide(self, permits: Permits, descriptions: list[Any]) -> list[Any]:
        named = {id(each): set(self.topics_of(each)) for each in descriptions}
        visible = allowed_names(permits, DESCRIBE_TOPIC, sorted(set().union(*named.values())))
        return [
            each
            if named[id(each)] <= visible
            else self._refused(each.group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, self.hidden)
            for each in descriptions
        ]


def _invalid_ids_first(group_ids: Sequence[str]) -> list[str]:
    """Kafka answers ids that no group can have (empty ones) before it looks for groups."""
    return sorted(group_ids, key=bool)


def handle(server: Server, exchange: Exchange[DescribeGroupsRequest]) -> None:
    api_version = exchange.api_version
    describe_groups(
        server.groups,
        exchange.request.groups,
        exchange,
        lambda groups, group_id: describe_group(groups, group_id, api_version, exchange.behaviours),
        lambda groups: DescribeGroupsResponse(groups=groups),
        refused=_refused,
    )


def refuse(request: DescribeGroupsRequest, error: KafkaError, api_version: int) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[_refused(group_id, error.code) for group_id in request.groups])


def _refused(group_id: str, error: ErrorCode) -> _Described:
    return _Described(error_code=error, group_id=group_id)


API = Api(
    key=15,
    name="DescribeGroups",
    versions=(0, 6),
    access=(DESCRIBE_GROUP,),
    handle=handle,
    refuse=refuse,
    writes=False,
    errors=GROUP_ERRORS,
    elements=("groups",),
    coordinator=Coordinator.GROUP,
    overlay=HERE,
)
