"""StreamsGroupHeartbeat: the one request of a member of a streams group. It joins, learns, acknowledges and leaves by it.

    epoch 0      I join, or I was fenced and join again; everything about me, and the topology, is in this request
    epoch > 0    I am here, in this epoch; what has changed about me is in this request, the rest is null
    epoch -1     I leave
    epoch -2     I leave, but the process of my instance id will be back

It goes as with consumer groups (consumer/heartbeat.py). Nearly all heartbeats say nothing new, and their answer was made
before (`_steady`). A wrong epoch is taken in the same way: the previous one, with no more tasks than are assigned, is a lost
answer; any other is fenced. What a streams member is told beside its tasks is a list of *statuses*: what is wrong with its
topology or its topics, that the assignment is delayed, that somebody wants the whole application to stop. Errors of topics are
no errors of the request: the member stays and asks again.

Tasks are told when a member joins and when they change, and again to a member that says what it owns and does not have all of
them: the answer may be lost. (Kafka 4.4.0 tells it nothing then, and the tasks rest until the next rebalance.)

Internal topics that are missing are for the caller to make: they are in the group's `configured`.

How far the tasks' states have come (task offsets) is kept in memory only, as in Kafka; members say it again from time to time.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from coordinator.groups.classic.group import find_classic_group
from coordinator.groups.classic.records import group_metadata_tombstone
from coordinator.groups.classic.round import pending_disarmed
from coordinator.groups.classic.states import State as ClassicState
from coordinator.groups.consumer.group import find_consumer_group
from coordinator.groups.events import delivered, event_only, fenced, group_converted, member_joined, owns_all
from coordinator.groups.kinds import Kind
from coordinator.groups.membership import fence_size, holder_of, member_of
from coordinator.groups.modern import JOINING_EPOCH, LEAVING_FOR_A_WHILE_EPOCH
from coordinator.groups.streams import static_members
from coordinator.groups.streams.change import Change
from coordinator.groups.streams.configure import Configured
from coordinator.groups.streams.group import (
    NO_TASK_OFFSETS,
    Endpoint,
    MemberState,
    StatusCode,
    Steady,
    StreamsGroup,
    StreamsMember,
    TaskOffsets,
    Tasks,
    TasksTuple,
    find_streams_group,
    session_key,
)
from coordinator.groups.streams.leave import leave
from coordinator.groups.streams.partitions import as_reader, partitions_by_endpoint
from coordinator.groups.streams.topology import Topology, check_changelogs, check_regexes
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from coordinator.runtime.result import RequestContext, Result

if TYPE_CHECKING:
    from coordinator.groups.state import Groups

MISSING_CLIENT_TAGS_SINCE = 1
"""Older clients do not know this status."""

_UNCHANGED = -1
_TaskIds = StreamsGroupHeartbeatResponse.TaskIds
_Status = StreamsGroupHeartbeatResponse.Status
_Owned = Iterable[StreamsGroupHeartbeatRequest.TaskIds]
_NO_NUMBERS: frozenset[int] = frozenset()


def streams_group_heartbeat(
    groups: "Groups", request: StreamsGroupHeartbeatRequest, context: RequestContext, now_ms: int
) -> Result:
    steady = _steady(groups, request, context)
    if steady is not None:
        return steady
    try:
        return _heartbeat(groups, request, context, now_ms)
    except KafkaError as error:
        error.facts = fenced(
            groups,
            request.group_id,
            request.member_id,
            request.instance_id,
            request.member_epoch,
            error.code,
            "StreamsGroupHeartbeat",
        )
        raise


def _heartbeat(groups: "Groups", request: StreamsGroupHeartbeatRequest, context: RequestContext, now_ms: int) -> Result:
    _check(request)
    if request.member_epoch < 0:
        return leave(groups, request, now_ms)
    if request.member_epoch == JOINING_EPOCH:
        change = _group_to_join(groups, request.group_id, request.member_id, now_ms)
        size_max = groups.config.group_streams_max_size
        fence_size(change.group, size_max, "streams", request.member_id, request.instance_id)
    else:
        change = Change(groups, _existing(groups, request.group_id), now_ms)
    old = _member(change, request)
    new = _as_told(old, request, context)
    change.update(old, new, names_instance=request.instance_id is not None)
    topology = change.take_topology(None if request.topology is None else Topology.of_request(request.topology), new)
    configured, metadata_hash = change.configure(topology)
    if configured.is_ready:
        for owned in (request.active_tasks, request.standby_tasks, request.warmup_tasks):
            _check_tasks(owned or (), configured)
    _take_offsets(change.group, request)
    change.raise_epoch_if_due(topology, configured, metadata_hash, new.member_id)
    change.delay_first_target()
    target_epoch, target = change.retarget(new, configured)
    new = change.reconcile(new, target_epoch, target, _owned(request))
    if request.shutdown_application:
        change.group.shutdown_by = change.group.shutdown_by or new.member_id
    return _answer(change, request, context, old, new, topology, configured)


def _steady(groups: "Groups", request: StreamsGroupHeartbeatRequest, context: RequestContext) -> Result | None:
    """The answer made before, for a member that says nothing new to a group in which nothing has happened."""
    group = find_streams_group(groups, request.group_id)
    steady = None if group is None else group.steady.get(request.member_id)
    if (
        group is None
        or steady is None
        or steady.member is not group.members.get(request.member_id)
        or not request.member_epoch == steady.member.member_epoch == group.target_epoch == group.group_epoch
        or steady.settings is not groups.settings.streams(request.group_id)
        or group.configured_version != groups.catalog.version
        or group.endpoint_epoch != request.endpoint_information_epoch
        or group.shutdown_by is not None
        or request.shutdown_application
        or request.active_tasks is not None
        or request.standby_tasks is not None
        or request.warmup_tasks is not None
        or request.topology is not None
        or request.task_offsets is not None
        or request.task_end_offsets is not None
        or request.process_id is not None
        or request.user_endpoint is not None
        or request.client_tags is not None
        or request.rack_id is not None
        or request.rebalance_timeout_ms != _UNCHANGED
        or (request.instance_id is not None and request.instance_id != steady.member.instance_id)
        or steady.member.client_id != (context.client_id or "")
        or steady.member.client_host != context.client_host
        or steady.api_version != context.api_version
    ):
        return None
    return steady.result


def _answer(
    change: Change,
    request: StreamsGroupHeartbeatRequest,
    context: RequestContext,
    old: StreamsMember,
    new: StreamsMember,
    topology: Topology,
    configured: Configured,
) -> Result:
    groups, group, settings = change.groups, change.group, change.settings
    is_joining = request.member_epoch == JOINING_EPOCH
    before = group.members.get(new.member_id)
    if before is None or before.member_epoch == LEAVING_FOR_A_WHILE_EPOCH:
        change.facts.append(
            member_joined(change.group_id, Kind.STREAMS, new.member_id, new.instance_id, context, new.member_epoch)
        )
    elif not is_joining and _owns_all(request, before):
        change.facts += owns_all(groups, group, as_reader(group, before, topology, groups.catalog), Kind.STREAMS)
    change.arm(session_key(change.group_id, new.member_id), settings.session_timeout_ms)
    answer = StreamsGroupHeartbeatResponse(
        member_id=new.member_id,
        member_epoch=new.member_epoch,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        task_offset_interval_ms=settings.task_offset_interval_ms,
        acceptable_recovery_lag=settings.acceptable_recovery_lag,
    )
    has_changed = old.assigned is not new.assigned and old.assigned != new.assigned
    if is_joining or has_changed or _lacks_some(request, new):
        answer.active_tasks = _told(new.assigned.active)
        answer.standby_tasks = _told(new.assigned.standby)
        answer.warmup_tasks = _told(new.assigned.warmup)
        change.facts += delivered(groups, group, as_reader(group, new, topology, groups.catalog), Kind.STREAMS)
    if old.user_endpoint != new.user_endpoint or (has_changed and new.user_endpoint is not None):
        group.endpoint_epoch += 1
    if group.endpoint_epoch != request.endpoint_information_epoch:
        answer.partitions_by_user_endpoint = partitions_by_endpoint(group, new, change.replaced, groups.catalog)
    if find_streams_group(groups, change.group_id) is group:
        answer.endpoint_information_epoch = group.endpoint_epoch
    if configured.problem is not None:
        change.statuses.append(configured.problem)
    if group.shutdown_by is not None:
        change.status(
            StatusCode.SHUTDOWN_APPLICATION,
            f"Streams group member {group.shutdown_by} encountered a fatal error and requested a shutdown for the "
            "entire application.",
        )
    missing = [tag for tag in settings.rack_aware_assignment_tags if tag not in new.client_tags]
    if missing and context.api_version >= MISSING_CLIENT_TAGS_SINCE:
        change.status(
            StatusCode.MISSING_CLIENT_TAGS,
            f"Missing required client tags for rack-aware standby assignment: [{', '.join(missing)}]. "
            "Configure them via 'client.tag.<tagKey>' in your Streams config.",
        )
    answer.status = [_Status(status.code, status.detail) for status in change.statuses]
    result = change.result(answer)
    says_nothing = answer.active_tasks is None and answer.partitions_by_user_endpoint is None and not answer.status
    if says_nothing and new is before and new.state is MemberState.STABLE and not (result.records or result.facts):
        group.steady[new.member_id] = Steady(result, new, settings, context.api_version)
    return result


def _told(tasks: Mapping[str, Iterable[int]]) -> list[_TaskIds]:
    return [_TaskIds(subtopology_id, sorted(tasks[subtopology_id])) for subtopology_id in sorted(tasks)]


# --- what the member says ---------------------------------------------------------------------------------------------


def _as_told(old: StreamsMember, request: StreamsGroupHeartbeatRequest, context: RequestContext) -> StreamsMember:
    """The member with what the request says about it; the same object if that is nothing new."""
    endpoint = (
        None if request.user_endpoint is None else Endpoint(request.user_endpoint.host, request.user_endpoint.port)
    )
    if endpoint is None and request.member_epoch != JOINING_EPOCH:
        endpoint = old.user_endpoint
    tags = old.client_tags if request.client_tags is None else {tag.key: tag.value for tag in request.client_tags}
    new = replace(
        old,
        instance_id=old.instance_id if request.instance_id is None else request.instance_id,
        rack_id=old.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=old.rebalance_timeout_ms
        if request.rebalance_timeout_ms == _UNCHANGED
        else request.rebalance_timeout_ms,
        client_id=context.client_id or "",
        client_host=context.client_host,
        topology_epoch=old.topology_epoch if request.topology is None else request.topology.epoch,
        process_id=old.process_id if request.process_id is None else request.process_id,
        user_endpoint=endpoint,
        client_tags=tags,
    )
    return old if new == old else new


def _owned(request: StreamsGroupHeartbeatRequest) -> TasksTuple | None:
    """The tasks that it says it owns; None if it does not say."""
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    return TasksTuple(_tasks(request.active_tasks), _tasks(request.standby_tasks), _tasks(request.warmup_tasks))


def _owns_all(request: StreamsGroupHeartbeatRequest, member: StreamsMember) -> bool:
    """Whether it says that the active tasks which it owns are those that it is assigned."""
    if request.active_tasks is None:
        return False
    assigned = {subtopology_id: frozenset(numbers) for subtopology_id, numbers in member.assigned.active.items()}
    return _tasks(request.active_tasks) == assigned


def _lacks_some(request: StreamsGroupHeartbeatRequest, member: StreamsMember) -> bool:
    """Whether it says what it owns, and has not all that it is assigned: the answer that gave it the rest may be lost."""
    owned, held = _owned(request), member.assigned
    return owned is not None and any(
        not said.get(subtopology_id, _NO_NUMBERS).issuperset(numbers)
        for said, kept in ((owned.active, held.active), (owned.standby, held.standby), (owned.warmup, held.warmup))
        for subtopology_id, numbers in kept.items()
    )


def _tasks(owned: _Owned) -> Tasks:
    tasks: dict[str, frozenset[int]] = {}
    for each in owned:
        if each.partitions:
            tasks[each.subtopology_id] = tasks.get(each.subtopology_id, frozenset()).union(each.partitions)
    return tasks


def _take_offsets(group: StreamsGroup, request: StreamsGroupHeartbeatRequest) -> None:
    """Keeps how far the member's tasks have come. Raises INVALID_REQUEST if a task is there twice."""
    if request.task_offsets is None and request.task_end_offsets is None:
        return
    before = group.task_offsets.get(request.member_id, NO_TASK_OFFSETS)
    group.task_offsets[request.member_id] = TaskOffsets(
        before.offsets if request.task_offsets is None else _offsets(request.task_offsets),
        before.end_offsets if request.task_end_offsets is None else _offsets(request.task_end_offsets),
    )


