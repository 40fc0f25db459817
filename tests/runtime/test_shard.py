"""A shard replies only once the state is durable, and survives disk errors."""

import errno
from random import Random

import pytest

from coordinator.groups.classic.records import new_group_metadata
from coordinator.groups.classic_protocol import join_group
from coordinator.groups.force_rebalance import ForceRebalance, force_rebalance
from coordinator.log.log import ROOM_BYTES
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import JoinGroupRequest
from coordinator.runtime.result import Result
from coordinator.runtime.shard import Status
from tests.runtime.shard_world import (
    ReplyTarget,
    ShardWorld,
    commit_request,
    committed,
    is_success,
    send_commit,
    send_fetch,
)


def test_a_commit_is_not_acknowledged_before_the_sync_that_covers_it():
    world = ShardWorld()
    target = send_commit(world, 5)
    world.turn()
    assert target.answers == []
    world.finish_syncs()
    assert is_success(target)


def test_a_read_waits_for_the_writes_it_could_have_seen():
    world = ShardWorld()
    send_commit(world, 5)
    reader = send_fetch(world)
    assert reader.answers == []
    world.settle()
    assert reader.answers[0].topics[0].partitions[0].committed_offset == 5


def test_a_read_without_pending_writes_is_answered_at_once():
    world = ShardWorld()
    send_commit(world, 5)
    world.settle()
    assert len(send_fetch(world).answers) == 1


def test_commits_that_arrive_during_a_sync_share_the_next_one():
    world = ShardWorld()
    first = send_commit(world, 1)
    world.turn()
    others = [send_commit(world, n) for n in range(2, 12)]
    world.turn()
    assert len(world.jobs) == 1
    world.finish_syncs()
    assert is_success(first)
    assert not any(other.answers for other in others)
    world.turn()
    assert len(world.jobs) == 1
    world.finish_syncs()
    assert all(is_success(other) for other in others)


def test_the_records_of_one_turn_are_one_batch():
    world = ShardWorld()
    for n in range(10):
        send_commit(world, n)
    world.settle()
    assert [len(batch) for batch in world.shard.log.replay_batches()] == [10]


def test_every_acknowledged_commit_survives_a_power_cut():
    for seed in range(30):
        world, random = ShardWorld(), Random(seed)
        acknowledged, targets = -1, []
        for n in range(20):
            targets.append(send_commit(world, n))
            world.turn()
            if random.random() < 0.5:
                world.finish_syncs()
            acknowledged = max((i for i, target in enumerate(targets) if target.answers), default=-1)
        world.restart(lambda world=world, random=random: world.disk.crash(random))
        assert committed(world) >= acknowledged


def test_a_full_disk_takes_the_commits_for_which_the_journal_has_room():
    world = ShardWorld()
    world.disk.capacity_bytes = 0
    accepted = send_commit(world, 1)
    world.settle()
    assert is_success(accepted)
    assert world.shard.status is Status.ACTIVE
    world.disk.capacity_bytes = None
    world.restart(lambda: world.disk.crash(Random(1)))
    assert committed(world) == 1


def test_a_full_disk_refuses_commits_and_serves_reads_until_there_is_space():
    world = ShardWorld()
    send_commit(world, 1)
    world.settle()
    world.fill_disk()
    refused = send_commit(world, 2)
    world.settle()
    assert refused.answers[0].code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.shard.status is Status.FULL
    assert "full" in world.shard.reason
    assert committed(world) == 1
    assert send_commit(world, 3).answers[0].code is ErrorCode.COORDINATOR_NOT_AVAILABLE

    world.disk.capacity_bytes = None
    world.advance(1_000)
    accepted = send_commit(world, 4)
    world.settle()
    assert is_success(accepted)
    assert world.shard.status is Status.ACTIVE
    world.restart(world.disk.kill)
    assert committed(world) == 4


def test_a_full_shard_becomes_active_without_a_write_once_there_is_space():
    world = ShardWorld()
    send_commit(world, 1)
    world.settle()
    world.fill_disk()
    send_commit(world, 2)
    world.settle()
    world.advance(1_000)
    assert world.shard.status is Status.FULL
    world.disk.capacity_bytes = world.disk.used_bytes() + world.shard.log.segments[-1].unflushed_bytes + ROOM_BYTES - 1
    world.advance(1_000)
    assert world.shard.status is Status.FULL
    world.disk.capacity_bytes += 1
    world.advance(1_000)
    assert world.shard.status is Status.ACTIVE
    accepted = send_commit(world, 3)
    world.settle()
    assert is_success(accepted)


def test_a_full_shard_that_is_stopped_no_longer_checks_for_space():
    world = ShardWorld()
    send_commit(world, 1)
    world.settle()
    world.fill_disk()
    send_commit(world, 2)
    world.settle()
    world.journal.stop()
    assert world.timers
    world.shard.stop()
    assert not world.timers


def test_a_stopped_shard_whose_last_write_finds_a_full_disk_stays_stopped():
    world = ShardWorld()
    lost = send_commit(world, 1)
    world.shard.stop()
    world.disk.sync_errors.append(errno.ENOSPC)
    world.settle()
    assert lost.answers[0].code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.shard.status is Status.STOPPED
    assert send_fetch(world).answers[0].code is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_after_a_failed_sync_every_request_is_refused_until_a_restart():
    world = ShardWorld()
    kept = send_commit(world, 1)
    world.settle()
    assert is_success(kept)
    world.disk.sync_errors.append(errno.EIO)
    lost = send_commit(world, 2)
    world.settle()
    assert lost.answers[0].code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.shard.status is Status.FAILED
    assert send_commit(world, 3).answers[0].code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert send_fetch(world).answers[0].code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.restart(lambda: world.disk.crash(Random(1)))
    assert committed(world) in {1, 2}


