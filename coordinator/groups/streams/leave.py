"""How members get out of a streams group: they leave, or are given up.

Whatever they held is free from that moment, and the group's epoch is raised so that the next target knows of it.
"""

from typing import TYPE_CHECKING

from coordinator.groups.events import member_left
from coordinator.groups.kinds import Kind
from coordinator.groups.membership import holder_of, member_of
from coordinator.groups.modern import LEAVING_FOR_A_WHILE_EPOCH
from coordinator.groups.streams import records
from coordinator.groups.streams.change import Change
from coordinator.groups.streams.group import StreamsMember, find_streams_group, rebalance_key
from coordinator.groups.streams.static_members import step_aside
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from coordinator.runtime.result import Result

if TYPE_CHECKING:
    from coordinator.groups.state import Groups


def leave(groups: "Groups", request: StreamsGroupHeartbeatRequest, now_ms: int) -> Result:
    """A heartbeat with epoch -1 (for good) or -2 (a static member, for a while)."""
    group = find_streams_group(groups, request.group_id)
    if group is None:
        is_known = groups.by_id.get(request.group_id) is not None
        raise KafkaError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Group {request.group_id} {'is not a streams group' if is_known else 'not found'}.",
        )
    if request.instance_id is None:
        member = member_of(group, request.member_id)
    else:
        member = holder_of(group, request.member_id, request.instance_id)
    if request.shutdown_application:
        group.shutdown_by = group.shutdown_by or request.member_id
    change = Change(groups, group, now_ms)
    for_a_while = request.instance_id is not None and request.member_epoch == LEAVING_FOR_A_WHILE_EPOCH
    epoch = LEAVING_FOR_A_WHILE_EPOCH if for_a_while else member.member_epoch
    change.facts.append(member_left(group.group_id, Kind.STREAMS, member.member_id, member.instance_id, epoch, None))
    if for_a_while:
        change.records.append(records.current_assignment(group.group_id, step_aside(member)))
        change.disarm(rebalance_key(group.group_id, member.member_id))
        change.emit("static_member_away", member_id=member.member_id, instance_id=member.instance_id)
    else:
        remove(change, member, "a member left")
    return change.result(StreamsGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch))


def remove(change: Change, member: StreamsMember, cause: str) -> None:
    """Takes a member out of the group."""
    group = change.group
    change.emit("members_left", count=1, members=[member.member_id], cause=cause)
    change.disarm_all_of(member.member_id)
    change.records += records.member_tombstones(change.group_id, member.member_id)
    change.group_epoch += 1
    change.records.append(
        records.group_epoch(
            group,
            change.group_epoch,
            metadata_hash=group.metadata_hash,
            validated_topology_epoch=group.validated_topology_epoch,
            assignment_configs=group.assignment_configs,
        )
    )
    change.begin_rebalance(cause, member.member_id)
    if len(group.members) == 1:
        # There is nobody to compute a target for, and the next member need not wait for one.
        change.records.append(records.target_epoch(change.group_id, change.group_epoch, 0))
        change.end_rebalances(change.group_epoch, member.member_id, 0)
