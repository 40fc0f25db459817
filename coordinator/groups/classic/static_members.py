"""A static member comes back (KIP-345): its instance id is known, its member id is not.

A process with an instance id that restarts has forgotten its member id but is still the same member. It gets a new id that
replaces the old one in place: it takes over protocols, timeouts, leadership and assignment, and whoever still uses the
old id is fenced (FENCED_INSTANCE_ID), in calls that are parked as in later ones.

In Stable nothing else changes, not even the generation, as long as the protocol that the group would choose stays the same:
that is what static membership is for. The exchange of ids is written to the log. A leader that comes back like this
should not compute a new assignment: since v9 it is told so (SkipAssignment, KIP-814) and still gets the members; in older
versions it is told that its *old* id leads, and so takes itself for a follower.

In Completing the leader may be at work for the old id, so there must be another rebalance. In Preparing the returning
member has simply joined.
"""

from typing import TYPE_CHECKING

from coordinator.groups.classic.answers import for_leader, join_refused, joined, sync_refused
from coordinator.groups.classic.effects import Effects
from coordinator.groups.classic.group import Cause, ClassicGroup, ClassicMember, State
from coordinator.groups.classic.joining import Joining
from coordinator.groups.classic.protocols import select_protocol
from coordinator.groups.classic.rebalance import call_together, go_on
from coordinator.groups.classic.records import group_metadata
from coordinator.groups.events import event_only, member_fenced, member_joined
from coordinator.groups.kinds import Kind
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import JoinGroupResponse

if TYPE_CHECKING:
    from coordinator.groups.state import Groups

SKIP_ASSIGNMENT_SINCE = 9


def replace_static_member(
    groups: "Groups", group: ClassicGroup, old: ClassicMember, new_id: str, joining: Joining, effects: Effects
) -> JoinGroupResponse | None:
    """Puts `new_id` in the place of `old`; returns the answer, or None if the caller waits for it."""
    led_by = group.leader_id
    member = _take_over(group, old, new_id, effects)
    group.set_protocols(member, joining.protocols)
    joining.set_timeouts(member)
    effects.timers.append(member.session_timer)
    effects.emit("static_member_replaced", group_id=group.group_id, member_id=new_id, replaced=old.member_id)
    _tell_who(group, old, new_id, joining, effects)
    if group.state is State.STABLE and select_protocol(group) == group.protocol_name:
        effects.write(group_metadata(group))
        return _place_in_current_generation(group, new_id, led_by, joining.context.api_version)
    group.park_join(member, joining.context, joining.now_ms)
    if group.state is State.PREPARING_REBALANCE:
        go_on(groups, group, joining.now_ms, effects)
    else:
        cause = Cause("a static member came back", new_id, joining.client_reason)
        call_together(groups, group, cause, joining.now_ms, effects)
    return None


def _tell_who(group: ClassicGroup, old: ClassicMember, new_id: str, joining: Joining, effects: Effects) -> None:
    group_id, instance_id, generation = group.group_id, old.group_instance_id, group.generation
    error = ErrorCode.FENCED_INSTANCE_ID
    effects.facts += (
        event_only(member_fenced(group_id, Kind.CLASSIC, old.member_id, instance_id, generation, error, "JoinGroup")),
        member_joined(group_id, Kind.CLASSIC, new_id, instance_id, joining.context, generation),
    )


def _take_over(group: ClassicGroup, old: ClassicMember, new_id: str, effects: Effects) -> ClassicMember:
    waiting = group.unpark_join(old)
    if waiting is not None:
        effects.answer(waiting, join_refused(waiting.api_version, ErrorCode.FENCED_INSTANCE_ID, old.member_id))
    effects.answer(group.unpark_sync(old), sync_refused(ErrorCode.FENCED_INSTANCE_ID))
    effects.disarm(old.session_timer.key)
    led, had_not_synced = group.is_leader(old.member_id), old.member_id in group.pending_syncs
    group.remove(old.member_id)
    member = ClassicMember(
        group.group_id, new_id, old.group_instance_id, old.client_id, old.client_host, old.protocols, old.assignment,
        old.session_timeout_ms, old.rebalance_timeout_ms,
    )  # fmt: skip
    assert group.protocol_type is not None
    group.add(member, group.protocol_type)
    if led:
        group.leader_id = new_id
    if had_not_synced:
        group.pending_syncs[new_id] = None
    return member


def _place_in_current_generation(
    group: ClassicGroup, member_id: str, led_by: str | None, api_version: int
) -> JoinGroupResponse:
    if api_version < SKIP_ASSIGNMENT_SINCE:
        return joined(group, member_id, [], leader_id=led_by, skip_assignment=False)
    leads = group.is_leader(member_id)
    members = for_leader(group) if leads else []
    return joined(group, member_id, members, leader_id=group.leader_id, skip_assignment=leads)
