"""A rebalance of a classic group that nothing in the group asks for: an administrator does, or the rebalance interval.

KIP-568 gives this power to members (`enforceRebalance`, join.py); here it comes from outside, with the same effect: heartbeats
say REBALANCE_IN_PROGRESS, and all members rejoin.

A round is lost with the process, but a rebalance that was acknowledged must not be. So it is written, with the generation
that it ends. A group that is loaded in this generation starts the rebalance again (replay.py); in a later one it has happened.
"""

from coordinator.groups.classic.group import ClassicGroup
from coordinator.groups.classic.rebalance import prepare_rebalance
from coordinator.groups.classic.records import forced_rebalance
from coordinator.groups.classic.round import Cause
from coordinator.groups.classic.states import State
from coordinator.groups.state import Groups
from coordinator.groups.update import GroupUpdate
from coordinator.runtime.result import Result


def start_rebalance(groups: Groups, group: ClassicGroup, cause: str, reason: str | None, now_ms: int) -> Result | None:
    """Calls the members to rejoin, in Stable and CompletingRebalance; None if they have been called already."""
    if group.state is State.PREPARING_REBALANCE:
        return None
    update = GroupUpdate(group.group_id)
    update.records.append(forced_rebalance(group, cause, reason))
    prepare_rebalance(groups, group, Cause(cause, "", reason), now_ms, update)
    return update.result(None)
