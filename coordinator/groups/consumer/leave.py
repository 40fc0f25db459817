"""How members get out of a consumer group: they leave, or are given up, or an administrator removes them.

Whatever they held is free from that moment, and the group's epoch is raised so that the next target knows of it. If those
who stay all speak the classic protocol the group becomes a classic one (downgrade.py).
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from coordinator.groups.consumer import records
from coordinator.groups.consumer.change import Change
from coordinator.groups.consumer.group import ConsumerMember, find_consumer_group, rebalance_key
from coordinator.groups.consumer.static_members import step_aside
from coordinator.groups.consumer.subscription import follow, metadata_hash
from coordinator.groups.events import member_left
from coordinator.groups.kinds import Kind
from coordinator.groups.membership import holder_of, member_of
from coordinator.groups.modern import LEAVING_FOR_A_WHILE_EPOCH
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from coordinator.runtime.result import Fact, Result

if TYPE_CHECKING:
    from coordinator.groups.state import Groups

MEMBERS_TOLD_MAX = 10


def leave(groups: "Groups", request: ConsumerGroupHeartbeatRequest, now_ms: int) -> Result:
    """A heartbeat with epoch -1 (for good) or -2 (a static member, for a while)."""
    group = find_consumer_group(groups, request.group_id)
    if group is None:
        is_known = groups.by_id.get(request.group_id) is not None
        raise KafkaError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Group {request.group_id} {'is not a consumer group' if is_known else 'not found'}.",
        )
    if request.instance_id is None:
        member = member_of(group, request.member_id)
    else:
        member = holder_of(group, request.member_id, request.instance_id)
    change = Change(groups, group, now_ms)
    if request.instance_id is not None and request.member_epoch == LEAVING_FOR_A_WHILE_EPOCH:
        change.records.append(records.current_assignment(group.group_id, step_aside(member)))
        change.disarm(rebalance_key(group.group_id, member.member_id))
        change.facts.append(_left(change, member, LEAVING_FOR_A_WHILE_EPOCH))
        change.emit("static_member_away", member_id=member.member_id, instance_id=member.instance_id)
    else:
        change.facts.append(_left(change, member, member.member_epoch))
        remove(change, [member], "a member left")
    return change.result(ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch))


def _left(change: Change, member: ConsumerMember, epoch: int) -> Fact:
    return member_left(change.group_id, Kind.CONSUMER, member.member_id, member.instance_id, epoch, None)


def remove(change: Change, members: Sequence[ConsumerMember], cause: str) -> None:
    """Takes members, all different, out of the group; nothing without members."""
    if not members:
        return
    group = change.group
    change.emit(
        "members_left",
        count=len(members),
        members=[member.member_id for member in members[:MEMBERS_TOLD_MAX]],
        cause=cause,
    )
    for member in members:
        change.disarm_all_of(member.member_id)
    if change.groups.migration.downgrades_without(change, members):
        return
    for member in members:
        change.records += records.member_tombstones(change.group_id, member.member_id)
    fewer: Counter[str] = Counter()
    users = Counter(member.regex for member in members if member.regex)
    for regex, count in users.items():
        if group.regex_members[regex] == count:
            change.records.append(records.regex_tombstone(change.group_id, regex))
            if regex in group.regexes:
                fewer.update(group.regexes[regex].topics)
    for member in members:
        fewer.update(member.topics)
    removed = {name for name, count in fewer.items() if group.subscribed[name] == count}
    catalog = change.groups.catalog
    is_known = not follow(group, catalog)
    new_hash = metadata_hash(group, removed, set(), catalog, is_known=is_known)
    group.catalog_version = catalog.version
    change.raise_epoch(new_hash, cause, members[0].member_id)
    if len(members) == len(group.members):
        # There is nobody to compute a target for, and the next member need not wait for one.
        change.records.append(records.target_epoch(change.group_id, change.group_epoch, 0))
        change.end_rebalances(change.group_epoch, members[-1].member_id, 0)
