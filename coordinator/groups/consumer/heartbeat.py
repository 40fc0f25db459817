"""ConsumerGroupHeartbeat: the one request of a member of a consumer group. It joins, learns, acknowledges and leaves by it.

    epoch 0      I join, or I was fenced and join again; everything about me is in this request
    epoch > 0    I am here, in this epoch; what has changed about me is in this request, the rest is null
    epoch -1     I leave
    epoch -2     I leave, but the process of my instance id will be back

Nearly all of them say nothing new to a group in which nothing happens. For those the answer was made before, and neither
the members nor the topics are looked at (`_steady`). Any other takes the steps of change.py for this one member.

An answer may get lost. The member then comes again with the epoch it had, and with what it had: no more than what it is
assigned now. That is taken for what it is. Any other wrong epoch means that the member and we have lost each other: it is
fenced, gives up everything and joins again.

The assignment is in the answer when it has changed, and when the member tells everything about itself, for then it may have
lost what it knew.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from coordinator.groups.consumer.change import Change
from coordinator.groups.consumer.group import (
    ConsumerGroup,
    ConsumerMember,
    Steady,
    find_consumer_group,
    join_key,
    session_key,
    sync_key,
)
from coordinator.groups.consumer.leave import leave
from coordinator.groups.consumer.reconcile import Owned
from coordinator.groups.consumer.static_members import join
from coordinator.groups.consumer.subscription import refresh_timer
from coordinator.groups.events import acknowledged, delivered, fenced, member_joined
from coordinator.groups.kinds import Kind
from coordinator.groups.membership import fence_size, holder_of, member_of, short_id
from coordinator.groups.modern import JOINING_EPOCH, LEAVING_EPOCH, LEAVING_FOR_A_WHILE_EPOCH, Epochs
from coordinator.groups.settings import ConsumerSettings
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from coordinator.runtime.result import RequestContext, Result, Timer

if TYPE_CHECKING:
    from coordinator.groups.state import Groups

MEMBER_ID_REQUIRED_SINCE = 1
"""The client makes its member id itself (KIP-1082)."""

_UNCHANGED = -1
_TopicPartitions = ConsumerGroupHeartbeatResponse.TopicPartitions
_Assignment = ConsumerGroupHeartbeatResponse.Assignment


def consumer_group_heartbeat(
    groups: "Groups", request: ConsumerGroupHeartbeatRequest, context: RequestContext, now_ms: int
) -> Result:
    steady = _steady(groups, request, context, now_ms)
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
            "ConsumerGroupHeartbeat",
        )
        raise


def _heartbeat(
    groups: "Groups", request: ConsumerGroupHeartbeatRequest, context: RequestContext, now_ms: int
) -> Result:
    _check(groups, request, context.api_version)
    if request.member_epoch < 0:
        return leave(groups, request, now_ms)
    if request.member_epoch == JOINING_EPOCH:
        change = groups.migration.update_to_join(groups, request.group_id, request.member_id, now_ms)
    else:
        change = Change(groups, _existing(groups, request.group_id), now_ms)
    member_id = request.member_id or short_id(context.fresh_id)
    fence_size(change.group, groups.config.group_consumer_max_size, "consumer", member_id, request.instance_id)
    old = _member(change, request, member_id)
    return _beat(change, request, context, old)


def _steady(
    groups: "Groups", request: ConsumerGroupHeartbeatRequest, context: RequestContext, now_ms: int
) -> Result | None:
    """The answer made before, for a member that says nothing new to a group in which nothing has happened.

    What it owns is nothing new: it has reached the target, and no longer has to give anything up.
    """
    group = find_consumer_group(groups, request.group_id)
    if group is None or request.member_epoch != group.target_epoch:
        return None
    settings = groups.settings.consumer(request.group_id)
    steady = group.steady.get(request.member_id)
    if steady is None or steady.settings is not settings:
        steady = _make_steady(groups, group, request.member_id, settings, now_ms)
    if (
        steady is None
        or not (steady.is_final or group.target_stands(settings.assignment_interval_ms, now_ms))
        or steady.member_epoch != request.member_epoch
        or group.catalog_version != groups.catalog.version
        or request.subscribed_topic_names is not None
        or request.rebalance_timeout_ms != _UNCHANGED
        or request.subscribed_topic_regex is not None
        or request.server_assignor is not None
        or request.rack_id is not None
        or (request.instance_id is not None and request.instance_id != steady.instance_id)
        or steady.client_id != (context.client_id or "")
        or steady.client_host != context.client_host
    ):
        return None
    if request.topic_partitions is not None:
        owned: Owned = [(topic.topic_id, topic.partitions) for topic in request.topic_partitions]
        facts = acknowledged(groups, group, group.members[request.member_id], owned)
        if facts:
            return Result(steady.result.reply, timers=steady.result.timers, facts=facts)
    return steady.result


def _make_steady(
    groups: "Groups", group: ConsumerGroup, member_id: str, settings: ConsumerSettings, now_ms: int
) -> Steady | None:
    """The answer to a member that has reached the target, as long as no other is due; None if there is more to do."""
    member = group.members.get(member_id)
    if member is None or member.classic is not None or not member.is_reconciled_to(group.target_epoch):
        return None
    if (
        group.catalog_version != groups.catalog.version
        or refresh_timer(groups, group, now_ms, is_new=False) is not None
    ):
        return None
    answer = ConsumerGroupHeartbeatResponse(
        member_id=member_id, member_epoch=member.member_epoch, heartbeat_interval_ms=settings.heartbeat_interval_ms
    )
    session = Timer(session_key(group.group_id, member_id), settings.session_timeout_ms)
    is_final = group.group_epoch == group.target_epoch
    steady = Steady(member, settings, Result(answer, timers=(session,)), is_final=is_final)
    group.steady[member_id] = steady
    return steady


def _beat(
    change: Change, request: ConsumerGroupHeartbeatRequest, context: RequestContext, old: ConsumerMember
) -> Result:
    groups, group = change.groups, change.group
    owned: Owned = (
        None
        if request.topic_partitions is None
        else [(topic.topic_id, topic.partitions) for topic in request.topic_partitions]
    )
    new = change.advance(old, _as_told(old, request, context), owned)
    before = group.members.get(new.member_id)
    if before is None or before.member_epoch == LEAVING_FOR_A_WHILE_EPOCH:
        change.facts.append(
            member_joined(change.group_id, Kind.CONSUMER, new.member_id, new.instance_id, context, new.member_epoch)
        )
    elif request.member_epoch != JOINING_EPOCH:
        change.facts += acknowledged(groups, group, before, owned)
    settings = groups.settings.consumer(change.group_id)
    change.arm(session_key(change.group_id, new.member_id), settings.session_timeout_ms)
    if old.classic is not None:
        group.called.discard(new.member_id)
        change.disarm(join_key(change.group_id, new.member_id))
        change.disarm(sync_key(change.group_id, new.member_id))
    answer = ConsumerGroupHeartbeatResponse(
        member_id=new.member_id,
        member_epoch=new.member_epoch,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
    )
    tells_everything = (
        request.rebalance_timeout_ms != _UNCHANGED
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )
    if request.member_epoch == JOINING_EPOCH or tells_everything or _has_changed(old, new):
        answer.assignment = assignment(new.assigned)
        change.facts += delivered(groups, group, new)
    return change.result(answer)


def _has_changed(old: ConsumerMember, new: ConsumerMember) -> bool:
    return old.assigned is not new.assigned and old.assigned != new.assigned


def assignment(held: Epochs) -> "ConsumerGroupHeartbeatResponse.Assignment":
    return _Assignment([_TopicPartitions(topic_id, sorted(held[topic_id])) for topic_id in sorted(held)])


# --- what the member says ---------------------------------------------------------------------------------------------


def _as_told(old: ConsumerMember, request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> ConsumerMember:
    """The member with what the request says about it; the same object if that is nothing new."""
    changes: dict[str, object] = {}
    if request.instance_id is not None and request.instance_id != old.instance_id:
        changes["instance_id"] = request.instance_id
    if request.rack_id is not None and request.rack_id != old.rack_id:
        changes["rack_id"] = request.rack_id
    if request.rebalance_timeout_ms not in (_UNCHANGED, old.rebalance_timeout_ms):
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


def _check(groups: "Groups", request: ConsumerGroupHeartbeatRequest, api_version: int) -> None:
    """What cannot be right in any state. Raises INVALID_REQUEST, UNSUPPORTED_ASSIGNOR."""
    epoch = request.member_epoch
    if not request.member_id and (
        api_version >= MEMBER_ID_REQUIRED_SINCE or epoch > JOINING_EPOCH or epoch == LEAVING_EPOCH
    ):
        raise _invalid("MemberId can't be empty.")
    if not request.group_id:
        raise _invalid("GroupId can't be empty.")
    if request.instance_id is not None and not request.instance_id.strip():
        raise _invalid("InstanceId can't be empty.")
    if request.rack_id is not None and not request.rack_id.strip():
        raise _invalid("RackId can't be empty.")
    if epoch == JOINING_EPOCH:
        if request.rebalance_timeout_ms == _UNCHANGED:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        if request.topic_partitions is None or request.topic_partitions:
            raise _invalid("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
    elif epoch == LEAVING_FOR_A_WHILE_EPOCH:
        if request.instance_id is None:
            raise _invalid("InstanceId can't be null.")
    elif epoch < LEAVING_FOR_A_WHILE_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in groups.assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(groups.assignors)}.",
        )


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)


# --- who the member is ------------------------------------------------------------------------------------------------


def _existing(groups: "Groups", group_id: str) -> ConsumerGroup:
    group = find_consumer_group(groups, group_id)
    if group is None:
        if groups.by_id.get(group_id) is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
    return group


def _member(change: Change, request: ConsumerGroupHeartbeatRequest, member_id: str) -> ConsumerMember:
    """The member as it was before this heartbeat: one of the group, or one that joins it."""
    group, epoch, instance_id = change.group, request.member_epoch, request.instance_id
    if epoch == JOINING_EPOCH:
        if instance_id is not None:
            return join(change, member_id, instance_id, speaks_classic=False)
        return group.members.get(member_id) or ConsumerMember(member_id=member_id)
    member = member_of(group, member_id) if instance_id is None else holder_of(group, member_id, instance_id)
    if epoch > member.member_epoch:
        raise _fenced("greater", epoch, member.member_epoch)
    if epoch < member.member_epoch and not (
        epoch == member.previous_member_epoch and _has_no_more(request, member.assigned)
    ):
        raise _fenced("smaller", epoch, member.member_epoch)
    return member


def _has_no_more(request: ConsumerGroupHeartbeatRequest, assigned: Epochs) -> bool:
    """Whether the member says what it owns, and owns nothing that it is not assigned."""
    if request.topic_partitions is None:
        return False
    return all(_contains(assigned, topic.topic_id, topic.partitions) for topic in request.topic_partitions)


def _contains(assigned: Epochs, topic_id: bytes, partitions: Iterable[int]) -> bool:
    held = assigned.get(topic_id)
    return held is not None and all(partition in held for partition in partitions)


def _fenced(how: str, received: int, known: int) -> KafkaError:
    return KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {how} member epoch ({received}) than the one known by the group coordinator "
        f"({known}). The member must abandon all its partitions and rejoin.",
    )
