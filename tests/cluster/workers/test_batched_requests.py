"""Requests about several groups, some of which are elsewhere or being loaded: each gets its own answer, as in Kafka."""

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import OffsetFetchRequest
from tests.cluster.workers.world import commit, create_topic

HERE = ErrorCode.NONE


async def two_groups(world):
    """The first worker's client, a group that it has, one of the other worker; both groups have committed."""
    first, second = await world.start(1, 2)
    await world.until_spread()
    assert await create_topic(first, "t") == 0
    await world.until(lambda: "t" in second.server.topics.registry.topics)
    names = [f"group-{number}" for number in range(100)]
    found = []
    for worker in (first, second):
        found.append(next(name for name in names if worker.server.groups.shard_of(name).index in worker.shards))
        assert await commit(await worker.client(), found[-1], "t", 7) == 0
    return first, await first.client(), *found


async def described(client, groups):
    response = await client.call("DescribeGroups", 5, groups=groups)
    return {each.group_id: each.error_code for each in response.groups}


async def fetched(client, groups):
    asked = [OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups]
    response = await client.call("OffsetFetch", 8, groups=asked)
    return {each.group_id: each.error_code for each in response.groups}


async def deleted(client, groups):
    response = await client.call("DeleteGroups", 2, groups_names=groups)
    return {each.group_id: each.error_code for each in response.results}


@pytest.mark.parametrize("ask", [described, fetched, deleted])
async def test_groups_of_another_worker_are_refused_and_the_others_answered(world, ask):
    _, client, here, there = await two_groups(world)
    assert await ask(client, [there, here]) == {here: HERE, there: ErrorCode.NOT_COORDINATOR}


@pytest.mark.parametrize("ask", [described, fetched, deleted])
async def test_groups_of_a_shard_that_is_loading_are_refused_and_the_others_answered(world, ask):
    first, client, here, there = await two_groups(world)
    first.server.groups.shard_of(there).await_log()
    assert await ask(client, [here, there]) == {here: HERE, there: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}


@pytest.mark.parametrize(
    ("api", "version", "fields"),
    [
        ("JoinGroup", 3, {"protocol_type": "consumer", "session_timeout_ms": 10_000}),
        ("SyncGroup", 5, {"member_id": "m", "protocol_type": "consumer", "protocol_name": "range"}),
        ("Heartbeat", 4, {"member_id": "m"}),
        ("LeaveGroup", 2, {"member_id": "m"}),
    ],
)
async def test_every_worker_says_that_an_empty_group_id_is_invalid(world, api, version, fields):
    both = await world.start(1, 2)
    await world.until_spread()
    for worker in both:
        answer = await (await worker.client()).call(api, version, group_id="", **fields)
        assert answer.error_code == ErrorCode.INVALID_GROUP_ID


async def test_an_offset_may_be_committed_for_an_empty_group_id(world):
    both = await world.start(1, 2)
    await world.until_spread()
    assert await create_topic(both[0], "t") == 0
    await world.until(lambda: all("t" in worker.server.topics.registry.topics for worker in both))
    codes = [await commit(await worker.client(), "", "t", 7) for worker in both]
    assert sorted(codes) == [0, ErrorCode.NOT_COORDINATOR]


async def test_transactional_ids_of_another_worker_are_refused_and_the_others_answered(world):
    first, second = await world.start(1, 2)
    await world.until_spread()
    transactions = first.server.transactions
    names = [f"id-{number}" for number in range(100)]
    here, there = (
        next(name for name in names if world.owner_of_transactions(transactions.shard_of(name).index) is worker)
        for worker in (first, second)
    )
    client = await first.client()
    response = await client.call("DescribeTransactions", 0, transactional_ids=[there, here])
    assert [each.error_code for each in response.transaction_states] == [
        ErrorCode.NOT_COORDINATOR, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    ]  # fmt: skip


async def test_a_list_leaves_out_a_shard_that_moves_while_it_is_made(world):
    """As in Kafka: the client asks the other worker, too."""
    first, client, here, _ = await two_groups(world)
    given = first.server.groups.shard_of(here)
    given.submit, submit = lambda *asked: (given.give_up("a test"), submit(*asked)), given.submit
    assert given in first.server.groups.here
    listed = await client.call("ListGroups", 4)
    assert (listed.error_code, listed.groups) == (ErrorCode.NONE, [])
