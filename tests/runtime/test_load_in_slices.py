"""A shard that drops its state loads it again in slices, so that the others are served meanwhile."""

import pytest

from coordinator.groups.offsets.commit import commit
from coordinator.protocol.errors import ErrorCode
from coordinator.runtime import loader
from coordinator.runtime.shard import Status
from tests.runtime.shard_world import ReplyTarget, ShardWorld, commit_request, committed, is_success, send_commit

SLICES = 5


@pytest.fixture
def world(monkeypatch):
    """A shard whose log has five slices of batches."""
    monkeypatch.setattr(loader, "SLICE_RECORDS", 2)
    world = ShardWorld()
    for offset in range(2 * SLICES):
        send_commit(world, offset)
        world.settle()
    return world


def begin_loading(world):
    """A bug while a result is applied: what it has replayed is not in the log."""
    target = ReplyTarget(commit_request(99))

    def half_applied(groups, request, context, now_ms):
        result = commit(groups, request, context, now_ms)
        result.timers = ["not a timer"]
        return result

    world.shard.submit(half_applied, target)
    assert target.answers[0].code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert world.shard.status is Status.LOADING


def test_requests_are_refused_while_it_loads_and_then_served_from_what_the_log_says(world):
    begin_loading(world)
    refused = send_commit(world, 7)
    assert refused.answers[0].code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    turns = 0
    while world.shard.status is Status.LOADING:
        world.turn()
        turns += 1
    assert turns >= SLICES - 1
    assert committed(world) == 2 * SLICES - 1, "the result that failed has left no trace"
    accepted = send_commit(world, 8)
    world.settle()
    assert is_success(accepted)


def test_changes_from_elsewhere_wait_until_it_is_loaded(world):
    begin_loading(world)
    seen = []

    def change(state, now_ms):
        seen.append(world.shard.status)
        return commit(state, commit_request(55), ReplyTarget(None), now_ms)

    world.shard.run_internal(change)
    assert seen == []
    world.settle()
    assert seen == [Status.ACTIVE]
    assert committed(world) == 55


def test_a_failed_write_while_it_loads_begins_again(world):
    send_commit(world, 42)
    world.turn()
    begin_loading(world)
    world.disk.sync_errors.append(28)
    world.settle()
    assert world.shard.status in (Status.ACTIVE, Status.FULL)
    assert committed(world) == 2 * SLICES - 1


def test_a_stop_ends_the_load(world):
    begin_loading(world)
    world.shard.stop()
    world.settle()
    assert world.shard.status is Status.STOPPED
    assert world.shard.idle


def test_a_log_that_cannot_be_loaded_again_fails_the_shard(world, monkeypatch):
    begin_loading(world)
    monkeypatch.setattr(loader, "key_values", lambda *_: 1 / 0)
    world.settle()
    assert world.shard.status is Status.FAILED
    assert "restart" in world.shard.reason
