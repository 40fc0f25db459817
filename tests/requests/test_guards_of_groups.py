"""What ACLs change from one request about groups and transactions to the next; the answers are Kafka's (tests/access)."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from coordinator.api import guards
from coordinator.api.sliced_work import SLICE_PIECES
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    AddPartitionsToTxnRequest,
    ConsumerGroupHeartbeatRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    StreamsGroupHeartbeatRequest,
    TxnOffsetCommitRequest,
)
from coordinator.requests import list_groups
from coordinator.security.access import (
    CREATE_TOPIC,
    DELETE_GROUP,
    DESCRIBE_GROUP,
    DESCRIBE_TOPIC,
    READ_GROUP,
    READ_TOPIC,
    WRITE_TRANSACTIONAL_ID,
)
from tests.groups.harness import subscription
from tests.requests.guarded_world import begin, by_topic, commit, counted_slices, everything, offsets, server
from tests.rules.samples import GROUP, error_codes
from tests.rules.world import WITHIN_S, joining_fields, last

TOPIC_DENIED, GROUP_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED
UNKNOWN_TOPIC = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
REFRESH_MS = 10_000
MISSING_INTERNAL_TOPICS = 3
_Owned = ConsumerGroupHeartbeatRequest.TopicPartitions


@pytest.fixture
async def guarded(tmp_path):
    async with server(tmp_path) as world:
        yield world


@pytest.mark.parametrize("named", [{}, {"protocol_type": "consumer"}, {"protocol_name": "range"}])
async def test_a_sync_without_its_protocol_is_invalid_before_it_is_denied(guarded, named):
    client = await guarded.client()
    for _ in range(2):
        answer = await client.call("SyncGroup", 5, group_id=GROUP, member_id="m", **named)
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        guarded.permits.allow(READ_GROUP, GROUP)


async def test_a_request_that_waits_is_answered_although_its_permission_is_gone(guarded):
    """Permissions are looked at when a request arrives, and not again."""
    guarded.permits.allow(READ_GROUP, GROUP)
    first, second = await guarded.client(), await guarded.client()
    member, generation = await guarded.join(first, GROUP)
    second.send("JoinGroup", 3, **joining_fields(GROUP))
    await second.silent()
    guarded.permits.forbid(READ_GROUP, GROUP)
    beat = {"group_id": GROUP, "generation_id": generation, "member_id": member}
    assert (await first.call("Heartbeat", 4, **beat)).error_code == GROUP_DENIED
    guarded.permits.allow(READ_GROUP, GROUP)
    first.send("JoinGroup", 3, **joining_fields(GROUP, member_id=member))
    guarded_joins = [await each.receive() for each in (first, second)]
    assert [each.error_code for each in guarded_joins] == [0, 0]


async def test_the_same_heartbeat_is_asked_about_each_time(guarded):
    """Its bytes are those of the one before, which is kept decoded."""
    guarded.permits.allow(READ_GROUP, GROUP)
    client = await guarded.client()
    member, generation = await guarded.join(client, GROUP)
    codes = []
    for change in (guarded.permits.forbid, guarded.permits.allow, guarded.permits.forbid):
        answer = await client.call("Heartbeat", 4, group_id=GROUP, generation_id=generation, member_id=member)
        codes.append(answer.error_code)
        change(READ_GROUP, GROUP)
    assert codes == [0, GROUP_DENIED, 0]


@pytest.mark.parametrize(
    ("access", "name", "code"), [(READ_TOPIC, "orders", TOPIC_DENIED), (READ_GROUP, GROUP, GROUP_DENIED)]
)
async def test_a_commit_that_is_repeated_is_refused_as_soon_as_a_permission_is_gone(guarded, access, name, code):
    """Its bytes differ in the offset only, so that it is hardly decoded any more."""
    guarded.permits.allow(READ_GROUP, GROUP)
    guarded.permits.allow(READ_TOPIC, "orders")
    client = await guarded.client()
    request = commit(GROUP, {"orders": [0]})

    async def answers(count):
        found = set()
        for _ in range(count):
            request.topics[0].partitions[0].committed_offset += 1
            found |= {
                each for _, partitions in by_topic(await client.call("OffsetCommit", 8, request)) for each in partitions
            }
        return found

    assert await answers(20) == {(0, 0)}
    guarded.permits.forbid(access, name)
    assert await answers(5) == {(0, code)}
    guarded.permits.allow(access, name)
    assert await answers(5) == {(0, 0)}


async def test_only_what_the_client_may_read_is_committed_and_deleted(guarded):
    """In a transaction, too."""
    topics = {"orders": [0], "events": [0]}
    guarded.permits.allow(READ_GROUP, GROUP)
    guarded.permits.allow(READ_TOPIC, "orders")
    guarded.permits.allow(DELETE_GROUP, GROUP)
    guarded.permits.allow(WRITE_TRANSACTIONAL_ID, "t")
    client = await guarded.client()

    async def committed():
        async with everything(guarded) as admin:
            return await offsets(admin, *topics)

    await client.call("OffsetCommit", 9, commit(GROUP, topics))
    assert await committed() == [7, -1]
    await delete_offsets(client, *topics)
    assert await committed() == [-1, -1]
    given = await client.call("InitProducerId", 4, transactional_id="t", transaction_timeout_ms=60_000)
    producer = {"transactional_id": "t", "producer_id": given.producer_id, "producer_epoch": given.producer_epoch}
    partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(0, 7)
    topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
    wanted = [topic(name=name, partitions=[partition]) for name in topics]
    answer = await client.call(
        "TxnOffsetCommit", 5, group_id=GROUP, generation_id_or_member_epoch=-1, topics=wanted, **producer
    )
    assert dict(by_topic(answer)) == {"orders": [(0, 0)], "events": [(0, TOPIC_DENIED)]}
    assert not (await client.call("EndTxn", 4, committed=True, **producer)).error_code
    assert await committed() == [7, -1]
    async with everything(guarded) as admin:
        await admin.call("OffsetCommit", 9, commit(GROUP, topics))
    await delete_offsets(client, *topics)
    assert await committed() == [-1, 7]


async def delete_offsets(client, *topics):
    topic, partition = OffsetDeleteRequest.OffsetDeleteRequestTopic, OffsetDeleteRequest.OffsetDeleteRequestPartition
    await client.call("OffsetDelete", 0, group_id=GROUP, topics=[topic(name, [partition(0)]) for name in topics])


async def test_what_is_left_out_of_a_list_is_not_audited(guarded):
    """Nobody has asked for it by its name."""
    async with everything(guarded) as admin:
        await admin.call("OffsetCommit", 9, commit(GROUP, {"orders": [0], "events": [0]}))
        await begin(admin, "t")
    guarded.permits.allow(DESCRIBE_GROUP, GROUP)
    client = await guarded.client()
    whole = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=GROUP, topics=None)
    guarded.permits.denied.clear()
    assert (await client.call("OffsetFetch", 7, group_id=GROUP, topics=None)).topics == []
    assert (await client.call("OffsetFetch", 10, groups=[whole])).groups[0].topics == []
    guarded.permits.forbid(DESCRIBE_GROUP, GROUP)
    assert (await client.call("ListGroups", 5)).groups == []
    assert (await client.call("ListTransactions", 2)).transaction_states == []
    assert guarded.permits.denied == []


async def test_groups_that_may_not_be_deleted_come_last(guarded):
    """Kafka has them last, too, and the others in the order of a hash table."""
    guarded.permits.allow(DELETE_GROUP, "a", "c")
    client = await guarded.client()
    response = await client.call("DeleteGroups", 2, groups_names=["b", "c", "a", "b"])
    assert [each.group_id for each in response.results] == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("api", "version", "fields"),
    [
        ("DescribeGroups", 5, lambda names: {"groups": names}),
        ("ConsumerGroupDescribe", 1, lambda names: {"group_ids": names}),
        ("DeleteGroups", 2, lambda names: {"groups_names": names}),
        ("OffsetFetch", 8, lambda names: {"groups": [OffsetFetchRequest.OffsetFetchRequestGroup(n) for n in names]}),
        (
            "OffsetFetch",
            7,
            lambda names: {
                "group_id": GROUP,
                "topics": [OffsetFetchRequest.OffsetFetchRequestTopic(name, [0]) for name in names],
            },
        ),
        (
            "OffsetDelete",
            0,
            lambda names: {
                "group_id": GROUP,
                "topics": [
                    OffsetDeleteRequest.OffsetDeleteRequestTopic(
                        name, [OffsetDeleteRequest.OffsetDeleteRequestPartition(0)]
                    )
                    for name in names
                ],
            },
        ),
    ],
)
async def test_the_authorizer_is_asked_about_many_names_in_slices(guarded, monkeypatch, api, version, fields):
    monkeypatch.setattr(guards, "PIECE_NAMES", 2)
    slices, names = counted_slices(monkeypatch), [f"n{number}" for number in range(150)]
    for access in (DESCRIBE_GROUP, DELETE_GROUP):
        guarded.permits.allow(access, GROUP)
    client = await guarded.client()
    await client.call(api, version, **fields(names))
    assert {name for _, name in guarded.permits.denied} == set(names)
    assert len(slices) >= len(names) / 2 // SLICE_PIECES


async def test_many_groups_are_looked_through_in_slices(guarded, monkeypatch):
    monkeypatch.setattr(list_groups, "PIECE_ELEMENTS", 2)
    slices = counted_slices(monkeypatch)
    groups = [f"g{number:02}" for number in range(50)]
    async with everything(guarded) as client:
        for group in groups:
            await client.call("OffsetCommit", 9, commit(group, {"orders": [0]}))
    mine = groups[::3]
    guarded.permits.allow(DESCRIBE_GROUP, *mine)
    client = await guarded.client()
    assert [group.group_id for group in (await client.call("ListGroups", 5)).groups] == mine
    assert len(slices) >= len(groups) / 2 // SLICE_PIECES


async def beat(client, epoch=0, member="m", **fields):
    if epoch == 0:
        fields = {"rebalance_timeout_ms": 30_000, "topic_partitions": [], **fields}
    return await client.call(
        "ConsumerGroupHeartbeat", 1, group_id=GROUP, member_id=member, member_epoch=epoch, **fields
    )


def assigned(world, response):
    return {world.server.topics.topic_name(each.topic_id) for each in response.assignment.topic_partitions}


async def test_a_member_subscribes_to_topics_that_it_may_describe(guarded):
    guarded.permits.allow(READ_GROUP, GROUP)
    guarded.permits.allow(DESCRIBE_TOPIC, "orders")
    client = await guarded.client()
    assert (await beat(client, subscribed_topic_names=["orders", "events"])).error_code == TOPIC_DENIED
    async with everything(guarded) as admin:
        listed = await admin.call("ListGroups", 5)
        assert listed.groups == []
    response = await beat(client, subscribed_topic_names=["orders"])
    assert assigned(guarded, response) == {"orders"}
    guarded.permits.forbid(DESCRIBE_TOPIC, "orders")
    assert (await beat(client, response.member_epoch)).error_code == 0  # it names no topic
    assert (await beat(client, response.member_epoch, subscribed_topic_names=["orders"])).error_code == TOPIC_DENIED


async def follow(world, client, epoch, topics):
    """Lets the refresh interval of patterns pass, then heartbeats until the member has these topics; returns its epoch."""
    clock = world.server.clock
    await clock.advance(clock.monotonic_ms() + REFRESH_MS, lambda: asyncio.sleep(0))
    owned, held = None, None
    for _ in range(20):
        response = await beat(client, epoch, topic_partitions=owned)
        assert response.error_code == 0
        epoch, owned = response.member_epoch, None
        if response.assignment is not None:
            held = assigned(world, response)
            owned = [_Owned(each.topic_id, each.partitions) for each in response.assignment.topic_partitions]
        elif held == topics:
            return epoch
        await clock.advance(clock.monotonic_ms() + 1_000, lambda: asyncio.sleep(0.01))  # for the thread that matches
    raise AssertionError(f"{held}, not {topics}")


@asynccontextmanager
async def member_with_pattern(folder, regex):
    """A server whose clock stands still, a member with a pattern, and the member's epoch."""
    async with server(folder, [f"group.consumer.regex.refresh.interval.ms={REFRESH_MS}"]) as world:
        world.permits.allow(READ_GROUP, GROUP)
        world.permits.allow(DESCRIBE_TOPIC, "orders")
        world.server.clock.stop()
        client = await world.client()
        response = await beat(client, subscribed_topic_regex=regex)
        await world.server.clock.advance(world.server.clock.monotonic_ms() + 1, lambda: asyncio.sleep(0))
        await until_matched(world, {"orders"})
        yield world, client, await follow(world, client, response.member_epoch, {"orders"})


