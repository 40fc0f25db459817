"""ReadShareGroupState: a leader takes over the state of a share partition (ShareCoordinatorShard).

The epoch of a new leader is stored before the answer leaves, so that a leader of before can write nothing that the new one has
not read.
"""

from typing import Any, NamedTuple

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.runtime.result import RequestContext, Result
from coordinator.share_state.share_state import SharePartition, ShareState
from coordinator.share_state.state import FENCED_LEADER, NEGATIVE_LEADER_EPOCH, States, check_partition
from coordinator.share_state.write import Write, write_record

API_NAME = "ReadShareGroupState"
_UNINITIALIZED = "Read operation on uninitialized share partition not allowed."


class Read(NamedTuple):
    """What is asked for."""

    key: SharePartition
    leader_epoch: int


def read(states: States, wanted: Read, _context: RequestContext, now_ms: int) -> Result:
    """Replies a ShareState. Raises INVALID_REQUEST, FENCED_LEADER_EPOCH, UNKNOWN_TOPIC_OR_PARTITION."""
    key, leader_epoch = wanted
    check_partition(key)
    if leader_epoch < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, NEGATIVE_LEADER_EPOCH)
    kept = states.by_key.get(key)
    if kept is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, _UNINITIALIZED)
    if leader_epoch < kept.leader_epoch:
        raise states.fence(API_NAME, ErrorCode.FENCED_LEADER_EPOCH, FENCED_LEADER)
    states.check_exists(key)
    state = kept.state
    reply: Any = ShareState(state.state_epoch, state.start_offset, state.delivery_complete_count, tuple(state.batches))
    if leader_epoch == kept.leader_epoch:
        return Result(reply)
    count = state.delivery_complete_count
    nothing = Write(key, state.state_epoch, leader_epoch, state.start_offset, count, ())
    return Result(reply, [write_record(states, kept, nothing, leader_epoch, now_ms)])
