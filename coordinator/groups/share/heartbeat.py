"""ShareGroupHeartbeat: the one request of a member of a share group (KIP-932).

    epoch 0      I join, or I was fenced and join again; this request says everything about me
    epoch > 0    I am in this epoch; this request says what has changed about me, the rest is null
    epoch -1     I leave

A member says nothing about what it owns: it may read a partition as long as an answer says so, and locks on records, not
epochs, keep members apart. So the previous epoch is always accepted: the answer with the present one may be lost. And a member
that joins again while it is in the group stays what it was.

As with other groups nearly all heartbeats say nothing new, and their answer was built before (`_cached`).
"""

from dataclasses import replace

from coordinator.groups.epochs.heartbeat import existing, existing_to_leave, invalid
from coordinator.groups.epochs.leave import leave
from coordinator.groups.epochs.member import JOINING_EPOCH, LEAVING_EPOCH
from coordinator.groups.epochs.membership import fence_size, member_of
from coordinator.groups.events import delivered, refused
from coordinator.groups.kinds import Kind
from coordinator.groups.share.group import ShareGroup, find_share_group, session_key
from coordinator.groups.share.member import ShareMember
from coordinator.groups.share.soft_state import CachedHeartbeat
from coordinator.groups.share.update import ShareUpdate
from coordinator.groups.state import Groups
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from coordinator.runtime.result import RequestContext, Result

_TopicPartitions = ShareGroupHeartbeatResponse.TopicPartitions
_Assignment = ShareGroupHeartbeatResponse.Assignment
_API = "ShareGroupHeartbeat"


def share_group_heartbeat(
    groups: Groups, request: ShareGroupHeartbeatRequest, context: RequestContext, now_ms: int
) -> Result:
    """One heartbeat of a member. Kafka: `GroupMetadataManager.shareGroupHeartbeat`.

    Raises INVALID_REQUEST, GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH,
    COORDINATOR_NOT_AVAILABLE (the groups hold too much).
    """
    groups.note_link(request.group_id, request.member_id, context.link)
    cached = _cached(groups, request, context)
    if cached is not None:
        return cached
    try:
        return _heartbeat(groups, request, context, now_ms)
    except KafkaError as error:
        error.facts = refused(groups, request.group_id, request.member_id, None, request.member_epoch, error, _API)
        raise


def _heartbeat(groups: Groups, request: ShareGroupHeartbeatRequest, context: RequestContext, now_ms: int) -> Result:
    _check(request)
    group_id, member_id, epoch = request.group_id, request.member_id, request.member_epoch
    if epoch == LEAVING_EPOCH:
        update = existing_to_leave(ShareUpdate, groups, group_id, now_ms)
        leave(update, member_id, None, epoch)
        return update.result(ShareGroupHeartbeatResponse(member_id=member_id, member_epoch=epoch))
    if epoch == JOINING_EPOCH:
        update = _group_to_join(groups, group_id, now_ms)
    else:
        update = existing(ShareUpdate, groups, group_id, now_ms)
    fence_size(update.group, groups.config.group_share_max_size, Kind.SHARE.label, member_id, None)
    old = update.group.member_or_new(member_id) if epoch == JOINING_EPOCH else _member(update, request)
    new = _merge_request(old, request, context)
    update.fence_growth(old, new)
    return _answer(update, request, context, old, update.advance(old, new))


def _cached(groups: Groups, request: ShareGroupHeartbeatRequest, context: RequestContext) -> Result | None:
    """The answer built before, if the member says nothing new and nothing has happened in the group."""
    group = find_share_group(groups, request.group_id)
    cached = None if group is None else group.soft.cached_heartbeats.get(request.member_id)
    if (
        group is None
        or cached is None
        or cached.member is not group.members.get(request.member_id)
        or not request.member_epoch == cached.member.member_epoch == group.target_epoch == group.group_epoch
        or cached.settings is not groups.settings.share(request.group_id)
        or group.soft.catalog_version != groups.catalog.version
        or request.subscribed_topic_names is not None
        or request.rack_id is not None
        or cached.member.client_id != (context.client_id or "")
        or cached.member.client_host != context.client_host
    ):
        return None
    return cached.result


