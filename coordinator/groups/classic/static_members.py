"""A static member comes back (KIP-345): the group knows its instance id but not its member id.

A process with an instance id that restarts has lost its member id but is still the same member. It gets a new id, which
replaces the old one in place: it takes over protocols, timeouts, leadership and assignment. A client that still uses the old
id is fenced (FENCED_INSTANCE_ID), in its parked requests as in later ones.

In Stable nothing else changes, not even the generation, as long as the group would choose the same protocol: that is the
purpose of static membership. The exchange of ids is written to the log. A leader that comes back like this should not compute
a new assignment: since v9 its response says so (SkipAssignment, KIP-814) and still lists the members; in older versions the
response names its *old* id as the leader, so that the client takes itself for a follower.

In CompletingRebalance the leader may be computing an assignment for the old id, so another rebalance must follow. In
PreparingRebalance the returning member has simply joined. Here, too, the exchange of ids is written to the log (not in Kafka):
after a crash the old id would be a member again, although it was fenced.

Kafka 2.4 answers with the generation in CompletingRebalance, too, and 2.4 and 2.5 do in Stable whatever the group would choose.
"""

from coordinator.groups.classic.group import ClassicGroup
from coordinator.groups.classic.join_attempt import JoinAttempt
from coordinator.groups.classic.member import ClassicMember
from coordinator.groups.classic.protocols import select_protocol
from coordinator.groups.classic.rebalance import form_generation_if_all_joined, prepare_rebalance
from coordinator.groups.classic.records import completed_generation, renamed_member
from coordinator.groups.classic.responses import join_error, join_response, members_for_leader, sync_error
from coordinator.groups.classic.resync import replace_in_resync
from coordinator.groups.classic.round import Cause
from coordinator.groups.classic.states import State
from coordinator.groups.events import event_only, member_fenced, member_joined
from coordinator.groups.kinds import Kind
from coordinator.groups.state import Groups
from coordinator.groups.update import GroupUpdate
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import JoinGroupResponse

SKIP_ASSIGNMENT_SINCE = 9


def replace_static_member(
    groups: Groups, group: ClassicGroup, old: ClassicMember, new_id: str, attempt: JoinAttempt, update: GroupUpdate
) -> JoinGroupResponse | None:
    """Puts `new_id` in the place of `old`; returns the response, or None if the join is parked.

    Mirrors `GroupMetadataManager.updateStaticMemberThenRebalanceOrCompleteJoin`.
    """
    groups.fence_growth(group, old.growth(attempt.protocols))
    leader_before = group.leader_id
    member = _take_over(group, old, new_id, update)
    group.set_protocols(member, attempt.protocols)
    attempt.apply_to(member)
    replace_in_resync(groups, group, old.member_id, new_id, update)
    update.timers.append(member.session_timer)
    update.emit("static_member_replaced", member_id=new_id, replaced=old.member_id)
    _emit_replacement(group, old, new_id, attempt, update)
    state, api_version, behaviours = group.state, attempt.context.api_version, attempt.context.behaviours
    if state is State.STABLE and select_protocol(group) == group.protocol_name:
        update.records += completed_generation(group, group.fence)
        return _current_generation(group, new_id, leader_before, api_version)
    update.records += renamed_member(group, old.member_id, new_id)
    if (state is State.STABLE and behaviours.static_members_return_with_any_protocol) or (
        state is State.COMPLETING_REBALANCE and behaviours.static_members_return_to_a_round
    ):
        return _current_generation(group, new_id, leader_before, api_version)
    group.park_join(member, attempt.context, attempt.now_ms)
    if state is State.PREPARING_REBALANCE:
        form_generation_if_all_joined(groups, group, attempt.now_ms, update)
    else:
        cause = Cause("a static member came back", new_id, attempt.client_reason)
        prepare_rebalance(groups, group, cause, attempt.now_ms, update)
    return None


def _emit_replacement(
    group: ClassicGroup, old: ClassicMember, new_id: str, attempt: JoinAttempt, update: GroupUpdate
) -> None:
    group_id, instance_id, generation = group.group_id, old.group_instance_id, group.generation
    error = ErrorCode.FENCED_INSTANCE_ID
    update.facts += (
        event_only(member_fenced(group_id, Kind.CLASSIC, old.member_id, instance_id, generation, error, "JoinGroup")),
        member_joined(group_id, Kind.CLASSIC, new_id, instance_id, attempt.context, generation),
    )


def _take_over(group: ClassicGroup, old: ClassicMember, new_id: str, update: GroupUpdate) -> ClassicMember:
    """Mirrors `ClassicGroup.replaceStaticMember`."""
    parked = group.unpark_join(old)
    if parked is not None:
        update.answer(parked, join_error(parked.api_version, ErrorCode.FENCED_INSTANCE_ID, old.member_id))
    update.answer(group.unpark_sync(old), sync_error(ErrorCode.FENCED_INSTANCE_ID))
    update.disarm(old.session_timer.key)
    was_leader, had_not_synced = group.is_leader(old.member_id), old.member_id in group.pending_syncs
    group.remove(old.member_id)
    member = ClassicMember(
        group.group_id, new_id, old.group_instance_id, old.client_id, old.client_host, old.protocols, old.assignment,
        old.session_timeout_ms, old.rebalance_timeout_ms,
    )  # fmt: skip
    assert group.protocol_type is not None
    group.add(member, group.protocol_type)
    if was_leader:
        group.leader_id = new_id
    if had_not_synced:
        group.pending_syncs[new_id] = None
    return member


def _current_generation(
    group: ClassicGroup, member_id: str, leader_before: str | None, api_version: int
) -> JoinGroupResponse:
    if api_version < SKIP_ASSIGNMENT_SINCE:
        return join_response(group, member_id, [], leader_id=leader_before, skip_assignment=False)
    is_leader = group.is_leader(member_id)
    members = members_for_leader(group) if is_leader else []
    return join_response(group, member_id, members, leader_id=group.leader_id, skip_assignment=is_leader)
