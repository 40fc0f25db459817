"""Which requests a rule is about: every field of a match, in every version that names it; and for how long."""

import asyncio

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    FetchRequest,
    LeaveGroupRequest,
    MetadataRequest,
    OffsetCommitRequest,
    ProduceRequest,
)
from coordinator.rules.elements import named_by
from coordinator.rules.matching import Matcher, Seen
from coordinator.rules.model import Match
from tests.rules.samples import APIS, GROUP, MEMBER, TOPIC, TRANSACTIONAL_ID, VERSIONS, sample
from tests.rules.world import joining_fields, running

STATIC = "the-instance"
_HEARTBEAT = {"generation_id": 1, "member_id": "m"}
_NAMES = {"group": GROUP, "topic": TOPIC, "transactional_id": TRANSACTIONAL_ID, "member_id": MEMBER}


async def refused(client, group="g", version=4, **fields):
    """Whether a heartbeat meets the rule."""
    response = await client.call("Heartbeat", version, group_id=group, **_HEARTBEAT | fields)
    return response.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


ERROR = {"error": "GROUP_AUTHORIZATION_FAILED"}


@pytest.fixture
def always(world):
    def set_rule(**match):
        world.clear()
        return world.fault({"api": "Heartbeat", **match}, ERROR, until="cleared")

    return set_rule


# --- what requests name -----------------------------------------------------------------------------------------------


class _Exchange:
    """What a match asks an exchange."""

    client_id, client_host, advertised, queue = "test", "/127.0.0.1", ("localhost", 9092), None

    def __init__(self, api, version, request):
        self.route = type("Route", (), {"name": api, "api": APIS[api], "version": version})
        self.request = request


async def test_every_name_that_a_request_has_is_matched_in_every_version(tmp_path):
    async with running(tmp_path) as world:
        topic_id = world.server.topics.topic_id(TOPIC)
        unseen = {name: {api for api, _ in VERSIONS if name in named_by(APIS[api])} for name in _NAMES}
        for api, version in VERSIONS:
            seen = Seen(world.server, _Exchange(api, version, sample(api, version, topic_id)))
            for name, text in _NAMES.items():
                found = Matcher(Match(**{name: text})).find(seen)
                if found is not None:
                    assert name in named_by(APIS[api]), (api, version, name)
                    unseen[name].discard(api)
                    assert Matcher(Match(**{name: f"{text[:3]}*"})).find(seen), (api, version, name)
                assert Matcher(Match(**{name: "other"})).find(seen) is None
        assert {name: apis for name, apis in unseen.items() if apis} == {
            "group": {"AlterConfigs", "DescribeConfigs", "IncrementalAlterConfigs"},  # the samples name a topic
            "transactional_id": {"FindCoordinator"},  # the samples look up a group
            "topic": {"StreamsGroupHeartbeat"},  # the samples have no topology
        }


async def test_topics_are_matched_by_id_too(world):
    client = await world.client()
    topics = world.server.topics
    fault = world.fault({"topic": "ord*"}, {"delay_ms": 0}, until="cleared")
    by_id = topics.topic_id("orders")
    other = topics.topic_id("events")
    part = OffsetCommitRequest.OffsetCommitRequestPartition(0, 1)
    for topic_id in (by_id, other):
        wanted = MetadataRequest.MetadataRequestTopic(topic_id=topic_id, name=None)
        await client.call("Metadata", 12, topics=[wanted])
        fetched = FetchRequest.FetchTopic(topic_id=topic_id, partitions=[FetchRequest.FetchPartition(0)])
        await client.call("Fetch", 13, max_wait_ms=0, topics=[fetched], session_epoch=-1)
        data = ProduceRequest.TopicProduceData(
            topic_id=topic_id, partition_data=[ProduceRequest.PartitionProduceData(0, b"")]
        )
        await client.call("Produce", 13, acks=-1, timeout_ms=1, topic_data=[data])
        await client.call(
            "OffsetCommit",
            10,
            group_id="g",
            topics=[OffsetCommitRequest.OffsetCommitRequestTopic(topic_id=topic_id, partitions=[part])],
        )
        owned = ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id, [0])
        await client.call(
            "ConsumerGroupHeartbeat", 1, group_id="c", member_id="m", member_epoch=1, topic_partitions=[owned]
        )
    assert fault.matched == 5


