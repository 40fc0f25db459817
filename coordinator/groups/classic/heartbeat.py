"""Heartbeat: a member says that it is alive, and learns whether it must join again.

The most frequent request there is. It writes nothing and, for a member in good standing, makes nothing: the answer and the
timer that starts its session anew were made with the member (group.py).
"""

from typing import TYPE_CHECKING

from coordinator.groups.classic.group import State, find_classic_group
from coordinator.groups.consumer.group import find_consumer_group
from coordinator.groups.events import fenced_classic
from coordinator.groups.migration.classic_members import heartbeat_consumer_group
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import HeartbeatRequest, HeartbeatResponse
from coordinator.runtime.result import RequestContext, Result

if TYPE_CHECKING:
    from coordinator.groups.state import Groups

_PREPARING_REBALANCE = State.PREPARING_REBALANCE  # Looking a name up in an enum costs more than the comparison.
_INVALID_GROUP_ID = Result(HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID))
_UNKNOWN_MEMBER_ID = Result(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
_FENCED_INSTANCE_ID = Result(HeartbeatResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
_ILLEGAL_GENERATION = Result(HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION))


def heartbeat(groups: "Groups", request: HeartbeatRequest, context: RequestContext, now_ms: int) -> Result:
    """The fences are those of `fencing.py`, in the same order, without the cost of raising."""
    group = find_classic_group(groups, request.group_id)
    if not request.group_id:
        return _INVALID_GROUP_ID
    if group is None:
        consumer = find_consumer_group(groups, request.group_id)
        if consumer is not None:
            return heartbeat_consumer_group(groups, consumer, request, context, now_ms)
        return _refused(groups, request, _UNKNOWN_MEMBER_ID)
    if request.group_instance_id is not None:
        holder = group.static_members.get(request.group_instance_id)
        if holder is None:
            return _refused(groups, request, _UNKNOWN_MEMBER_ID)
        if holder != request.member_id:
            return _refused(groups, request, _FENCED_INSTANCE_ID)
    member = group.members.get(request.member_id)
    if member is None:
        return _refused(groups, request, _UNKNOWN_MEMBER_ID)
    if request.generation_id != group.generation:
        return _refused(groups, request, _ILLEGAL_GENERATION)
    return member.must_rejoin if group.state is _PREPARING_REBALANCE else member.still_there


def _refused(groups: "Groups", request: HeartbeatRequest, answer: Result) -> Result:
    """The answer, with what is to be told of it."""
    assert isinstance(answer.reply, HeartbeatResponse)
    facts = fenced_classic(groups, request, answer.reply.error_code)
    return Result(answer.reply, facts=facts) if facts else answer
