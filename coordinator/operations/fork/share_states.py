"""The states of share partitions, read from `__share_group_state` as a load does.

They are read after the groups. A group notes a share partition when its state is durable, so a state is found for all that it
knows, but for what was deleted meanwhile; what the group does not know yet is left out. So a group of the fork knows exactly
the share partitions that have a state, and asks for the others when a member subscribes to their topics.
"""

from collections.abc import Iterator, Mapping

from coordinator.groups.machine import RECORD_KEYS as GROUP_RECORD_KEYS
from coordinator.groups.share import records
from coordinator.groups.share.initialized import Initialized, StatePartitions
from coordinator.log.batch import BatchHeader, CorruptBatch, UnsupportedCompression
from coordinator.operations.fork import ForkFailed
from coordinator.operations.fork.groups_read import GroupRecord
from coordinator.protocol.codec import Codec, DecodeError
from coordinator.runtime.loader import BatchReplayer, Loaded
from coordinator.runtime.serde import Serde, UnknownRecordVersion
from coordinator.share_state.machine import RECORD_KEYS, ShareStateMachine
from coordinator.share_state.records import StoredState, snapshot_record
from coordinator.share_state.settings import ShareStateConfig
from coordinator.share_state.share_state import SharePartition

ShareStates = dict[SharePartition, StoredState]


class _NoTopics:
    """A replay does not ask for any."""

    def partitions_of(self, _topic_id: bytes) -> int:
        return 0


class StatesReader:
    """Replays the batches of one partition."""

    def __init__(self) -> None:
        self._states = ShareStateMachine(ShareStateConfig(), _NoTopics(), lambda: 0, lambda _offset: None)
        self._replayer = BatchReplayer(Serde(Codec.of(None), RECORD_KEYS), self._states, Loaded())

    def visit(self, buffer: bytes, position: int, header: BatchHeader, where: str) -> None:
        """Replays a batch. Raises ForkFailed if it cannot be understood."""
        try:
            self._replayer.replay(buffer, position, header)
        except (CorruptBatch, UnsupportedCompression, DecodeError, UnknownRecordVersion) as error:
            raise ForkFailed(f"{where}: a record of the batch at offset {header.base_offset}: {error}") from error

    def states(self, groups: Mapping[str, StatePartitions]) -> ShareStates:
        """The states that these groups know. No leader has read them: here every partition has epoch 0."""
        known = {group_id: set(group.partitions) for group_id, group in groups.items()}
        return {
            key: each.state._replace(leader_epoch=0)
            for key, each in self._states.by_key.items()
            if (key.topic_id, key.partition) in known.get(key.group_id, ())
        }


def state_records(states: ShareStates) -> Iterator[tuple[SharePartition, bytes, bytes]]:
    """A snapshot of each state: its key and value."""
    serde = Serde(Codec.of(None), RECORD_KEYS)
    for key, state in states.items():
        record_key, value = serde.encode(snapshot_record(key, state))
        assert value is not None
        yield key, record_key, value


def group_records(groups: Mapping[str, StatePartitions], states: ShareStates) -> Iterator[GroupRecord]:
    """What each group notes about its share partitions: those that have a state."""
    serde = Serde(Codec.of(None), GROUP_RECORD_KEYS)
    for group_id, known in groups.items():
        found = {
            topic_id: Initialized(
                topic.name,
                frozenset(each for each in topic.partitions if SharePartition(group_id, topic_id, each) in states),
            )
            for topic_id, topic in known.all_topics.items()
        }
        found = {topic_id: topic for topic_id, topic in found.items() if topic.partitions}
        key, value = serde.encode(records.state_partitions(group_id, StatePartitions({}, found, {})))
        assert value is not None
        yield GroupRecord(group_id, key, value)
