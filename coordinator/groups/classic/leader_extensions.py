"""What the leader of a classic group may do beyond Kafka: the requests that ask for it, and what a group remembers of them.

    Resync       the leader replaces the assignments of the current generation (resync.py)
    ErrorCode    the leader cannot assign, and says why (assignment_failure.py)

Both come from the proposal of client-side assignment (KAFKA-2464) and are fields of SyncGroup: tagged ones, which Kafka's
clients never send, and plain ones in SyncGroup v6 of the dialect `client-side-assignment`. A request without them is served as
by Kafka.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import SyncGroupRequest

REASON_CHARS_MAX = 255
"""A longer message of a leader is cut, as the reasons of clients are (KIP-800)."""

FAILURES = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
    }
)
"""The errors that a leader may give its members. All others make some client act on its membership, or try again at once."""


class AssignmentFailure(NamedTuple):
    """The leader's answer to the question who gets what: it cannot say."""

    generation: int
    leader_id: str
    error: ErrorCode
    message: str | None
    failed_ms: int


@dataclass(slots=True)
class Resync:
    """A resync that waits for members to give up their earlier assignment."""

    leader_id: str
    generation: int
    started_ms: int
    assignments: dict[str, bytes]
    """Member id -> the new assignment, for members whose assignment changes."""
    called: dict[str, None]
    """The members among them that have not joined again, and may still use what they have."""
    awaited: dict[str, None]
    """The members among them that have not asked for it, in the order of the group: those called, and those between JoinGroup
    and SyncGroup."""
    waits: dict[str, int] = field(default_factory=dict)
    """Member id -> how long the group waited for it (ms)."""


def uses_extension(request: SyncGroupRequest) -> bool:
    return request.resync != 0 or request.error_code != ErrorCode.NONE


def fence_extension(
    request: SyncGroupRequest, members: Collection[str], resyncs: int, *, is_leader: bool, is_assigned: bool
) -> None:
    """Returns if the member may ask for what its SyncGroup asks for.

    `members`, `resyncs`: those of the generation; `is_assigned`: it has its assignments. Resyncs are numbered, so that one that
    was under way for long does not undo a later one. Raises INVALID_REQUEST with the reason.
    """
    if not uses_extension(request):
        return
    reason = None
    if not is_leader:
        reason = "only the leader may resync or say that it cannot assign"
    elif request.error_code != ErrorCode.NONE:
        if request.resync or request.assignments:
            reason = "a leader that cannot assign sends no assignments"
        elif request.error_code not in FAILURES:
            reason = f"a leader may not give its members the error {request.error_code}"
        elif is_assigned:
            reason = "the generation is assigned already"
    elif is_assigned and {each.member_id for each in request.assignments} != set(members):
        reason = "a resync has an assignment for each member and no other"
    elif is_assigned and request.resync != resyncs + 1:
        reason = f"the next resync of the generation is number {resyncs + 1}"
    if reason is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, reason)
