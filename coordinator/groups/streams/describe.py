"""Views of streams groups: ListGroups, StreamsGroupDescribe, and everything about a group for people.

Tasks that a member must give up are not shown as its own, as in Kafka, though nobody else gets them before it has given them
up; the view for people shows them apart. The numbers of partitions of internal topics are shown once they are known, which
is when all topics of the topology are there.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from coordinator.groups.epochs.describe import absent, group_view, member_view, other_owners, progress_view, shown_epoch
from coordinator.groups.kinds import Kind
from coordinator.groups.state import Groups
from coordinator.groups.streams.group import StreamsGroup, find_streams_group
from coordinator.groups.streams.member import NO_TASKS, HeldTasks, StreamsMember
from coordinator.groups.streams.soft_state import NO_TASK_OFFSETS
from coordinator.groups.streams.topology import InternalTopic
from coordinator.protocol.messages import StreamsGroupDescribeResponse
from coordinator.protocol.releases import AS_NEWEST, Behaviours

_Described = StreamsGroupDescribeResponse.DescribedGroup
_Topology = StreamsGroupDescribeResponse.Topology
_Subtopology = StreamsGroupDescribeResponse.Subtopology
_TopicInfo = StreamsGroupDescribeResponse.TopicInfo
_KeyValue = StreamsGroupDescribeResponse.KeyValue
_Member = StreamsGroupDescribeResponse.Member
_Assignment = StreamsGroupDescribeResponse.Assignment
_TaskIds = StreamsGroupDescribeResponse.TaskIds
_TaskOffset = StreamsGroupDescribeResponse.TaskOffset
_Endpoint = StreamsGroupDescribeResponse.Endpoint

_NOT_REQUESTED, _NOT_STORED = 0, 1


def describe_streams_group(
    groups: Groups, group_id: str, behaviours: Behaviours = AS_NEWEST, *, wants_description: bool
) -> _Described:
    """The group for StreamsGroupDescribe (KIP-1071). Kafka: `GroupMetadataManager.streamsGroupDescribe`.

    `wants_description`: of the topology, as a picture for people; no member has sent us one. Errors in the description:
    INVALID_GROUP_ID, GROUP_ID_NOT_FOUND.
    """
    group = find_streams_group(groups, group_id)
    if group is None:
        return _Described(**absent(groups, group_id, Kind.STREAMS))
    return _Described(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.group_epoch,
        assignment_epoch=shown_epoch(group, behaviours),
        topology=_topology(group),
        members=[_described(group, member) for member in group.members.values()],
        topology_description_status=_NOT_STORED if wants_description else _NOT_REQUESTED,
        assignor_name=groups.settings.streams(group_id).assignor_name,
    )


def _topology(group: StreamsGroup) -> _Topology | None:
    """None if a crash of another server left the log without the topology's record."""
    if group.topology is None:
        return None
    is_known = group.soft.configured is not None and group.soft.configured.is_ready
    parts: Mapping[str, Any] = (
        group.soft.configured.subtopologies
        if group.soft.configured is not None and is_known
        else dict(sorted(group.topology.subtopologies.items()))
    )
    return _Topology(
        group.topology.epoch,
        [
            _Subtopology(
                subtopology_id=subtopology_id,
                source_topics=sorted(part.source_topics),
                repartition_sink_topics=sorted(part.repartition_sink_topics),
                state_changelog_topics=_internal(part.state_changelog_topics),
                repartition_source_topics=_internal(part.repartition_source_topics),
            )
            for subtopology_id, part in parts.items()
        ],
    )


def _internal(topics: Iterable[InternalTopic]) -> list[_TopicInfo]:
    return [
        _TopicInfo(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            [_KeyValue(key, value) for key, value in topic.configs],
        )
        for topic in sorted(topics, key=lambda topic: topic.name)
    ]


def _described(group: StreamsGroup, member: StreamsMember) -> _Member:
    held = member.assigned
    target = group.target.get(member.member_id, NO_TASKS)
    reported = group.soft.task_offsets.get(member.member_id, NO_TASK_OFFSETS)
    endpoint = member.user_endpoint
    return _Member(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else _Endpoint(endpoint.host, endpoint.port),
        client_tags=[_KeyValue(key, value) for key, value in member.client_tags.items()],
        task_offsets=_offsets(reported.offsets),
        task_end_offsets=_offsets(reported.end_offsets),
        assignment=_Assignment(_task_ids(held.active), _task_ids(held.standby), _task_ids(held.warmup)),
        target_assignment=_Assignment(_task_ids(target.active), _task_ids(target.standby), _task_ids(target.warmup)),
    )


