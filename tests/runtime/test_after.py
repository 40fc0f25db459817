"""The callbacks of a result run when everything written so far is durable, and are dropped if the write fails."""

import errno

import pytest

from coordinator.groups.classic.records import group_metadata_tombstone
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.runtime.internal_request import DONE, InternalRequest
from coordinator.runtime.result import Result
from tests.runtime.shard_world import ReplyTarget, ShardWorld


def writing(done, name, records=1):
    def operation(_state, _request, _context, _now_ms):
        tombstones = [group_metadata_tombstone(f"g{number}") for number in range(records)]
        return Result(DONE, tombstones, after=[lambda: done.append(name)])

    return operation


def test_callbacks_wait_for_the_disk_and_keep_their_order():
    world, done = ShardWorld(), []
    for name in ("first", "second"):
        world.shard.submit(writing(done, name), ReplyTarget(None))
    world.turn()
    assert done == []
    world.finish_syncs()
    assert done == [], "a bug in a callback must not block the log"
    world.turn()
    assert done == ["first", "second"]


def test_a_callback_without_pending_writes_runs_in_the_next_turn():
    world, done = ShardWorld(), []
    world.shard.submit(writing(done, "read", records=0), ReplyTarget(None))
    assert done == [], "not within the submitting call"
    world.turn()
    assert done == ["read"]


def test_a_result_without_records_waits_for_the_writes_before_it():
    world, done = ShardWorld(), []
    world.shard.submit(writing(done, "write"), ReplyTarget(None))
    world.shard.submit(writing(done, "read", records=0), ReplyTarget(None))
    world.turn()
    assert done == []
    world.finish_syncs()
    world.turn()
    assert done == ["write", "read"]


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_failed_write_drops_its_callbacks_and_refuses_its_request(error):
    world, done, outcomes = ShardWorld(), [], []
    world.shard.submit(writing(done, "lost"), InternalRequest(None, outcomes.append))
    world.disk.sync_errors.append(error)
    world.settle()
    assert done == []
    assert [outcome.code for outcome in outcomes] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    world.advance(1_000)
    world.shard.submit(writing(done, "next"), InternalRequest(None, outcomes.append))
    world.settle()
    assert done == (["next"] if error == errno.ENOSPC else [])


def test_a_write_that_the_journal_does_not_accept_drops_its_callbacks():
    world, done, outcomes = ShardWorld(), [], []
    world.shard.submit(writing(done, "kept"), ReplyTarget(None))
    world.settle()
    world.fill_disk()
    world.shard.submit(writing(done, "lost"), InternalRequest(None, outcomes.append))
    world.settle()
    assert done == ["kept"]
    assert [outcome.code for outcome in outcomes] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_an_internal_request_always_has_an_outcome():
    world, outcomes = ShardWorld(), []
    world.shard.submit(writing([], "x"), InternalRequest(None, outcomes.append))
    world.turn()
    assert outcomes == []
    world.finish_syncs()
    assert outcomes == [DONE]

    def refusing(_state, _request, _context, _now_ms):
        raise KafkaError(ErrorCode.NOT_COORDINATOR)

    world.shard.submit(refusing, InternalRequest(None, outcomes.append))
    assert outcomes[1].code is ErrorCode.NOT_COORDINATOR
