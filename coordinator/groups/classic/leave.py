"""LeaveGroup: members leave, or an administrator removes them.

Since v3 a request names several members, each by member id, by instance id alone (how static members are removed), or by both;
each gets its own result, in the order of the request. Before v3 a request names one member, whose result is the response.

However many members a batch removes, the group reacts once, when all of them are gone.
"""

from collections.abc import Sequence

from coordinator.groups.administration import REMOVED, asked_by, asked_for
from coordinator.groups.classic.group import ClassicGroup
from coordinator.groups.classic.rebalance import MEMBERS_NAMED_MAX, prepare_or_continue_rebalance
from coordinator.groups.classic.responses import join_error, sync_error
from coordinator.groups.classic.round import Cause, pending_key
from coordinator.groups.classic.states import State
from coordinator.groups.events import member_left, refused
from coordinator.groups.fencing import fence_member
from coordinator.groups.kinds import Kind
from coordinator.groups.state import Groups
from coordinator.groups.update import GroupUpdate
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import LeaveGroupRequest, LeaveGroupResponse
from coordinator.protocol.releases import Behaviours
from coordinator.runtime.result import RequestContext, Result

BATCH_SINCE = 3
Identity = LeaveGroupRequest.MemberIdentity
MemberResult = LeaveGroupResponse.MemberResponse
_BY_JAVAS_ADMIN = "member was removed by an admin"
"""How the reasons of Java's admin client begin, which names dynamic members by their member id."""


def removal_reason(leaving: Identity, client_id: str, context: RequestContext) -> str | None:
    """Why an administrator removes a member of this client, and who asked for it; None: it leaves by itself.

    A consumer names its member id, under its own client id.
    """
    reason = leaving.reason or ""
    is_its_own = leaving.member_id and client_id == (context.client_id or "")
    return None if is_its_own and not reason.startswith(_BY_JAVAS_ADMIN) else asked_for(reason, asked_by(context))


def identities(request: LeaveGroupRequest, api_version: int) -> list[Identity]:
    """The members that a request of any version names."""
    return request.members if api_version >= BATCH_SINCE else [Identity(request.member_id, None, None)]


def leave_response(results: list[MemberResult], api_version: int) -> LeaveGroupResponse:
    """The response of any version for the results of the single members."""
    if api_version >= BATCH_SINCE:
        return LeaveGroupResponse(error_code=ErrorCode.NONE, members=results)
    return LeaveGroupResponse(error_code=results[0].error_code)


def leave(
    groups: Groups, group: ClassicGroup | None, request: LeaveGroupRequest, context: RequestContext, now_ms: int
) -> Result:
    """Removes the named members of the group; None: there is no group, and no member is known.

    Results of single members: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID. Mirrors
    `GroupMetadataManager.classicGroupLeaveToClassicGroup`.
    """
    leaving = identities(request, context.api_version)
    update = GroupUpdate(request.group_id)
    looks_at_pending = context.behaviours.pending_members_leave_without_a_rebalance
    pending = set(group.pending_joins) if group and looks_at_pending else set()
    members = {} if group is None else group.members
    results: list[MemberResult] = []
    left: list[tuple[str, Identity, str | None]] = []
    for each in leaving:
        member_id = _member_id(group, each)  # an instance id that the batch names twice is unknown the second time
        member = members.get(member_id)
        removal = None if member is None else removal_reason(each, member.client_id, context)
        error = _leave_one(groups, group, each, member_id, removal, context.behaviours, now_ms, update)
        results.append(MemberResult(each.member_id, each.group_instance_id, error))
        if error is ErrorCode.NONE:
            left.append((member_id, each, removal))
    if group is not None and left:
        only_pending = looks_at_pending and all(member_id in pending for member_id, _, _ in left)
        _react(groups, group, left, only_pending, now_ms, update)
    return update.result(leave_response(results, context.api_version))


def _member_id(group: ClassicGroup | None, leaving: Identity) -> str:
    """The member that is named, perhaps by its instance id alone; "": there is none."""
    if leaving.member_id or group is None or leaving.group_instance_id is None:
        return leaving.member_id
    return group.static_members.get(leaving.group_instance_id, "")


def _leave_one(
    groups: Groups,
    group: ClassicGroup | None,
    leaving: Identity,
    member_id: str,
    removal: str | None,
    behaviours: Behaviours,
    now_ms: int,
    update: GroupUpdate,
) -> ErrorCode:
    if group is None or not member_id:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if leaving.member_id and member_id in group.pending_joins:
        update.disarm(pending_key(group.group_id, member_id))
        group.stop_waiting_for(member_id, now_ms)
        group.remove(member_id)
        return ErrorCode.NONE
    if leaving.member_id:
        try:
            fence_member(group, member_id, leaving.group_instance_id, behaviours)
        except KafkaError as error:
            instance_id, generation = leaving.group_instance_id, group.generation
            update.facts += refused(groups, group.group_id, member_id, instance_id, generation, error, "LeaveGroup")
            return error.code
    instance_id = group.members[member_id].group_instance_id
    remove_member(group, member_id, now_ms, update)
    reason = leaving.reason if removal is None else f"{REMOVED}: {removal}"
    update.facts.append(member_left(group.group_id, Kind.CLASSIC, member_id, instance_id, group.generation, reason))
    return ErrorCode.NONE


def remove_member(group: ClassicGroup, member_id: str, now_ms: int, update: GroupUpdate) -> None:
    """Removes a member; its parked requests get UNKNOWN_MEMBER_ID, so that a client that is still there joins again."""
    member = group.members[member_id]
    parked = group.unpark_join(member)
    if parked is not None:
        update.answer(parked, join_error(parked.api_version, ErrorCode.UNKNOWN_MEMBER_ID, ""))
    update.answer(group.unpark_sync(member), sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
    update.disarm(member.session_timer.key)
    group.stop_waiting_for(member_id, now_ms)
    group.remove(member_id)


def _react(
    groups: Groups,
    group: ClassicGroup,
    left: Sequence[tuple[str, Identity, str | None]],
    only_pending: bool,
    now_ms: int,
    update: GroupUpdate,
) -> None:
    """`left`: member id, what the request says, and why an administrator removes the member, if one does."""
    first_id, first, removal = left[0]
    update.emit(
        "members_left",
        count=len(left),
        members=[each for each, _, _ in left[:MEMBERS_NAMED_MAX]],
        client_reason=first.reason,
    )
    # Those who only were to join are in no generation: a round that waits for them goes on, and no other one is needed.
    rebalances = group.state is State.PREPARING_REBALANCE if only_pending else group.state is not State.EMPTY
    if rebalances:
        what, reason = "a member left" if len(left) == 1 else f"{len(left)} members left", first.reason
        if removal is not None:
            what, reason = REMOVED, removal
        prepare_or_continue_rebalance(groups, group, Cause(what, first_id, reason), now_ms, update)
