"""StreamsGroupHeartbeat: the one request of a member of a streams group (epochs/heartbeat.py says what its epochs mean).

As with consumer groups nearly all heartbeats say nothing new, and their answer was built before (`_cached`).

Beside its tasks a streams member receives a list of *statuses*: what is wrong with its topology or its topics, that the
assignment is delayed, that a member wants the whole application to stop. Errors of topics are not errors of the request: the
member stays and asks again.

Tasks are sent when a member joins and when they change, and again to a member that says what it owns and does not have all of
them: the answer may have been lost. (Kafka 4.4.0 sends nothing then, and nobody processes the tasks until the next rebalance.)

Internal topics that are missing are left to the caller to create: they are in `group.soft.configured`.

How far the tasks' states have come (task offsets) is kept in memory only, as in Kafka; members report it again from time to
time.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from coordinator.groups.epochs.heartbeat import (
    UNCHANGED,
    check_epoch,
    contains_all,
    existing,
    existing_to_leave,
    fence_epoch,
    invalid,
    refused_facts,
)
from coordinator.groups.epochs.leave import leave
from coordinator.groups.epochs.member import JOINING_EPOCH
from coordinator.groups.epochs.membership import fence_size
from coordinator.groups.epochs.static_members import join_static
from coordinator.groups.events import delivered, owns_all
from coordinator.groups.held_bytes import NAME_BYTES
from coordinator.groups.kinds import Kind
from coordinator.groups.state import Groups
from coordinator.groups.streams.committer import committer_of
from coordinator.groups.streams.configure import Configured
from coordinator.groups.streams.group import StreamsGroup, find_streams_group, session_key
from coordinator.groups.streams.member import Endpoint, MemberState, StreamsMember, Tasks, TasksTuple
from coordinator.groups.streams.partitions import partitions_by_endpoint
from coordinator.groups.streams.soft_state import NO_TASK_OFFSETS, CachedHeartbeat, TaskOffsets, size_of_offsets
from coordinator.groups.streams.status import StatusCode
from coordinator.groups.streams.topology import Topology, check_changelogs, check_regexes
from coordinator.groups.streams.update import StreamsUpdate
from coordinator.protocol.errors import KafkaError
from coordinator.protocol.messages import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from coordinator.runtime.result import RequestContext, Result

MISSING_CLIENT_TAGS_SINCE = 1
"""Older clients do not know this status."""

_TaskIds = StreamsGroupHeartbeatResponse.TaskIds
_Status = StreamsGroupHeartbeatResponse.Status
_Owned = Iterable[StreamsGroupHeartbeatRequest.TaskIds]
_NO_NUMBERS: frozenset[int] = frozenset()


def streams_group_heartbeat(
    groups: Groups, request: StreamsGroupHeartbeatRequest, context: RequestContext, now_ms: int
) -> Result:
    """One heartbeat of a member (KIP-1071). Kafka: `GroupMetadataManager.streamsGroupHeartbeat`.

    Raises INVALID_REQUEST, STREAMS_INVALID_TOPOLOGY, GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID,
    FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID, COORDINATOR_NOT_AVAILABLE (the groups hold too much),
    UNKNOWN_SERVER_ERROR (the log has no topology).
    """
    groups.note_link(request.group_id, request.member_id, context.link)
    cached = _cached(groups, request, context)
    if cached is not None:
        return cached
    try:
        return _heartbeat(groups, request, context, now_ms)
    except KafkaError as error:
        error.facts = refused_facts(groups, request, error)
        raise


def _heartbeat(groups: Groups, request: StreamsGroupHeartbeatRequest, context: RequestContext, now_ms: int) -> Result:
    if context.behaviours.streams_groups_are_basic:
        _refuse_later_features(request)
    _check(request)
    group_id, epoch = request.group_id, request.member_epoch
    if epoch < 0:
        return _leave(existing_to_leave(StreamsUpdate, groups, group_id, now_ms), request)
    if epoch == JOINING_EPOCH:
        update = _group_to_join(groups, group_id, request.member_id, now_ms)
        size_max = groups.config.group_streams_max_size
        rejoining_id = "" if context.behaviours.streams_groups_are_basic else request.member_id
        fence_size(update.group, size_max, "streams", rejoining_id, request.instance_id)
    else:
        update = existing(StreamsUpdate, groups, group_id, now_ms)
    old = _member_before(update, request)
    new = _merge_request(old, request, context)
    sent = None if request.topology is None else Topology.of_request(request.topology)
    update.fence_growth(old, new, _growth_besides(update.group, request, sent))
    update.update(old, new, names_instance=request.instance_id is not None)
    topology = update.take_topology(sent, new)
    configured, metadata_hash = update.configure(topology)
    if configured.is_ready:
        for owned in (request.active_tasks, request.standby_tasks, request.warmup_tasks):
            _check_tasks(owned or (), configured)
    _take_offsets(update.group, request)
    update.raise_epoch_if_due(topology, configured, metadata_hash, new)
    update.delay_first_target()
    target_epoch, target = update.retarget(new, configured)
    new = update.reconcile(new, target_epoch, target, _owned(request))
    if request.shutdown_application:
        update.group.soft.shutdown_by = update.group.soft.shutdown_by or new.member_id
    return _answer(update, request, context, old, new, topology, configured)


def _leave(update: StreamsUpdate, request: StreamsGroupHeartbeatRequest) -> Result:
    leave(update, request.member_id, request.instance_id, request.member_epoch)
    if request.shutdown_application:
        update.group.soft.shutdown_by = update.group.soft.shutdown_by or request.member_id
    return update.result(StreamsGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch))


def _cached(groups: Groups, request: StreamsGroupHeartbeatRequest, context: RequestContext) -> Result | None:
    """The answer built before, if the member says nothing new and nothing has happened in the group."""
    group = find_streams_group(groups, request.group_id)
    cached = None if group is None else group.soft.cached_heartbeats.get(request.member_id)
    if (
        group is None
        or cached is None
        or cached.member is not group.members.get(request.member_id)
        or not request.member_epoch == cached.member.member_epoch == group.target_epoch == group.group_epoch
        or cached.settings is not groups.settings.streams(request.group_id)
        or group.soft.configured_version != groups.catalog.version
        or group.soft.endpoint_epoch != request.endpoint_information_epoch
        or group.soft.shutdown_by is not None
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
        or request.rebalance_timeout_ms != UNCHANGED
        or (request.instance_id is not None and request.instance_id != cached.member.instance_id)
        or cached.member.client_id != (context.client_id or "")
        or cached.member.client_host != context.client_host
        or cached.api_version != context.api_version
    ):
        return None
    return cached.result


def _answer(
    update: StreamsUpdate,
    request: StreamsGroupHeartbeatRequest,
    context: RequestContext,
    old: StreamsMember,
    new: StreamsMember,
    topology: Topology,
    configured: Configured,
) -> Result:
    groups, group, soft, settings = update.groups, update.group, update.group.soft, update.settings
    is_joining = request.member_epoch == JOINING_EPOCH
    before = group.members.get(new.member_id)
    if not update.emit_if_joined(new, context) and before is not None and not is_joining and _owns_all(request, before):
        update.facts += owns_all(groups, group, committer_of(soft.committers, before, topology, groups.catalog))
    update.arm(session_key(update.group_id, new.member_id), settings.session_timeout_ms)
    answer = StreamsGroupHeartbeatResponse(
        member_id=new.member_id,
        member_epoch=new.member_epoch,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        task_offset_interval_ms=0 if context.behaviours.streams_groups_are_basic else settings.task_offset_interval_ms,
        acceptable_recovery_lag=settings.acceptable_recovery_lag,
    )
    tasks_changed = old.assigned is not new.assigned and old.assigned.without_epochs != new.assigned.without_epochs
    if is_joining or tasks_changed or _lacks_some(request, new):
        answer.active_tasks = _to_response(new.assigned.active)
        answer.standby_tasks = _to_response(new.assigned.standby)
        answer.warmup_tasks = _to_response(new.assigned.warmup)
        update.facts += delivered(groups, group, committer_of(soft.committers, new, topology, groups.catalog))
    if old.user_endpoint != new.user_endpoint or (tasks_changed and new.user_endpoint is not None):
        soft.endpoint_epoch += 1
    if soft.endpoint_epoch != request.endpoint_information_epoch:
        answer.partitions_by_user_endpoint = partitions_by_endpoint(group, new, update.replaced, groups.catalog)
    if groups.by_id.get(update.group_id) is group:
        answer.endpoint_information_epoch = soft.endpoint_epoch
    if configured.problem is not None:
        update.statuses.append(configured.problem)
    if soft.shutdown_by is not None:
        update.status(
            StatusCode.SHUTDOWN_APPLICATION,
            f"Streams group member {soft.shutdown_by} encountered a fatal error and requested a shutdown for the "
            "entire application.",
        )
    missing = [tag for tag in settings.rack_aware_assignment_tags if tag not in new.client_tags]
    if missing and context.api_version >= MISSING_CLIENT_TAGS_SINCE:
        update.status(
            StatusCode.MISSING_CLIENT_TAGS,
            f"Missing required client tags for rack-aware standby assignment: [{', '.join(missing)}]. "
            "Configure them via 'client.tag.<tagKey>' in your Streams config.",
        )
    answer.status = [_Status(status.code, status.detail) for status in update.statuses]
    result = update.result(answer)
    says_nothing = answer.active_tasks is None and answer.partitions_by_user_endpoint is None and not answer.status
    if says_nothing and new is before and new.state is MemberState.STABLE and not (result.records or result.facts):
        soft.cached_heartbeats[new.member_id] = CachedHeartbeat(result, new, settings, context.api_version)
    return result


def _to_response(tasks: Mapping[str, Iterable[int]]) -> list[_TaskIds]:
    return [_TaskIds(subtopology_id, sorted(tasks[subtopology_id])) for subtopology_id in sorted(tasks)]


# --- the request ------------------------------------------------------------------------------------------------------


def _merge_request(old: StreamsMember, request: StreamsGroupHeartbeatRequest, context: RequestContext) -> StreamsMember:
    """The member with the metadata of the request; the same object if they are not new."""
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
        if request.rebalance_timeout_ms == UNCHANGED
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
    """The tasks that the member says it owns; None if it does not say."""
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    return TasksTuple(_tasks(request.active_tasks), _tasks(request.standby_tasks), _tasks(request.warmup_tasks))


def _owns_all(request: StreamsGroupHeartbeatRequest, member: StreamsMember) -> bool:
    """Whether the member says that it owns exactly the active tasks that it is assigned."""
    if request.active_tasks is None:
        return False
    assigned = {subtopology_id: frozenset(numbers) for subtopology_id, numbers in member.assigned.active.items()}
    return _tasks(request.active_tasks) == assigned


def _lacks_some(request: StreamsGroupHeartbeatRequest, member: StreamsMember) -> bool:
    """Whether it says what it owns and lacks some of what it is assigned: the answer that gave it the rest may be lost."""
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


def _growth_besides(group: StreamsGroup, request: StreamsGroupHeartbeatRequest, sent: Topology | None) -> int:
    """By how much the group will hold more, besides the member's metadata."""
    growth = sent.held_bytes if sent is not None and group.topology is None else 0
    known = group.soft.task_offsets.get(request.member_id, NO_TASK_OFFSETS)
    for reported, before in ((request.task_offsets, known.offsets), (request.task_end_offsets, known.end_offsets)):
        if reported is not None:
            size = len(reported) + len({each.subtopology_id for each in reported})
            growth += NAME_BYTES * (size - size_of_offsets(before))
    return growth