def _offsets(told: Iterable[StreamsGroupHeartbeatRequest.TaskOffset]) -> dict[str, dict[int, int]]:
    offsets: dict[str, dict[int, int]] = {}
    for each in told:
        of_subtopology = offsets.setdefault(each.subtopology_id, {})
        if each.partition in of_subtopology:
            raise _invalid(
                f"Task offsets contain a duplicate entry for subtopology {each.subtopology_id} and partition "
                f"{each.partition}."
            )
        of_subtopology[each.partition] = each.offset
    return offsets


def _check(request: StreamsGroupHeartbeatRequest) -> None:
    """What cannot be right in any state. Raises INVALID_REQUEST, STREAMS_INVALID_TOPOLOGY."""
    epoch, topology = request.member_epoch, request.topology
    owned = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if topology is not None:
        check_regexes(topology)
    for name, value in (
        ("MemberId", request.member_id),
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    ):
        if value is not None and not value.strip():
            raise _invalid(f"{name} can't be empty.")
    if epoch == JOINING_EPOCH:
        if request.rebalance_timeout_ms == _UNCHANGED:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        for name, tasks in zip(("ActiveTasks", "StandbyTasks", "WarmupTasks"), owned, strict=True):
            if tasks:
                raise _invalid(f"{name} must be empty when (re-)joining.")
        if topology is None:
            raise _invalid("Topology must be non-null when (re-)joining.")
        check_changelogs(topology)
    elif epoch == LEAVING_FOR_A_WHILE_EPOCH:
        if request.instance_id is None:
            raise _invalid("InstanceId can't be null.")
    elif epoch < LEAVING_FOR_A_WHILE_EPOCH:
        raise _invalid(f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
    if any(tasks is None for tasks in owned) and any(tasks is not None for tasks in owned):
        raise _invalid("If one task-type is non-null, all must be non-null.")
    if epoch != JOINING_EPOCH and topology is not None:
        raise _invalid("Topology can only be provided when (re-)joining.")


def _check_tasks(owned: _Owned, configured: Configured) -> None:
    """Raises INVALID_REQUEST for tasks that the topology does not have."""
    for each in owned:
        subtopology = configured.subtopologies.get(each.subtopology_id)
        if subtopology is None:
            raise _invalid(f"Subtopology {each.subtopology_id} does not exist in the topology.")
        for number in each.partitions:
            if not 0 <= number < subtopology.number_of_tasks:
                raise _invalid(
                    f"Task {number} for subtopology {each.subtopology_id} is invalid. Number of tasks for this "
                    f"subtopology: {subtopology.number_of_tasks}"
                )


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)


