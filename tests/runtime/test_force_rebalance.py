"""A forced rebalance on a shard: it is durable before it is acknowledged, and a disk that takes no writes refuses it."""

from random import Random

import pytest

from coordinator.groups.consumer.heartbeat import consumer_group_heartbeat
from coordinator.groups.force_rebalance import Forced, ForceRebalance, force_rebalance
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ConsumerGroupHeartbeatRequest
from coordinator.runtime.internal_request import InternalRequest
from tests.runtime.shard_world import ReplyTarget, ShardWorld


@pytest.fixture
def world():
    """A shard with the consumer group g, whose member is in epoch 2."""
    world = ShardWorld()
    joining = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", rebalance_timeout_ms=1_000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    world.shard.submit(consumer_group_heartbeat, ReplyTarget(joining))
    world.settle()
    return world


def force(world):
    """The list into which the reply comes."""
    replies = []
    world.shard.submit(force_rebalance, InternalRequest(ForceRebalance("g", "a test"), replies.append))
    return replies


def group_epoch(world):
    return world.shard.state.by_id["g"].group_epoch


def test_it_is_not_acknowledged_before_the_sync_that_covers_it(world):
    replies = force(world)
    world.turn()
    assert replies == []
    world.finish_syncs()
    assert [(reply.state, reply.epoch) for reply in replies] == [("Stable", 3)]


def test_power_fails_before_the_acknowledgement_and_the_group_is_either_before_or_after_it(world):
    replies = force(world)
    world.turn()
    world.restart(lambda: world.disk.crash(Random(1)))
    assert replies == []
    assert group_epoch(world) in (2, 3)


def test_power_fails_after_the_acknowledgement_and_the_epoch_stays(world):
    replies = force(world)
    world.settle()
    world.restart(lambda: world.disk.crash(Random(1)))
    assert isinstance(replies[0], Forced)
    assert group_epoch(world) == replies[0].epoch


def test_a_full_disk_refuses_it_and_nothing_has_happened(world):
    world.fill_disk()
    replies = force(world)
    world.settle()
    again = force(world)
    world.settle()
    for answers in (replies, again):
        assert [isinstance(each, KafkaError) and each.code for each in answers] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert group_epoch(world) == 2
