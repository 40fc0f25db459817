"""What the records of a classic group, GroupMetadata and ClassicGroupResync, do to the state, live and at a load.

They set the stored half of the group, or remove the group, and nothing else. The live round needs nothing from a record, which
was made from the round; after a load the round starts from the stored half, once, when all records are read."""

from coordinator.groups.classic.group import classic_group_or_new, find_classic_group
from coordinator.groups.classic.rebalance import prepare_rebalance, read_subscriptions
from coordinator.groups.classic.resync import read_owners
from coordinator.groups.classic.round import Cause
from coordinator.groups.kinds import Kind
from coordinator.groups.state import Groups
from coordinator.groups.update import GroupUpdate
from coordinator.protocol.messages import (
    ClassicGroupResyncKey,
    ClassicGroupResyncValue,
    GroupMetadataKey,
    GroupMetadataValue,
    Message,
)
from coordinator.runtime.result import Fact, Record, RequestContext, Result, Timer


def replay_group_metadata(groups: Groups, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
    """Mirrors `GroupMetadataManager.replay(GroupMetadataKey, GroupMetadataValue)`."""
    if value is None:
        groups.remove(key.group, Kind.CLASSIC)
    else:
        group = classic_group_or_new(groups, key.group)
        group.stored = value
        group.resynced = None


def replay_resync(groups: Groups, key: ClassicGroupResyncKey, value: ClassicGroupResyncValue | None) -> None:
    """The generation in the GroupMetadata before this record was resynced. Without one the record means nothing."""
    group = find_classic_group(groups, key.group)
    if group is not None:
        group.resynced = value


def resume_all(groups: Groups, now_ms: int) -> Result:
    """Starts the rounds of a shard that was just loaded. Every session starts again in full.

    Mirrors `GroupMetadataManager.onLoaded`.
    """
    records: list[Record] = []
    timers: list[Timer] = []
    replies: list[tuple[RequestContext, Message]] = []
    facts: list[Fact] = []
    for group_id in groups.by_id:
        group = find_classic_group(groups, group_id)
        if group is None or group.stored is None:
            continue
        group.resume(group.stored)
        read_subscriptions(group)
        if group.resynced is not None and group.resynced.generation == group.generation:
            group.owners = read_owners(group)
        timers.extend(member.session_timer for member in group.members.values())
        if len(group.members) > groups.config.group_max_size:
            update = GroupUpdate(group_id)
            cause = Cause("the loaded group is larger than group.max.size", "", None)
            prepare_rebalance(groups, group, cause, now_ms, update)
            records += update.records
            timers += update.timers
            replies += update.replies
            facts += update.facts
    return Result(None, records, timers, replies, facts)
