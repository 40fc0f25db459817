"""What the records of a classic group do to the state, live and at a load (records.py says when they are written).

They set the stored half of the group, or remove the group, and nothing else. The live round needs nothing from a record, which
was made from the round; after a load the round starts from the stored half, once, when all records are read."""

from coordinator.groups.classic.group import ClassicGroup, classic_group_or_new, find_classic_group
from coordinator.groups.classic.rebalance import prepare_rebalance, read_claims, read_subscriptions
from coordinator.groups.classic.round import Cause, pending_disarmed, resync_key, sync_key
from coordinator.groups.classic.states import State
from coordinator.groups.fence import NO_FENCE, Fence, read
from coordinator.groups.kinds import Kind
from coordinator.groups.state import Groups
from coordinator.groups.update import GroupUpdate
from coordinator.protocol.messages import (
    ClassicGroupForcedRebalanceKey,
    ClassicGroupForcedRebalanceValue,
    ClassicGroupGenerationKey,
    ClassicGroupGenerationValue,
    ClassicGroupResyncKey,
    ClassicGroupResyncValue,
    GroupMetadataKey,
    GroupMetadataValue,
)
from coordinator.runtime.result import Fact, Record, Result, Timer


def replay_group_metadata(groups: Groups, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
    """Mirrors `GroupMetadataManager.replay(GroupMetadataKey, GroupMetadataValue)`."""
    if value is None:
        groups.remove(key.group, Kind.CLASSIC)
    else:
        group = classic_group_or_new(groups, key.group)
        # The record of its fence, if it has one, comes next.
        group.set_stored(value, NO_FENCE)


def replay_generation(
    groups: Groups, key: ClassicGroupGenerationKey, value: ClassicGroupGenerationValue | None
) -> None:
    """Sets or removes the forming generation of the group that the log has at this point.

    Without such a group the record is a leftover: a Kafka that took the log over has deleted the group.
    """
    group = find_classic_group(groups, key.group)
    if group is not None and group.stored is not None:
        group.set_forming(value)


def replay_forced_rebalance(
    groups: Groups, key: ClassicGroupForcedRebalanceKey, value: ClassicGroupForcedRebalanceValue | None
) -> None:
    """Sets or removes the rebalance from outside; without a group the record is a leftover, as above."""
    group = find_classic_group(groups, key.group)
    if group is not None and group.stored is not None:
        group.forced = value


def replay_resync(groups: Groups, key: ClassicGroupResyncKey, value: ClassicGroupResyncValue | None) -> None:
    """Sets the fence of the stored generation; without a group the record is a leftover, as above."""
    group = find_classic_group(groups, key.group)
    if group is not None and group.stored is not None:
        group.set_fence(
            NO_FENCE if value is None else Fence(value.generation, value.resyncs, read(value.lost), read(value.taken))
        )


def resume_all(groups: Groups, now_ms: int) -> Result:
    """Starts the rounds of a shard that was just loaded. Every session starts again in full, and so does the time to sync.

    Mirrors `GroupMetadataManager.onLoaded`.
    """
    records: list[Record] = []
    timers: list[Timer] = []
    facts: list[Fact] = []
    for group_id in groups.by_id:
        group = find_classic_group(groups, group_id)
        if group is not None and group.stored is not None:
            update = _resume(groups, group, now_ms)
            records += update.records
            timers += update.timers
            facts += update.facts
    return Result(None, records, timers, facts=facts)


def restart_round(groups: Groups, group: ClassicGroup, now_ms: int) -> Result | None:
    """Replaces the round, which may be half changed, by one that starts from the stored half, as after a restart.

    Returns None if the group has no stored half: only a load can say what was in its place.
    """
    if group.stored is None:
        return None
    fresh = group.without_round()
    groups.place(fresh)
    update = _resume(groups, fresh, now_ms)
    update.timers[:0] = [
        Timer(group.join_timer_key, None),
        Timer(sync_key(group), None),
        Timer(resync_key(group), None),
        *pending_disarmed(group),
        *(Timer(member.session_timer.key, None) for member in group.members.values()),
    ]
    return update.result(None)


def _resume(groups: Groups, group: ClassicGroup, now_ms: int) -> GroupUpdate:
    """Starts the round from the stored half."""
    update = GroupUpdate(group.group_id)
    group.resume()
    update.timers += (member.session_timer for member in group.members.values())
    if group.state is State.COMPLETING_REBALANCE:
        read_claims(groups, group)
        update.arm(sync_key(group), group.rebalance_timeout_ms())
    else:
        read_subscriptions(group)
    cause = _rebalance_due(groups, group)
    if cause is not None:
        prepare_rebalance(groups, group, cause, now_ms, update)
    return update


def _rebalance_due(groups: Groups, group: ClassicGroup) -> Cause | None:
    """Why a group that was just loaded must rebalance: it is too large, or a rebalance from outside was lost with the round."""
    if len(group.members) > groups.config.group_max_size:
        return Cause("the loaded group is larger than group.max.size", "", None)
    forced = group.forced
    if forced is None or forced.generation != group.generation or not group.members:
        return None
    return Cause(forced.cause, "", forced.reason)
