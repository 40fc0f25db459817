"""Heartbeat: a member says that it is alive, and learns whether it must rejoin.

This is the most frequent request. It writes nothing and, for a member in good standing, allocates nothing: the response and the
timer that restarts its session were made with the member (member.py).
"""

from coordinator.groups.classic.group import ClassicGroup
from coordinator.groups.classic.states import State
from coordinator.groups.events import refused_classic
from coordinator.groups.state import Groups
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import HeartbeatRequest, HeartbeatResponse
from coordinator.runtime.result import RequestContext, Result

_STABLE = State.STABLE  # Looking a name up in an enum costs more than the comparison.
_UNKNOWN_MEMBER_ID = Result(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
_FENCED_INSTANCE_ID = Result(HeartbeatResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
_ILLEGAL_GENERATION = Result(HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION))
_REBALANCE_IN_PROGRESS = Result(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))


def heartbeat(
    groups: Groups, group: ClassicGroup, request: HeartbeatRequest, context: RequestContext, now_ms: int
) -> Result:
    """Replies NONE, REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID or ILLEGAL_GENERATION.

    The checks are those of fencing.py, in the same order, without the cost of raising. Mirrors
    `GroupMetadataManager.classicGroupHeartbeatToClassicGroup`.
    """
    if request.group_instance_id is not None:
        holder = group.static_members.get(request.group_instance_id)
        if holder is None:
            if not context.behaviours.unknown_instance_is_ignored:
                return _refused(groups, request, _UNKNOWN_MEMBER_ID)
        elif holder != request.member_id:
            return _refused(groups, request, _FENCED_INSTANCE_ID)
    member = group.members.get(request.member_id)
    if member is None:
        return _refused(groups, request, _UNKNOWN_MEMBER_ID)
    if request.generation_id != group.generation:
        return _refused(groups, request, _ILLEGAL_GENERATION)
    if group.state is not _STABLE:
        if group.state is State.PREPARING_REBALANCE:
            return member.must_rejoin
        if context.behaviours.completing_groups_refuse_heartbeats:
            return _REBALANCE_IN_PROGRESS  # does not restart the session
    resync = group.resync
    return member.alive if resync is None or member.member_id not in resync.called else member.must_rejoin


def unknown_member(groups: Groups, request: HeartbeatRequest) -> Result:
    """The reply if there is no group of the classic protocol with this id."""
    return _refused(groups, request, _UNKNOWN_MEMBER_ID)


def _refused(groups: Groups, request: HeartbeatRequest, result: Result) -> Result:
    """The result, with the event that says who was fenced."""
    assert isinstance(result.reply, HeartbeatResponse)
    facts = refused_classic(groups, request, KafkaError(ErrorCode(result.reply.error_code)))
    return Result(result.reply, facts=facts) if facts else result