async def until_matched(world, topics):
    """Waits until the group's only pattern has found these topics; a thread matches it."""
    group = world.server.groups.shard_of(GROUP).state.by_id[GROUP]
    for _ in range(10_000):
        if [pattern.topics for pattern in group.regexes.values()] == [topics]:
            return
        await asyncio.sleep(0.001)
    raise AssertionError(group.regexes)


async def test_a_pattern_finds_the_topics_that_the_member_may_describe(tmp_path):
    """A change of the permissions counts once the patterns are matched again."""
    async with member_with_pattern(tmp_path, "orders|events") as (world, client, epoch):
        assert world.permits.denied == []  # nobody has asked for a topic by its name
        world.permits.allow(DESCRIBE_TOPIC, "events")
        later = await follow(world, client, epoch, {"orders", "events"})
        world.permits.forbid(DESCRIBE_TOPIC, "orders")
        await follow(world, client, later, {"events"})


async def test_a_classic_member_that_joins_may_be_the_one_who_asks_for_a_match(tmp_path):
    async with member_with_pattern(tmp_path, "orders|events") as (world, _client, _epoch):
        world.permits.allow(DESCRIBE_TOPIC, "events")
        clock = world.server.clock
        await clock.advance(clock.monotonic_ms() + REFRESH_MS + 1, lambda: asyncio.sleep(0))
        joining = joining_fields(GROUP)
        joining["protocols"][0].metadata = subscription(["orders"])
        classic = await world.client()
        joined = await classic.call("JoinGroup", 3, **joining)
        assert joined.error_code == 0
        await clock.advance(clock.monotonic_ms() + 1_000, lambda: asyncio.sleep(0))
        await until_matched(world, {"orders", "events"})


