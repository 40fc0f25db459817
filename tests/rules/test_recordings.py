"""Recordings: exact contents for the APIs that move data and groups, outcomes, bounds; an entry for every API and version."""

import asyncio

import pytest

from coordinator.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    FetchRequest,
    JoinGroupRequest,
    SyncGroupRequest,
)
from coordinator.protocol.subscription import (
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from coordinator.rules import recordings as recordings_module
from tests.rules.samples import TOPIC, VERSIONS, sample
from tests.rules.world import commit, committed, entries, fetch, last, produce, running
from tests.topics.data_plane import batch


async def test_an_entry_says_who_asked_what_when_and_what_the_answer_was(world):
    recording = world.record({"api": "Heartbeat", "group": "g"})
    first, second = await world.client("left"), await world.client("right")
    for client in (first, second, first):
        await client.call("Heartbeat", 4, group_id="g", generation_id=1, member_id="m")
    await first.call("Heartbeat", 4, group_id="other", generation_id=1, member_id="m")
    found = entries(recording)
    assert [(each.number, each.client_id, each.connection) for each in found] == [
        (1, "left", 1),
        (2, "right", 2),
        (3, "left", 1),
    ]
    entry = found[2]
    assert (entry.api, entry.version, entry.correlation_id, entry.client_host) == (
        "Heartbeat",
        4,
        first.last - 1,
        "127.0.0.1",
    )
    assert entry.listener == world.bootstrap
    assert entry.request == {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None}
    assert entry.response == {"throttle_time_ms": 0, "error": "UNKNOWN_MEMBER_ID"}
    assert (entry.outcome, entry.fault) == ("answered", None)
    assert entry.time_ms <= entry.answered_ms


async def test_produce_and_fetch_are_shown_by_partition(world):
    client = await world.client()
    recording = world.record({"topic": "orders"})
    await client.call("Produce", 9, produce([("orders", [0, 1])]))
    entry = last(recording)
    assert [(each["topic"], each["partition"], each["count"]) for each in entry.request["partitions"]] == [
        ("orders", 0, 1),
        ("orders", 1, 1),
    ]
    assert entry.response["partitions"][1] == {
        "topic": "orders",
        "partition": 1,
        "base_offset": 0,
        "count": 1,
        "error": None,
    }
    world.server.topics.partition("orders", 0)
    for _ in range(2):
        await client.call("Produce", 9, produce([("orders", [0])]))
    await client.call("Fetch", 12, fetch([("orders", 0, 1), ("orders", 1, 1), ("orders", 9, 0)]))
    entry = last(recording)
    assert entry.request["partitions"][0] == {"topic": "orders", "partition": 0, "fetch_offset": 1}
    read = {each["partition"]: each for each in entry.response["partitions"]}
    assert read[0] == {
        "topic": "orders", "partition": 0, "fetch_offset": 1, "first_offset": 1, "last_offset": 2, "count": 2,
        "high_watermark": 3, "last_stable_offset": 3, "error": None,
    }  # fmt: skip
    assert (read[1]["count"], read[1]["first_offset"], read[1]["high_watermark"]) == (0, None, 1)
    assert read[9]["error"] == "UNKNOWN_TOPIC_OR_PARTITION"


async def test_records_before_the_fetch_offset_and_markers_do_not_count(world):
    client = await world.client()
    three = produce([("orders", [0])])
    three.topic_data[0].partition_data[0].records = batch(b"a", b"b", b"c")
    await client.call("Produce", 9, three)
    recording = world.record({"api": "Fetch"})
    await client.call("Fetch", 12, fetch([("orders", 0, 2)]))
    (read,) = last(recording).response["partitions"]
    assert (read["first_offset"], read["last_offset"], read["count"]) == (2, 2, 1)


async def test_a_fetch_in_a_session_shows_all_partitions_that_it_asks_for(world):
    client = await world.client()
    topic_id = world.server.topics.topic_id("orders")
    recording = world.record({"api": "Fetch", "topic": "orders"})
    wanted = [FetchRequest.FetchPartition(index, partition_max_bytes=10**6) for index in (0, 1)]
    fields = {
        "max_wait_ms": 0,
        "max_bytes": 10**6,
        "topics": [FetchRequest.FetchTopic(topic_id=topic_id, partitions=wanted)],
    }
    session = (await client.call("Fetch", 16, **fields, session_epoch=0)).session_id
    await client.call("Produce", 9, produce([("orders", [1])]))
    fields["topics"] = []
    await client.call("Fetch", 16, **fields, session_id=session, session_epoch=1)
    entry = last(recording)
    assert [(each["topic"], each["partition"]) for each in entry.request["partitions"]] == [
        ("orders", 0),
        ("orders", 1),
    ]
    (read,) = entry.response["partitions"]
    assert (read["topic"], read["partition"], read["fetch_offset"], read["count"]) == ("orders", 1, 0, 1)


async def test_commits_and_committed_offsets_are_shown_by_partition(world):
    client = await world.client()
    recording = world.record({"group": "g"})
    await client.call("OffsetCommit", 7, commit(5, partitions=(0, 9)))
    entry = last(recording)
    assert entry.request["group_id"] == "g"
    assert entry.request["epoch"] == -1
    assert entry.request["partitions"][0] == {
        "topic": "orders",
        "partition": 0,
        "offset": 5,
        "leader_epoch": -1,
        "metadata": "",
    }
    assert sorted((each["partition"], each["error"]) for each in entry.response["partitions"]) == [
        (0, None),
        (9, "UNKNOWN_TOPIC_OR_PARTITION"),
    ]
    await committed(client)
    entry = last(recording)
    assert entry.request["groups"][0]["partitions"] == [{"topic": "orders", "partition": 0}]
    (group,) = entry.response["groups"]
    assert (group["group_id"], group["error"]) == ("g", None)
    assert group["partitions"][0]["offset"] == 5


async def test_joins_and_syncs_have_subscriptions_and_assignments(world):
    client = await world.client()
    recording = world.record({"group": "g"})
    metadata = encode_subscription(Subscription(("orders",), None, {"orders": (2,)}, 7, "a-rack", 3))
    protocols = [JoinGroupRequest.JoinGroupRequestProtocol("range", metadata)]
    fields = {
        "group_id": "g",
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 30_000,
        "protocol_type": "consumer",
    }
    joined = await client.call("JoinGroup", 3, **fields, protocols=protocols)
    entry = last(recording)
    subscription = {
        "topics": ["orders"],
        "owned": [{"topic": "orders", "partition": 2}],
        "generation_id": 7,
        "rack_id": "a-rack",
    }
    assert entry.request["protocols"] == [{"name": "range", **subscription}]
    assert entry.request["session_timeout_ms"] == 30_000
    assert entry.response["members"] == [{"member_id": joined.member_id, **subscription}]
    assert entry.response["leader"] == joined.member_id
    assigned = encode_assignment(Assignment({"orders": (0, 1)}, None, 3))
    await client.call(
        "SyncGroup", 3, group_id="g", generation_id=1, member_id=joined.member_id,
        assignments=[SyncGroupRequest.SyncGroupRequestAssignment(joined.member_id, assigned)],
    )  # fmt: skip
    entry = last(recording)
    partitions = [{"topic": "orders", "partition": 0}, {"topic": "orders", "partition": 1}]
    assert entry.request["assignments"] == [{"member_id": joined.member_id, "assignment": partitions}]
    assert entry.response["assignment"] == partitions


async def test_heartbeats_of_consumer_groups_have_topics_by_name(world):
    client = await world.client()
    recording = world.record({"group": "c"})
    topic_id = world.server.topics.topic_id("orders")
    owned = [ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id, [0])]
    asked = {"group_id": "c", "member_id": "m", "rebalance_timeout_ms": 1_000, "subscribed_topic_names": ["orders"]}
    joined = await client.call("ConsumerGroupHeartbeat", 1, **asked, member_epoch=0, topic_partitions=[])
    entry = last(recording)
    assert entry.response["assignment"] == [{"topic": "orders", "partition": index} for index in range(4)]
    assert (entry.request["topic_partitions"], entry.request["member_epoch"]) == ([], 0)
    await client.call(
        "ConsumerGroupHeartbeat",
        1,
        group_id="c",
        member_id="m",
        member_epoch=joined.member_epoch,
        topic_partitions=owned,
    )
    entry = last(recording)
    assert entry.request["topic_partitions"] == [{"topic": "orders", "partition": 0}]
    assert entry.response["member_epoch"] == joined.member_epoch