# --- who the member is ------------------------------------------------------------------------------------------------


def _group_to_join(groups: "Groups", group_id: str, member_id: str, now_ms: int) -> Change:
    """The streams group: there already, new, or in the place of a classic group without members."""
    group = find_streams_group(groups, group_id)
    if group is not None:
        return Change(groups, group, now_ms)
    if find_consumer_group(groups, group_id) is not None:
        raise _not_streams(group_id)
    classic = find_classic_group(groups, group_id)
    if classic is None:
        groups.admit()
        return Change(groups, StreamsGroup(group_id), now_ms)
    if classic.state is not ClassicState.EMPTY:
        raise _not_streams(group_id)
    change = Change(groups, StreamsGroup(group_id), now_ms)
    change.records.append(group_metadata_tombstone(group_id))
    change.timers += pending_disarmed(classic)
    if classic.stored is not None:
        event = group_converted(group_id, Kind.CLASSIC, Kind.STREAMS, change.group_epoch, member_id, 0)
        change.facts.append(event_only(event))
    return change


def _existing(groups: "Groups", group_id: str) -> StreamsGroup:
    group = find_streams_group(groups, group_id)
    if group is None:
        if groups.by_id.get(group_id) is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {group_id} not found.")
        raise _not_streams(group_id)
    return group


