"""Static members of a consumer group: an instance id that outlives member ids (KIP-345 in KIP-848).

A process with an instance id that stops for a while says so (epoch -2): the member stays, with its partitions, until its
session ends. Whoever comes with the instance id then takes its place: a new member id, the same partitions and target, no new
group epoch. While the holder is there and has not said so, its instance id is not to be had (UNRELEASED_INSTANCE_ID); and the
old member id is fenced for good once it was replaced (FENCED_INSTANCE_ID).

A holder that speaks the other protocol is replaced without having said goodbye: a process that was upgraded, or rolled
back, has no way to say it.
"""

from dataclasses import replace

from coordinator.groups.assignors.assignor import Partitions
from coordinator.groups.consumer import records
from coordinator.groups.consumer.change import Change
from coordinator.groups.consumer.group import NO_PARTITIONS, NOTHING, ConsumerMember
from coordinator.groups.events import member_fenced
from coordinator.groups.kinds import Kind
from coordinator.groups.modern import JOINING_EPOCH, LEAVING_FOR_A_WHILE_EPOCH, Epochs
from coordinator.protocol.errors import ErrorCode, KafkaError


def join(change: Change, member_id: str, instance_id: str, *, speaks_classic: bool) -> ConsumerMember:
    """The member as it joins: new, or in the place of the holder of its instance id. Raises UNRELEASED_INSTANCE_ID."""
    group = change.group
    holder_id = group.static_members.get(instance_id)
    if holder_id is None:
        return group.members.get(member_id) or ConsumerMember(member_id=member_id)
    holder = group.members[holder_id]
    if not speaks_classic and holder.classic is None and holder.member_epoch != LEAVING_FOR_A_WHILE_EPOCH:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id "
            f"is owned by {holder_id} member.",
        )
    return _take_over(change, holder, member_id)


def _take_over(change: Change, holder: ConsumerMember, member_id: str) -> ConsumerMember:
    group_id = change.group_id
    member = replace(
        holder,
        member_id=member_id,
        member_epoch=JOINING_EPOCH,
        previous_member_epoch=0,
        assigned=from_the_start(holder.assigned),
        pending_revocation=from_the_start(holder.pending_revocation),
        revocation_epoch=0,
    )
    target: Partitions = change.group.target.get(holder.member_id, NO_PARTITIONS)
    change.records += [
        *records.member_tombstones(group_id, holder.member_id),
        records.member_metadata(group_id, member),
        records.target_of_member(group_id, member_id, target),
        records.current_assignment(group_id, member),
    ]
    if holder.member_id != member_id:
        change.replaced = holder
        change.disarm_all_of(holder.member_id)
    event = None
    if holder.member_epoch != LEAVING_FOR_A_WHILE_EPOCH:
        # Its place is taken though it did not say goodbye: it speaks the other protocol.
        event = member_fenced(
            group_id,
            Kind.CONSUMER,
            holder.member_id,
            holder.instance_id,
            holder.member_epoch,
            ErrorCode.FENCED_INSTANCE_ID,
            "ConsumerGroupHeartbeat" if holder.classic is not None else "JoinGroup",
        )
    change.emit("static_member_replaced", event, member_id=member_id, replaced=holder.member_id)
    return member


def step_aside(holder: ConsumerMember) -> ConsumerMember:
    """A static member that leaves for a while. Its successor under another id has had its partitions from the start."""
    return replace(
        holder,
        member_epoch=LEAVING_FOR_A_WHILE_EPOCH,
        pending_revocation=NOTHING,
        assigned=from_the_start(holder.assigned),
    )


def from_the_start(held: Epochs) -> Epochs:
    return {topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in held.items()}
