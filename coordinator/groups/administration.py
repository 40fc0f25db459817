"""Acts of an administrator on a group and its members, which no request of Kafka's protocol can ask for.

    evict            a member is removed, as if it had left, whatever it is doing
    expire_session   a member's session ends now: the same path, and the same event, as when its time has passed
    bump_epoch       the group gets a new generation or group epoch; its members stay as they are

The replies leave when the effect is durable: after a crash an evicted member is not a member again. What the members' next
requests get follows from the state, so it is what Kafka answers after its own removal of a member or its own next epoch.
offsets/expire_now.py has the act on offsets, force_rebalance.py the forced rebalance.
"""

from typing import NamedTuple

from coordinator.groups.group import Group
from coordinator.groups.state import Groups
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.runtime.internal_request import DONE
from coordinator.runtime.result import RequestContext, Result

EVICTED = "an administrator evicted a member"
EXPIRED = "an administrator ended a member's session"
BUMPED = "an administrator raised the epoch"
REMOVED = "an administrator removed a member"


def asked_by(context: RequestContext) -> str:
    """Who sends a request, for people: the principal and the client."""
    return f"{context.link.principal}, {context.client_id or 'a client without a name'} on {context.client_host[1:]}"


def asked_for(reason: str | None, who: str) -> str:
    """The reason of an act, with the administrator who asked for it."""
    return f"{reason or 'no reason given'}; asked for by {who}"


class ActOnMember(NamedTuple):
    """A request about one member. `reason` is for people: it is in the log, the event log and the group's view."""

    group_id: str
    member_id: str
    reason: str | None = None


class ActOnGroup(NamedTuple):
    """A request about a group. `reason`: as above."""

    group_id: str
    reason: str | None = None


class Bumped(NamedTuple):
    """The reply: the generation or group epoch that the group has now."""

    epoch: int


def evict(groups: Groups, request: ActOnMember, _context: RequestContext, now_ms: int) -> Result:
    """Removes the member; its parked requests get UNKNOWN_MEMBER_ID. Raises GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID."""
    group = _group_of_member(groups, request)
    result = groups.evict(group, request.member_id, EVICTED, request.reason, now_ms)
    return _durably_without(groups, group, request, EVICTED, result)


def expire_session(groups: Groups, request: ActOnMember, _context: RequestContext, now_ms: int) -> Result:
    """Removes the member as the end of its session does.

    Raises GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, and INVALID_REQUEST for a member whose session is suspended, because its
    JoinGroup or SyncGroup is parked.
    """
    group = _group_of_member(groups, request)
    result = groups.fire(groups.session_key(group, request.member_id), now_ms)
    if not result.facts:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "the member's session does not run while it waits for an answer to JoinGroup or SyncGroup",
        )
    return _durably_without(groups, group, request, EXPIRED, result)


def bump_epoch(groups: Groups, request: ActOnGroup, _context: RequestContext, now_ms: int) -> Result:
    """Raises the generation or group epoch by one; replies `Bumped`.

    Raises GROUP_ID_NOT_FOUND, and INVALID_REQUEST for a group without members, or a classic one that is about to have a new
    generation anyway (PreparingRebalance).
    """
    group = group_of(groups, request.group_id)
    if not group.members:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the group has no members; it is {group.state.value}")
    epoch = group.epoch + 1
    result = groups.bump_epoch(group, BUMPED, request.reason, now_ms)
    result.reply = Bumped(epoch)  # type: ignore[assignment]  # for an InternalRequest
    return result


def group_of(groups: Groups, group_id: str) -> Group:
    """The group of this id. Raises GROUP_ID_NOT_FOUND."""
    group = groups.by_id.get(group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, "no such group")
    return group


def _group_of_member(groups: Groups, request: ActOnMember) -> Group:
    group = group_of(groups, request.group_id)
    if request.member_id not in group.members:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "the group has no such member")
    return group


def _durably_without(groups: Groups, group: Group, request: ActOnMember, cause: str, result: Result) -> Result:
    """The result of a removal with the records without which a crash would bring the member back, and the reply."""
    if not result.records:
        result.records = groups.removal_records(group, request.member_id, cause, request.reason)
    result.reply = DONE
    return result
