"""Static members of a group with epochs: an instance id that outlives member ids (KIP-345; streams groups since Kafka 4.4).

A process with an instance id that stops for a while says so (epoch -2): the member stays, with its holdings, until its session
ends. The next member with that instance id takes its place: a new member id, the same holdings and part of the target, no new
group epoch. If it has the same member id, it goes on where it left. Until the holder has said so, nobody else may have its
instance id (UNRELEASED_INSTANCE_ID). Once it was replaced, the old member id is fenced (FENCED_INSTANCE_ID).

The records of the replacement come before those of the member's step, which writes its holdings (entry.py).

Kafka: `GroupMetadataManager.getOrMaybeSubscribeStaticConsumerGroupMember`, `replaceMember`.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from coordinator.groups.epochs.member import LEAVING_FOR_A_WHILE_EPOCH, ModernMember
from coordinator.groups.epochs.update import ModernUpdate
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.runtime.result import Event

Member = TypeVar("Member", bound=ModernMember)


def join_static(
    update: ModernUpdate[Any, Member, Any],
    member_id: str,
    instance_id: str,
    event: Callable[[Member], Event | None] = lambda _: None,
) -> Member:
    """The member as it joins: new, or in the place of the holder of its instance id.

    `event`: how the event log hears of a holder that is replaced though it has not left for a while; None if it may not be.
    Raises UNRELEASED_INSTANCE_ID.
    """
    group = update.group
    holder_id = group.static_members.get(instance_id)
    if holder_id is None:
        member: Member = group.member_or_new(member_id)
        return member
    holder: Member = group.members[holder_id]
    replaced_event = None
    if holder.member_epoch != LEAVING_FOR_A_WHILE_EPOCH:
        replaced_event = event(holder)
        if replaced_event is None:
            raise KafkaError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id "
                f"is owned by {holder_id} member.",
            )
    return _replace(update, holder, member_id, replaced_event)


def _replace(update: ModernUpdate[Any, Member, Any], holder: Member, member_id: str, event: Event | None) -> Member:
    """Puts a member with this id in the place of the holder, with its holdings and its part of the target."""
    group_id, records = update.group_id, update.RECORDS
    member = holder.successor(member_id)
    if holder.member_id != member_id:
        member = _without_former_self(member, update.group.members.get(member_id))
        update.replaced = holder
        update.successor_id = member_id
        update.disarm_all_of(holder.member_id)
        target = update.part_before(member_id)
        update.records += [
            *records.member_tombstones(group_id, holder.member_id),
            records.member_metadata(group_id, member),
            records.target_of_member(group_id, member_id, update.NO_PART if target is None else target),
        ]
    update.emit("static_member_replaced", event, member_id=member_id, replaced=holder.member_id)
    return member


def _without_former_self(member: Member, former: Member | None) -> Member:
    """The successor; `former`: a member that already had its id, and gives up its own holdings for those of the instance."""
    if former is None:
        return member
    lost_in = max(member.revocation_epoch, former.revocation_epoch, former.member_epoch)
    return replace(member, revocation_epoch=lost_in)
