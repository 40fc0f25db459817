"""Acts of an administrator on a classic group (groups/administration.py), and a rebalance that nothing in the group asks for.

A member that is removed takes part in no later generation, but until the next one is formed the log still has it: in Kafka a
crash in between brings it back, and later its session removes it. What an administrator was answered must not come undone. So
the last generation is written without the member, and that the group must rebalance.

A new epoch of a Stable group is a generation with the same members and assignments under the next number. Its members notice
with their next request, ILLEGAL_GENERATION. A generation that waits for its assignment ends: nobody may get one of its number.
"""

from coordinator.groups.classic.group import ClassicGroup
from coordinator.groups.classic.leave import remove_member
from coordinator.groups.classic.rebalance import (
    prepare_or_continue_rebalance,
    prepare_rebalance,
    rebalance_completed,
    record_rebalance,
)
from coordinator.groups.classic.records import (
    completed_generation,
    forced_rebalance,
    forming_generation,
    without_member,
)
from coordinator.groups.classic.resync import abort_resync
from coordinator.groups.classic.round import Cause, sync_key
from coordinator.groups.classic.states import State
from coordinator.groups.events import member_left
from coordinator.groups.fence import NO_FENCE
from coordinator.groups.kinds import Kind
from coordinator.groups.state import Groups
from coordinator.groups.update import GroupUpdate
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.runtime.result import Record, Result


def evict(groups: Groups, group: ClassicGroup, member_id: str, cause: str, reason: str | None, now_ms: int) -> Result:
    """Removes the member, as LeaveGroup does; the group rebalances without it."""
    update = GroupUpdate(group.group_id)
    instance_id = group.members[member_id].group_instance_id
    remove_member(group, member_id, now_ms, update)
    why = cause if reason is None else f"{cause}: {reason}"
    update.facts.append(member_left(group.group_id, Kind.CLASSIC, member_id, instance_id, group.generation, why))
    update.emit("members_left", count=1, members=[member_id], cause=cause, reason=reason)
    prepare_or_continue_rebalance(groups, group, Cause(cause, member_id, reason), now_ms, update)
    return update.result(None)


def removal_records(group: ClassicGroup, member_id: str, cause: str, reason: str | None) -> list[Record]:
    """The last generation without the member, which it has no longer, and that the group must rebalance."""
    records = without_member(group, member_id)
    return [*records, forced_rebalance(group, cause, reason)] if records else []


def bump_epoch(groups: Groups, group: ClassicGroup, cause: str, reason: str | None, now_ms: int) -> Result:
    """Gives the group the next generation. Raises INVALID_REQUEST in PreparingRebalance."""
    if group.state is State.PREPARING_REBALANCE:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the group is about to form its next generation")
    update, why = GroupUpdate(group.group_id), Cause(cause, "", reason)
    update.disarm(sync_key(group))
    if group.state is State.COMPLETING_REBALANCE:
        group.generation += 1
        update.records += [*forming_generation(group, now_ms), forced_rebalance(group, cause, reason)]
        prepare_rebalance(groups, group, why, now_ms, update)
        return update.result(None)
    abort_resync(group, update)
    record_rebalance(group, why, now_ms, update)
    group.generation += 1
    group.pending_syncs.clear()
    group.rebalances[-1].end(now_ms)
    group.rebalances[-1].completed = True
    update.records += completed_generation(group, NO_FENCE)
    update.emit("generation_raised", rebalance_completed(group, now_ms), generation=group.generation, reason=reason)
    return update.result(None)


def start_rebalance(groups: Groups, group: ClassicGroup, cause: str, reason: str | None, now_ms: int) -> Result | None:
    """Calls the members to rejoin, in Stable and CompletingRebalance; None if they have been called already.

    An administrator asks for it, or the rebalance interval. KIP-568 gives this power to members (`enforceRebalance`, join.py);
    the effect is the same. A round is lost with the process, but a rebalance that was acknowledged must not be. So it is
    written, with the generation that it ends: a group that is loaded in this generation starts the rebalance again (replay.py).
    """
    if group.state is State.PREPARING_REBALANCE:
        return None
    update = GroupUpdate(group.group_id)
    update.records.append(forced_rebalance(group, cause, reason))
    prepare_rebalance(groups, group, Cause(cause, "", reason), now_ms, update)
    return update.result(None)
