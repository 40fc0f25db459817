"""Time is up: what happens when a timer of a consumer group fires.

    consumer-session     a member has not been heard of for its session timeout
    consumer-rebalance   a member was told to give up partitions and has not said within its rebalance timeout that it did
    consumer-join        a classic member was told to join again and has not
    consumer-sync        a classic member has joined and not asked for its assignment
    consumer-regex       the group's patterns are to be matched against the topics

The first four end in the same way: the member is removed and what it held is free. A timer is armed and disarmed with what it
watches, yet what it watches is looked up again here: a late timer does nothing.
"""

from typing import TYPE_CHECKING

from coordinator.groups.consumer.change import Change
from coordinator.groups.consumer.group import (
    ConsumerMember,
    MemberState,
    find_consumer_group,
    rebalance_key,
    session_key,
)
from coordinator.groups.consumer.leave import remove
from coordinator.groups.consumer.subscription import follow, metadata_hash, resolve
from coordinator.groups.events import member_expired
from coordinator.groups.kinds import Kind
from coordinator.runtime.result import Result, Timer, TimerKey

if TYPE_CHECKING:
    from coordinator.groups.state import Groups


def resume_all(groups: "Groups") -> list[Timer]:
    """The timers of a shard that was just loaded: sessions start anew, whatever was left of them."""
    timers = []
    for group_id in groups.by_id:
        group = find_consumer_group(groups, group_id)
        if group is None:
            continue
        session_ms = groups.settings.consumer(group_id).session_timeout_ms
        for member_id, member in group.members.items():
            classic = member.classic
            delay_ms = session_ms if classic is None else classic.session_timeout_ms
            timers.append(Timer(session_key(group_id, member_id), delay_ms))
            if classic is None and member.state is MemberState.UNREVOKED_PARTITIONS:
                timers.append(Timer(rebalance_key(group_id, member_id), max(member.rebalance_timeout_ms, 0)))
    return timers


def fire_session(groups: "Groups", key: TimerKey, now_ms: int) -> Result:
    return _give_up(groups, key, now_ms, "a member's session timed out")


def fire_rebalance(groups: "Groups", key: TimerKey, now_ms: int) -> Result:
    member = _member(groups, key)
    if member is None or member.state is not MemberState.UNREVOKED_PARTITIONS:
        return Result()
    return _give_up(groups, key, now_ms, "a member did not give up its partitions in time")


def fire_join(groups: "Groups", key: TimerKey, now_ms: int) -> Result:
    member = _member(groups, key)
    if member is None or member.classic is None:
        return Result()
    return _give_up(groups, key, now_ms, "a classic member did not join in time")


def fire_sync(groups: "Groups", key: TimerKey, now_ms: int) -> Result:
    member = _member(groups, key)
    if member is None or member.classic is None:
        return Result()
    return _give_up(groups, key, now_ms, "a classic member did not sync in time")


def fire_regex(groups: "Groups", key: TimerKey, now_ms: int) -> Result:
    group = find_consumer_group(groups, str(key[1]))
    if group is None or not group.regex_members:
        return Result()
    change = Change(groups, group, now_ms)
    written, removed, added, changes_target = resolve(groups, group, now_ms)
    change.records += written
    group.regexes_looked_at_ms = now_ms
    group.regexes_version = groups.catalog.version
    is_known = not follow(group, groups.catalog)
    new_hash = metadata_hash(group, removed, added, groups.catalog, is_known=is_known)
    group.catalog_version = groups.catalog.version
    if changes_target or new_hash != group.metadata_hash:
        change.raise_epoch(new_hash, "a pattern matches other topics", "")
    return change.result(None)


def _give_up(groups: "Groups", key: TimerKey, now_ms: int, cause: str) -> Result:
    group, member = find_consumer_group(groups, str(key[1])), _member(groups, key)
    if group is None or member is None:
        return Result()
    change = Change(groups, group, now_ms)
    timeout = str(key[0]).removeprefix("consumer-")
    event = member_expired(
        change.group_id, Kind.CONSUMER, member.member_id, member.instance_id, member.member_epoch, timeout
    )
    change.emit("member_expired", event, member_id=member.member_id, timeout=timeout)
    remove(change, [member], cause)
    return change.result(None)


def _member(groups: "Groups", key: TimerKey) -> ConsumerMember | None:
    group = find_consumer_group(groups, str(key[1]))
    return None if group is None else group.members.get(str(key[2]))
