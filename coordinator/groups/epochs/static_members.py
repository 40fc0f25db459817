"""Static members of a group with epochs: an instance id that outlives member ids (KIP-345; streams groups since Kafka 4.4).

A process with an instance id that stops for a while says so (epoch -2): the member stays, with its holdings, until its session
ends. The next member with that instance id takes its place: a new member id, the same holdings and part of the target, no new
group epoch. Until the holder has said so, nobody else may have its instance id (UNRELEASED_INSTANCE_ID). Once it was replaced,
the old member id is fenced for good (FENCED_INSTANCE_ID).

Kafka: `GroupMetadataManager.getOrMaybeSubscribeStaticConsumerGroupMember`, `replaceMember`.
"""

from collections.abc import Callable
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
    target = update.group.target.get(holder.member_id, update.NO_PART)
    update.records += [
        *records.member_tombstones(group_id, holder.member_id),
        records.member_metadata(group_id, member),
        records.target_of_member(group_id, member_id, target),
        records.current_assignment(group_id, member),
    ]
    if holder.member_id != member_id:
        update.replaced = holder
        update.disarm_all_of(holder.member_id)
    update.emit("static_member_replaced", event, member_id=member_id, replaced=holder.member_id)
    return member
