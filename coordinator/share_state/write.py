"""WriteShareGroupState: the leader of a share partition adds what its members acknowledged (ShareCoordinatorShard.writeState).

A write becomes an update, and after many updates a snapshot. Its epochs are compared, and not stored: a snapshot keeps the
state epoch of the initialization and the leader epoch of the last read. Start offsets only grow.
"""

from collections.abc import Sequence
from typing import NamedTuple

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.runtime.internal_request import DONE
from coordinator.runtime.result import Record, RequestContext, Result
from coordinator.share_state.batches import merged, normalized
from coordinator.share_state.records import snapshot_record, update_record
from coordinator.share_state.share_state import Batch, SharePartition
from coordinator.share_state.state import (
    FENCED_LEADER,
    FENCED_STATE,
    NEGATIVE_LEADER_EPOCH,
    NEGATIVE_STATE_EPOCH,
    UNINITIALIZED,
    Kept,
    States,
    check_partition,
)

API_NAME = "WriteShareGroupState"
_INVERTED = "A state batch ends before it begins."


class Write(NamedTuple):
    """What is asked for."""

    key: SharePartition
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: Sequence[Batch]


def write(states: States, wanted: Write, _context: RequestContext, now_ms: int) -> Result:
    """Replies DONE. Raises INVALID_REQUEST, FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH, UNKNOWN_TOPIC_OR_PARTITION."""
    key = wanted.key
    check_partition(key)
    if wanted.leader_epoch < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, NEGATIVE_LEADER_EPOCH)
    if wanted.state_epoch < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, NEGATIVE_STATE_EPOCH)
    kept = states.by_key.get(key)
    if kept is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, UNINITIALIZED)
    if wanted.leader_epoch < kept.leader_epoch:
        raise states.fence(API_NAME, ErrorCode.FENCED_LEADER_EPOCH, FENCED_LEADER)
    if wanted.state_epoch < kept.state_epoch:
        raise states.fence(API_NAME, ErrorCode.FENCED_STATE_EPOCH, FENCED_STATE)
    states.check_exists(key)
    if any(each.last_offset < each.first_offset for each in wanted.batches):
        # Kafka answers such a batch by a failure of its merge, or stores it if there is no other.
        raise KafkaError(ErrorCode.INVALID_REQUEST, _INVERTED)
    states.writes += 1
    return Result(DONE, [write_record(states, kept, wanted, kept.state.leader_epoch, now_ms)])


def write_record(states: States, kept: Kept, wanted: Write, leader_epoch: int, now_ms: int) -> Record:
    """The record of a write: an update, or a snapshot if it is time for one."""
    before = kept.state
    start_offset, count = max(wanted.start_offset, before.start_offset), wanted.delivery_complete_count
    # A count belongs to a start offset: of two for the same one the higher is newer.
    if wanted.start_offset == before.start_offset:
        count = max(count, before.delivery_complete_count)
    elif wanted.start_offset < before.start_offset:
        count = before.delivery_complete_count
    if kept.updates < states.updates_max:
        return update_record(
            wanted.key,
            before,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=count,
            batches=normalized(wanted.batches, start_offset),
        )
    state = before._replace(
        snapshot_epoch=before.snapshot_epoch + 1,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=count,
        batches=merged(before.batches, wanted.batches, start_offset),
        create_ms=now_ms,
        write_ms=now_ms,
    )
    return snapshot_record(wanted.key, state)