def _take_offsets(group: StreamsGroup, request: StreamsGroupHeartbeatRequest) -> None:
    """Keeps how far the member's tasks have come. Raises INVALID_REQUEST if a task is listed twice."""
    if request.task_offsets is None and request.task_end_offsets is None:
        return
    before = group.soft.task_offsets.get(request.member_id, NO_TASK_OFFSETS)
    offsets = TaskOffsets(
        before.offsets if request.task_offsets is None else _offsets(request.task_offsets),
        before.end_offsets if request.task_end_offsets is None else _offsets(request.task_end_offsets),
    )
    group.set_task_offsets(request.member_id, offsets)


def _offsets(reported: Iterable[StreamsGroupHeartbeatRequest.TaskOffset]) -> dict[str, dict[int, int]]:
    offsets: dict[str, dict[int, int]] = {}
    for each in reported:
        of_subtopology = offsets.setdefault(each.subtopology_id, {})
        if each.partition in of_subtopology:
            raise invalid(
                f"Task offsets contain a duplicate entry for subtopology {each.subtopology_id} and partition "
                f"{each.partition}."
            )
        of_subtopology[each.partition] = each.offset
    return offsets


def _refuse_later_features(request: StreamsGroupHeartbeatRequest) -> None:
    """Raises INVALID_REQUEST for what 4.2 and 4.3 do not have."""
    for why, value in (
        ("Static membership is not yet supported.", request.instance_id),
        ("TaskOffsets are not supported yet.", request.task_offsets),
        ("TaskEndOffsets are not supported yet.", request.task_end_offsets),
        ("WarmupTasks are not supported yet.", request.warmup_tasks or None),
    ):
        if value is not None:
            raise invalid(why)


