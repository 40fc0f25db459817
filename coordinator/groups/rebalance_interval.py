"""Rebalances at an interval: `group.rebalance.interval.ms`, the server's or one group's. Off by default.

A group of any kind rebalances when that time has passed since its last rebalance ended. The end of every rebalance arms the
timer; a change of the setting arms it for what is left of the interval, or disarms it. After a load, when the end of the last
rebalance is not known, the interval starts again in full, as sessions do.

A group that rebalances when the timer fires does so already, and its end arms the timer again. So a group rebalances at most
once per interval, and a group without members never.
"""

from collections.abc import Iterable

from coordinator.groups.group import Group
from coordinator.groups.state import Groups
from coordinator.groups.update import GroupUpdate
from coordinator.runtime.result import Result, Timer, TimerKey

TIMER = "rebalance-interval"
CAUSE = "the rebalance interval passed"


def interval_key(group_id: str) -> TimerKey:
    """The timer that rebalances the group."""
    return (TIMER, group_id)


def arm_interval(groups: Groups, update: GroupUpdate) -> None:
    """A rebalance of the group has ended: the interval begins."""
    interval_ms = groups.settings.rebalance_interval_ms(update.group_id)
    if interval_ms:
        update.arm(interval_key(update.group_id), interval_ms)


def disarmed(groups: Groups, group_id: str) -> Iterable[Timer]:
    """Disarms the timer of a group that is deleted or replaced."""
    return (Timer(interval_key(group_id), None),) if groups.settings.rebalance_interval_ms(group_id) else ()


def timers_after_load(groups: Groups) -> Iterable[Timer]:
    """The timers of a shard that was just loaded."""
    for group_id, group in groups.by_id.items():
        interval_ms = groups.settings.rebalance_interval_ms(group_id)
        if interval_ms and group.members:
            yield Timer(interval_key(group_id), interval_ms)


def settings_changed(groups: Groups, group_id: str, now_ms: int) -> Result:
    """The group's settings have changed, and perhaps its interval."""
    group, interval_ms = groups.by_id.get(group_id), groups.settings.rebalance_interval_ms(group_id)
    delay_ms = None
    if group is not None and group.members and interval_ms:
        delay_ms = _left_ms(group, interval_ms, now_ms)
    return Result(timers=[Timer(interval_key(group_id), delay_ms)])


def _left_ms(group: Group, interval_ms: int, now_ms: int) -> int:
    """What is left of the interval; all of it if its start is unknown, or later than now because the clock was set back."""
    ended_ms = group.rebalance_ended_ms
    passed_ms = 0 if ended_ms is None else max(0, now_ms - ended_ms)
    return max(0, interval_ms - passed_ms)


def fire(groups: Groups, key: TimerKey, now_ms: int) -> Result:
    """Rebalances the group, if it is still there, has members and is not rebalancing."""
    group = groups.by_id.get(str(key[1]))
    if group is None or not group.members or group.is_rebalancing:
        return Result()
    return groups.start_rebalance(group, CAUSE, None, now_ms) or Result()
