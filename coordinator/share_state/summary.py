"""ReadShareGroupStateSummary: the start offset and the count of a share partition, for group coordinators and their lags.

It fences nobody, and a partition without a state is answered like one that was never read (ShareCoordinatorShard).
"""

from typing import Any, NamedTuple

from coordinator.runtime.result import RequestContext, Result
from coordinator.share_state.share_state import (
    UNINITIALIZED_EPOCH,
    UNINITIALIZED_START_OFFSET,
    UNKNOWN_COUNT,
    SharePartition,
    Summary,
)
from coordinator.share_state.state import States, check_partition

_WITHOUT_STATE = Summary(UNINITIALIZED_EPOCH, UNINITIALIZED_EPOCH, UNINITIALIZED_START_OFFSET, UNKNOWN_COUNT)


class SummaryWanted(NamedTuple):
    """What is asked for."""

    key: SharePartition
    leader_epoch: int
    """Of the leader that the group coordinator knows. None is too old for a summary."""


def read_summary(states: States, wanted: SummaryWanted, _context: RequestContext, _now_ms: int) -> Result:
    """Replies a Summary. Raises INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION."""
    key = wanted.key
    check_partition(key)
    states.check_exists(key)
    kept = states.by_key.get(key)
    summary: Any = _WITHOUT_STATE
    if kept is not None:
        state = kept.state
        summary = Summary(state.state_epoch, state.leader_epoch, state.start_offset, state.delivery_complete_count)
    return Result(summary)
