"""ConsumerGroupHeartbeat: the one request of a member of a consumer group (epochs/heartbeat.py says what its epochs mean).

Nearly all heartbeats say nothing new to a group in which nothing happens. Their answer was built before, and neither the
members nor the topics are looked at (`_cached`). Any other heartbeat takes the steps of update.py for this one member.

The answer contains the assignment when it has changed, and when the member says everything about itself, for then it may
have lost what it knew.
"""

from dataclasses import replace

from coordinator.groups.consumer.group import ConsumerGroup, find_consumer_group, join_key, session_key, sync_key
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.preferred_assignor import changes_assignor
from coordinator.groups.consumer.soft_state import CachedHeartbeat
from coordinator.groups.consumer.static_members import join
from coordinator.groups.consumer.subscription import patterns_due_ms, refresh_timer
from coordinator.groups.consumer.update import ConsumerUpdate
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
from coordinator.groups.epochs.member import JOINING_EPOCH, LEAVING_EPOCH, Owned, PartitionEpochs
from coordinator.groups.epochs.membership import fence_size, short_id
from coordinator.groups.events import acknowledged, delivered
from coordinator.groups.state import Groups
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from coordinator.protocol.releases import Behaviours
from coordinator.runtime.result import RequestContext, Result, Timer

MEMBER_ID_REQUIRED_SINCE = 1
"""From this version on the client chooses its member id itself (KIP-1082)."""

_TopicPartitions = ConsumerGroupHeartbeatResponse.TopicPartitions
_Assignment = ConsumerGroupHeartbeatResponse.Assignment


def consumer_group_heartbeat(
    groups: Groups, request: ConsumerGroupHeartbeatRequest, context: RequestContext, now_ms: int
) -> Result:
    """One heartbeat of a member (KIP-848). Kafka: `GroupMetadataManager.consumerGroupHeartbeat`.

    Raises INVALID_REQUEST, UNSUPPORTED_ASSIGNOR, INVALID_REGULAR_EXPRESSION, GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED,
    UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID, COORDINATOR_NOT_AVAILABLE (the groups
    hold too much), UNKNOWN_SERVER_ERROR (the assignor failed).
    """
    groups.note_link(request.group_id, request.member_id, context.link)
    cached = _cached(groups, request, context, now_ms)
    if cached is not None:
        return cached
    try:
        return _heartbeat(groups, request, context, now_ms)
    except KafkaError as error:
        error.facts = refused_facts(groups, request, error)
        raise


def _heartbeat(groups: Groups, request: ConsumerGroupHeartbeatRequest, context: RequestContext, now_ms: int) -> Result:
    _check(groups, request, context)
    group_id, epoch = request.group_id, request.member_epoch
    if epoch < 0:
        update = existing_to_leave(ConsumerUpdate, groups, group_id, now_ms)
        leave(update, request.member_id, request.instance_id, epoch)
        return update.result(ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=epoch))
    if epoch == JOINING_EPOCH:
        update = groups.update_to_join(group_id, request.member_id, context.behaviours, now_ms)
    else:
        update = existing(ConsumerUpdate, groups, group_id, now_ms)
    member_id = request.member_id or short_id(context.fresh_id)
    successor = None if context.behaviours.successors_need_a_place else request.instance_id
    fence_size(update.group, groups.config.group_consumer_max_size, "consumer", member_id, successor)
    return _advance(update, request, context, _member_before(update, request, member_id, context.behaviours))


def _cached(
    groups: Groups, request: ConsumerGroupHeartbeatRequest, context: RequestContext, now_ms: int
) -> Result | None:
    """The answer built before, if the member says nothing new and nothing has happened in the group.

    What it owns is nothing new: it has reached the target, and has nothing to give up any more.
    """
    group = find_consumer_group(groups, request.group_id)
    if group is None or request.member_epoch != group.target_epoch:
        return None
    settings = groups.settings.consumer(request.group_id)
    soft = group.soft
    cached = soft.cached_heartbeats.get(request.member_id)
    if cached is None or cached.settings is not settings:
        cached = _cache(groups, group, request.member_id, now_ms)
    if (
        cached is None
        or not (cached.is_final or group.target_stands(settings.assignment_interval_ms, now_ms))
        or cached.member_epoch != request.member_epoch
        or soft.catalog_version != groups.catalog.version
        or now_ms >= cached.patterns_due_ms
        or request.subscribed_topic_names is not None
        or request.rebalance_timeout_ms != UNCHANGED
        or request.subscribed_topic_regex is not None
        or request.server_assignor is not None
        or request.rack_id is not None
        or (request.instance_id is not None and request.instance_id != cached.instance_id)
        or cached.client_id != (context.client_id or "")
        or cached.client_host != context.client_host
    ):
        return None
    if request.topic_partitions is not None:
        facts = acknowledged(groups, group, group.members[request.member_id], _owned(request))
        if facts:
            return Result(cached.result.reply, timers=cached.result.timers, facts=facts)
    return cached.result


def _cache(groups: Groups, group: ConsumerGroup, member_id: str, now_ms: int) -> CachedHeartbeat | None:
    """Builds the answer to a member that has reached the target, valid until the target moves; None if more is to do."""
    member = group.members.get(member_id)
    if member is None or member.classic is not None or not member.is_reconciled_to(group.target_epoch):
        return None
    if (
        group.soft.catalog_version != groups.catalog.version
        or refresh_timer(groups, group, now_ms, is_new=False) is not None
    ):
        return None
    if changes_assignor(groups, group, member, member):
        return None
    settings = groups.settings.consumer(group.group_id)
    answer = ConsumerGroupHeartbeatResponse(
        member_id=member_id, member_epoch=member.member_epoch, heartbeat_interval_ms=settings.heartbeat_interval_ms
    )
    session = Timer(session_key(group.group_id, member_id), settings.session_timeout_ms)
    is_final = group.group_epoch == group.target_epoch
    due_ms = patterns_due_ms(groups, group)
    cached = CachedHeartbeat(member, settings, Result(answer, timers=(session,)), due_ms, is_final=is_final)
    group.soft.cached_heartbeats[member_id] = cached
    return cached


