"""Static members of a streams group: an instance id that outlives member ids (KIP-345; in streams groups since Kafka 4.4).

As in consumer groups (consumer/static_members.py): a process that stops for a while says so (epoch -2) and keeps its tasks
until its session ends; whoever comes with the instance id takes its place, with its tasks and its part of the target. The
group's epoch stays as it is, unless the new one differs from the old in what an assignor looks at.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from coordinator.groups.modern import JOINING_EPOCH, LEAVING_FOR_A_WHILE_EPOCH
from coordinator.groups.streams import records
from coordinator.groups.streams.change import Change
from coordinator.groups.streams.group import NO_HELD_TASKS, NO_TASKS, HeldTasks, StreamsMember
from coordinator.protocol.errors import ErrorCode, KafkaError


def join(change: Change, member_id: str, instance_id: str) -> StreamsMember:
    """The member as it joins: new, or in the place of the holder of its instance id. Raises UNRELEASED_INSTANCE_ID."""
    group = change.group
    holder_id = group.static_members.get(instance_id)
    if holder_id is None:
        return group.members.get(member_id) or StreamsMember(member_id=member_id)
    holder = group.members[holder_id]
    if holder.member_epoch != LEAVING_FOR_A_WHILE_EPOCH:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id "
            f"is owned by {holder_id} member.",
        )
    return _take_over(change, holder, member_id)


def _take_over(change: Change, holder: StreamsMember, member_id: str) -> StreamsMember:
    group_id = change.group_id
    member = replace(holder, member_id=member_id, member_epoch=JOINING_EPOCH, previous_member_epoch=0)
    target = change.group.target.get(holder.member_id, NO_TASKS)
    change.records += [
        *records.member_tombstones(group_id, holder.member_id),
        records.member_metadata(group_id, member),
        records.target_of_member(group_id, member_id, target),
        records.current_assignment(group_id, member),
    ]
    if holder.member_id != member_id:
        change.replaced = holder
        change.disarm_all_of(holder.member_id)
    change.emit("static_member_replaced", member_id=member_id, replaced=holder.member_id)
    return member


def step_aside(holder: StreamsMember) -> StreamsMember:
    """A static member that leaves for a while. Its successor has had its tasks from the start."""
    held = holder.assigned
    return replace(
        holder,
        member_epoch=LEAVING_FOR_A_WHILE_EPOCH,
        pending_revocation=NO_HELD_TASKS,
        assigned=HeldTasks(_from_the_start(held.active), held.standby, held.warmup),
    )


def _from_the_start(active: Mapping[str, Iterable[int]]) -> dict[str, dict[int, int]]:
    return {subtopology_id: dict.fromkeys(numbers, 0) for subtopology_id, numbers in active.items()}
