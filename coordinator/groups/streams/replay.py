"""Applies log records of streams groups to the state, in the same way live and at load (epochs/replay.py).

The group is gone with the tombstone of its epoch (type 17); that of its topology comes after it and finds nothing.

Kafka: `GroupMetadataManager.replay`, for key types 17 and 19 to 23.
"""

from collections.abc import Iterable
from dataclasses import replace
from operator import attrgetter

from coordinator.groups.epochs.replay import clear_holdings, clear_target, clear_target_epoch, drop_member, with_epochs
from coordinator.groups.kinds import Kind
from coordinator.groups.state import Groups
from coordinator.groups.streams.group import find_streams_group, streams_group_or_new
from coordinator.groups.streams.member import NO_HELD_TASKS, Endpoint, HeldTasks, MemberState, Tasks, TasksTuple
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

_MEMBER_STATES = {state.value: state for state in MemberState}
_PLACE = attrgetter("subtopology_id", "partitions", "assignment_epochs")

_Current = StreamsGroupCurrentMemberAssignmentValue.TaskIds
_Target = StreamsGroupTargetAssignmentMemberValue.TaskIds


def replay_member_metadata(
    groups: Groups, key: StreamsGroupMemberMetadataKey, value: StreamsGroupMemberMetadataValue | None
) -> None:
    if value is None:
        drop_member(find_streams_group(groups, key.group_id), key.member_id)
        return
    group = streams_group_or_new(groups, key.group_id)
    endpoint = value.user_endpoint
    group.put(
        replace(
            group.member_or_new(key.member_id),
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
    groups: Groups, key: StreamsGroupCurrentMemberAssignmentKey, value: StreamsGroupCurrentMemberAssignmentValue | None
) -> None:
    if value is None:
        clear_holdings(find_streams_group(groups, key.group_id), key.member_id)
        return
    group = streams_group_or_new(groups, key.group_id)
    epoch = value.member_epoch
    group.put(
        replace(
            group.member_or_new(key.member_id),
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
            revocation_epoch=value.active_task_revocation_epoch,
        )
    )


def replay_group_epoch(groups: Groups, key: StreamsGroupMetadataKey, value: StreamsGroupMetadataValue | None) -> None:
    if value is None:
        groups.remove(key.group_id, Kind.STREAMS)
        return
    group = streams_group_or_new(groups, key.group_id)
    configs = {each.key: each.value for each in value.last_assignment_configs or ()}
    group.set_group_epoch(value.epoch, value.metadata_hash, value.validated_topology_epoch, configs)
    group.set_descriptions(value.stored_description_topology_epoch, value.failed_description_topology_epoch)


def replay_target_epoch(
    groups: Groups,
    key: StreamsGroupTargetAssignmentMetadataKey,
    value: StreamsGroupTargetAssignmentMetadataValue | None,
) -> None:
    if value is None:
        clear_target_epoch(find_streams_group(groups, key.group_id))
    else:
        streams_group_or_new(groups, key.group_id).set_target_epoch(value.assignment_epoch, value.assignment_timestamp)


def replay_target_of_member(
    groups: Groups, key: StreamsGroupTargetAssignmentMemberKey, value: StreamsGroupTargetAssignmentMemberValue | None
) -> None:
    if value is None:
        clear_target(find_streams_group(groups, key.group_id), key.member_id)
        return
    tasks = TasksTuple(_tasks(value.active_tasks), _tasks(value.standby_tasks), _tasks(value.warmup_tasks))
    streams_group_or_new(groups, key.group_id).set_target(key.member_id, tasks)


def replay_topology(groups: Groups, key: StreamsGroupTopologyKey, value: StreamsGroupTopologyValue | None) -> None:
    if value is not None:
        streams_group_or_new(groups, key.group_id).set_topology(Topology.of_record(value))
    elif (group := find_streams_group(groups, key.group_id)) is not None:
        group.set_topology(None)


def _held(
    active: Iterable[_Current], standby: Iterable[_Current], warmup: Iterable[_Current], member_epoch: int
) -> HeldTasks:
    held = HeldTasks(with_epochs(map(_PLACE, active), member_epoch), _tasks(standby), _tasks(warmup))
    return held or NO_HELD_TASKS


def _tasks(subtopologies: Iterable[_Current] | Iterable[_Target]) -> Tasks:
    return {each.subtopology_id: frozenset(each.partitions) for each in subtopologies if each.partitions}