@pytest.mark.parametrize(
    ("action", "outcome", "has_response"),
    [
        ({"error": "ILLEGAL_GENERATION"}, "answered", True),
        ({"lose": "request"}, "lost", False),
        ({"lose": "answer"}, "lost", True),
        ({"close": True}, "answered", True),
        ({"throttle_ms": 1}, "answered", True),
    ],
)
async def test_an_entry_names_the_fault_and_the_outcome(world, action, outcome, has_response):
    client = await world.client()
    recording = world.record({"api": "OffsetCommit"})
    fault = world.fault({"api": "OffsetCommit"}, action)
    client.send("OffsetCommit", 7, commit(5))
    assert await recording.changes.wait(
        lambda: bool(entries(recording)) and last(recording).outcome != "pending", 10_000
    )
    entry = last(recording)
    assert (entry.outcome, entry.fault, entry.response is not None) == (outcome, fault.id, has_response)
    if "error" in action:
        assert entry.response["partitions"][0]["error"] == "ILLEGAL_GENERATION"
    if "throttle_ms" in action:
        assert entry.response["throttle_time_ms"] == 1


async def test_an_entry_is_pending_until_its_outcome_is_certain(world):
    client = await world.client()
    recording = world.record({"api": "OffsetCommit"})
    fault = world.fault({"api": "OffsetCommit"}, {"hold": "answer"}, times=2)
    client.send("OffsetCommit", 7, commit(5))
    await fault.changes.wait(lambda: len(fault.held) == 1, 10_000)
    assert (last(recording).outcome, last(recording).response) == ("pending", None)
    fault.release(1)
    await client.receive()
    assert last(recording).outcome == "answered"
    client.send("OffsetCommit", 7, commit(6))
    await fault.changes.wait(lambda: len(fault.held) == 1, 10_000)
    client.close()
    assert await recording.changes.wait(lambda: last(recording).outcome == "closed", 10_000)


