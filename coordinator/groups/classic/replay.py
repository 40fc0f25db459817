"""What a log record of a group does to the state: live and at load, the same.

It sets the stored half of the group, or takes it away, and nothing else. The round needs nothing from it while it lives, for
the record was made from the round; after a load it starts from what is stored (`loaded`), once, when all records are read.
"""

from typing import TYPE_CHECKING

from coordinator.groups.classic.effects import Effects
from coordinator.groups.classic.group import Cause, classic_group_or_new, find_classic_group
from coordinator.groups.classic.rebalance import call_together, read_subscriptions
from coordinator.groups.kinds import Kind
from coordinator.protocol.messages import GroupMetadataKey, GroupMetadataValue
from coordinator.runtime.result import Result

if TYPE_CHECKING:
    from coordinator.groups.state import Groups


def replay_group_metadata(groups: "Groups", key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
    if value is None:
        groups.remove(key.group, Kind.CLASSIC)
    else:
        classic_group_or_new(groups, key.group).stored = value


def resume_all(groups: "Groups", now_ms: int) -> Result:
    """Starts the rounds of a shard that was just loaded: sessions start anew, whatever was left of them."""
    effects = Effects()
    for group_id in groups.by_id:
        group = find_classic_group(groups, group_id)
        if group is None or group.stored is None:
            continue
        group.resume(group.stored)
        read_subscriptions(group)
        effects.timers.extend(member.session_timer for member in group.members.values())
        if len(group.members) > groups.config.group_max_size:
            cause = Cause("the loaded group is larger than group.max.size", "", None)
            call_together(groups, group, cause, now_ms, effects)
    return effects.result()
