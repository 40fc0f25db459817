"""The records of `__share_group_state`, in Kafka's format (ShareCoordinatorRecordHelpers).

A snapshot has the whole state of a share partition, an update what one write adds to it. So the log must not be compacted: an
update is needed until the next snapshot, although others with the same key follow. What lies before the last snapshot of every
partition is deleted instead (snapshots.py).
"""

from collections.abc import Iterable
from typing import NamedTuple

from coordinator.protocol.messages import ShareSnapshotKey, ShareSnapshotValue, ShareUpdateKey, ShareUpdateValue
from coordinator.runtime.result import Record
from coordinator.share_state.batches import NO_BATCHES, Batches
from coordinator.share_state.share_state import UNKNOWN_COUNT, Batch, SharePartition


class StoredState(NamedTuple):
    """The content of a snapshot (Kafka's ShareGroupOffset)."""

    snapshot_epoch: int
    """Counts the snapshots since the state was made."""
    state_epoch: int
    leader_epoch: int
    """The epoch of the last leader that has read the state; writes do not change it."""
    start_offset: int
    delivery_complete_count: int
    batches: Batches
    create_ms: int
    write_ms: int
    """Later than `create_ms` only in a snapshot that was made because the last one was old."""


def snapshot_record(key: SharePartition, state: StoredState) -> Record:
    value = ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.create_ms,
        write_timestamp=state.write_ms,
        state_batches=[ShareSnapshotValue.StateBatch(*each) for each in state.batches],
    )
    return Record(ShareSnapshotKey(*key), value)


def update_record(
    key: SharePartition,
    state: StoredState,
    *,
    leader_epoch: int,
    start_offset: int,
    delivery_complete_count: int,
    batches: Iterable[Batch],
) -> Record:
    """The record of a write. `state`: what it is written into."""
    value = ShareUpdateValue(
        snapshot_epoch=state.snapshot_epoch,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=delivery_complete_count,
        state_batches=[ShareUpdateValue.StateBatch(*each) for each in batches],
    )
    return Record(ShareUpdateKey(*key), value)


def tombstone(key: SharePartition) -> Record:
    return Record(ShareSnapshotKey(*key), None)


def batches_of(value: ShareSnapshotValue | ShareUpdateValue) -> Iterable[Batch]:
    """The batches of a record."""
    for each in value.state_batches:
        yield Batch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)


def merge_base(value: ShareUpdateValue) -> StoredState:
    """What an update is merged into whose snapshot is not in the log: a state of nothing but its snapshot epoch."""
    return StoredState(value.snapshot_epoch, 0, value.leader_epoch, value.start_offset, UNKNOWN_COUNT, NO_BATCHES, 0, 0)
