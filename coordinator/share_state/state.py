"""The share partitions of one shard of `__share_group_state`: the state that every operation works on.

    operation(states, request, context, now_ms) -> Result   share_state/<operation>.py
    states.replay(record)                                   the only way the durable state changes

Mirrors Kafka's ShareCoordinatorShard. machine.py completes the class with time: loading and timers.
"""

from collections.abc import Callable
from typing import Any, Protocol

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ShareSnapshotKey, ShareSnapshotValue, ShareUpdateValue
from coordinator.runtime.result import Record
from coordinator.share_state.batches import NO_BATCHES, merged
from coordinator.share_state.records import StoredState, batches_of, merge_base
from coordinator.share_state.settings import ShareStateConfig
from coordinator.share_state.share_state import SharePartition

NEGATIVE_PARTITION = "The partition id cannot be a negative number."
NEGATIVE_LEADER_EPOCH = "The leader epoch cannot be a negative number."
NEGATIVE_STATE_EPOCH = "The state epoch cannot be a negative number."
FENCED_LEADER = "The leader epoch in the request is older than the epoch on the broker."
FENCED_STATE = "The coordinator rejected the request because the state epoch did not match."
UNINITIALIZED = "Write operation on uninitialized share partition not allowed."
UNKNOWN_PARTITION = "This server does not host this topic-partition."

FENCING_APIS = ("InitializeShareGroupState", "ReadShareGroupState", "WriteShareGroupState")
"""The APIs by which fenced requests are counted."""


class TopicPartitions(Protocol):
    """The topics, as far as the share coordinator asks for them."""

    def partitions_of(self, topic_id: bytes) -> int:
        """The number of partitions of a topic; 0 if there is none with this id."""
        ...


class Kept:
    """A share partition, with what only the order of its records says."""

    __slots__ = ("leader_epoch", "snapshot_offset", "state", "state_epoch", "updates")

    def __init__(self, state: StoredState, offset: int) -> None:
        self.state = state
        self.leader_epoch = state.leader_epoch
        """The highest of any record: a state that is begun again has 0, and earlier leaders stay fenced."""
        self.state_epoch = state.state_epoch
        """The highest of any snapshot."""
        self.updates = 0
        """Updates since the last snapshot that came because they were many. One that begins the state again does not count."""
        self.snapshot_offset = offset
        """The last snapshot is at this offset or later, and nothing before it is needed."""


class States:
    """The share partitions of one shard."""

    __slots__ = ("by_key", "config", "fenced", "last_offset", "position", "prune", "topics", "writes")

    def __init__(
        self,
        config: ShareStateConfig,
        topics: TopicPartitions,
        position: Callable[[], int],
        prune: Callable[[int], None],
    ) -> None:
        """`position()`: an offset at or shortly before the one of the record that is being replayed.

        `prune(offset)`: deletes the log's records before an offset.
        """
        self.config = config
        self.topics = topics
        self.position = position
        self.prune = prune
        self.by_key: dict[SharePartition, Kept] = {}
        self.last_offset = 0
        """The position of the last snapshot or tombstone."""
        self.writes = 0
        """Writes of leaders since the load, for metrics."""
        self.fenced: dict[str, int] = {}
        """Requests that were fenced since the load, by API, for metrics."""

    def replay(self, record: Record) -> None:
        """Applies a record: the only way in which the durable state changes."""
        key: Any = record.key
        value: Any = record.value
        partition = SharePartition(key.group_id, key.topic_id, key.partition)
        if not isinstance(key, ShareSnapshotKey):
            if value is not None:
                self._replay_update(partition, value)
        elif value is None:
            self.last_offset = self.position()
            self.by_key.pop(partition, None)
        else:
            self._replay_snapshot(partition, value)

    def _replay_snapshot(self, partition: SharePartition, value: ShareSnapshotValue) -> None:
        state = StoredState(
            value.snapshot_epoch,
            value.state_epoch,
            value.leader_epoch,
            value.start_offset,
            value.delivery_complete_count,
            merged(NO_BATCHES, batches_of(value), value.start_offset),
            value.create_timestamp,
            value.write_timestamp,
        )
        offset = self.last_offset = self.position()
        kept = self.by_key.get(partition)
        if kept is None:
            self.by_key[partition] = Kept(state, offset)
            return
        kept.state, kept.snapshot_offset = state, offset
        kept.leader_epoch = max(kept.leader_epoch, state.leader_epoch)
        kept.state_epoch = max(kept.state_epoch, state.state_epoch)
        if kept.updates >= self.updates_max:
            kept.updates = 0

    def _replay_update(self, partition: SharePartition, value: ShareUpdateValue) -> None:
        kept = self.by_key.get(partition)
        if kept is None:
            # The log begins behind its snapshot, and a later one or a tombstone follows.
            kept = self.by_key[partition] = Kept(merge_base(value), self.position())
        before = kept.state
        start_offset = before.start_offset if value.start_offset == -1 else value.start_offset
        kept.state = before._replace(
            start_offset=start_offset,
            delivery_complete_count=value.delivery_complete_count,
            leader_epoch=before.leader_epoch if value.leader_epoch == -1 else value.leader_epoch,
            batches=merged(before.batches, batches_of(value), start_offset),
        )
        kept.leader_epoch = max(kept.leader_epoch, value.leader_epoch)
        kept.updates += 1

    @property
    def updates_max(self) -> int:
        """How many updates follow a snapshot until the next one."""
        return self.config.share_coordinator_snapshot_update_records_per_snapshot

    def check_exists(self, key: SharePartition) -> None:
        """Raises UNKNOWN_TOPIC_OR_PARTITION if there is no such partition (any more)."""
        if key.partition >= self.topics.partitions_of(key.topic_id):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_PARTITION)

    def fence(self, api: str, code: ErrorCode, text: str) -> KafkaError:
        """The refusal of a request that is fenced, which is counted."""
        self.fenced[api] = self.fenced.get(api, 0) + 1
        return KafkaError(code, text)


def check_partition(key: SharePartition) -> None:
    """Raises INVALID_REQUEST for a negative partition."""
    if key.partition < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, NEGATIVE_PARTITION)
