"""Timers of the members of groups with epochs.

    <kind>-session     the member has sent no heartbeat for its session timeout
    <kind>-rebalance   the member must give something up and has not confirmed it within its rebalance timeout

Both end in the same way: the member is removed, and what it held is free. Timers are armed and disarmed together
with the state they watch, but that state is checked again here: a late timer does nothing.

Kafka: `GroupMetadataManager.scheduleConsumerGroupSessionTimeout`, `scheduleConsumerGroupRebalanceTimeout` and their likes for
streams groups; the members are removed by `consumerGroupFenceMember`, `streamsGroupFenceMember`.
"""

from collections.abc import Callable, Iterable
from typing import Any

from coordinator.groups.epochs.group import ModernGroup
from coordinator.groups.epochs.member import ModernMember
from coordinator.groups.epochs.update import ModernUpdate
from coordinator.groups.events import member_expired
from coordinator.groups.state import Groups
from coordinator.runtime.result import Result, Timer, TimerKey

TimeoutMs = Callable[[Groups, str, Any], int]
"""`timeout_ms(groups, group id, member)`"""


def timers_after_load(
    kind: type[ModernUpdate[Any, Any, Any]], groups: Groups, session_ms: TimeoutMs
) -> Iterable[Timer]:
    """The timers of all members of groups that were just loaded: sessions start again, however much was left of them."""
    for group in groups.of_kind(kind.KIND):
        assert isinstance(group, ModernGroup)
        group_id = group.group_id
        for member in group.members.values():
            yield Timer(kind.TIMERS.session(group_id, member.member_id), session_ms(groups, group_id, member))
            if member.has_revocation_deadline:
                yield Timer(kind.TIMERS.rebalance(group_id, member.member_id), max(member.rebalance_timeout_ms, 0))


def _rebalance_timeout_ms(groups: Groups, group_id: str, member: ModernMember) -> int:
    return member.rebalance_timeout_ms


def fire(
    kind: type[ModernUpdate[Any, Any, Any]],
    groups: Groups,
    key: TimerKey,
    now_ms: int,
    *,
    cause: str,
    is_due: Callable[[Any], bool] = lambda _: True,
    timeout_ms: TimeoutMs = _rebalance_timeout_ms,
) -> Result:
    """Removes the member whose timer fired, if it is still there and still what the timer watched (`is_due`)."""
    update = kind.find(groups, str(key[1]), now_ms)
    member = None if update is None else update.group.members.get(str(key[2]))
    if update is None or member is None or not is_due(member):
        return Result()
    timeout = str(key[0]).partition("-")[2]
    length_ms = timeout_ms(groups, update.group_id, member)
    event = member_expired(update.group, member.member_id, member.instance_id, member.member_epoch, timeout, length_ms)
    update.emit("member_expired", event, member_id=member.member_id, timeout=timeout)
    update.remove([member], cause)
    return update.result(None)
