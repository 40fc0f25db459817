"""LeaveGroup: members say goodbye, or an administrator says it for them.

Since v3 a request names several members, each by member id, by instance id alone (how static members are removed), or both;
each gets its own result, in the order of the request. Before v3 it is one member, and its result is the answer.

Whatever the batch removes, the group reacts once, when all of it is done.
"""

from typing import TYPE_CHECKING

from coordinator.groups.classic.answers import join_refused, sync_refused
from coordinator.groups.classic.effects import Effects
from coordinator.groups.classic.group import Cause, ClassicGroup, State, find_classic_group, pending_key
from coordinator.groups.classic.rebalance import rebalance_or_go_on
from coordinator.groups.consumer.group import find_consumer_group
from coordinator.groups.events import fenced, member_left
from coordinator.groups.fencing import fence_member
from coordinator.groups.kinds import Kind
from coordinator.groups.migration.classic_members import leave_consumer_group
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import LeaveGroupRequest, LeaveGroupResponse
from coordinator.runtime.result import RequestContext, Result

if TYPE_CHECKING:
    from coordinator.groups.state import Groups

BATCH_SINCE = 3
_MEMBERS_TOLD_MAX = 10
_Identity = LeaveGroupRequest.MemberIdentity
_Left = LeaveGroupResponse.MemberResponse


def leave(groups: "Groups", request: LeaveGroupRequest, context: RequestContext, now_ms: int) -> Result:
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    consumer = find_consumer_group(groups, request.group_id)
    if consumer is not None:
        return leave_consumer_group(groups, consumer, request, context, now_ms)
    is_batch = context.api_version >= BATCH_SINCE
    leaving = request.members if is_batch else [_Identity(request.member_id, None, None)]
    group = find_classic_group(groups, request.group_id)
    effects = Effects()
    left = [_Left(each.member_id, each.group_instance_id, _leave_one(groups, group, each, effects)) for each in leaving]
    gone = [each for each, result in zip(leaving, left, strict=True) if result.error_code == ErrorCode.NONE]
    if group is not None and gone:
        _react(groups, group, gone, now_ms, effects)
    if is_batch:
        return effects.result(LeaveGroupResponse(error_code=ErrorCode.NONE, members=left))
    return effects.result(LeaveGroupResponse(error_code=left[0].error_code))


def _leave_one(groups: "Groups", group: ClassicGroup | None, leaving: _Identity, effects: Effects) -> ErrorCode:
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    member_id: str | None = leaving.member_id
    if not member_id:
        member_id = (
            group.static_members.get(leaving.group_instance_id) if leaving.group_instance_id is not None else None
        )
        if member_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
    elif member_id in group.pending_joins:
        effects.disarm(pending_key(group.group_id, member_id))
        group.remove(member_id)
        return ErrorCode.NONE
    else:
        try:
            fence_member(group, member_id, leaving.group_instance_id)
        except KafkaError as error:
            instance_id, generation = leaving.group_instance_id, group.generation
            effects.facts += fenced(
                groups, group.group_id, member_id, instance_id, generation, error.code, "LeaveGroup"
            )
            return error.code
    instance_id = group.members[member_id].group_instance_id
    remove_member(group, member_id, effects)
    effects.facts.append(
        member_left(group.group_id, Kind.CLASSIC, member_id, instance_id, group.generation, leaving.reason)
    )
    return ErrorCode.NONE


def remove_member(group: ClassicGroup, member_id: str, effects: Effects) -> None:
    """Removes a member; its parked calls are told UNKNOWN_MEMBER_ID, so that a client still there joins anew."""
    member = group.members[member_id]
    waiting = group.unpark_join(member)
    if waiting is not None:
        effects.answer(waiting, join_refused(waiting.api_version, ErrorCode.UNKNOWN_MEMBER_ID, ""))
    effects.answer(group.unpark_sync(member), sync_refused(ErrorCode.UNKNOWN_MEMBER_ID))
    effects.disarm(member.session_timer.key)
    group.remove(member_id)


def _react(groups: "Groups", group: ClassicGroup, gone: list[_Identity], now_ms: int, effects: Effects) -> None:
    first = gone[0]
    effects.emit(
        "members_left",
        group_id=group.group_id,
        count=len(gone),
        members=[each.member_id or each.group_instance_id for each in gone[:_MEMBERS_TOLD_MAX]],
        client_reason=first.reason,
    )
    if group.state is not State.EMPTY:
        what = "a member left" if len(gone) == 1 else f"{len(gone)} members left"
        cause = Cause(what, first.member_id or first.group_instance_id or "", first.reason)
        rebalance_or_go_on(groups, group, cause, now_ms, effects)
