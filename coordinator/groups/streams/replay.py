"""What a log record of a streams group does to the state: live and at load, the same.

As with consumer groups (consumer/replay.py) records come in any order and some may be missing, so every record stands on its
own, and a tombstone of something unknown is no matter. The group is gone with the tombstone of its epoch (type 17); the
one of its topology comes after it and finds nothing.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from coordinator.groups.kinds import Kind
from coordinator.groups.modern import EPOCH_AT_FIRST, LEAVING_EPOCH
from coordinator.groups.streams.group import (
    NO_HELD_TASKS,
    Endpoint,
    HeldTasks,
    MemberState,
    StreamsMember,
    TaskEpochs,
    Tasks,
    TasksTuple,
    find_streams_group,
    streams_group_or_new,
)
from coordinator.groups.streams.topology import Topology
from coordinator.protocol.messages import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)

if TYPE_CHECKING:
    from coordinator.groups.state import Groups

_MEMBER_STATES = {state.value: state for state in MemberState}

_Current = StreamsGroupCurrentMemberAssignmentValue.TaskIds
_Target = StreamsGroupTargetAssignmentMemberValue.TaskIds


def replay_member_metadata(
    groups: "Groups", key: StreamsGroupMemberMetadataKey, value: StreamsGroupMemberMetadataValue | None
) -> None:
    if value is None:
        group = find_streams_group(groups, key.group_id)
        if group is not None:
            group.drop(key.member_id)
        return
    group = streams_group_or_new(groups, key.group_id)
    before = group.members.get(key.member_id) or StreamsMember(member_id=key.member_id)
    endpoint = value.user_endpoint
    group.put(
        replace(
            before,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            client_id=value.client_id,
            client_host=value.client_host,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            user_endpoint=None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
            client_tags={tag.key: tag.value for tag in value.client_tags},
        )
    )


def replay_current_assignment(
    groups: "Groups",
    key: StreamsGroupCurrentMemberAssignmentKey,
    value: StreamsGroupCurrentMemberAssignmentValue | None,
) -> None:
    if value is None:
        group = find_streams_group(groups, key.group_id)
        member = None if group is None else group.members.get(key.member_id)
        if group is not None and member is not None:
            group.put(
                replace(
                    member,
                    member_epoch=LEAVING_EPOCH,
                    previous_member_epoch=LEAVING_EPOCH,
                    state=MemberState.STABLE,
                    assigned=NO_HELD_TASKS,
                    pending_revocation=NO_HELD_TASKS,
                )
            )
        return
    group = streams_group_or_new(groups, key.group_id)
    before = group.members.get(key.member_id) or StreamsMember(member_id=key.member_id)
    epoch = value.member_epoch
    group.put(
        replace(
            before,
            member_epoch=epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=_MEMBER_STATES.get(value.state, MemberState.UNKNOWN),
            assigned=_held(value.active_tasks, value.standby_tasks, value.warmup_tasks, epoch),
            pending_revocation=_held(
                value.active_tasks_pending_revocation,
                value.standby_tasks_pending_revocation,
                value.warmup_tasks_pending_revocation,
                epoch,
            ),
        )
    )


def replay_group_epoch(groups: "Groups", key: StreamsGroupMetadataKey, value: StreamsGroupMetadataValue | None) -> None:
    if value is None:
        groups.remove(key.group_id, Kind.STREAMS)
        return
    group = streams_group_or_new(groups, key.group_id)
    group.group_epoch = value.epoch
    group.metadata_hash = value.metadata_hash
    group.validated_topology_epoch = value.validated_topology_epoch
    group.assignment_configs = {each.key: each.value for each in value.last_assignment_configs or ()}
    group.stored_description_epoch = value.stored_description_topology_epoch
    group.failed_description_epoch = value.failed_description_topology_epoch


def replay_target_epoch(
    groups: "Groups",
    key: StreamsGroupTargetAssignmentMetadataKey,
    value: StreamsGroupTargetAssignmentMetadataValue | None,
) -> None:
    if value is not None:
        streams_group_or_new(groups, key.group_id).set_target_epoch(value.assignment_epoch, value.assignment_timestamp)
    elif (group := find_streams_group(groups, key.group_id)) is not None:
        group.set_target_epoch(EPOCH_AT_FIRST, 0)


def replay_target_of_member(
    groups: "Groups",
    key: StreamsGroupTargetAssignmentMemberKey,
    value: StreamsGroupTargetAssignmentMemberValue | None,
) -> None:
    if value is not None:
        tasks = TasksTuple(_tasks(value.active_tasks), _tasks(value.standby_tasks), _tasks(value.warmup_tasks))
        streams_group_or_new(groups, key.group_id).target[key.member_id] = tasks
    elif (group := find_streams_group(groups, key.group_id)) is not None:
        group.target.pop(key.member_id, None)


def replay_topology(groups: "Groups", key: StreamsGroupTopologyKey, value: StreamsGroupTopologyValue | None) -> None:
    if value is not None:
        streams_group_or_new(groups, key.group_id).set_topology(Topology.of_record(value))
    elif (group := find_streams_group(groups, key.group_id)) is not None:
        group.set_topology(None)


def _held(
    active: Iterable[_Current], standby: Iterable[_Current], warmup: Iterable[_Current], member_epoch: int
) -> HeldTasks:
    held = HeldTasks(_epochs(active, member_epoch), _tasks(standby), _tasks(warmup))
    return held or NO_HELD_TASKS


def _tasks(subtopologies: Iterable[_Current] | Iterable[_Target]) -> Tasks:
    return {each.subtopology_id: frozenset(each.partitions) for each in subtopologies if each.partitions}


def _epochs(subtopologies: Iterable[_Current], member_epoch: int) -> TaskEpochs:
    """Where the epochs are missing (written by a Kafka before 4.3) they are the member's, but never negative."""
    held = {}
    for each in subtopologies:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            epochs = [max(member_epoch, 0)] * len(each.partitions)
        if each.partitions:
            held[each.subtopology_id] = dict(zip(each.partitions, epochs, strict=True))
    return held
