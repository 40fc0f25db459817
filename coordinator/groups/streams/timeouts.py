"""Time is up: what happens when a timer of a streams group fires.

    streams-session     a member has not been heard of for its session timeout
    streams-rebalance   a member was told to give up tasks and has not said within its rebalance timeout that it did
    streams-delay       a group that was empty has waited for more members: its first target is made

The first two end in the same way: the member is removed and what it held is free. What a timer watches is looked up again here:
a late one does nothing.
"""

from typing import TYPE_CHECKING

from coordinator.groups.events import member_expired
from coordinator.groups.kinds import Kind
from coordinator.groups.streams.change import Change
from coordinator.groups.streams.group import MemberState, StreamsMember, find_streams_group, rebalance_key, session_key
from coordinator.groups.streams.leave import remove
from coordinator.runtime.result import Result, Timer, TimerKey

if TYPE_CHECKING:
    from coordinator.groups.state import Groups


def resume_all(groups: "Groups") -> list[Timer]:
    """The timers of a shard that was just loaded: sessions start anew, whatever was left of them."""
    timers = []
    for group_id in groups.by_id:
        group = find_streams_group(groups, group_id)
        if group is None:
            continue
        session_ms = groups.settings.streams(group_id).session_timeout_ms
        for member_id, member in group.members.items():
            timers.append(Timer(session_key(group_id, member_id), session_ms))
            if member.state is MemberState.UNREVOKED_TASKS:
                timers.append(Timer(rebalance_key(group_id, member_id), max(member.rebalance_timeout_ms, 0)))
    return timers


def fire_session(groups: "Groups", key: TimerKey, now_ms: int) -> Result:
    return _give_up(groups, key, now_ms, "a member's session timed out")


def fire_rebalance(groups: "Groups", key: TimerKey, now_ms: int) -> Result:
    member = _member(groups, key)
    if member is None or member.state is not MemberState.UNREVOKED_TASKS:
        return Result()
    return _give_up(groups, key, now_ms, "a member did not give up its tasks in time")


def fire_delay(groups: "Groups", key: TimerKey, now_ms: int) -> Result:
    group = find_streams_group(groups, str(key[1]))
    if group is None:
        return Result()
    group.is_delayed = False
    if group.is_empty or group.group_epoch <= group.target_epoch or group.configured is None:
        return Result()
    change = Change(groups, group, now_ms)
    change.new_target(group.configured, None)
    return change.result(None)


def _give_up(groups: "Groups", key: TimerKey, now_ms: int, cause: str) -> Result:
    group, member = find_streams_group(groups, str(key[1])), _member(groups, key)
    if group is None or member is None:
        return Result()
    change = Change(groups, group, now_ms)
    timeout = str(key[0]).removeprefix("streams-")
    event = member_expired(
        change.group_id, Kind.STREAMS, member.member_id, member.instance_id, member.member_epoch, timeout
    )
    change.emit("member_expired", event, member_id=member.member_id, timeout=timeout)
    remove(change, member, cause)
    return change.result(None)


def _member(groups: "Groups", key: TimerKey) -> StreamsMember | None:
    group = find_streams_group(groups, str(key[1]))
    return None if group is None else group.members.get(str(key[2]))
