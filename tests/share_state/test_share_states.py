"""The state of a share partition: epochs, start offsets, counts, snapshots, and what a crash at any record leaves."""

from coordinator.protocol.errors import ErrorCode
from coordinator.share_state.delete import topics_deleted
from coordinator.share_state.share_state import Batch, SharePartition, ShareState, Summary
from coordinator.share_state.snapshots import COLD, PRUNE
from tests.share_state.share_state_world import GONE, KEY, TOPIC, World

OTHER = KEY._replace(partition=1)
INVALID, FENCED_STATE, FENCED_LEADER = (
    ErrorCode.INVALID_REQUEST, ErrorCode.FENCED_STATE_EPOCH, ErrorCode.FENCED_LEADER_EPOCH,
)  # fmt: skip


def test_a_partition_without_a_state_is_summarized_and_neither_read_nor_written():
    world = World()
    assert world.summary() == Summary(0, 0, -1, -1)
    assert (world.read(), world.write()) == (INVALID, INVALID)
    assert world.delete() is ErrorCode.NONE
    assert world.log == []


def test_a_state_that_is_begun_again_is_empty_and_earlier_leaders_stay_fenced():
    world = World()
    assert world.initialize(1, 10) is ErrorCode.NONE
    assert world.read(7) == ShareState(1, 10, 0, ())
    assert world.write((10, 12, 2, 1), state_epoch=1, leader_epoch=7, start_offset=10, count=3) is ErrorCode.NONE
    assert world.initialize(0, 99) is FENCED_STATE
    assert world.initialize(2, 5) is ErrorCode.NONE
    assert world.summary() == Summary(2, 0, 5, 0)
    assert (world.read(6), world.read(7)) == (FENCED_LEADER, ShareState(2, 5, 0, ()))
    assert world.write(state_epoch=1, leader_epoch=7) is FENCED_STATE
    assert world.state.fenced == {"InitializeShareGroupState": 1, "ReadShareGroupState": 1, "WriteShareGroupState": 1}


def test_a_new_leader_fences_the_one_before_it_also_after_a_crash():
    world = World()
    world.initialize()
    world.read(3)
    world.sync()
    world.crash()
    assert (world.read(2), world.write(leader_epoch=2)) == (FENCED_LEADER, FENCED_LEADER)
    assert world.write(leader_epoch=3) is ErrorCode.NONE


def test_an_epoch_that_a_write_has_fences_nobody():
    """As in Kafka: only reads make leaders, and only initializations make states."""
    world = World()
    world.initialize(1)
    assert world.write(state_epoch=9, leader_epoch=9) is ErrorCode.NONE
    assert world.write(state_epoch=1, leader_epoch=0) is ErrorCode.NONE
    assert world.summary() == Summary(1, 0, 0, 0)


def test_a_start_offset_never_goes_back():
    world = World()
    world.initialize(0, 5)
    world.write((5, 9, 2, 1), start_offset=8, count=2)
    assert world.read() == ShareState(0, 8, 2, (Batch(8, 9, 2, 1),))
    world.write((6, 8, 2, 9), start_offset=6, count=7)
    assert world.read() == ShareState(0, 8, 2, (Batch(8, 8, 2, 9), Batch(9, 9, 2, 1)))
    world.write(start_offset=8, count=1)
    assert world.summary().delivery_complete_count == 2, "of two counts for a start offset the higher is newer"
    world.write(start_offset=20, count=-1)
    assert world.read() == ShareState(0, 20, -1, ())


def test_bad_requests_change_nothing():
    world = World()
    world.initialize(1)
    before = world.durable_half
    negative, missing = KEY._replace(partition=-1), KEY._replace(partition=3)
    for ask in (world.initialize, world.read, world.write, world.summary, world.delete):
        assert ask(key=negative) is INVALID
    for ask in (world.initialize, world.summary, world.delete):
        assert ask(key=missing) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (world.read(key=missing), world.write(key=missing)) == (INVALID, INVALID)
    assert (world.initialize(-1), world.read(-1)) == (INVALID, INVALID)
    assert (world.write(state_epoch=-1), world.write(state_epoch=1, leader_epoch=-1)) == (INVALID, INVALID)
    assert world.write((9, 5, 2, 1), state_epoch=1) is INVALID
    assert world.durable_half == before
    assert world.types == "S"


