"""What DescribeGroups, ConsumerGroupDescribe and StreamsGroupDescribe have in common."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from coordinator.api import authorized_operations
from coordinator.api.exchange import Exchange
from coordinator.groups.machine import GroupMachine
from coordinator.groups.state import Groups
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import Message
from coordinator.runtime.internal_request import DONE
from coordinator.runtime.result import RequestContext, Result
from coordinator.runtime.router import Router


class DescribeRequest(Protocol):
    """Such a request: it may ask what the client is allowed to do with the groups (KIP-430)."""

    include_authorized_operations: bool


class DescribedGroup(Protocol):
    """Such a response's entry."""

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
) -> None:
    """Describes every group on its own shard, and answers `response(descriptions in the order of the ids)`."""
    described: dict[str, D] = {}

    def describe_on_shard(state: Groups, ids: list[str], _context: RequestContext, _now_ms: int) -> Result:
        for group_id in ids:
            group = described[group_id] = describe(state, group_id)
            if exchange.request.include_authorized_operations and group.error_code == ErrorCode.NONE:
                group.authorized_operations = authorized_operations.GROUP
        return Result(DONE)

    def combine(_parts: list[object]) -> Message:
        return response([described[group_id] for group_id in group_ids])

    groups.gather_by_group(dict.fromkeys(group_ids), describe_on_shard, exchange, combine)


def invalid_ids_first(group_ids: Sequence[str]) -> list[str]:
    """Kafka answers ids that no group can have (empty ones) before it looks for groups."""
    return sorted(group_ids, key=bool)