def _not_streams(group_id: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")


def _member(change: Change, request: StreamsGroupHeartbeatRequest) -> StreamsMember:
    """The member as it was before this heartbeat: one of the group, or one that joins it."""
    group, epoch, member_id, instance_id = change.group, request.member_epoch, request.member_id, request.instance_id
    if epoch == JOINING_EPOCH:
        if instance_id is not None:
            return static_members.join(change, member_id, instance_id)
        return group.members.get(member_id) or StreamsMember(member_id=member_id)
    member = member_of(group, member_id) if instance_id is None else holder_of(group, member_id, instance_id)
    if epoch > member.member_epoch:
        raise _fenced("greater", epoch, member.member_epoch)
    if epoch < member.member_epoch and not (epoch == member.previous_member_epoch and _has_no_more(request, member)):
        raise _fenced("smaller", epoch, member.member_epoch)
    return member


def _has_no_more(request: StreamsGroupHeartbeatRequest, member: StreamsMember) -> bool:
    """Whether the member says what it owns, and owns nothing that it is not assigned."""
    owned, held = (request.active_tasks, request.standby_tasks, request.warmup_tasks), member.assigned
    return all(
        said is not None and all(_contains(kept, each.subtopology_id, each.partitions) for each in said)
        for said, kept in zip(owned, (held.active, held.standby, held.warmup), strict=True)
    )


def _contains(held: Mapping[str, Iterable[int]], subtopology_id: str, numbers: Iterable[int]) -> bool:
    kept = held.get(subtopology_id)
    return kept is not None and set(numbers) <= set(kept)


def _fenced(how: str, received: int, known: int) -> KafkaError:
    return KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The streams group member has a {how} member epoch ({received}) than the one known by the group coordinator "
        f"({known}). The member must abandon all its partitions and rejoin.",
    )