def test_the_state_of_a_topic_that_is_deleted_is_neither_served_nor_kept():
    world = World()
    world.initialize()
    world.initialize(key=OTHER)
    del world.topics[TOPIC]
    assert (world.read(), world.write()) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    world.apply(topics_deleted({GONE}, world.state, world.now_ms))
    assert len(world.state.by_key) == 2
    world.apply(topics_deleted({TOPIC}, world.state, world.now_ms))
    world.sync()
    world.crash()
    assert (world.state.by_key, world.types) == ({}, "SS--")


def test_a_snapshot_follows_as_many_updates_as_the_setting_says():
    world = World(share_coordinator_snapshot_update_records_per_snapshot=3)
    world.initialize()
    for offset in range(9):
        world.write((offset, offset, 2, 1), start_offset=0)
    assert world.types == "SuuuSuuuSu"
    before = world.durable_half
    world.sync()
    world.crash()
    assert world.durable_half == before
    assert world.read().batches == (Batch(0, 8, 2, 1),)


def test_without_updates_every_write_is_a_snapshot():
    world = World(share_coordinator_snapshot_update_records_per_snapshot=0)
    world.initialize()
    world.write((0, 4, 2, 1), start_offset=0)
    world.read(1)
    assert world.types == "SSS"
    assert world.read(1) == ShareState(0, 0, 0, (Batch(0, 4, 2, 1),))


def test_the_log_begins_at_the_oldest_of_the_last_snapshots():
    world = World(share_coordinator_snapshot_update_records_per_snapshot=2)
    world.initialize()
    world.initialize(key=OTHER)
    for offset in range(6):
        world.write((offset, offset, 2, 1), start_offset=0)
    assert world.types == "SSuuSuuS"
    world.sync()
    assert world.fire(PRUNE)
    assert world.begin == 1, "the other partition has no later snapshot"
    world.now_ms += world.config.share_coordinator_cold_partition_snapshot_interval_ms
    assert world.fire(COLD)
    assert world.fire(PRUNE)
    assert (world.begin, world.types) == (8, "SS")
    before = world.durable_half
    world.crash()
    assert {key: each[0] for key, each in world.durable_half.items()} == {key: each[0] for key, each in before.items()}
    assert world.read().batches == (Batch(0, 5, 2, 1),)


def test_snapshots_of_cold_partitions_come_once_until_one_is_written_to():
    world = World(share_coordinator_snapshot_update_records_per_snapshot=1)
    world.initialize()
    for _ in range(3):
        world.now_ms += world.config.share_coordinator_cold_partition_snapshot_interval_ms
        assert world.fire(COLD)
    assert world.types == "SS"
    assert (world.state.by_key[KEY].state.create_ms, world.state.by_key[KEY].state.snapshot_epoch) == (1_000_000, 1)


def test_a_shard_without_states_has_no_timers():
    world = World()
    world.crash()
    assert world.timers == {}
    world.initialize()
    assert world.timers.keys() == {PRUNE, COLD}
    world.delete()
    world.sync()
    assert (world.fire(PRUNE), world.fire(COLD)) == (True, True)
    assert (world.timers, world.begin) == ({}, 1)
    world.initialize()
    assert world.timers.keys() == {PRUNE, COLD}
    world.sync()
    world.crash()
    assert world.timers.keys() == {PRUNE, COLD}


def test_updates_whose_snapshot_is_gone_wait_for_the_next_one():
    """A log may begin between them: Kafka deletes whole segments, and so may a copy of its folder."""
    world = World(share_coordinator_snapshot_update_records_per_snapshot=2)
    world.initialize(4)
    for offset in range(3):
        world.write((offset, offset, 2, 1), start_offset=0, state_epoch=4)
    assert world.types == "SuuS"
    before = world.durable_half[KEY][0]
    del world.log[:2]
    world.begin = 2
    world.sync()
    world.crash()
    assert world.durable_half[KEY][0] == before


def test_a_group_with_colons_is_another_key_than_its_parts():
    world = World()
    strange = SharePartition("g:0", TOPIC, 0)
    world.initialize(3, key=strange)
    assert (world.summary().state_epoch, world.summary(strange).state_epoch) == (0, 3)
