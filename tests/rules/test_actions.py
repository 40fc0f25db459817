"""What each action does to a request, its answer, its connection and the requests behind it."""

import asyncio

import pytest

from coordinator.network.connection import Closed as ClosedBy
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    DescribeGroupsRequest,
    FetchRequest,
    OffsetFetchRequest,
)
from tests.rules.world import Closed, commit, committed, fetch, joining_fields, produce


def errors(response):
    return {
        (topic.name, each.partition_index if hasattr(each, "partition_index") else each.index): each.error_code
        for topic in getattr(response, "responses", None) or response.topics
        for each in (getattr(topic, "partition_responses", None) or topic.partitions)
    }


# --- errors -----------------------------------------------------------------------------------------------------------


async def test_an_error_is_answered_and_the_request_has_no_effect(world):
    client = await world.client()
    fault = world.fault({"api": "OffsetCommit", "group": "g"}, {"error": "ILLEGAL_GENERATION"})
    assert errors(await client.call("OffsetCommit", 7, commit(5))) == {("orders", 0): ErrorCode.ILLEGAL_GENERATION}
    assert await committed(client) == -1
    assert (fault.matched, fault.acted, fault.active) == (1, 1, False)
    assert errors(await client.call("OffsetCommit", 7, commit(5))) == {("orders", 0): 0}


