"""Random histories of leaders and group coordinators, with crashes at every record, pruning and cold snapshots.

The model is a dictionary of offsets. It holds the coordinator to this:

- what was acknowledged is there after a crash, and what was not acknowledged is there whole or not at all;
- an offset's delivery count never goes back, and an offset that is acknowledged or archived stays so in its count;
- a leader that was replaced writes nothing, and a start offset never goes back within a state epoch.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from coordinator.protocol.errors import ErrorCode
from coordinator.share_state.share_state import ShareState
from coordinator.share_state.snapshots import COLD, PRUNE
from tests.share_state.share_state_world import KEY, World

KEYS = [KEY, KEY._replace(partition=1), KEY._replace(group_id="h")]
OFFSETS = st.integers(0, 20)


class Model:
    """One share partition as its users see it."""

    def __init__(self, state_epoch, start_offset, leader_epoch):
        self.state_epoch = state_epoch
        self.start_offset = start_offset
        self.leader_epoch = leader_epoch
        self.offsets = {}
        """Offset -> delivery count and state."""


class Histories(RuleBasedStateMachine):
    @initialize(updates=st.integers(0, 4))
    def begin(self, updates):
        self.world = World(share_coordinator_snapshot_update_records_per_snapshot=updates)
        self.models = {}

    @rule(key=st.sampled_from(KEYS), epoch=st.integers(0, 4), start_offset=st.integers(-1, 10))
    def begin_state(self, key, epoch, start_offset):
        before = self.models.get(key)
        answer = self.world.initialize(epoch, start_offset, key)
        if before is not None and epoch < before.state_epoch:
            assert answer is ErrorCode.FENCED_STATE_EPOCH
        else:
            assert answer is ErrorCode.NONE
            leader = 0 if before is None else before.leader_epoch
            self.models[key] = Model(epoch, start_offset, leader)
        self.world.sync()

    @rule(key=st.sampled_from(KEYS), epoch=st.integers(0, 4))
    def lead(self, key, epoch):
        model, answer = self.models.get(key), self.world.read(epoch, key)
        if model is None:
            assert answer is ErrorCode.INVALID_REQUEST
        elif epoch < model.leader_epoch:
            assert answer is ErrorCode.FENCED_LEADER_EPOCH
        else:
            assert isinstance(answer, ShareState)
            model.leader_epoch = epoch
        self.world.sync()

    @rule(
        key=st.sampled_from(KEYS), back=st.integers(0, 1), start_offset=st.integers(-1, 15), first=OFFSETS,
        length=st.integers(0, 5), state=st.sampled_from([0, 2, 4]), count=st.integers(1, 3), is_lost=st.booleans(),
    )  # fmt: skip
    def write(self, key, back, start_offset, first, length, state, count, is_lost):
        model = self.models.get(key)
        leader = 0 if model is None else model.leader_epoch - back
        epoch = 0 if model is None else model.state_epoch
        batch = (first, first + length, state, count)
        answer = self.world.write(
            batch, state_epoch=epoch, leader_epoch=max(0, leader), start_offset=start_offset, key=key
        )
        if model is None:
            assert answer is ErrorCode.INVALID_REQUEST
            return
        if 0 <= leader < model.leader_epoch:
            assert answer is ErrorCode.FENCED_LEADER_EPOCH
            return
        assert answer is ErrorCode.NONE
        if is_lost:
            self.world.crash(self.world.durable - self.world.begin)
            return
        model.start_offset = max(model.start_offset, start_offset)
        for offset in range(first, first + length + 1):
            model.offsets[offset] = max(model.offsets.get(offset, (0, 0)), (count, state))
        model.offsets = {offset: each for offset, each in model.offsets.items() if offset >= model.start_offset}
        self.world.sync()

    @rule(key=st.sampled_from(KEYS))
    def delete(self, key):
        assert self.world.delete(key) is ErrorCode.NONE
        self.models.pop(key, None)
        self.world.sync()

    @rule()
    def crash(self):
        before = {key: each[0] for key, each in self.world.durable_half.items()}
        self.world.crash()
        assert {key: each[0] for key, each in self.world.durable_half.items()} == before
        for key, model in self.models.items():
            # A pruned log may have forgotten leaders of before the state was begun again, as in Kafka.
            model.leader_epoch = self.world.state.by_key[key].leader_epoch

    @rule(key=st.sampled_from([PRUNE, COLD]))
    def keep_short(self, key):
        self.world.now_ms += self.world.config.share_coordinator_cold_partition_snapshot_interval_ms
        self.world.fire(key)

    @invariant()
    def everything_acknowledged_is_there(self):
        found = self.world.state.by_key
        assert found.keys() == self.models.keys()
        for key, model in self.models.items():
            state = found[key].state
            assert (state.state_epoch, state.start_offset) == (model.state_epoch, model.start_offset)
            assert {
                offset: (each.delivery_count, each.delivery_state)
                for each in state.batches
                for offset in range(each.first_offset, each.last_offset + 1)
            } == model.offsets


Histories.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestHistories = Histories.TestCase