def _answer(
    update: ShareUpdate,
    request: ShareGroupHeartbeatRequest,
    context: RequestContext,
    old: ShareMember,
    new: ShareMember,
) -> Result:
    groups, group = update.groups, update.group
    settings = groups.settings.share(update.group_id)
    update.emit_if_joined(new, context)
    update.arm(session_key(update.group_id, new.member_id), settings.session_timeout_ms)
    answer = ShareGroupHeartbeatResponse(
        member_id=new.member_id, member_epoch=new.member_epoch, heartbeat_interval_ms=settings.heartbeat_interval_ms
    )
    says_everything = request.member_epoch == JOINING_EPOCH or request.subscribed_topic_names is not None
    if says_everything or new.assigned != old.assigned:
        answer.assignment = _Assignment(
            [_TopicPartitions(topic_id, sorted(new.assigned[topic_id])) for topic_id in sorted(new.assigned)]
        )
        update.facts += delivered(groups, group, new)
    result = update.result(answer)
    is_settled = group.target_epoch == group.group_epoch and not group.soft.initializing_since_ms
    if answer.assignment is None and new is group.members.get(new.member_id) and is_settled and not result.records:
        group.soft.cached_heartbeats[new.member_id] = CachedHeartbeat(result, new, settings)
    return result


# --- the request ------------------------------------------------------------------------------------------------------


def _check(request: ShareGroupHeartbeatRequest) -> None:
    """Refuses requests that are invalid in every state. Raises INVALID_REQUEST."""
    for name, value in (("MemberId", request.member_id), ("GroupId", request.group_id), ("RackId", request.rack_id)):
        if value is not None and not value.strip():
            raise invalid(f"{name} can't be empty.")
    if request.member_epoch < LEAVING_EPOCH:
        raise invalid("MemberEpoch is invalid.")
    if request.member_epoch == JOINING_EPOCH and not request.subscribed_topic_names:
        raise invalid("SubscribedTopicNames must be set in first request.")


def _merge_request(old: ShareMember, request: ShareGroupHeartbeatRequest, context: RequestContext) -> ShareMember:
    """The member with the metadata of the request; the same object if they are not new."""
    names = request.subscribed_topic_names
    new = replace(
        old,
        rack_id=old.rack_id if request.rack_id is None else request.rack_id,
        client_id=context.client_id or "",
        client_host=context.client_host,
        topics=old.topics if names is None else frozenset(names),
    )
    return old if new == old else new


# --- the group and the member -----------------------------------------------------------------------------------------


def _group_to_join(groups: Groups, group_id: str, now_ms: int) -> ShareUpdate:
    """The share group, existing or new. No group of another kind becomes one, not even an empty one.

    Raises GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED (`limit.groups`).
    """
    if group_id in groups.by_id:
        return existing(ShareUpdate, groups, group_id, now_ms)
    groups.admit(group_id)
    return ShareUpdate(groups, ShareGroup(group_id), now_ms)


def _member(update: ShareUpdate, request: ShareGroupHeartbeatRequest) -> ShareMember:
    """The member that sends this heartbeat, with an epoch above 0. Raises UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH."""
    member = member_of(update.group, request.member_id)
    epoch, known, previous = request.member_epoch, member.member_epoch, member.previous_member_epoch
    if epoch in (known, previous):
        return member
    if epoch > known:
        how, why = "greater", ""
    else:
        how, why = "smaller", f", and it does not match the previous member epoch ({previous})"
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The share group member has a {how} member epoch ({epoch}) than the one known by the group coordinator "
        f"({known}){why}. The member must abandon all its partitions and rejoin.",
    )