def topology(source="orders", changelog=None):
    part = StreamsGroupHeartbeatRequest.Subtopology(
        subtopology_id="0",
        source_topics=[source],
        state_changelog_topics=[StreamsGroupHeartbeatRequest.TopicInfo(changelog)] if changelog else [],
    )
    return StreamsGroupHeartbeatRequest.Topology(epoch=0, subtopologies=[part])


async def streams_beat(client, asked, member="m"):
    return await client.call(
        "StreamsGroupHeartbeat", 1, group_id=GROUP, member_id=member, member_epoch=0, rebalance_timeout_ms=30_000,
        process_id="p", topology=asked, active_tasks=[], standby_tasks=[], warmup_tasks=[],
    )  # fmt: skip


async def test_internal_topics_are_created_for_a_member_that_may_create_all_of_them(guarded):
    guarded.permits.allow(READ_GROUP, GROUP)
    guarded.permits.allow(DESCRIBE_TOPIC, "orders", "app-changelog")
    client = await guarded.client()
    asked = topology("orders", "app-changelog")
    detail = missing_topics(await streams_beat(client, asked))
    assert detail.endswith("; Unauthorized to CREATE on topics app-changelog.")
    assert guarded.server.topics.topic_id("app-changelog") is None
    guarded.permits.allow(CREATE_TOPIC, "app-changelog")
    assert "Unauthorized" not in missing_topics(await streams_beat(client, asked))
    await until(lambda: guarded.server.topics.topic_id("app-changelog"))