# --- single fields ----------------------------------------------------------------------------------------------------


async def test_versions_and_apis(world, always):
    client = await world.client()
    always(version=3)
    assert [await refused(client, version=version) for version in range(5)] == [False, False, False, True, False]
    always(version=(1, 2))
    assert [await refused(client, version=version) for version in range(5)] == [False, True, True, False, False]
    world.clear()
    fault = world.fault({"api": ["List*", "Heartbeat"]}, {"delay_ms": 0}, until="cleared")
    await refused(client)
    await client.call("ListGroups", 4)
    await client.call("ApiVersions", 0)
    assert fault.matched == 2


@pytest.mark.parametrize(
    ("field", "hit", "missed", "fields"),
    [
        ("group", "g", "h", {}),
        ("group", "[a-g]", "[h-z]", {}),
        ("member_id", "m", "n", {}),
        ("instance_id", "the-*", "other", {"group_instance_id": STATIC}),
        ("client_id", "te?t", "tes?t", {}),
        ("client_host", "127.0.*", "127.1.*", {}),
    ],
)  # fmt: skip
async def test_names_and_globs(world, always, field, hit, missed, fields):
    client = await world.client()
    always(**{field: missed})
    assert not await refused(client, **fields)
    always(**{field: hit})
    assert await refused(client, **fields)


async def test_what_a_request_does_not_name_does_not_match(world, always):
    client = await world.client()
    always(instance_id="*")
    assert not await refused(client)
    always(member_id="*")
    assert not await refused(client, member_id="")


async def test_listeners_by_what_clients_get(tmp_path):
    async with running(tmp_path, ["listeners=[127.0.0.1:0, 127.0.0.1:0]"]) as world:
        first, second = await world.client(), await world.client(listener=1)
        host, port = world.server.listeners[1].advertised
        world.fault({"listener": f"{host}:{port}"}, ERROR, until="cleared")
        assert (await refused(first), await refused(second)) == (False, True)


async def test_the_role_is_that_of_the_moment(world, always):
    leader, follower = await world.client(), await world.client()
    first, _ = await world.join(leader, "g")
    follower.send("JoinGroup", 3, **joining_fields("g"))
    await follower.silent()
    joined = await leader.call("JoinGroup", 7, **joining_fields("g", member_id=first))
    second = (await follower.receive()).member_id
    assert (joined.leader, len(joined.members)) == (first, 2)
    always(role="leader")
    assert [await refused(leader, member_id=each) for each in (first, second, "nobody")] == [True, False, False]
    always(role="follower")
    assert [await refused(leader, member_id=each) for each in (first, second, "nobody")] == [False, True, False]
    await leader.call("LeaveGroup", 1, group_id="g", member_id=first)
    follower.send("JoinGroup", 3, **joining_fields("g", member_id=second))
    assert (await follower.receive()).leader == second
    assert not await refused(follower, member_id=second)
    always(role="leader")
    assert await refused(follower, member_id=second)


async def test_the_state_is_that_of_the_moment(world, always):
    client = await world.client()
    always(group_state=["Dead", "Stable"])
    assert await refused(client)
    member_id, _ = await world.join(client, "g")
    assert await refused(client, member_id=member_id)
    always(group_state="*Rebalance")
    assert not await refused(client, member_id=member_id)
    other = await world.client()
    other.send("JoinGroup", 3, **joining_fields("g"))
    await other.silent()
    assert await refused(client, member_id=member_id)


async def test_members_of_one_request_are_distinguished(world):
    client = await world.client()
    world.fault({"api": "LeaveGroup", "member_id": "b"}, {"error": "FENCED_INSTANCE_ID"})
    members = [LeaveGroupRequest.MemberIdentity(each) for each in "abc"]
    response = await client.call("LeaveGroup", 5, group_id="g", members=members)
    by_member = {each.member_id: each.error_code for each in response.members}
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert by_member == {"a": unknown, "b": ErrorCode.FENCED_INSTANCE_ID, "c": unknown}


