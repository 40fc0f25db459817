"""How a member leaves a group with epochs by its heartbeat: for good (epoch -1) or for a while (epoch -2).

A static member that leaves for a while stays a member and keeps its holdings until its session ends (static_members.py).
Any other is removed: its holdings are free from that moment.

Kafka: `GroupMetadataManager.consumerGroupLeave`, `streamsGroupLeave`.
"""

from typing import Any

from coordinator.groups.epochs.member import LEAVING_FOR_A_WHILE_EPOCH, ModernMember
from coordinator.groups.epochs.membership import member_of_request
from coordinator.groups.epochs.update import ModernUpdate
from coordinator.groups.events import member_left


def leave(update: ModernUpdate[Any, Any, Any], member_id: str, instance_id: str | None, epoch: int) -> None:
    """`epoch`: -1 or -2. Raises UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    member: ModernMember = member_of_request(update.group, member_id, instance_id)
    is_away = instance_id is not None and epoch == LEAVING_FOR_A_WHILE_EPOCH
    epoch_left = LEAVING_FOR_A_WHILE_EPOCH if is_away else member.member_epoch
    group_id = update.group_id
    update.facts.append(member_left(group_id, update.KIND, member.member_id, member.instance_id, epoch_left, None))
    if is_away:
        update.records.append(update.RECORDS.current_assignment(group_id, member.away()))
        update.disarm(update.TIMERS.rebalance(group_id, member.member_id))
        update.emit("static_member_away", member_id=member.member_id, instance_id=member.instance_id)
    else:
        update.remove([member], "a member left")
