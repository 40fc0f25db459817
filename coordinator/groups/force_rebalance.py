"""An administrator's rebalance of a group of any kind (docs/operations.md; KIP-568 lists it among the rejected alternatives).

It needs no member's help and no change in the group. The reply leaves when the rebalance is durable: after a crash the group
still rebalances.
"""

from typing import NamedTuple

from coordinator.groups.kinds import Kind
from coordinator.groups.state import Groups
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.runtime.result import RequestContext, Result

CAUSE = "an administrator forced a rebalance"
REASON_CHARS_MAX = 255
"""As much as a client's reason (KIP-800) may have."""


class ForceRebalance(NamedTuple):
    """The request. `reason` is for people: it is in the log, the event log and the group's view."""

    group_id: str
    reason: str


class Forced(NamedTuple):
    """The reply. `epoch`: the generation or group epoch to which the rebalance leads; None if the group was at the start of
    one already, and nothing was done."""

    kind: Kind
    state: str
    """The group's state before."""
    epoch: int | None


def force_rebalance(groups: Groups, request: ForceRebalance, _context: RequestContext, now_ms: int) -> Result:
    """Starts a rebalance of the group.

    Raises GROUP_ID_NOT_FOUND, and INVALID_REQUEST for a group without members, which has nothing to rebalance.
    """
    group = groups.by_id.get(request.group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, "no such group")
    state, epoch = group.state.value, group.epoch + 1
    if not group.members:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the group has no members to rebalance; it is {state}")
    result = groups.start_rebalance(group, CAUSE, request.reason, now_ms)
    if result is None:
        return Result(Forced(group.kind, state, None))  # type: ignore[arg-type]  # for an InternalRequest
    result.reply = Forced(group.kind, state, epoch)  # type: ignore[assignment]  # as above
    return result
