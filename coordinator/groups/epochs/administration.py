"""Acts of an administrator on a group with epochs (groups/administration.py), and a rebalance that nothing in it asks for."""

from typing import Any

from coordinator.groups.epochs.group import ModernGroup
from coordinator.groups.epochs.update import ModernUpdate
from coordinator.groups.events import member_left
from coordinator.groups.state import Groups
from coordinator.runtime.result import Result


def evict(
    kind: type[ModernUpdate[Any, Any, Any]],
    groups: Groups,
    group: ModernGroup[Any, Any, Any],
    member_id: str,
    cause: str,
    reason: str | None,
    now_ms: int,
) -> Result:
    """Removes the member: what it holds is free, and its next request gets UNKNOWN_MEMBER_ID."""
    update, member = kind(groups, group, now_ms), group.members[member_id]
    why = cause if reason is None else f"{cause}: {reason}"
    update.facts.append(
        member_left(update.group_id, update.KIND, member_id, member.instance_id, member.member_epoch, why)
    )
    update.remove([member], cause, reason)
    return update.result(None)


def bump_epoch(
    kind: type[ModernUpdate[Any, Any, Any]],
    groups: Groups,
    group: ModernGroup[Any, Any, Any],
    cause: str,
    reason: str | None,
    now_ms: int,
) -> Result:
    """Raises the group's epoch, even if it is ahead of the target already.

    The next heartbeat of any member computes the target for it: the assignment interval (KIP-1263) does not put that off.
    """
    update = kind(groups, group, now_ms)
    update.start_rebalance(cause, reason)
    if group.target_timestamp_ms:
        update.records.append(update.RECORDS.target_epoch(group.group_id, group.target_epoch, 0))
    return update.result(None)


def start_rebalance(
    kind: type[ModernUpdate[Any, Any, Any]],
    groups: Groups,
    group: ModernGroup[Any, Any, Any],
    cause: str,
    reason: str | None,
    now_ms: int,
) -> Result | None:
    """Raises the group's epoch; None if it is ahead of the target already, so that a target is due in any case.

    An administrator asks for it, or the rebalance interval. A member's next heartbeat computes the target, not before the
    assignment interval has passed (KIP-1263) and a streams group's initial delay is over. Members whose part of the target
    stays the same only move to its epoch.
    """
    if group.group_epoch > group.target_epoch:
        return None
    update = kind(groups, group, now_ms)
    update.start_rebalance(cause, reason)
    return update.result(None)
