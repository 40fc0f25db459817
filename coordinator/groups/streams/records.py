"""The log records of streams groups: key types 17 and 19 to 23, as Kafka writes them.

Lists are sorted, so that equal states make equal bytes; but the topology is written as the first member sent it.

ActiveTaskRevocationEpoch is ours: a tagged field under the number of the proposal that asks for it (KAFKA-19779). Kafka's
broker and tools skip it.

Kafka: `StreamsCoordinatorRecordHelpers`.
"""

from collections.abc import Iterable, Mapping

from coordinator.groups.streams.group import StreamsGroup
from coordinator.groups.streams.member import HeldTasks, StreamsMember, TasksTuple
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
)
from coordinator.runtime.result import Record

_Endpoint = StreamsGroupMemberMetadataValue.Endpoint
_Tag = StreamsGroupMemberMetadataValue.KeyValue
_Config = StreamsGroupMetadataValue.LastAssignmentConfig
_Target = StreamsGroupTargetAssignmentMemberValue.TaskIds
_Current = StreamsGroupCurrentMemberAssignmentValue.TaskIds


def member_metadata(group_id: str, member: StreamsMember) -> Record:
    """Type 19: a member's metadata."""
    endpoint = member.user_endpoint
    value = StreamsGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else _Endpoint(endpoint.host, endpoint.port),
        client_tags=[_Tag(key, member.client_tags[key]) for key in sorted(member.client_tags)],
    )
    return Record(StreamsGroupMemberMetadataKey(group_id, member.member_id), value)


def topology(group_id: str, sent: Topology) -> Record:
    """Type 23: the application's topology."""
    return Record(StreamsGroupTopologyKey(group_id), sent.to_record())


def group_epoch(
    group: StreamsGroup,
    epoch: int,
    *,
    metadata_hash: int,
    validated_topology_epoch: int,
    assignment_configs: Mapping[str, str],
) -> Record:
    """Type 17: the group epoch, with the metadata hash, topology and settings that it was raised for."""
    value = StreamsGroupMetadataValue(
        epoch=epoch,
        metadata_hash=metadata_hash,
        validated_topology_epoch=validated_topology_epoch,
        last_assignment_configs=[_Config(key, assignment_configs[key]) for key in sorted(assignment_configs)],
        stored_description_topology_epoch=group.stored_description_epoch,
        failed_description_topology_epoch=group.failed_description_epoch,
    )
    return Record(StreamsGroupMetadataKey(group.group_id), value)


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """Type 20: the group epoch that the target is for; follows the targets of the members that changed."""
    value = StreamsGroupTargetAssignmentMetadataValue(epoch, timestamp_ms)
    return Record(StreamsGroupTargetAssignmentMetadataKey(group_id), value)


def target_of_member(group_id: str, member_id: str, tasks: TasksTuple) -> Record:
    """Type 21: a member's part of the target."""
    value = StreamsGroupTargetAssignmentMemberValue(
        _target(tasks.active), _target(tasks.standby), _target(tasks.warmup)
    )
    return Record(StreamsGroupTargetAssignmentMemberKey(group_id, member_id), value)


def current_assignment(group_id: str, member: StreamsMember) -> Record:
    """Type 22: a member's epochs and tasks."""
    value = StreamsGroupCurrentMemberAssignmentValue(
        member.member_epoch,
        member.previous_member_epoch,
        member.state,
        *_current(member.assigned),
        *_current(member.pending_revocation),
        member.revocation_epoch,
    )
    return Record(StreamsGroupCurrentMemberAssignmentKey(group_id, member.member_id), value)


# --- tombstones -------------------------------------------------------------------------------------------------------


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """Removes a member."""
    return [
        Record(StreamsGroupCurrentMemberAssignmentKey(group_id, member_id), None),
        Record(StreamsGroupTargetAssignmentMemberKey(group_id, member_id), None),
        Record(StreamsGroupMemberMetadataKey(group_id, member_id), None),
    ]


def group_tombstones(group_id: str) -> list[Record]:
    """Removes the group, which has no members."""
    return [
        Record(StreamsGroupTargetAssignmentMetadataKey(group_id), None),
        Record(StreamsGroupMetadataKey(group_id), None),
        Record(StreamsGroupTopologyKey(group_id), None),
    ]


def _target(tasks: Mapping[str, Iterable[int]]) -> list[_Target]:
    return [_Target(subtopology_id, sorted(tasks[subtopology_id])) for subtopology_id in sorted(tasks)]


def _current(held: HeldTasks) -> tuple[list[_Current], list[_Current], list[_Current]]:
    active = []
    for subtopology_id in sorted(held.active):
        epochs = held.active[subtopology_id]
        numbers = sorted(epochs)
        active.append(_Current(subtopology_id, numbers, [epochs[number] for number in numbers]))
    return active, _copies(held.standby), _copies(held.warmup)


def _copies(tasks: Mapping[str, Iterable[int]]) -> list[_Current]:
    return [_Current(subtopology_id, sorted(tasks[subtopology_id])) for subtopology_id in sorted(tasks)]