def _advance(
    update: ConsumerUpdate, request: ConsumerGroupHeartbeatRequest, context: RequestContext, old: ConsumerMember
) -> Result:
    """Takes the member's steps, and answers with its epoch and, where it may not know it, its assignment."""
    groups, group = update.groups, update.group
    owned = _owned(request)
    new = _merge_request(old, request, context)
    update.fence_growth(old, new)
    new = update.advance(old, new, owned, context)
    if not update.emit_if_joined(new, context) and request.member_epoch != JOINING_EPOCH:
        update.facts += acknowledged(groups, group, group.members[new.member_id], owned)
    settings = groups.settings.consumer(update.group_id)
    update.arm(session_key(update.group_id, new.member_id), settings.session_timeout_ms)
    if old.classic is not None:
        group.soft.rejoin_pending.discard(new.member_id)
        update.disarm(join_key(update.group_id, new.member_id))
        update.disarm(sync_key(update.group_id, new.member_id))
    answer = ConsumerGroupHeartbeatResponse(
        member_id=new.member_id, member_epoch=new.member_epoch, heartbeat_interval_ms=settings.heartbeat_interval_ms
    )
    says_everything = (
        request.rebalance_timeout_ms != UNCHANGED
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and owned is not None
    )
    has_changed = old.assigned is not new.assigned and old.assigned != new.assigned
    if request.member_epoch == JOINING_EPOCH or says_everything or has_changed:
        answer.assignment = _to_response(new.assigned)
        update.facts += delivered(groups, group, new)
    return update.result(answer)


def _to_response(held: PartitionEpochs) -> "ConsumerGroupHeartbeatResponse.Assignment":
    return _Assignment([_TopicPartitions(topic_id, sorted(held[topic_id])) for topic_id in sorted(held)])


# --- the request ------------------------------------------------------------------------------------------------------


def _owned(request: ConsumerGroupHeartbeatRequest) -> Owned:
    if request.topic_partitions is None:
        return None
    return [(topic.topic_id, topic.partitions) for topic in request.topic_partitions]


def _merge_request(
    old: ConsumerMember, request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> ConsumerMember:
    """The member with the metadata of the request; the same object if they are not new."""
    changes: dict[str, object] = {}
    if request.instance_id is not None and request.instance_id != old.instance_id:
        changes["instance_id"] = request.instance_id
    if request.rack_id is not None and request.rack_id != old.rack_id:
        changes["rack_id"] = request.rack_id
    if request.rebalance_timeout_ms not in (UNCHANGED, old.rebalance_timeout_ms):
        changes["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    if request.server_assignor is not None and request.server_assignor != old.assignor:
        changes["assignor"] = request.server_assignor
    if request.subscribed_topic_names is not None:
        topics = frozenset(request.subscribed_topic_names)
        if topics != old.topics:
            changes["topics"] = topics
    if request.subscribed_topic_regex is not None and request.subscribed_topic_regex != old.regex:
        changes["regex"] = request.subscribed_topic_regex
    if old.client_id != (context.client_id or ""):
        changes["client_id"] = context.client_id or ""
    if old.client_host != context.client_host:
        changes["client_host"] = context.client_host
    if old.classic is not None:
        changes["classic"] = None
    return replace(old, **changes) if changes else old  # type: ignore[arg-type]  # each under its field's name


def _check(groups: Groups, request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> None:
    """Refuses requests that are invalid in every state. Raises INVALID_REQUEST, UNSUPPORTED_ASSIGNOR."""
    epoch = request.member_epoch
    if not request.member_id and (
        context.api_version >= MEMBER_ID_REQUIRED_SINCE or epoch > JOINING_EPOCH or epoch == LEAVING_EPOCH
    ):
        raise invalid("MemberId can't be empty.")
    if not request.group_id:
        raise invalid("GroupId can't be empty.")
    if request.instance_id is not None and not request.instance_id.strip():
        raise invalid("InstanceId can't be empty.")
    if request.rack_id is not None and not request.rack_id.strip():
        raise invalid("RackId can't be empty.")
    check_epoch(request, "MemberEpoch is invalid.")
    if epoch == JOINING_EPOCH:
        if request.topic_partitions is None or request.topic_partitions:
            raise invalid("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
        if not request.subscribed_topic_names and context.behaviours.joining_without_topics_is_invalid:
            raise invalid("SubscribedTopicNames must be set in first request.")
    if request.server_assignor is not None and request.server_assignor not in groups.assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(groups.assignors)}.",
        )


def _member_before(
    update: ConsumerUpdate, request: ConsumerGroupHeartbeatRequest, member_id: str, behaviours: Behaviours
) -> ConsumerMember:
    """The member as it was before this heartbeat: one of the group, or one that joins it.

    Raises UNRELEASED_INSTANCE_ID, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, FENCED_MEMBER_EPOCH.
    """
    if request.member_epoch == JOINING_EPOCH:
        if request.instance_id is not None:
            return join(update, member_id, request.instance_id, speaks_classic=False)
        member = update.group.member_or_new(member_id)
        if not (behaviours.rejoining_is_fenced and member.previous_member_epoch > JOINING_EPOCH):
            return member

    def owns_no_more(member: ConsumerMember) -> bool:
        owned = _owned(request)
        return owned is not None and contains_all(member.assigned, owned)

    return fence_epoch(update, request, owns_no_more)
