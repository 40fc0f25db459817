"""A leader that cannot assign says so, and why; every member of its generation receives the error (an extension).

The generation stays as it is, CompletingRebalance, and has failed for good: parked SyncGroups and later ones are answered with
the leader's error, commits with REBALANCE_IN_PROGRESS. Any JoinGroup starts the next rebalance, even one with unchanged
metadata, which otherwise receives the current generation. Members that do nothing are removed as always: by the sync timer if
they never asked for their assignment, by their session otherwise.

A plain client sees the error alone. Only errors are allowed on which no known client joins again at once by itself
(leader_extensions.py): the leader would fail again at once.

Nothing of this is durable. After a crash the generation waits for its leader as if it had not answered, or for any join.
"""

from coordinator.groups.classic.group import ClassicGroup
from coordinator.groups.classic.leader_extensions import REASON_CHARS_MAX, AssignmentFailure
from coordinator.groups.update import GroupUpdate
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    AssignmentFailedKey,
    AssignmentFailedValue,
    SyncGroupRequest,
    SyncGroupResponse,
)
from coordinator.runtime.result import Event, MessageEvent


def fail_generation(group: ClassicGroup, request: SyncGroupRequest, now_ms: int, update: GroupUpdate) -> None:
    """Ends the generation without assignments and answers all parked members."""
    message = request.error_message[:REASON_CHARS_MAX] if request.error_message else None
    error = ErrorCode(request.error_code)
    group.failure = failure = AssignmentFailure(group.generation, request.member_id, error, message, now_ms)
    for member in group.members.values():
        context = group.unpark_sync(member)
        if context is not None:
            update.answer(context, failure_response(failure))
            update.timers.append(member.session_timer)
    if group.rebalances:
        group.rebalances[-1].end(now_ms)
        group.rebalances[-1].failure = failure
    update.emit(
        "assignment_failed",
        _event(group, failure),
        generation=group.generation,
        leader=request.member_id,
        error=error.name,
        reason=message,
    )


def _event(group: ClassicGroup, failure: AssignmentFailure) -> Event:
    value = AssignmentFailedValue(
        epoch=failure.generation,
        member_id=failure.leader_id,
        members=len(group.members),
        error_code=failure.error,
        reason=failure.message,
    )
    return MessageEvent(AssignmentFailedKey(group.group_id), value)


def failure_response(failure: AssignmentFailure) -> SyncGroupResponse:
    """The leader's error, for any member of the generation, the leader included."""
    return SyncGroupResponse(error_code=failure.error, error_message=failure.message)
