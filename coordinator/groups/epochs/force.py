"""A rebalance of a group with epochs that nothing in the group asks for: an administrator does, or the rebalance interval.

The group's epoch is raised as for any change, with the group's metadata as they are. A member's next heartbeat computes the
target for it, not before the assignment interval has passed (KIP-1263) and not before a streams group's initial delay is
over: whoever asks often cannot make the group compute more often. Members whose part of the target stays the same only move
to its epoch.
"""

from typing import Any

from coordinator.groups.epochs.group import ModernGroup
from coordinator.groups.epochs.update import ModernUpdate
from coordinator.groups.state import Groups
from coordinator.runtime.result import Result


def start_rebalance(
    kind: type[ModernUpdate[Any, Any, Any]],
    groups: Groups,
    group: ModernGroup[Any, Any, Any],
    cause: str,
    reason: str | None,
    now_ms: int,
) -> Result | None:
    """Raises the group's epoch; None if it is ahead of the target already, so that a target is due in any case."""
    if group.group_epoch > group.target_epoch:
        return None
    update = kind(groups, group, now_ms)
    update.start_rebalance(cause, reason)
    return update.result(None)