def test_a_reply_that_waits_too_long_for_the_disk_becomes_a_retriable_error():
    world = ShardWorld()
    target = send_commit(world, 1)
    world.turn()
    world.advance(5_000)
    assert target.answers[0].code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.finish_syncs()
    assert len(target.answers) == 1


def broken(groups, request, context, now_ms):
    raise RuntimeError("a bug")


def test_an_operation_that_fails_before_it_is_applied_affects_nobody_else():
    """The commit of the same turn is neither refused nor lost, and the shard does not load its log again."""
    world = ShardWorld()
    state = world.shard.state
    other = send_commit(world, 2)
    target = ReplyTarget(commit_request(3))
    world.shard.submit(broken, target)
    assert target.answers[0].code is ErrorCode.UNKNOWN_SERVER_ERROR
    world.settle()
    assert is_success(other)
    assert world.shard.state is state
    assert committed(world) == 2


def test_a_record_that_cannot_be_encoded_is_not_replayed():
    world = ShardWorld()
    state = world.shard.state

    def too_long(groups, request, context, now_ms):
        return Result("joined", [new_group_metadata("g", now_ms), new_group_metadata("x" * 40_000, now_ms)])

    send_commit(world, 1, "other")
    target = ReplyTarget(commit_request(7))
    world.shard.submit(too_long, target)
    assert target.answers[0].code is ErrorCode.UNKNOWN_SERVER_ERROR
    world.settle()
    assert world.shard.state is state
    assert list(state.by_id) == ["other"]


def test_an_operation_that_fails_while_it_is_applied_reloads_the_shard_and_fails_waiting_requests():
    """The state may be ahead of the log, and nothing knows by how much."""
    world = ShardWorld()
    send_commit(world, 1)
    world.settle()
    state = world.shard.state
    waiting = send_commit(world, 2)

    def half_applied(groups, request, context, now_ms):
        return Result("joined", [new_group_metadata("g", now_ms)], timers=["not a timer"])

    target = ReplyTarget(commit_request(3))
    world.shard.submit(half_applied, target)
    assert target.answers[0].code is ErrorCode.UNKNOWN_SERVER_ERROR
    world.settle()
    assert isinstance(waiting.answers[0], KafkaError)
    assert world.shard.state is not state
    assert committed(world) == 1


def join_request(group, member_id=""):
    protocol = JoinGroupRequest.JoinGroupRequestProtocol("range", b"")
    return JoinGroupRequest(group, 10_000, 10_000, member_id, None, "consumer", [protocol])


def send_join(world, group, operation=join_group, member_id=""):
    target = ReplyTarget(join_request(group, member_id))
    target.api_version = 3  # without the handshake: the member is in the group at once, and its join is parked
    world.shard.submit(operation, target)
    return target


def test_an_operation_that_leaves_a_round_half_changed_restarts_the_round_of_its_group_only():
    """Members whose joins were parked in that round are sent back to join again; those of another group go on waiting."""
    world = ShardWorld()

    def half_a_join(groups, request, context, now_ms):
        join_group(groups, request, context, now_ms)
        raise RuntimeError("a bug")

    same, other = send_join(world, "same"), send_join(world, "other")
    world.settle()
    target = send_join(world, "same", half_a_join)
    assert target.answers[0].code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert same.answers[0].code is ErrorCode.NOT_COORDINATOR
    assert not other.answers
    again = send_join(world, "same")
    world.settle()
    world.advance(world.config.group_initial_rebalance_delay_ms)
    world.settle()
    assert [other.answers[0].generation_id, again.answers[0].generation_id] == [1, 1]
    assert again.answers[0].leader == again.answers[0].member_id
    assert len(again.answers[0].members) == 1


@pytest.mark.parametrize("durability", ["fsync", "write"])
def test_every_acknowledged_commit_survives_a_killed_process(durability):
    world = ShardWorld(durability)
    for n in range(5):
        target = send_commit(world, n)
        world.settle()
        assert is_success(target)
    world.restart(world.disk.kill)
    assert committed(world) == 4


def test_a_stopped_shard_writes_its_pending_records_and_refuses_requests():
    """The server itself sends such requests for a transaction; the worker may have stopped by the next turn."""
    world = ShardWorld()
    kept = send_commit(world, 1)
    world.shard.stop()
    refused = send_commit(world, 2)
    world.settle()
    assert is_success(kept)
    assert refused.answers[0].code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.shard.idle
    world.restart(world.disk.kill)
    assert committed(world) == 1


def test_a_forced_rebalance_that_fails_half_way_restarts_the_round_of_its_group():
    """It comes from the admin HTTP and not as a Kafka request, but it changes the round like a join."""
    world = ShardWorld()

    def half_forced(groups, request, context, now_ms):
        force_rebalance(groups, request, context, now_ms)
        raise RuntimeError("a bug")

    member = send_join(world, "g")
    world.settle()
    world.advance(world.config.group_initial_rebalance_delay_ms)
    world.settle()
    assert member.answers[0].generation_id == 1
    world.shard.submit(half_forced, ReplyTarget(ForceRebalance("g", "a reason")))
    assert world.shard.state.by_id["g"].state == "CompletingRebalance"
    assert world.shard.state.by_id["g"].generation == 1