async def test_an_error_of_some_partitions_lets_the_others_pass(world):
    client = await world.client()
    world.fault({"api": "OffsetCommit"}, {"error": "UNKNOWN_TOPIC_OR_PARTITION", "partitions": [1, 3]})
    response = await client.call("OffsetCommit", 7, commit(5, partitions=(0, 1, 2)))
    assert errors(response) == {("orders", 0): 0, ("orders", 2): 0, ("orders", 1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert len(response.topics) == 1
    assert [await committed(client, partition=index) for index in range(3)] == [5, -1, 5]


async def test_an_error_of_a_topic_lets_other_topics_of_a_produce_pass(world):
    client = await world.client()
    world.fault({"api": "Produce", "topic": "ord*"}, {"error": "NOT_LEADER_OR_FOLLOWER"})
    response = await client.call("Produce", 9, produce([("orders", [0, 1]), ("events", [0])]))
    refused = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert errors(response) == {("orders", 0): refused, ("orders", 1): refused, ("events", 0): 0}
    topics = world.server.topics
    assert (topics.partition("orders", 0).high_watermark, topics.partition("events", 0).high_watermark) == (0, 1)


async def test_an_error_to_a_produce_with_acks_0_closes_the_connection(world):
    client = await world.client()
    world.fault({"api": "Produce"}, {"error": "NOT_LEADER_OR_FOLLOWER"})
    client.send("Produce", 9, produce([("orders", [0])], acks=0))
    await client.closed()
    assert world.server.topics.partition("orders", 0).high_watermark == 0


async def test_an_error_of_one_group_lets_the_others_of_a_request_pass(world):
    client = await world.client()
    world.fault({"api": "DescribeGroups", "group": "b"}, {"error": "NOT_COORDINATOR"})
    response = await client.call("DescribeGroups", 5, DescribeGroupsRequest(groups=["a", "b", "c"]))
    assert {each.group_id: each.error_code for each in response.groups} == {
        "a": 0,
        "b": ErrorCode.NOT_COORDINATOR,
        "c": 0,
    }


async def test_offsets_are_unstable_by_partition_and_a_member_is_unknown_by_group(world):
    client = await world.client()
    await client.call("OffsetCommit", 7, commit(5, partitions=(0, 1)))
    await client.call("OffsetCommit", 7, commit(5, topic="events"))
    topic = OffsetFetchRequest.OffsetFetchRequestTopics
    group = OffsetFetchRequest.OffsetFetchRequestGroup
    asked = {
        "groups": [
            group("g", topics=[topic("orders", partition_indexes=[0, 1]), topic("events", partition_indexes=[0])])
        ]
    }
    world.fault({"api": "OffsetFetch", "topic": "orders"}, {"error": "UNSTABLE_OFFSET_COMMIT", "partitions": [1]})
    (found,) = (await client.call("OffsetFetch", 8, **asked)).groups
    read = {(t.name, p.partition_index): (p.committed_offset, p.error_code) for t in found.topics for p in t.partitions}
    unstable = (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert (found.error_code, read) == (0, {("orders", 0): (5, 0), ("orders", 1): unstable, ("events", 0): (5, 0)})
    world.fault({"api": "OffsetFetch", "topic": "orders"}, {"error": "UNKNOWN_MEMBER_ID"})
    (found,) = (await client.call("OffsetFetch", 8, **asked)).groups
    assert (found.error_code, found.topics) == (ErrorCode.UNKNOWN_MEMBER_ID, [])


async def test_a_fetch_in_a_session_meets_the_error_in_partitions_that_it_does_not_name_again(world):
    client = await world.client()
    await client.call("Produce", 9, produce([("orders", [0, 1])]))
    first = fetch([("orders", 0, 0), ("orders", 1, 0)])
    first.session_epoch = 0
    session = (await client.call("Fetch", 12, first)).session_id
    world.fault({"api": "Fetch", "topic": "orders"}, {"error": "OFFSET_OUT_OF_RANGE", "partitions": [1]})
    following = FetchRequest(max_wait_ms=60_000, min_bytes=10_000, max_bytes=10**6, session_id=session, session_epoch=1)
    response = await client.call("Fetch", 12, following)
    found = {each.partition_index: each for topic in response.responses for each in topic.partitions}
    assert (found[1].error_code, found[1].records) == (ErrorCode.OFFSET_OUT_OF_RANGE, b"")
    assert found[0].error_code == 0
    following.session_epoch, following.max_wait_ms = 2, 0
    response = await client.call("Fetch", 12, following)
    assert response.error_code == 0
    assert sum(len(each.records) for topic in response.responses for each in topic.partitions) > 0


async def test_a_metadata_request_for_all_topics_meets_the_error_in_each(world):
    client = await world.client()
    world.fault({"api": "Metadata"}, {"error": "LEADER_NOT_AVAILABLE"}, times=2)
    response = await client.call("Metadata", 9, topics=None)
    assert {topic.error_code for topic in response.topics} == {ErrorCode.LEADER_NOT_AVAILABLE}
    assert {"orders", "events"} <= {topic.name for topic in response.topics}
    world.clear()
    world.fault({"api": "Metadata", "topic": "orders"}, {"error": "LEADER_NOT_AVAILABLE", "partitions": [2]})
    response = await client.call("Metadata", 9, topics=None)
    leaders = {
        (topic.name, each.partition_index): (each.leader_id, each.error_code)
        for topic in response.topics
        for each in topic.partitions
    }
    assert leaders["orders", 2] == (-1, ErrorCode.LEADER_NOT_AVAILABLE)
    assert leaders["orders", 1] == (world.server.node_id, 0)


async def test_a_forced_error_is_answered_where_kafka_never_does(world):
    client = await world.client()
    world.fault({"api": "Heartbeat"}, {"error": "COORDINATOR_LOAD_IN_PROGRESS", "force": True})
    response = await client.call("Heartbeat", 4, group_id="g", generation_id=1, member_id="m")
    assert response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


# --- lost requests and answers ----------------------------------------------------------------------------------------


async def test_a_lost_request_closes_the_connection_and_does_nothing(world):
    client = await world.client()
    world.fault({"api": "OffsetCommit"}, {"lose": "request"})
    client.send("OffsetCommit", 7, commit(5))
    client.send("OffsetCommit", 7, commit(6))
    await client.closed()
    assert await committed(await world.client()) == -1
    assert world.server.listeners[0].closed[ClosedBy.FAULT] == 1


async def test_a_lost_answer_closes_the_connection_when_the_work_is_done(world):
    client = await world.client()
    world.fault({"api": "OffsetCommit"}, {"lose": "answer"})
    client.send("OffsetCommit", 7, commit(5))
    await client.closed()
    assert await committed(await world.client()) == 5


async def test_the_answer_to_a_parked_join_is_lost_when_the_group_gives_it(world):
    leader, follower = await world.client(), await world.client()
    member_id, generation = await world.join(leader, "g")
    fault = world.fault({"api": "JoinGroup", "group": "g"}, {"lose": "answer"})
    follower.send("JoinGroup", 3, **joining_fields("g"))
    await follower.silent()
    assert fault.acted == 1
    heartbeat = await leader.call("Heartbeat", 4, group_id="g", generation_id=generation, member_id=member_id)
    assert heartbeat.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    rejoined = await leader.call("JoinGroup", 7, **joining_fields("g", member_id=member_id))
    assert len(rejoined.members) == 2
    await follower.closed()


async def test_close_closes_the_connection_behind_the_answer(world):
    client = await world.client()
    world.fault({"api": "OffsetFetch"}, {"close": True})
    client.send("OffsetCommit", 7, commit(5))
    client.send("OffsetFetch", 5, group_id="g", topics=[OffsetFetchRequest.OffsetFetchRequestTopic("orders", [0])])
    client.send("OffsetCommit", 7, commit(9))
    assert errors(await client.receive()) == {("orders", 0): 0}
    assert (await client.receive()).topics[0].partitions[0].committed_offset == 5
    await client.closed()
    assert await committed(await world.client()) == 5


# --- waiting ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", [{}, {"when": "before"}])
async def test_a_delayed_request_is_handled_after_the_delay(world, when):
    client, other = await world.client(), await world.client()
    world.server.clock.stop()
    world.fault({"api": "OffsetCommit"}, {"delay_ms": 500, **when})
    client.send("OffsetCommit", 7, commit(5))
    await client.silent()
    assert await committed(other) == -1
    await world.server.clock.advance(world.server.clock.monotonic_ms() + 500, lambda: asyncio.sleep(0))
    assert errors(await client.receive()) == {("orders", 0): 0}
    assert await committed(other) == 5


async def test_a_delayed_answer_leaves_after_the_delay(world):
    client, other = await world.client(), await world.client()
    world.server.clock.stop()
    world.fault({"api": "OffsetCommit"}, {"delay_ms": 500, "when": "after"})
    client.send("OffsetCommit", 7, commit(5))
    client.send("OffsetCommit", 7, commit(6))
    await client.silent()
    assert await committed(other) == 5, "the request behind it waits"
    await world.server.clock.advance(world.server.clock.monotonic_ms() + 500, lambda: asyncio.sleep(0))
    assert [errors(await client.receive()) for _ in range(2)] == [{("orders", 0): 0}] * 2
    assert await committed(other) == 6


async def test_a_held_request_is_handled_when_it_is_released_and_those_behind_it_wait(world):
    client, other = await world.client(), await world.client()
    fault = world.fault({"api": "OffsetCommit"}, {"hold": "request"})
    client.send("OffsetCommit", 7, commit(5))
    client.send("OffsetCommit", 7, commit(6, partitions=(1,)))
    assert await fault.changes.wait(lambda: len(fault.held) == 1, 10_000)
    await client.silent()
    assert await committed(other) == -1
    assert fault.status.held == 1
    assert fault.release(None) == 1
    assert [errors(await client.receive()) for _ in range(2)] == [{("orders", 0): 0}, {("orders", 1): 0}]
    assert fault.release(None) == 0


async def test_held_answers_are_released_one_by_one_the_oldest_first(world):
    clients = [await world.client() for _ in range(3)]
    fault = world.fault({"api": "OffsetCommit"}, {"hold": "answer"}, times=3)
    for number, client in enumerate(clients):
        client.send("OffsetCommit", 7, commit(number))
        await fault.changes.wait(lambda held=number + 1: len(fault.held) == held, 10_000)
    assert await committed(await world.client()) == 2
    assert fault.release(1) == 1
    assert errors(await clients[0].receive()) == {("orders", 0): 0}
    await clients[1].silent()
    world.clear()
    assert [errors(await client.receive()) for client in clients[1:]] == [{("orders", 0): 0}] * 2


@pytest.mark.parametrize("action", [{"hold": "answer"}, {"delay_ms": 60_000, "when": "after"}], ids=["hold", "delay"])
async def test_an_answer_leaves_whose_rule_was_cleared_while_the_group_had_the_request(world, action):
    leader, follower = await world.client(), await world.client()
    member_id, _ = await world.join(leader, "g")
    fault = world.fault({"api": "JoinGroup"}, action)
    follower.send("JoinGroup", 3, **joining_fields("g"))
    assert await fault.changes.wait(lambda: fault.acted == 1, 10_000)
    await follower.silent()
    world.clear()
    rejoined = await leader.call("JoinGroup", 7, **joining_fields("g", member_id=member_id))
    assert len(rejoined.members) == 2
    assert (await follower.receive()).error_code == 0


async def test_a_held_request_whose_client_is_gone_is_dropped(world):
    client = await world.client()
    fault = world.fault({"api": "OffsetCommit"}, {"hold": "request"})
    client.send("OffsetCommit", 7, commit(5))
    await fault.changes.wait(lambda: bool(fault.held), 10_000)
    client.close()
    assert await fault.changes.wait(lambda: not fault.held, 10_000)
    assert await committed(await world.client()) == -1


async def test_a_throttled_client_reads_the_time_and_is_not_read_for_so_long(world):
    client = await world.client()
    world.fault({"api": "OffsetFetch"}, {"throttle_ms": 60_000})
    asked = [OffsetFetchRequest.OffsetFetchRequestTopic("orders", [0])]
    response = await client.call("OffsetFetch", 5, group_id="g", topics=asked)
    assert response.throttle_time_ms == 60_000
    client.send("OffsetFetch", 5, group_id="g", topics=asked)
    await client.silent()
    world.fault({"api": "OffsetFetch"}, {"throttle_ms": 1})
    other = await world.client()
    assert (await other.call("OffsetFetch", 5, group_id="g", topics=asked)).throttle_time_ms == 1
    assert (await other.call("OffsetFetch", 5, group_id="g", topics=asked)).throttle_time_ms == 0


# --- coordinators -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "error", "looked_up"),
    [
        ("moved", ErrorCode.NOT_COORDINATOR, 0),
        ("loading", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0),
        ("unavailable", ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
async def test_a_coordinator_is_away_for_every_api_of_its_group_and_for_no_other(world, state, error, looked_up):
    client = await world.client()
    world.fault({"group": "g"}, {"coordinator": state}, until="cleared")
    assert errors(await client.call("OffsetCommit", 7, commit(5))) == {("orders", 0): error}
    assert errors(await client.call("OffsetCommit", 7, commit(5, group="other"))) == {("orders", 0): 0}
    described = await client.call("DescribeGroups", 5, groups=["g", "other"])
    assert {each.group_id: each.error_code for each in described.groups} == {"g": error, "other": 0}
    found = await client.call("FindCoordinator", 4, key_type=0, coordinator_keys=["other", "g"])
    assert {each.key: each.error_code for each in found.coordinators} == {"other": 0, "g": looked_up}
    found = await client.call("FindCoordinator", 3, key_type=0, key="g")
    assert found.error_code == looked_up
    heartbeat = await client.call("Heartbeat", 4, group_id="g", generation_id=1, member_id="m")
    assert heartbeat.error_code == (0 if state == "loading" else error), "Kafka answers heartbeats while it loads"


async def test_the_coordinator_of_a_transactional_id_is_away(world):
    client = await world.client()
    world.fault({"transactional_id": "t"}, {"coordinator": "moved"}, until="cleared")
    asked = {"transaction_timeout_ms": 1_000}
    assert (await client.call("InitProducerId", 4, transactional_id="t", **asked)).error_code == 16
    assert (await client.call("InitProducerId", 4, transactional_id="u", **asked)).error_code == 0
    assert (await client.call("InitProducerId", 4, transactional_id=None, **asked)).error_code == 0
    assert (await client.call("EndTxn", 3, transactional_id="t", producer_id=1, producer_epoch=0)).error_code == 16


async def test_rules_catch_requests_that_the_hot_path_knows_by_heart(world):
    """A repeated heartbeat is not decoded again, and a repeated commit goes by a template of its connection."""
    client = await world.client()
    for offset in range(20):
        await client.call("OffsetCommit", 7, commit(offset))
        await client.call("Heartbeat", 4, group_id="g", generation_id=1, member_id="m")
    for api, match in (("OffsetCommit", {}), ("Heartbeat", {"member_id": "m"})):
        world.fault({"api": api, "group": "g", **match}, {"error": "REBALANCE_IN_PROGRESS"})
    assert errors(await client.call("OffsetCommit", 7, commit(99))) == {("orders", 0): ErrorCode.REBALANCE_IN_PROGRESS}
    heartbeat = await client.call("Heartbeat", 4, group_id="g", generation_id=1, member_id="m")
    assert heartbeat.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert await committed(client) == 19
    dispatcher = world.server.listeners[0].dispatcher
    assert not any(route.layers for route in dispatcher.routes), "both rules are used up"


async def test_a_closed_client_raises(world):
    client = await world.client()
    world.fault({"api": "ApiVersions"}, {"lose": "request"})
    with pytest.raises(Closed):
        await client.call("ApiVersions", 0)