def missing_topics(response):
    (detail,) = (each.status_detail for each in response.status if each.status_code == MISSING_INTERNAL_TOPICS)
    return detail


async def until(condition):
    async with asyncio.timeout(WITHIN_S):
        while not condition():  # noqa: ASYNC110 - what the server does sets no event
            await asyncio.sleep(0.01)


async def test_the_batched_form_may_add_offsets_and_no_other_internal_topic(guarded):
    async with everything(guarded) as client:
        producer_id, epoch = await begin(client, "t")
        codes = {}
        for name in ("__consumer_offsets", "__transaction_state"):
            for producer in (producer_id, producer_id + 1):
                topics = [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name, [0])]
                transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
                    "t", producer, epoch, False, topics
                )
                answer = await client.call("AddPartitionsToTxn", 4, transactions=[transaction])
                codes[name, producer - producer_id] = error_codes(answer)
    assert codes == {
        ("__consumer_offsets", 0): [],
        ("__consumer_offsets", 1): [ErrorCode.INVALID_PRODUCER_ID_MAPPING],
        ("__transaction_state", 0): [TOPIC_DENIED],
        ("__transaction_state", 1): [ErrorCode.INVALID_PRODUCER_ID_MAPPING],
    }


async def test_a_rule_fails_a_part_of_a_request_and_the_guard_sees_the_rest(guarded):
    guarded.permits.allow(READ_GROUP, GROUP)
    guarded.permits.allow(READ_TOPIC, "orders")
    guarded.fault({"api": "OffsetCommit"}, {"error": "UNKNOWN_TOPIC_OR_PARTITION", "partitions": [1]})
    client = await guarded.client()
    answer = await client.call("OffsetCommit", 9, commit(GROUP, {"events": [0], "orders": [0, 1]}))
    assert {(name, each) for name, partitions in by_topic(answer) for each in partitions} == {
        ("events", (0, TOPIC_DENIED)),
        ("orders", (0, 0)),
        ("orders", (1, UNKNOWN_TOPIC)),
    }


async def test_a_rule_may_fail_a_request_before_anybody_asks_for_permission(guarded):
    guarded.permits.allow(READ_GROUP, GROUP)
    guarded.fault({"api": "Heartbeat", "group": GROUP}, {"error": "NOT_COORDINATOR"})
    client = await guarded.client()
    codes = [
        (await client.call("Heartbeat", 4, group_id=group, generation_id=1, member_id="m")).error_code
        for group in ("secret", GROUP, GROUP)
    ]
    assert codes == [GROUP_DENIED, ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_MEMBER_ID]


async def test_a_recording_has_what_was_refused(guarded):
    recording = guarded.record({"api": ["Heartbeat", "DescribeGroups"]})
    client = await guarded.client()
    await client.call("Heartbeat", 4, group_id=GROUP, generation_id=1, member_id="m")
    entry = last(recording)
    assert (entry.api, entry.response["error"]) == ("Heartbeat", "GROUP_AUTHORIZATION_FAILED")
    await client.call("DescribeGroups", 6, groups=[GROUP])
    assert "GROUP_AUTHORIZATION_FAILED" in repr(last(recording).response)