# --- how often, how long ----------------------------------------------------------------------------------------------


async def test_nth_skips_the_matches_before_it_and_times_ends_the_rule(world):
    client = await world.client()
    fault = world.fault({"api": "Heartbeat", "nth": 3}, ERROR, times=2)
    assert [await refused(client) for _ in range(6)] == [False, False, True, True, False, False]
    assert (fault.matched, fault.acted, fault.active) == (4, 2, False)


@pytest.mark.parametrize("per", ["member", "group", "connection"])
async def test_per_counts_for_each_apart(world, per):
    first, second = await world.client(), await world.client()
    world.fault({"api": "Heartbeat", "nth": 2, "per": per}, ERROR)
    calls = {
        "member": [(first, {"member_id": "a"}), (first, {"member_id": "b"})],
        "group": [(first, {"group": "a"}), (first, {"group": "b"})],
        "connection": [(first, {}), (second, {})],
    }[per]
    found = [[await refused(client, **fields) for client, fields in calls] for _ in range(3)]
    assert found == [[False, False], [True, True], [False, False]]


async def test_the_first_rule_that_matches_acts_and_the_next_one_when_it_is_used_up(world):
    client = await world.client()
    first = world.fault({"api": "Heartbeat"}, {"error": "REBALANCE_IN_PROGRESS"})
    second = world.fault({"api": "Heartbeat"}, ERROR)
    assert not await refused(client)
    assert (first.acted, second.matched) == (1, 0)
    assert await refused(client)
    assert not await refused(client)


async def test_until_cleared_acts_until_it_is_cleared(world):
    client = await world.client()
    world.fault({"api": "Heartbeat"}, ERROR, until="cleared")
    assert [await refused(client) for _ in range(5)] == [True] * 5
    world.clear()
    assert not await refused(client)


async def test_for_ms_goes_by_the_clock_of_the_server(world):
    client = await world.client()
    clock = world.server.clock
    clock.stop()
    fault = world.fault({"api": "Heartbeat"}, ERROR, for_ms=60_000)
    assert await refused(client)
    await clock.advance(clock.monotonic_ms() + 59_999, lambda: asyncio.sleep(0))
    assert await refused(client)
    await clock.advance(clock.monotonic_ms() + 1, lambda: asyncio.sleep(0))
    assert not await refused(client)
    assert not fault.active
    assert not world.interceptor.faults.active_apis


async def test_two_tests_that_run_at_once_in_one_server_do_not_meet(world):
    """Each has groups of its own, and clears its own scope."""

    async def one_test(name):
        client = await world.client(client_id=name)
        for _ in range(20):
            fault = world.fault({"api": "Heartbeat", "group": f"{name}-*"}, ERROR, times=2, scope=name)
            groups = [f"{name}-1", "shared", f"{name}-2", f"{name}-3"]
            assert [await refused(client, group=group) for group in groups] == [True, False, True, False]
            assert fault.matched == 2
            faults = world.interceptor.faults
            assert faults.clear(faults.of_scope(name)) == 1

    await asyncio.gather(*(one_test(name) for name in ("left", "right")))


async def test_a_route_is_intercepted_only_while_a_rule_or_recording_is_about_its_api(world):
    client = await world.client()
    for api, fields in (("Heartbeat", {"group_id": "g", **_HEARTBEAT}), ("ListGroups", {})):
        await client.call(api, 4, **fields)

    def intercepted():
        routes = world.server.listeners[0].dispatcher.routes
        return {route.name for route in routes if route.layers}

    assert intercepted() == set()
    fault = world.fault({"api": "Heartbeat", "group": "other"}, ERROR)
    assert intercepted() == {"Heartbeat"}
    recording = world.record({"group": "g"})
    await client.call("ListGroups", 3)
    assert intercepted() == {"Heartbeat"}, "ListGroups names no group"
    world.interceptor.faults.clear([fault])
    assert intercepted() == {"Heartbeat"}
    world.interceptor.recordings.remove([recording])
    assert intercepted() == set()
