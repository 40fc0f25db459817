"""Transactions whose coordinator and group are at different workers."""

import asyncio

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import TxnOffsetCommitRequest
from tests.cluster.workers.world import create_topic, eventually, fetch, workers

ADDS_ITSELF = 5


def run(coroutine):
    asyncio.run(coroutine)


def names_apart(world):
    """A transactional id and a group, at different workers, and these."""
    server = world.running[0].server
    for number in range(100):
        name = f"name-{number}"
        here = world.owner_of_transactions(server.transactions.shard_of(name).index)
        there = world.owner(server.groups.shard_of(name).index)
        if here is not there and here is not None and there is not None:
            return name, here, there
    raise AssertionError("all are at one worker")


async def topic_and_names_apart(world):
    """The same, when shards are spread and every worker knows the topic t."""
    await world.until_spread()
    assert await create_topic(world.running[0], "t") == 0
    await world.until(lambda: all("t" in each.server.topics.registry.topics for each in world.running))
    return names_apart(world)


async def begin(client, transactional_id):
    response = None
    async with asyncio.timeout(20):
        while response is None or response.error_code:
            response = await client.call(
                "InitProducerId", 4, transactional_id=transactional_id, transaction_timeout_ms=30_000
            )
            assert response.error_code in {
                0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.CONCURRENT_TRANSACTIONS,
            }  # fmt: skip
    return response.producer_id, response.producer_epoch


async def commit_in(client, version, name, producer, offset):
    partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(0, offset)
    topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name="t", partitions=[partition])
    response = await client.call(
        "TxnOffsetCommit", version, transactional_id=name, group_id=name, producer_id=producer[0],
        producer_epoch=producer[1], topics=[topic],
    )  # fmt: skip
    return response.topics[0].partitions[0].error_code


async def end(client, version, name, producer, *, committed):
    response = await client.call(
        "EndTxn", version, transactional_id=name, producer_id=producer[0], producer_epoch=producer[1],
        committed=committed,
    )  # fmt: skip
    return response.error_code


@pytest.mark.parametrize("version", [4, ADDS_ITSELF])
@pytest.mark.parametrize(("committed", "found"), [(True, 7), (False, -1)])
def test_offsets_of_a_group_elsewhere_follow_the_transaction(tmp_path, version, committed, found):
    """The group's worker asks the coordinator of the transaction, which sends it the marker."""

    async def scenario():
        async with workers(tmp_path) as world:
            await world.start(1, 2, 3)
            name, coordinator, group_owner = await topic_and_names_apart(world)
            client, group = await coordinator.client(), await group_owner.client()
            producer = await begin(client, name)
            if version < ADDS_ITSELF:
                assert await commit_in(group, version, name, producer, 7) == ErrorCode.TRANSACTION_ABORTABLE
                added = await client.call(
                    "AddOffsetsToTxn", 3, transactional_id=name, producer_id=producer[0], producer_epoch=producer[1],
                    group_id=name,
                )  # fmt: skip
                assert added.error_code == 0
            assert await commit_in(group, version, name, producer, 7) == 0
            assert await fetch(group, name, "t") == (0, -1)
            assert await end(client, 3 if version < ADDS_ITSELF else 5, name, producer, committed=committed) == 0
            shard = group_owner.server.groups.shard_of(name)
            await world.until(lambda: not shard.state.offsets.pending.by_producer)
            assert await fetch(group, name, "t") == (0, found)

    run(scenario())


def test_a_transaction_ends_though_its_coordinator_dies_before_the_marker(tmp_path):
    """The decision is in the engine: whoever takes the shard over delivers the marker."""

    async def scenario():
        async with workers(tmp_path) as world:
            await world.start(1, 2, 3)
            name, coordinator, group_owner = await topic_and_names_apart(world)
            client, group = await coordinator.client(), await group_owner.client()
            producer = await begin(client, name)
            assert await commit_in(group, ADDS_ITSELF, name, producer, 7) == 0
            coordinator.server.markers.elsewhere = lambda *_: None
            assert await end(client, 5, name, producer, committed=True) == 0
            coordinator.wire.is_cut = True
            await eventually(lambda: fetch(group, name, "t"), (0, -1))
            await world.until(lambda: not group_owner.server.groups.shard_of(name).state.offsets.pending.by_producer)
            assert await fetch(group, name, "t") == (0, 7)

    run(scenario())
