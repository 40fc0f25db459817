"""InitializeShareGroupState: makes the state of a share partition, or begins it again (ShareCoordinatorShard.initializeState).

The group coordinator asks for it when a share group subscribes to a topic, and to set the group's offset. A state that is begun
again has no batches and no leader; leaders of before stay fenced.
"""

from typing import NamedTuple

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.runtime.internal_request import DONE
from coordinator.runtime.result import RequestContext, Result
from coordinator.share_state import snapshots
from coordinator.share_state.batches import NO_BATCHES
from coordinator.share_state.records import StoredState, snapshot_record
from coordinator.share_state.share_state import UNINITIALIZED_START_OFFSET, UNKNOWN_COUNT, SharePartition
from coordinator.share_state.state import FENCED_STATE, NEGATIVE_STATE_EPOCH, States, check_partition

API_NAME = "InitializeShareGroupState"


class Initialization(NamedTuple):
    """What is asked for."""

    key: SharePartition
    state_epoch: int
    start_offset: int


def initialize(states: States, wanted: Initialization, _context: RequestContext, now_ms: int) -> Result:
    """Replies DONE. Raises INVALID_REQUEST, FENCED_STATE_EPOCH, UNKNOWN_TOPIC_OR_PARTITION."""
    key = wanted.key
    check_partition(key)
    if wanted.state_epoch < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, NEGATIVE_STATE_EPOCH)
    kept = states.by_key.get(key)
    if kept is not None and wanted.state_epoch < kept.state_epoch:
        raise states.fence(API_NAME, ErrorCode.FENCED_STATE_EPOCH, FENCED_STATE)
    states.check_exists(key)
    state = StoredState(
        snapshot_epoch=0 if kept is None else kept.state.snapshot_epoch + 1,
        state_epoch=wanted.state_epoch,
        leader_epoch=0,
        start_offset=wanted.start_offset,
        delivery_complete_count=UNKNOWN_COUNT if wanted.start_offset == UNINITIALIZED_START_OFFSET else 0,
        batches=NO_BATCHES,
        create_ms=now_ms,
        write_ms=now_ms,
    )
    return Result(DONE, [snapshot_record(key, state)], () if states.by_key else snapshots.timers(states.config))
