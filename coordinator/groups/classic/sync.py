"""SyncGroup: a member asks for its assignment; the leader's request brings the assignments of all members.

While the leader computes, the followers' requests are parked. The leader's request ends CompletingRebalance: the generation
goes to the log with its assignments, and parked members are answered; those that ask later are answered from what is stored.
A second assignment of the leader is ignored, unless it resyncs (resync.py); a leader that cannot assign says so
(assignment_failure.py). Members that it left out get an empty assignment; member ids that
the group does not know are skipped.

Since v5 a client names the protocol type and name it runs, and is refused if they are missing or wrong.
"""

from coordinator.groups.classic.assignment_failure import fail_generation, failure_response
from coordinator.groups.classic.assignment_validation import validate_assignments, validate_resync
from coordinator.groups.classic.group import ClassicGroup
from coordinator.groups.classic.leader_extensions import fence_extension
from coordinator.groups.classic.rebalance import prepare_rebalance, rebalance_completed
from coordinator.groups.classic.records import completed_generation
from coordinator.groups.classic.responses import delivered, sync_error, sync_response
from coordinator.groups.classic.resync import begin_resync, is_resyncing, needs_new_generation, park_for_resync
from coordinator.groups.classic.round import Cause, sync_key
from coordinator.groups.classic.states import State
from coordinator.groups.fence import NO_FENCE
from coordinator.groups.fencing import fence_generation, fence_member
from coordinator.groups.group import waited_longest_for
from coordinator.groups.rebalance_interval import arm_interval
from coordinator.groups.state import Groups
from coordinator.groups.update import GroupUpdate
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import SyncGroupRequest
from coordinator.runtime.result import RequestContext, Result


def sync(
    groups: Groups, group: ClassicGroup, request: SyncGroupRequest, context: RequestContext, now_ms: int
) -> Result:
    """Answers with the member's assignment; the reply is None while the request is parked.

    Raises: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL (another protocol than the
    group's), REBALANCE_IN_PROGRESS; INVALID_REQUEST for an extension that this member may not use now. Mirrors
    `GroupMetadataManager.classicGroupSyncToClassicGroup`.
    """
    if group.state is State.EMPTY:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    fence_member(group, request.member_id, request.group_instance_id, context.behaviours)
    fence_generation(group, request.generation_id)
    if _differs(request.protocol_type, group.protocol_type) or _differs(request.protocol_name, group.protocol_name):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.state is State.PREPARING_REBALANCE:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    is_leader, is_stable = group.is_leader(request.member_id), group.state is State.STABLE
    fence_extension(request, group.members, group.resyncs, is_leader=is_leader, is_assigned=is_stable)
    update = GroupUpdate(group.group_id)
    member = group.members[request.member_id]
    _mark_synced(group, request.member_id, update)
    if group.failure is not None:
        return update.result(failure_response(group.failure))
    if is_stable:
        if request.resync:
            assignments = {each.member_id: each.assignment for each in request.assignments}
            if not validate_resync(groups, group, assignments, update):
                return update.result(sync_error(ErrorCode.INVALID_REQUEST, "the assignments are invalid"))
            if needs_new_generation(group, assignments):
                cause = Cause("a resync needs a new generation", request.member_id, None)
                prepare_rebalance(groups, group, cause, now_ms, update)
                return update.result(sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
            begin_resync(groups, group, member, assignments, context, now_ms, update)
        elif is_resyncing(group, request.member_id):
            park_for_resync(groups, group, member, context, now_ms, update)
        else:
            update.facts.append(delivered(groups.catalog, group, member))
            return update.result(sync_response(group, member, group.fence))
        return update.result(None)
    earlier, member.awaiting_sync = member.awaiting_sync, context
    # Kafka leaves it without an answer.
    update.answer(earlier, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
    if is_leader and request.error_code != ErrorCode.NONE:
        fail_generation(group, request, now_ms, update)
    elif is_leader:
        _assign(groups, group, request, now_ms, update)
    return update.result(None)


def _assign(groups: Groups, group: ClassicGroup, request: SyncGroupRequest, now_ms: int, update: GroupUpdate) -> None:
    """Completes the generation: writes it with the leader's assignments and answers all parked members.

    If the assignments are invalid and `group.classic.validate.assignments` refuses that, the group rebalances instead.
    """
    held_before = group.held_bytes
    left_out = group.set_assignments({each.member_id: each.assignment for each in request.assignments})
    try:
        groups.fence_grown(group, group.held_bytes - held_before)
    except KafkaError as error:
        _refuse_assignments(groups, group, request.member_id, error, now_ms, update)
        return
    if not validate_assignments(groups, group, update):
        cause = Cause("the leader's assignment is invalid", request.member_id, None)
        prepare_rebalance(groups, group, cause, now_ms, update)
        return
    group.enter(State.STABLE, now_ms)
    update.records += completed_generation(group, NO_FENCE)
    for member in group.members.values():
        context = group.unpark_sync(member)
        if context is not None:
            update.answer(context, sync_response(group, member, NO_FENCE))
            update.facts.append(delivered(groups.catalog, group, member))
            # A session that ran out while the sync was parked did not count and must start again.
            update.timers.append(member.session_timer)
    took_ms, waited_for = 0, ""
    if group.rebalances:
        rebalance = group.rebalances[-1]
        rebalance.end(now_ms)
        rebalance.completed = True
        took_ms = now_ms - rebalance.started_ms
        waited_for = waited_longest_for(rebalance.waits)
    arm_interval(groups, update)
    update.emit(
        "group_stable",
        rebalance_completed(group, now_ms),
        generation=group.generation,
        members=len(group.members),
        left_out=left_out,
        took_ms=took_ms,
        waited_longest_for=waited_for,
    )


def _refuse_assignments(
    groups: Groups, group: ClassicGroup, leader_id: str, error: KafkaError, now_ms: int, update: GroupUpdate
) -> None:
    """The assignments are too large for the group or the server: all parked members get an error, and the group rebalances.

    A Kafka that cannot write the generation does the same, with UNKNOWN_SERVER_ERROR if its record is too large, and
    COORDINATOR_NOT_AVAILABLE if the log takes none at present (`GroupMetadataManager.classicGroupSyncToClassicGroup`,
    `appendGroupMetadataErrorToResponseError`).
    """
    is_final = error.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    code = ErrorCode.UNKNOWN_SERVER_ERROR if is_final else error.code
    for member in group.members.values():
        context = group.unpark_sync(member)
        if context is not None:
            update.answer(context, sync_error(code, error.message))
            update.timers.append(member.session_timer)
    update.emit("assignment_too_large", generation=group.generation, bytes=group.held_bytes)
    prepare_rebalance(groups, group, Cause("the leader's assignment is too large", leader_id, None), now_ms, update)


def _mark_synced(group: ClassicGroup, member_id: str, update: GroupUpdate) -> None:
    if member_id in group.pending_syncs:
        del group.pending_syncs[member_id]
        if not group.pending_syncs:
            update.disarm(sync_key(group))


def _differs(requested: str | None, chosen: str | None) -> bool:
    return requested is not None and chosen is not None and requested != chosen
