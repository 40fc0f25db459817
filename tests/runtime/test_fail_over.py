"""A shard that an administrator lets load its log again: as for clients of a broker whose partitions move to another one."""

import pytest

from coordinator.groups import classic_protocol
from coordinator.groups.classic.states import State
from coordinator.groups.consumer.heartbeat import consumer_group_heartbeat
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ConsumerGroupHeartbeatRequest, JoinGroupRequest
from coordinator.runtime.result import Result
from coordinator.runtime.shard import Status
from tests.runtime.shard_world import ReplyTarget, ShardWorld

SESSION_MS = 45_000


def beat(world, epoch, member_id="m"):
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id=member_id, member_epoch=epoch, rebalance_timeout_ms=1_000,
        subscribed_topic_names=["t"] if epoch == 0 else None, topic_partitions=[] if epoch == 0 else None,
    )  # fmt: skip
    target = ReplyTarget(request)
    world.shard.submit(consumer_group_heartbeat, target)
    return target.answers


def code(answers):
    (answer,) = answers
    return answer.code if isinstance(answer, KafkaError) else ErrorCode(answer.error_code)


@pytest.fixture
def world():
    """A shard with the consumer group g, whose member m is in epoch 2."""
    world = ShardWorld()
    beat(world, 0)
    world.settle()
    return world


def test_a_reply_that_waits_for_the_disk_is_refused_and_what_was_decided_stays(world):
    answers = beat(world, 0, "n")
    assert answers == []
    assert world.shard.fail_over(0) == 1
    assert code(answers) is ErrorCode.NOT_COORDINATOR
    world.settle()
    assert set(world.shard.state.by_id["g"].members) == {"m", "n"}


def test_a_request_that_waits_for_the_group_is_refused(world):
    joining = JoinGroupRequest(
        group_id="classic", session_timeout_ms=10_000, rebalance_timeout_ms=10_000, protocol_type="x",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol("p", b"")],
    )  # fmt: skip
    target = ReplyTarget(joining)
    target.api_version = 3
    world.shard.submit(classic_protocol.join_group, target)
    world.settle()
    assert world.shard.state.by_id["classic"].state is State.PREPARING_REBALANCE
    assert world.shard.fail_over(0) == 1
    assert code(target.answers) is ErrorCode.NOT_COORDINATOR


def test_while_it_is_held_every_request_gets_load_in_progress_and_then_the_log_decides(world):
    world.shard.fail_over(500)
    assert code(beat(world, 2)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.advance(499)
    assert code(beat(world, 2)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert (world.shard.status, world.shard.is_settled) == (Status.LOADING, True)
    world.advance(1)
    answers = beat(world, 2)
    world.settle()
    assert (code(answers), world.shard.status) == (ErrorCode.NONE, Status.ACTIVE)


def test_sessions_start_from_the_beginning(world):
    world.advance(SESSION_MS - 1)
    world.shard.fail_over(0)
    world.settle()
    world.advance(SESSION_MS - 1)
    assert "m" in world.shard.state.by_id["g"].members
    world.advance(1)
    world.settle()
    assert not world.shard.state.by_id["g"].members


def test_a_second_fail_over_during_the_first_begins_again(world):
    world.shard.fail_over(500)
    world.advance(400)
    assert world.shard.fail_over(500) == 0
    world.advance(499)
    assert world.shard.status is Status.LOADING
    world.advance(1)
    assert world.shard.status is Status.ACTIVE


def test_news_from_another_part_of_the_server_wait_for_the_end_of_the_load(world):
    world.shard.fail_over(500)
    seen = []
    world.shard.run_internal(lambda state, _: seen.append(list(state.by_id)) or Result())
    assert seen == []
    world.advance(500)
    assert seen == [["g"]]


def test_a_stop_ends_the_hold(world):
    world.shard.fail_over(500)
    world.shard.stop()
    world.advance(1_000)
    assert (world.shard.status, world.shard.idle) == (Status.STOPPED, True)


def test_watchers_hear_of_every_result_and_of_the_end_of_a_load_and_cost_nothing_afterwards(world):
    heard = []
    unwatch = world.shard.watch(lambda: heard.append(world.shard.status))
    beat(world, 2)
    world.shard.fail_over(500)
    assert heard == [Status.ACTIVE]
    world.advance(500)
    assert heard[-1] is Status.ACTIVE and len(heard) > 1
    unwatch()
    count = len(heard)
    beat(world, 2)
    assert (len(heard), "_apply" in vars(world.shard)) == (count, False)
