"""A shard writes the records of transactions as batches of their own, and loads them again."""

from random import Random

from coordinator.groups.offsets.commit import commit
from coordinator.groups.offsets.value import NO_TOPIC_ID, decode
from coordinator.log.batch import check_batch, decode_records
from coordinator.log.end_transaction_marker import read_end_transaction
from coordinator.protocol.messages import OffsetCommitKey, OffsetCommitRequest, OffsetCommitResponse, OffsetCommitValue
from coordinator.runtime.result import Marker, Producer, Record, Result
from tests.runtime.shard_world import ReplyTarget, ShardWorld

OURS = Producer(7, 3)


def record(offset, partition=0):
    return Record(OffsetCommitKey("g", "t", partition), OffsetCommitValue(offset, -1, "", 1, -1, NO_TOPIC_ID), 4)


def submit(world, result):
    target = ReplyTarget(None)
    world.shard.submit(lambda state, request, context, now_ms: result, target)
    return target


def stage(world, *records, producer=OURS):
    return submit(world, Result(OffsetCommitResponse(), list(records), producer=producer))


def end(world, *, committed, producer=OURS):
    return submit(world, Result(OffsetCommitResponse(), marker=Marker(*producer, committed, 5)))


def plain(world, offset):
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[partition])
    target = ReplyTarget(OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, topics=[topic]))
    world.shard.submit(commit, target)
    return target


def batches(world):
    return [(header, decode_records(buffer, at, header)) for buffer, at, header in world.shard.log.batches()]


def offsets(world):
    return {key: value.offset for key, value in world.shard.state.offsets.of("g")}


def pending(world):
    found = world.shard.state.offsets.pending.by_group.get("g", {})
    return {
        (partition, producer): None if each.committed is None else decode(each.committed).offset
        for partition, producers in found.items()
        for producer, each in producers.items()
    }


def test_the_batches_of_a_transaction_have_the_producer_fields_of_kafka():
    world = ShardWorld()
    stage(world, record(1), record(2, partition=1))
    end(world, committed=True)
    world.settle()
    (data, records), (control, (marker,)) = batches(world)
    assert (data.producer_id, data.producer_epoch, data.base_sequence) == (7, 3, 0)
    assert data.is_transactional
    assert not data.is_control
    assert len(records) == 2
    assert (control.producer_id, control.producer_epoch, control.base_sequence) == (7, 3, -1)
    assert control.is_transactional
    assert control.is_control
    assert read_end_transaction(marker.key, marker.value) == (True, 5)
    assert (marker.key, marker.value) == (b"\0\0\0\1", b"\0\0\0\0\0\5")


def test_the_batches_of_one_turn_are_one_write_and_one_sync_in_order():
    world = ShardWorld()
    targets = [plain(world, 1), stage(world, record(2)), stage(world, record(3, 1)), plain(world, 4)]
    targets += [end(world, committed=True), plain(world, 5)]
    assert len(world.soon) == 1
    world.turn()
    assert len(world.jobs) == 1
    assert not any(target.answers for target in targets)
    world.finish_syncs()
    assert all(target.answers for target in targets)
    found = batches(world)
    assert [header.base_offset for header, _ in found] == [0, 1, 2, 3, 4, 5]
    assert [header.producer_id for header, _ in found] == [-1, 7, 7, -1, 7, -1]
    assert len({header.max_timestamp for header, _ in found}) == 1


def test_plain_records_before_and_after_a_transaction_are_one_batch_each():
    world = ShardWorld()
    for n in range(3):
        plain(world, n)
    stage(world, record(9, 1))
    for n in range(4):
        plain(world, n)
    world.settle()
    assert [len(records) for _, records in batches(world)] == [3, 1, 4]
    plain(world, 8)
    world.settle()
    assert [len(records) for _, records in batches(world)] == [3, 1, 4, 1]


def test_a_load_restores_pending_committed_and_aborted_offsets():
    world = ShardWorld()
    stage(world, record(1), producer=Producer(1, 0))
    end(world, committed=True, producer=Producer(1, 0))
    stage(world, record(2, 1), producer=Producer(2, 0))
    end(world, committed=False, producer=Producer(2, 0))
    stage(world, record(3), record(4, 2), producer=Producer(3, 6))
    plain(world, 5)
    world.settle()
    live = offsets(world), pending(world)
    assert live == ({("t", 0): 5}, {(("t", 0), 3): None, (("t", 2), 3): 4})
    known = {pid: (each.epoch, each.coordinator_epoch) for pid, each in world.shard.state.offsets.pending.known.items()}
    world.restart(world.disk.kill)
    assert (offsets(world), pending(world)) == live
    again = {pid: (each.epoch, each.coordinator_epoch) for pid, each in world.shard.state.offsets.pending.known.items()}
    assert known == again == {1: (0, 5), 2: (0, 5), 3: (6, -1)}
    end(world, committed=True, producer=Producer(3, 6))
    world.settle()
    assert offsets(world) == {("t", 0): 5, ("t", 2): 4}


def test_a_crash_keeps_a_prefix_of_the_decisions():
    for seed in range(40):
        world, random = ShardWorld(), Random(seed)
        states = [({}, {})]
        for n in range(12):
            choice = random.randrange(4)
            if choice == 0:
                plain(world, n)
            elif choice == 3:
                end(world, committed=random.random() < 0.5)
            else:
                stage(world, record(n, choice))
            states.append((offsets(world), pending(world)))
            if random.random() < 0.4:
                world.turn()
            if random.random() < 0.3:
                world.finish_syncs()
        world.restart(lambda world=world, random=random: world.disk.crash(random))
        assert (offsets(world), pending(world)) in states


def test_a_failed_write_changes_neither_pending_nor_committed_offsets():
    world = ShardWorld()
    stage(world, record(1))
    world.settle()
    world.fill_disk()
    refused = [stage(world, record(2, 1)), end(world, committed=True)]
    world.settle()
    assert all(target.answers for target in refused)
    assert (offsets(world), pending(world)) == ({}, {(("t", 0), 7): 1})


def test_a_turn_with_many_records_hands_them_to_the_log_before_it_ends_and_they_are_still_one_entry():
    world = ShardWorld()
    for n in range(12):
        stage(world, *(record(n, partition) for partition in range(4_000)))
    assert world.shard.log.end_offset
    assert not world.jobs
    world.settle()
    assert world.journal.entries == 1
    assert len(batches(world)) == 12
    for buffer, at, _ in world.shard.log.batches():
        check_batch(buffer, at)