def _check(request: StreamsGroupHeartbeatRequest) -> None:
    """Refuses requests that are invalid in every state. Raises INVALID_REQUEST, STREAMS_INVALID_TOPOLOGY."""
    topology = request.topology
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
            raise invalid(f"{name} can't be empty.")
    check_epoch(request, f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2.")
    if request.member_epoch == JOINING_EPOCH:
        for name, tasks in zip(("ActiveTasks", "StandbyTasks", "WarmupTasks"), owned, strict=True):
            if tasks:
                raise invalid(f"{name} must be empty when (re-)joining.")
        if topology is None:
            raise invalid("Topology must be non-null when (re-)joining.")
        check_changelogs(topology)
    if any(tasks is None for tasks in owned) and any(tasks is not None for tasks in owned):
        raise invalid("If one task-type is non-null, all must be non-null.")
    if request.member_epoch != JOINING_EPOCH and topology is not None:
        raise invalid("Topology can only be provided when (re-)joining.")


def _check_tasks(owned: _Owned, configured: Configured) -> None:
    """Raises INVALID_REQUEST for tasks that the topology does not have (Kafka: `throwIfRequestContainsInvalidTasks`)."""
    for each in owned:
        subtopology = configured.subtopologies.get(each.subtopology_id)
        if subtopology is None:
            raise invalid(f"Subtopology {each.subtopology_id} does not exist in the topology.")
        for number in each.partitions:
            if not 0 <= number < subtopology.number_of_tasks:
                raise invalid(
                    f"Task {number} for subtopology {each.subtopology_id} is invalid. Number of tasks for this "
                    f"subtopology: {subtopology.number_of_tasks}"
                )


# --- the group and the member -----------------------------------------------------------------------------------------


def _group_to_join(groups: Groups, group_id: str, member_id: str, now_ms: int) -> StreamsUpdate:
    """The streams group: existing, new, or in the place of a classic group without members.

    Raises GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED (`limit.groups`).
    """
    known = StreamsUpdate.find(groups, group_id, now_ms)
    if known is not None:
        return known
    update = StreamsUpdate(groups, StreamsGroup(group_id), now_ms)
    other = groups.by_id.get(group_id)
    if other is None:
        groups.admit(group_id)
    elif other.kind is Kind.CLASSIC and other.is_empty:
        update.replace(groups, other, Kind.STREAMS, update.group_epoch, member_id)
    else:
        raise groups.not_found(group_id, Kind.STREAMS)
    return update


def _member_before(update: StreamsUpdate, request: StreamsGroupHeartbeatRequest) -> StreamsMember:
    """The member as it was before this heartbeat: one of the group, or one that joins it.

    Raises UNRELEASED_INSTANCE_ID, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, FENCED_MEMBER_EPOCH.
    """
    member_id, instance_id = request.member_id, request.instance_id
    if request.member_epoch == JOINING_EPOCH:
        if instance_id is not None:
            return join_static(update, member_id, instance_id)
        return update.group.member_or_new(member_id)

    def owns_no_more(member: StreamsMember) -> bool:
        owned, held = (request.active_tasks, request.standby_tasks, request.warmup_tasks), member.assigned
        return all(
            said is not None and contains_all(kept, ((each.subtopology_id, each.partitions) for each in said))
            for said, kept in zip(owned, (held.active, held.standby, held.warmup), strict=True)
        )

    return fence_epoch(update, request, owns_no_more)
