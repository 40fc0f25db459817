"""What a GroupMetadata record (key type 2) does to the state, live and at a load.

It sets the stored half of the group, or removes the group, and nothing else. The live round needs nothing from the record,
which was made from the round; after a load the round starts from the stored half, once, when all records are read."""

from coordinator.groups.classic.group import ClassicGroup, classic_group_or_new, find_classic_group
from coordinator.groups.classic.rebalance import prepare_rebalance, read_subscriptions
from coordinator.groups.classic.round import Cause, pending_disarmed, sync_key
from coordinator.groups.kinds import Kind
from coordinator.groups.state import Groups
from coordinator.groups.update import GroupUpdate
from coordinator.protocol.messages import GroupMetadataKey, GroupMetadataValue
from coordinator.runtime.result import Fact, Record, Result, Timer


def replay_group_metadata(groups: Groups, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
    """Mirrors `GroupMetadataManager.replay(GroupMetadataKey, GroupMetadataValue)`."""
    if value is None:
        groups.remove(key.group, Kind.CLASSIC)
    else:
        classic_group_or_new(groups, key.group).stored = value


def resume_all(groups: Groups, now_ms: int) -> Result:
    """Starts the rounds of a shard that was just loaded. Every session starts again in full.

    Mirrors `GroupMetadataManager.onLoaded`.
    """
    records: list[Record] = []
    timers: list[Timer] = []
    facts: list[Fact] = []
    for group_id in groups.by_id:
        group = find_classic_group(groups, group_id)
        if group is not None and group.stored is not None:
            update = _resume(groups, group, group.stored, now_ms)
            records += update.records
            timers += update.timers
            facts += update.facts
    return Result(None, records, timers, facts=facts)


def restart_round(groups: Groups, group: ClassicGroup, now_ms: int) -> Result | None:
    """Replaces the round, which may be half changed, by one that starts from the stored half, as after a restart.

    Returns None if the group has no stored half and is not a simple one: only a load can say what was in its place.
    """
    timers = [
        Timer(group.join_timer_key, None),
        Timer(sync_key(group), None),
        *pending_disarmed(group),
        *(Timer(member.session_timer.key, None) for member in group.members.values()),
    ]
    if group.stored is None:
        return Result() if group.is_forgettable else None
    fresh = ClassicGroup(group.group_id, None)
    fresh.stored = group.stored
    groups.by_id[group.group_id] = fresh
    update = _resume(groups, fresh, group.stored, now_ms)
    update.timers[:0] = timers
    return update.result(None)


def _resume(groups: Groups, group: ClassicGroup, stored: GroupMetadataValue, now_ms: int) -> GroupUpdate:
    """Starts the round from the stored half."""
    update = GroupUpdate(group.group_id)
    group.resume(stored)
    read_subscriptions(group)
    update.timers += (member.session_timer for member in group.members.values())
    if len(group.members) > groups.config.group_max_size:
        cause = Cause("the loaded group is larger than group.max.size", "", None)
        prepare_rebalance(groups, group, cause, now_ms, update)
    return update