def _task_ids(tasks: Mapping[str, Iterable[int]]) -> list[_TaskIds]:
    return [_TaskIds(subtopology_id, sorted(tasks[subtopology_id])) for subtopology_id in sorted(tasks)]


def _offsets(offsets: Mapping[str, Mapping[int, int]]) -> list[_TaskOffset]:
    return [
        _TaskOffset(subtopology_id, number, offset)
        for subtopology_id in sorted(offsets)
        for number, offset in sorted(offsets[subtopology_id].items())
    ]


def details(groups: Groups, group: StreamsGroup) -> dict[str, Any]:
    """Everything about a group, as plain values: also what each member waits for, and why the group last rebalanced."""
    soft, settings = group.soft, groups.settings.streams(group.group_id)
    problem = None if soft.configured is None else soft.configured.problem
    return {
        **group_view(group),
        "assignor": settings.assignor_name,
        "num_standby_replicas": settings.num_standby_replicas,
        "topology_epoch": None if group.topology is None else group.topology.epoch,
        "subtopologies": {} if group.topology is None else _parts(group),
        "topics_problem": None if problem is None else {"code": problem.code.name, "detail": problem.detail},
        "is_delayed": soft.is_delayed,
        "shutdown_by": soft.shutdown_by,
        "members": [_details(group, member) for member in group.members.values()],
        **progress_view(group),
    }


def _parts(group: StreamsGroup) -> dict[str, dict[str, Any]]:
    assert group.topology is not None
    sized: Mapping[str, Any] = {} if group.soft.configured is None else group.soft.configured.subtopologies
    return {
        subtopology_id: {
            "number_of_tasks": sized[subtopology_id].number_of_tasks if subtopology_id in sized else None,
            "source_topics": sorted(part.source_topics),
            "repartition_source_topics": sorted(topic.name for topic in part.repartition_source_topics),
            "repartition_sink_topics": sorted(part.repartition_sink_topics),
            "state_changelog_topics": sorted(topic.name for topic in part.state_changelog_topics),
        }
        for subtopology_id, part in sorted(group.topology.subtopologies.items())
    }


def _details(group: StreamsGroup, member: StreamsMember) -> dict[str, Any]:
    reported = group.soft.task_offsets.get(member.member_id, NO_TASK_OFFSETS)
    return {
        **member_view(member),
        "process_id": member.process_id,
        "user_endpoint": None
        if member.user_endpoint is None
        else f"{member.user_endpoint.host}:{member.user_endpoint.port}",
        "client_tags": dict(member.client_tags),
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "topology_epoch": member.topology_epoch,
        "state": member.state.name,
        "member_epoch": member.member_epoch,
        "previous_member_epoch": member.previous_member_epoch,
        "revocation_epoch": member.revocation_epoch,
        "assigned": _held(member.assigned),
        "pending_revocation": _held(member.pending_revocation),
        "task_offsets": {part: dict(sorted(offsets.items())) for part, offsets in sorted(reported.offsets.items())},
        "task_end_offsets": {
            part: dict(sorted(offsets.items())) for part, offsets in sorted(reported.end_offsets.items())
        },
        "waits_for": _waits_for(group, member),
    }


def _held(tasks: HeldTasks) -> dict[str, Any]:
    """Active tasks with their assignment epochs; the numbers of the others."""
    return {
        "active": {part: dict(sorted(numbers.items())) for part, numbers in sorted(tasks.active.items())},
        "standby": {part: sorted(numbers) for part, numbers in sorted(tasks.standby.items())},
        "warmup": {part: sorted(numbers) for part, numbers in sorted(tasks.warmup.items())},
    }


def _waits_for(group: StreamsGroup, member: StreamsMember) -> list[str]:
    """The members that hold active tasks which this one should have."""
    target = group.target.get(member.member_id, NO_TASKS)
    owners = (group.owner(part, number) for part, numbers in target.active.items() for number in numbers)
    return other_owners(owners, member)
