"""What happens when a timer of a classic group fires.

    classic-session   a member sent nothing for its session timeout: it is removed
    classic-pending   no member joined with an id that was handed out
    classic-join      the initial delay of an Empty group, or the rebalance timeout, has passed
    classic-sync      members of the new generation did not ask for their assignment in time: they are removed
    classic-resync    members did not ask for the assignment of a resync in time: they are removed

A member whose join or sync is parked cannot send heartbeats, so its session does not run out. The exception is a member whose
*first* join is parked: a client that gave up and came back would leave one such member behind each time, so those are
removed after a fixed time.

Timers are armed and disarmed together with what they watch, yet each handler looks up what it watched: a late timer does
nothing."""

from coordinator.groups.classic.group import ClassicGroup, find_classic_group
from coordinator.groups.classic.leave import remove_member
from coordinator.groups.classic.rebalance import (
    emit_member_expired,
    form_generation,
    prepare_or_continue_rebalance,
    prepare_rebalance,
)
from coordinator.groups.classic.round import Cause
from coordinator.groups.classic.states import State
from coordinator.groups.state import Groups
from coordinator.groups.update import GroupUpdate
from coordinator.runtime.result import Result, TimerKey

_NOTHING = Result()


def fire_session(groups: Groups, key: TimerKey, now_ms: int) -> Result:
    """Mirrors `GroupMetadataManager.expireClassicGroupMemberHeartbeat`."""
    _, group_id, member_id = key
    group = find_classic_group(groups, str(group_id))
    member = None if group is None else group.members.get(str(member_id))
    if group is None or member is None:
        return _NOTHING
    if not member.is_new and (member.awaiting_join is not None or member.awaiting_sync is not None):
        return _NOTHING
    update = GroupUpdate(group.group_id)
    remove_member(group, member.member_id, now_ms, update)
    timeout_ms = groups.config.group_new_member_join_timeout_ms if member.is_new else member.session_timeout_ms
    emit_member_expired(group, member, "session", timeout_ms, update)
    if group.state is State.PREPARING_REBALANCE:
        if group.have_all_joined:
            form_generation(groups, group, now_ms, update)
    else:
        cause = Cause("a member's session timed out", member.member_id, None)
        prepare_or_continue_rebalance(groups, group, cause, now_ms, update)
    return update.result(None)


def fire_pending(groups: Groups, key: TimerKey, now_ms: int) -> Result:
    _, group_id, member_id = key
    group = find_classic_group(groups, str(group_id))
    if group is None or member_id not in group.pending_joins:
        return _NOTHING
    update = GroupUpdate(group.group_id)
    group.stop_waiting_for(str(member_id), now_ms)
    group.remove(str(member_id))
    update.emit("member_expired", member_id=member_id, timeout="pending")
    if group.state is State.PREPARING_REBALANCE and group.have_all_joined:
        form_generation(groups, group, now_ms, update)
    return update.result(None)


def fire_join(groups: Groups, key: TimerKey, now_ms: int) -> Result:
    """Mirrors `GroupMetadataManager.tryCompleteInitialRebalanceElseSchedule` and `completeClassicGroupJoin`."""
    group = find_classic_group(groups, str(key[1]))
    if group is None or group.state is not State.PREPARING_REBALANCE:
        return _NOTHING
    update = GroupUpdate(group.group_id)
    delay = group.initial_delay
    if delay is not None and delay.member_came and delay.left_ms:
        delay.member_came = False
        waited_ms, delay.current_ms = (
            delay.current_ms,
            min(groups.config.group_initial_rebalance_delay_ms, delay.left_ms),
        )
        delay.left_ms = max(delay.left_ms - waited_ms, 0)
        update.arm(group.join_timer_key, delay.current_ms)
    else:
        form_generation(groups, group, now_ms, update)
    return update.result(None)


def fire_sync(groups: Groups, key: TimerKey, now_ms: int) -> Result:
    """Mirrors `GroupMetadataManager.expirePendingSync`."""
    _, group_id, generation = key
    group = find_classic_group(groups, str(group_id))
    if group is None or group.generation != generation or not group.pending_syncs:
        return _NOTHING
    if group.state not in (State.COMPLETING_REBALANCE, State.STABLE):
        return _NOTHING
    return _remove_late(groups, group, tuple(group.pending_syncs), "members did not sync in time", now_ms)


def fire_resync(groups: Groups, key: TimerKey, now_ms: int) -> Result:
    group = find_classic_group(groups, str(key[1]))
    if group is None or group.resync is None or not group.resync.awaited:
        return _NOTHING
    return _remove_late(groups, group, tuple(group.resync.awaited), "members did not follow a resync in time", now_ms)


def _remove_late(groups: Groups, group: ClassicGroup, late: tuple[str, ...], what: str, now_ms: int) -> Result:
    update = GroupUpdate(group.group_id)
    for member_id in late:
        member = group.members[member_id]
        remove_member(group, member_id, now_ms, update)
        emit_member_expired(group, member, "sync", member.rebalance_timeout_ms, update)
    prepare_rebalance(groups, group, Cause(what, late[0], None), now_ms, update)
    return update.result(None)
