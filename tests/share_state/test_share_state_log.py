"""The log of share states on a disk with its journal: pruned while it is served, and loaded after a kill or a power cut."""

from random import Random

import pytest

from coordinator.protocol.codec import Codec
from coordinator.runtime.internal_request import DONE
from coordinator.runtime.serde import Serde
from coordinator.runtime.shard import Shard
from coordinator.server.internal_logs import EmbeddedLogs
from coordinator.share_state.initialize import Initialization, initialize
from coordinator.share_state.machine import RECORD_KEYS, ShareStateMachine
from coordinator.share_state.settings import ShareStateConfig
from coordinator.share_state.share_state import Batch
from coordinator.share_state.snapshots import PRUNE
from coordinator.share_state.write import Write, write
from tests.runtime.shard_world import ReplyTarget, ShardWorld
from tests.share_state.share_state_world import KEY, TOPIC

OTHER = KEY._replace(partition=1)
UPDATES = 5


class ShareStateWorld(ShardWorld):
    """A shard of share partitions."""

    def make_shard(self, log, **options):
        return Shard(
            0,
            log,
            lambda: ShareStateMachine(
                ShareStateConfig(share_coordinator_snapshot_update_records_per_snapshot=UPDATES),
                self,
                lambda: self.shard.offset_replayed,
                lambda offset: EmbeddedLogs.prune(None, log, offset),
            ),
            Serde(Codec.of(None), RECORD_KEYS),
            self.clock,
            make_writer=self.journal.writer,
            soon=self.soon.append,
            at_turn_end=self.journal.at_turn_end,
            schedule=self.schedule,
            protocol_schedule=self.schedule,
            on_timer=lambda index, key: None,
            commit_timeout_ms=5_000,
            on_fact=lambda index, fact: None,
            on_durable=lambda index: None,
            **options,
        )

    def open(self):
        self.shard = None
        super().open()

    def partitions_of(self, topic_id):
        return 3 if topic_id == TOPIC else 0

    def ask(self, operation, request):
        target = ReplyTarget(request)
        self.shard.submit(operation, target)
        return target

    def write(self, offset, key=KEY):
        return self.ask(write, Write(key, 3, 0, 0, -1, [Batch(offset, offset, 2, 1)]))

    def prune(self):
        self.shard.run_internal(lambda state, now_ms: state.fire(PRUNE, now_ms))
        self.settle()

    @property
    def states(self):
        return {key: kept.state for key, kept in self.shard.state.by_key.items()}


@pytest.mark.parametrize("how", ["kill", "power cut"])
def test_a_pruned_log_has_everything_that_was_acknowledged(how):
    world, random = ShareStateWorld(segment_bytes=2_000, journal_file_bytes=4_000), Random(how)
    world.ask(initialize, Initialization(KEY, 0, 0))
    world.ask(initialize, Initialization(OTHER, 3, 0))
    world.settle()
    acknowledged, begins = [], set()
    for offset in range(240):
        answered = world.write(offset, OTHER if offset % 7 == 0 else KEY)
        if offset % 3 == 0:
            world.settle()
        acknowledged.append((offset, answered))
        if offset % 20 == 19:
            world.settle()
            world.write_behind()
            world.settle()
            world.prune()
            begins.add(world.shard.log.start_offset)
        if offset % 50 == 49:
            world.write(offset + 1_000)  # under way, and never acknowledged
            before = {key for key, target in acknowledged if target.answers == [DONE]}
            crash = world.disk.kill if how == "kill" else (lambda: world.disk.crash(random))
            world.restart(crash)
            found = {
                o for state in world.states.values() for each in state.batches for o in range(each[0], each[1] + 1)
            }
            assert before <= found
            assert {key: state.state_epoch for key, state in world.states.items()} == {KEY: 0, OTHER: 3}
            acknowledged = [(offset, target) for offset, target in acknowledged if offset in before]
    assert len(begins) > 4, "the log was pruned all the time"
    assert max(begins) > 100
    assert world.shard.loaded.records < 240


def test_nothing_is_pruned_that_only_the_journal_replaces():
    """A snapshot that is not in the segments yet does not stand for what is there."""
    world = ShareStateWorld()
    world.ask(initialize, Initialization(KEY, 0, 0))
    for offset in range(2 * UPDATES + 3):
        world.write(offset)
    world.settle()
    world.prune()
    assert world.shard.log.start_offset == world.shard.log.synced_offset == 0


def test_a_record_is_never_before_the_offset_that_replay_says():
    """Also of several in one batch, where a load knows the batch alone."""
    world = ShareStateWorld()
    world.ask(initialize, Initialization(KEY, 0, 0))
    for offset in range(UPDATES):
        world.write(offset)
    world.ask(initialize, Initialization(OTHER, 0, 0))
    world.settle()
    kept = {key: each.snapshot_offset for key, each in world.shard.state.by_key.items()}
    assert kept == {KEY: 0, OTHER: UPDATES + 1}
    world.restart(world.disk.kill)
    assert {key: each.snapshot_offset for key, each in world.shard.state.by_key.items()} == {KEY: 0, OTHER: 0}
