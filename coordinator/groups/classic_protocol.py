"""The four requests of the classic protocol, for groups of any kind.

    JoinGroup, SyncGroup, Heartbeat, LeaveGroup -> the operation for the group's kind

A classic group serves its own members (classic/). A consumer group also serves members that still speak the classic protocol
(migration/classic_members.py; KIP-848). Streams and share groups have no such members: to the classic protocol they look like
an unknown group, except that a streams group cannot be joined while it has members, and a share group never. These functions
check what does not depend on the kind, in Kafka's order, except that `requests/` refuses an empty group id, whoever has its
shard. They mirror `GroupMetadataManager.classicGroupJoin`, `classicGroupSync`, `classicGroupHeartbeat` and `classicGroupLeave`.
"""

from collections.abc import Callable
from typing import Any

from coordinator.groups.classic import heartbeat as classic_heartbeat
from coordinator.groups.classic import join as classic_join
from coordinator.groups.classic import leave as classic_leave
from coordinator.groups.classic import sync as classic_sync
from coordinator.groups.classic.leader_extensions import uses_extension
from coordinator.groups.classic.responses import join_error
from coordinator.groups.events import refused_classic
from coordinator.groups.kinds import Kind
from coordinator.groups.migration import classic_members
from coordinator.groups.state import Groups
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from coordinator.runtime.result import RequestContext, Result


def join_group(groups: Groups, request: JoinGroupRequest, context: RequestContext, now_ms: int) -> Result:
    """Joins the group; the reply is None while the join is parked.

    Raises: INVALID_SESSION_TIMEOUT, and what the kind's operation raises.
    """
    try:
        return _join(groups, request, context, now_ms)
    except KafkaError as error:
        error.facts = refused_classic(groups, request, error)
        raise


def _join(groups: Groups, request: JoinGroupRequest, context: RequestContext, now_ms: int) -> Result:
    config = groups.config
    if not config.group_min_session_timeout_ms <= request.session_timeout_ms <= config.group_max_session_timeout_ms:
        low, high = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
        asked = f"a session timeout of {request.session_timeout_ms} ms is not between {low} and {high} ms"
        raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT, asked)
    group = groups.by_id.get(request.group_id)
    if group is not None and (group.members or not group.has_offsets):
        return _JOIN[group.kind](groups, group, request, context, now_ms)
    return classic_join.join(groups, request, context, now_ms)


def sync_group(groups: Groups, request: SyncGroupRequest, context: RequestContext, now_ms: int) -> Result:
    """Answers with the member's assignment; the reply is None while the request is parked.

    Raises: UNKNOWN_MEMBER_ID, INVALID_REQUEST (a leader's extension, in a group without a leader), and what the kind's
    operation raises.
    """
    try:
        return _sync(groups, request, context, now_ms)
    except KafkaError as error:
        error.facts = refused_classic(groups, request, error)
        raise


def _sync(groups: Groups, request: SyncGroupRequest, context: RequestContext, now_ms: int) -> Result:
    group = groups.by_id.get(request.group_id)
    if group is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    if group.kind is not Kind.CLASSIC and uses_extension(request):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the group has no leader: the coordinator assigns")
    group.note_link(request.member_id, context.link)
    return _SYNC[group.kind](groups, group, request, context, now_ms)


def heartbeat(groups: Groups, request: HeartbeatRequest, context: RequestContext, now_ms: int) -> Result:
    """Restarts the member's session. Replies UNKNOWN_MEMBER_ID, or as the kind's operation."""
    group = groups.by_id.get(request.group_id)
    if group is None:
        return classic_heartbeat.unknown_member(groups, request)
    group.note_link(request.member_id, context.link)
    return _HEARTBEAT[group.kind](groups, group, request, context, now_ms)


def leave_group(groups: Groups, request: LeaveGroupRequest, context: RequestContext, now_ms: int) -> Result:
    """Removes the named members, each with a result of its own."""
    group = groups.by_id.get(request.group_id)
    if group is None:
        return classic_leave.leave(groups, None, request, context, now_ms)
    return _LEAVE[group.kind](groups, group, request, context, now_ms)


# --- the kinds --------------------------------------------------------------------------------------------------------


def _join_classic(
    groups: Groups, group: Any, request: JoinGroupRequest, context: RequestContext, now_ms: int
) -> Result:
    return classic_join.join(groups, request, context, now_ms)


def _join_other(groups: Groups, group: Any, request: JoinGroupRequest, context: RequestContext, now_ms: int) -> Result:
    return Result(join_error(context.api_version, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ""))


def _sync_other(groups: Groups, group: Any, request: SyncGroupRequest, context: RequestContext, now_ms: int) -> Result:
    raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)


def _heartbeat_other(
    groups: Groups, group: Any, request: HeartbeatRequest, context: RequestContext, now_ms: int
) -> Result:
    return classic_heartbeat.unknown_member(groups, request)


def _leave_other(
    groups: Groups, group: Any, request: LeaveGroupRequest, context: RequestContext, now_ms: int
) -> Result:
    return classic_leave.leave(groups, None, request, context, now_ms)


_Serve = Callable[[Groups, Any, Any, RequestContext, int], Result]
"""`serve(groups, group, request, context, now_ms)`; the group is of the kind that the table's index says."""

_JOIN: tuple[_Serve, ...] = (_join_classic, classic_members.join, _join_other, _join_other)
_SYNC: tuple[_Serve, ...] = (classic_sync.sync, classic_members.sync, _sync_other, _sync_other)
_HEARTBEAT: tuple[_Serve, ...] = (
    classic_heartbeat.heartbeat, classic_members.heartbeat, _heartbeat_other, _heartbeat_other,
)  # fmt: skip
_LEAVE: tuple[_Serve, ...] = (classic_leave.leave, classic_members.leave, _leave_other, _leave_other)
