"""Timers of streams groups.

streams-session, streams-rebalance   epochs/timeouts.py
streams-delay       a group that was empty has waited for more members: its first target is made
"""

from functools import partial
from operator import attrgetter

from coordinator.groups.epochs.timeouts import fire, timers_after_load
from coordinator.groups.state import Groups
from coordinator.groups.streams.member import StreamsMember
from coordinator.groups.streams.update import StreamsUpdate
from coordinator.runtime.result import Result, TimerKey


def _session_timeout_ms(groups: Groups, group_id: str, _member: StreamsMember) -> int:
    return groups.settings.streams(group_id).session_timeout_ms


resume_all = partial(timers_after_load, StreamsUpdate, session_ms=_session_timeout_ms)
_fire = partial(fire, StreamsUpdate)
fire_session = partial(
    _fire,
    cause="a member's session timed out",
    timeout_ms=_session_timeout_ms,
)
fire_rebalance = partial(
    _fire, cause="a member did not give up its tasks in time", is_due=attrgetter("has_revocation_deadline")
)


def fire_delay(groups: Groups, key: TimerKey, now_ms: int) -> Result:
    """Makes a group's first target (Kafka: `GroupMetadataManager.computeDelayedTargetAssignment`)."""
    update = StreamsUpdate.find(groups, str(key[1]), now_ms)
    if update is None:
        return Result()
    group, soft = update.group, update.group.soft
    soft.is_delayed = False
    if group.is_empty or group.group_epoch <= group.target_epoch or soft.configured is None:
        return Result()
    update.new_target(soft.configured, None)
    return update.result(None)
