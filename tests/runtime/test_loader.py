"""A log with transactions, written by Kafka or by this server, loads to the right state; open ones stay open."""

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.groups.machine import RECORD_KEYS, GroupMachine
from coordinator.groups.offsets.value import NO_TOPIC_ID
from coordinator.groups.settings import GroupsConfig
from coordinator.log.batch_builder import BatchBuilder
from coordinator.log.end_transaction_marker import end_transaction
from coordinator.log.log import Log, LogSettings
from coordinator.protocol.codec import Codec
from coordinator.protocol.messages import OffsetCommitKey, OffsetCommitValue
from coordinator.runtime.loader import load
from coordinator.runtime.result import Record
from coordinator.runtime.serde import Serde
from coordinator_lab.simulation.disk import SimulatedDisk
from tests.support.catalog import Catalog

TRANSACTIONAL = 1 << 4
SERDE = Serde(Codec.of(None), RECORD_KEYS)


def offset_record(partition, offset):
    return Record(OffsetCommitKey("g", "t", partition), OffsetCommitValue(offset, -1, "", 1, -1, NO_TOPIC_ID), 4)


class History:
    """Writes a log, and keeps a naive model of its meaning."""

    def __init__(self):
        disk = SimulatedDisk()
        self.log = Log.open(disk, "data/__consumer_offsets-0", LogSettings(segment_ms=None, retention_ms=None))
        self.meaning = {}
        self.pending = {}
        self.time = 0

    def _append(self, key, value, producer_id, attributes):
        builder = BatchBuilder()
        builder.add(key, value)
        batch = builder.build(self.log.end_offset, 1, producer_id=producer_id, producer_epoch=0, attributes=attributes)
        self.log.append(batch, 1, 1)
        self.time += 1

    def commit(self, partition, offset):
        self._append(*SERDE.encode(offset_record(partition, offset)), -1, 0)
        self.meaning[partition] = (self.time, offset)

    def stage(self, producer_id, partition, offset):
        self._append(*SERDE.encode(offset_record(partition, offset)), producer_id, TRANSACTIONAL)
        self.pending.setdefault(producer_id, {})[partition] = (self.time, offset)

    def end(self, producer_id, committed):
        marker = end_transaction(
            self.log.end_offset, 1, producer_id=producer_id, producer_epoch=0, commit=committed, coordinator_epoch=0
        )
        self.log.append(marker, 1, 1)
        self.time += 1
        for partition, staged in self.pending.pop(producer_id, {}).items():
            if committed and staged > self.meaning.get(partition, (0, 0)):
                self.meaning[partition] = staged

    def loaded(self):
        groups = GroupMachine(GroupsConfig(), Catalog({"t": 16}))
        load(self.log, SERDE, groups)
        return {partition: value.offset for (_, partition), value in groups.offsets.of("g")}, groups.offsets.pending


def test_pending_offsets_take_effect_only_if_their_marker_commits():
    history = History()
    history.stage(7, 0, 10)
    history.stage(8, 1, 20)
    history.stage(9, 2, 30)
    history.end(7, True)
    history.end(8, False)
    found, pending = history.loaded()
    assert found == {0: 10}
    assert list(pending.by_producer) == [9]
    assert list(pending.partitions("g")) == [("t", 2)]


def test_a_later_plain_commit_overrides_a_pending_offset():
    history = History()
    history.stage(7, 0, 42)
    history.commit(0, 7)
    history.end(7, True)
    assert history.loaded()[0] == {0: 7}


steps = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.integers(0, 2), st.integers(0, 99)),
        st.tuples(st.just("stage"), st.integers(1, 2), st.integers(0, 2), st.integers(0, 99)),
        st.tuples(st.just("end"), st.integers(1, 2), st.booleans()),
    ),
    max_size=25,
)


@settings(max_examples=150)
@given(steps)
def test_any_history_loads_to_the_state_of_the_model(history_steps):
    history = History()
    for verb, *arguments in history_steps:
        getattr(history, verb)(*arguments)
    found, pending = history.loaded()
    assert found == {partition: offset for partition, (_, offset) in history.meaning.items()}
    assert {
        producer: {partition for _, (_, partition) in staged} for producer, staged in pending.by_producer.items()
    } == {producer: set(staged) for producer, staged in history.pending.items()}
