"""Who may act for a group: is the caller still the one it says it is?

A fence changes nothing and answers nothing: it returns, or raises the error that tells the client what it has become.
The order of the checks is Kafka's, for a client reacts differently to each: a member id taken over by its successor
(FENCED_INSTANCE_ID) ends the client for good, an unknown member starts anew, a wrong generation joins again and keeps
its id.

For commits the rule depends on the kind of group, so the kind is looked up here, once. A group nobody knows takes
commits from anyone who does not claim to be a member: that is how simple consumers and admin tools store offsets.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coordinator.groups.classic.group import ClassicGroup, State
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import OffsetCommitRequest
from coordinator.runtime.result import Timer

if TYPE_CHECKING:
    from coordinator.groups.groups import Groups

_EMPTY = State.EMPTY  # Looking a name up in an enum costs more than the comparison.
_COMPLETING_REBALANCE = State.COMPLETING_REBALANCE

GROUP_ID_NOT_FOUND_SINCE = 9
"""OffsetCommit before this version says ILLEGAL_GENERATION to a member of a group that does not exist."""


def fence_member(group: ClassicGroup, member_id: str, instance_id: str | None) -> None:
    """Raises UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID unless this is a member, under its instance id if it gives one.

    A static member that leaves its instance id out is not fenced (seen with Kafka 4.4).
    """
    if instance_id is not None:
        holder = group.static_members.get(instance_id)
        if holder is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if holder != member_id:
            raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
    if member_id not in group.members:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)


def fence_generation(group: ClassicGroup, generation: int) -> None:
    """Raises ILLEGAL_GENERATION for an older and for a newer generation alike."""
    if generation != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)


def fence_commit(groups: "Groups", request: OffsetCommitRequest, api_version: int) -> Sequence[Timer]:
    """Raises unless the caller may commit offsets; returns the timers by which a member's commit keeps its session."""
    group = groups.classic.get(request.group_id)
    if group is None:
        if request.generation_id_or_member_epoch < 0:
            return ()
        known = api_version >= GROUP_ID_NOT_FOUND_SINCE
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND if known else ErrorCode.ILLEGAL_GENERATION)
    return _fence_classic_commit(
        group, request.member_id, request.group_instance_id, request.generation_id_or_member_epoch
    )


def _fence_classic_commit(
    group: ClassicGroup, member_id: str, instance_id: str | None, generation: int
) -> Sequence[Timer]:
    state = group.state
    if state is _EMPTY and generation < 0:
        return ()
    if generation < 0 and not member_id and instance_id is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    fence_member(group, member_id, instance_id)
    fence_generation(group, generation)
    if state is _COMPLETING_REBALANCE:
        # It has the new generation but not yet its assignment: the commit is of partitions it may be losing.
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    return (group.members[member_id].session_timer,)
