"""The durable state of a share partition (KIP-932), and what its leader may ask the share coordinator about it.

A share partition is a topic's partition as one share group sees it: the records before its start offset are done with, and
those after it are available unless a batch says otherwise. The share coordinator keeps this and decides nothing; the leader of
the share partition acquires records and gives them out.
"""

from collections.abc import Awaitable, Sequence
from typing import NamedTuple, Protocol

from coordinator.protocol.errors import ErrorCode

UNINITIALIZED_EPOCH = 0
UNINITIALIZED_START_OFFSET = -1
"""Of a partition without a start offset: its leader chooses one by share.auto.offset.reset."""
UNKNOWN_COUNT = -1
"""The delivery complete count of a writer that does not know this field."""


class SharePartition(NamedTuple):
    """The key of a state."""

    group_id: str
    topic_id: bytes
    partition: int


class Batch(NamedTuple):
    """Offsets with one state: both ends are inclusive."""

    first_offset: int
    last_offset: int
    delivery_state: int
    """0 available, 2 acknowledged, 4 archived. Acquired (1) is a lock, which the leader keeps in memory."""
    delivery_count: int


class ShareState(NamedTuple):
    """What a leader reads. The batches are ascending, do not overlap and are none that end before the start offset."""

    state_epoch: int
    start_offset: int
    delivery_complete_count: int
    """How many offsets from the start offset on are acknowledged or archived; UNKNOWN_COUNT if no writer said it."""
    batches: Sequence[Batch]


class Summary(NamedTuple):
    """What a group coordinator reads, for lags and for the offsets of a group."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int


class ShareStates(Protocol):
    """The share coordinator as callers in this process see it (Kafka's Persister).

    A method begins at its call, also if nobody awaits what it returns. The outcome comes when everything that it depends on is
    durable, in the order of the calls for a partition. Errors are outcomes; nothing raises. After COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE and NOT_COORDINATOR the caller may try again, and must take into account that a write may have
    happened: to write the same again does no harm. UNKNOWN_TOPIC_OR_PARTITION: the topic does not exist (any more).
    """

    def initialize(self, key: SharePartition, state_epoch: int, start_offset: int) -> Awaitable[ErrorCode]:
        """Makes the state, or begins it again: no batches, this start offset. FENCED_STATE_EPOCH if the epoch is stale."""
        ...

    def read(self, key: SharePartition, leader_epoch: int) -> Awaitable[ShareState | ErrorCode]:
        """Reads the state for a leader, and fences earlier leaders.

        FENCED_LEADER_EPOCH if the epoch is stale, INVALID_REQUEST if there is no state.
        """
        ...

    def write(
        self,
        key: SharePartition,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[Batch],
    ) -> Awaitable[ErrorCode]:
        """Merges batches into the state. Where they overlap it, the higher delivery count wins, then the higher state.

        The start offset grows or stays, also if `start_offset` is smaller or -1; batches before it are dropped.
        FENCED_LEADER_EPOCH and FENCED_STATE_EPOCH if an epoch is stale, INVALID_REQUEST if there is no state.
        """
        ...

    def summary(self, key: SharePartition, leader_epoch: int) -> Awaitable[Summary | ErrorCode]:
        """Reads the state without its batches, and fences nobody. Without a state: epochs 0, start offset and count -1."""
        ...

    def delete(self, key: SharePartition) -> Awaitable[ErrorCode]:
        """Deletes the state. NONE if there is none."""
        ...