async def test_a_produce_without_an_answer_is_answered_with_nothing(world):
    client = await world.client()
    recording = world.record({"api": "Produce"})
    client.send("Produce", 9, produce([("orders", [0])], acks=0))
    assert await recording.changes.wait(
        lambda: bool(entries(recording)) and last(recording).outcome != "pending", 10_000
    )
    assert (last(recording).outcome, last(recording).response) == ("answered", None)


async def test_a_recording_keeps_a_bounded_number_of_entries_and_bytes(world, monkeypatch):
    client = await world.client()
    few = world.record({"api": "Heartbeat"}, limit=2)
    monkeypatch.setattr(recordings_module, "BYTES_MAX", 2_000)
    small = world.record({"api": "Heartbeat"})
    for number in range(20):
        await client.call("Heartbeat", 4, group_id="g", generation_id=number, member_id="m")
    assert [entry.request["generation_id"] for entry in entries(few)] == [18, 19]
    assert few.dropped == 18
    assert sum(len(each) for each in small.page(0, 1_000)[0]) <= 2_000
    assert small.status.entries + small.dropped == 20
    assert entries(small)[-1].request["generation_id"] == 19


async def test_a_reader_waits_for_the_next_entry(world):
    client = await world.client()
    recording = world.record({"api": "Heartbeat"})
    waiting = asyncio.create_task(recording.changes.wait(lambda: recording.last > 0, 10_000))
    await asyncio.sleep(0)
    await client.call("Heartbeat", 4, group_id="g", generation_id=1, member_id="m")
    assert await waiting
    assert not await recording.changes.wait(lambda: recording.last > 1, 1)


async def test_every_api_is_recorded_in_every_version_and_answered_as_without(tmp_path):
    async with running(tmp_path) as world:
        client = await world.client()
        topic_id = world.server.topics.topic_id(TOPIC)
        recording = world.record({}, limit=1_000)
        for api, version in VERSIONS:
            request = sample(api, version, topic_id)
            if api == "Fetch":
                request.max_wait_ms = 0
            await client.call(api, version, request)
            entry = last(recording)
            assert (entry.api, entry.version, entry.outcome) == (api, version, "answered")
            assert entry.response is not None
