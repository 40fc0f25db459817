"""Time is up: what happens when a timer of a classic group fires.

    classic-session   a member has not been heard of for its session timeout: it is removed
    classic-pending   an id was given out and nobody came back with it
    classic-join      the wait of an Empty group, or the rebalance timeout, is over
    classic-sync      members of the new generation have not asked for their assignment in time: they are removed

A member whose join or sync is parked cannot send heartbeats; its session does not run out. The exception is a member whose
*first* join is parked: a client that gave up and came again would leave one such member behind each time, so those are
given up after a fixed while.

A timer is armed and disarmed with what it watches, yet what it watches is looked up again here: a late timer does nothing.
"""

from typing import TYPE_CHECKING

from coordinator.groups.classic.effects import Effects
from coordinator.groups.classic.group import Cause, State, find_classic_group
from coordinator.groups.classic.leave import remove_member
from coordinator.groups.classic.rebalance import call_together, form_generation, rebalance_or_go_on, tell_expired
from coordinator.runtime.result import Result, TimerKey

if TYPE_CHECKING:
    from coordinator.groups.state import Groups


def fire_session(groups: "Groups", key: TimerKey, now_ms: int) -> Result:
    _, group_id, member_id = key
    group = find_classic_group(groups, str(group_id))
    member = None if group is None else group.members.get(str(member_id))
    effects = Effects()
    if group is None or member is None:
        return effects.result()
    if not member.is_new and (member.awaiting_join is not None or member.awaiting_sync is not None):
        return effects.result()
    remove_member(group, member.member_id, effects)
    tell_expired(group, member, "session", effects)
    if group.state is State.PREPARING_REBALANCE:
        if group.has_everybody_joined:
            form_generation(groups, group, now_ms, effects)
    else:
        cause = Cause("a member's session timed out", member.member_id, None)
        rebalance_or_go_on(groups, group, cause, now_ms, effects)
    return effects.result()


def fire_pending(groups: "Groups", key: TimerKey, now_ms: int) -> Result:
    _, group_id, member_id = key
    group = find_classic_group(groups, str(group_id))
    effects = Effects()
    if group is None or member_id not in group.pending_joins:
        return effects.result()
    group.remove(str(member_id))
    effects.emit("member_expired", group_id=group.group_id, member_id=member_id, timeout="pending")
    if group.state is State.PREPARING_REBALANCE and group.has_everybody_joined:
        form_generation(groups, group, now_ms, effects)
    return effects.result()


def fire_join(groups: "Groups", key: TimerKey, now_ms: int) -> Result:
    group = find_classic_group(groups, str(key[1]))
    effects = Effects()
    if group is None or group.state is not State.PREPARING_REBALANCE:
        return effects.result()
    delay = group.initial_delay
    if delay is not None and delay.member_came and delay.left_ms:
        delay.member_came = False
        waited_ms, delay.current_ms = (
            delay.current_ms,
            min(groups.config.group_initial_rebalance_delay_ms, delay.left_ms),
        )
        delay.left_ms = max(delay.left_ms - waited_ms, 0)
        effects.arm(group.join_timer_key, delay.current_ms)
    else:
        form_generation(groups, group, now_ms, effects)
    return effects.result()


def fire_sync(groups: "Groups", key: TimerKey, now_ms: int) -> Result:
    _, group_id, generation = key
    group = find_classic_group(groups, str(group_id))
    effects = Effects()
    if group is None or group.generation != generation or not group.pending_syncs:
        return effects.result()
    if group.state not in (State.COMPLETING_REBALANCE, State.STABLE):
        return effects.result()
    late = tuple(group.pending_syncs)
    for member_id in late:
        member = group.members[member_id]
        remove_member(group, member_id, effects)
        tell_expired(group, member, "sync", effects)
    call_together(groups, group, Cause("members did not sync in time", late[0], None), now_ms, effects)
    return effects.result()
