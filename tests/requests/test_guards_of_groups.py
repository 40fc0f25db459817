"""Requests about groups, offsets and transactions of a client that may not do everything: over a socket, with an authorizer."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from coordinator.api import guards
from coordinator.api.sliced_work import SLICE_PIECES, SlicedWork
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    AddPartitionsToTxnRequest,
    ConsumerGroupHeartbeatRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    StreamsGroupHeartbeatRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
)
from coordinator.requests import list_groups
from coordinator.security.access import (
    ALTER_CLUSTER,
    CLUSTER_ACTION,
    CREATE_CLUSTER,
    CREATE_TOPIC,
    DELETE_GROUP,
    DESCRIBE_CLUSTER,
    DESCRIBE_GROUP,
    DESCRIBE_TOPIC,
    DESCRIBE_TRANSACTIONAL_ID,
    IDEMPOTENT_WRITE,
    READ_GROUP,
    READ_TOPIC,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
    AclOperation,
)
from tests.groups.harness import subscription
from tests.rules.samples import APIS, GROUP, TOPIC, TRANSACTIONAL_ID, VERSIONS, error_codes, sample
from tests.rules.test_recordings import last
from tests.rules.world import WITHIN_S, joining_fields, running
from tests.support.permitting import ANY_NAME, Allowed, AllowedByAcls, use_authorizer

GUARDED = {
    "AddOffsetsToTxn", "AddPartitionsToTxn", "ConsumerGroupDescribe", "ConsumerGroupHeartbeat", "DeleteGroups",
    "DescribeGroups", "DescribeTransactions", "EndTxn", "FindCoordinator", "Heartbeat", "InitProducerId", "JoinGroup",
    "LeaveGroup", "ListGroups", "ListTransactions", "OffsetCommit", "OffsetDelete", "OffsetFetch", "StreamsGroupDescribe",
    "StreamsGroupHeartbeat", "SyncGroup", "TxnOffsetCommit", "WriteTxnMarkers",
}  # fmt: skip
TOPIC_DENIED, GROUP_DENIED, CLUSTER_DENIED, TXN_DENIED = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
UNKNOWN_TOPIC = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
ALL = sorted({access for api in APIS.values() for access in api.access})
NOTHING = -(2**31)
REFRESH_MS = 10_000
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
MISSING_INTERNAL_TOPICS = 3
_Owned = ConsumerGroupHeartbeatRequest.TopicPartitions


@pytest.fixture(params=["rules of the test", "ACLs"])
async def guarded(tmp_path, request):
    """A server that asks an authorizer of the test, and one that asks Kafka's."""
    async with server(tmp_path, has_acls=request.param == "ACLs") as world:
        yield world


@asynccontextmanager
async def server(folder, settings=(), *, has_acls=True):
    """A running server, and in `permits` what its clients may do: nothing yet."""
    async with running(folder, [*settings, f"authorizer.class.name={AUTHORIZER if has_acls else ''}"]) as world:
        if has_acls:
            world.permits = AllowedByAcls(world.server.authorizer)
        else:
            world.permits = Allowed()
            use_authorizer(world.server, world.permits)
        yield world


@asynccontextmanager
async def everything(world):
    """A client that may do everything meanwhile."""
    for access in ALL:
        world.permits.allow(access, ANY_NAME)
    yield await world.client()
    for access in ALL:
        world.permits.forbid(access, ANY_NAME)


def topic_id(world, name):
    return world.server.topics.topic_id(name)


# --- everything is denied ---------------------------------------------------------------------------------------------


async def test_whoever_may_do_nothing_gets_nothing_and_changes_nothing(guarded):
    """Every version of every API, about a group and a transaction that exist."""
    async with everything(guarded) as client:
        await guarded.join(client, GROUP)
        await client.call("OffsetCommit", 8, commit(GROUP, {"orders": [0]}, generation=-1))
        await begin(client, TRANSACTIONAL_ID)
        before = await view(client)
    client = await guarded.client()
    passed = []
    for api, version in VERSIONS:
        if api not in GUARDED:
            continue
        request = sample(api, version, topic_id(guarded, TOPIC))
        if api == "SyncGroup":
            request.protocol_type, request.protocol_name = "consumer", "range"
        answer = await client.call(api, version, request)
        codes = error_codes(answer)
        if api in ("ListGroups", "ListTransactions"):
            refused = (
                not codes and not getattr(answer, "groups", None) and not getattr(answer, "transaction_states", None)
            )
        else:
            refused = codes and set(codes) <= {TOPIC_DENIED, GROUP_DENIED, CLUSTER_DENIED, TXN_DENIED}
        if not refused:
            passed.append((api, version, codes))
    assert passed == []
    async with everything(guarded) as client:
        assert await view(client) == before


def test_the_guarded_apis_are_those_with_permissions_that_concern_groups_and_transactions():
    """An API that is added to these needs a guard, and a place in the test above."""
    of_groups = {
        name
        for name, api in APIS.items()
        if any(each.resource_type.name in ("GROUP", "TRANSACTIONAL_ID") for each in api.access)
    }
    of_others = {"AlterConfigs", "IncrementalAlterConfigs", "DescribeConfigs", "Produce"}
    assert of_groups - of_others == GUARDED - {"WriteTxnMarkers"}


async def view(client):
    described = await client.call("DescribeGroups", 5, groups=[GROUP])
    fetched = await client.call("OffsetFetch", 7, group_id=GROUP, topics=None)
    transactions = await client.call("DescribeTransactions", 0, transactional_ids=[TRANSACTIONAL_ID])
    return repr((described, fetched, transactions))


# --- the group --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("api", "version", "access"),
    [
        ("JoinGroup", 9, READ_GROUP),
        ("SyncGroup", 4, READ_GROUP),
        ("Heartbeat", 4, READ_GROUP),
        ("LeaveGroup", 5, READ_GROUP),
        ("OffsetCommit", 9, READ_GROUP),
        ("OffsetFetch", 7, DESCRIBE_GROUP),
        ("OffsetDelete", 0, DELETE_GROUP),
        ("ConsumerGroupHeartbeat", 1, READ_GROUP),
        ("StreamsGroupHeartbeat", 1, READ_GROUP),
        ("DeleteGroups", 2, DELETE_GROUP),
        ("DescribeGroups", 6, DESCRIBE_GROUP),
        ("ConsumerGroupDescribe", 1, DESCRIBE_GROUP),
        ("StreamsGroupDescribe", 1, DESCRIBE_GROUP),
    ],
)
async def test_a_request_about_a_group_needs_one_permission_for_it(guarded, api, version, access):
    guarded.permits.allow(DESCRIBE_TOPIC, TOPIC)
    guarded.permits.allow(READ_TOPIC, TOPIC)
    client = await guarded.client()
    for denied in (True, False):
        answer = await client.call(api, version, sample(api, version, topic_id(guarded, TOPIC)))
        assert (GROUP_DENIED in error_codes(answer)) is denied
        guarded.permits.allow(access, GROUP)


async def test_a_sync_without_its_protocol_is_invalid_before_it_is_denied(guarded):
    client = await guarded.client()
    answer = await client.call("SyncGroup", 5, group_id=GROUP, member_id="m")
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


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


# --- offsets ----------------------------------------------------------------------------------------------------------


def commit(group, topics, *, generation=-1, member="", ids=None):
    """`topics`: name -> partitions. `ids`: name -> topic id."""
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name,
                (ids or {}).get(name, bytes(16)),
                [OffsetCommitRequest.OffsetCommitRequestPartition(index, 7) for index in partitions],
            )
            for name, partitions in topics.items()
        ],
    )


def by_topic(response):
    """(topic, [(partition, error)]), in the order of the response."""
    return [
        (topic.name, [(each.partition_index, each.error_code) for each in topic.partitions])
        for topic in response.topics
    ]


async def offsets(client, *topics):
    asked = [OffsetFetchRequest.OffsetFetchRequestTopic(topic, [0]) for topic in topics]
    response = await client.call("OffsetFetch", 7, group_id=GROUP, topics=asked)
    return [topic.partitions[0].committed_offset for topic in response.topics]


@pytest.mark.parametrize("version", [2, 7, 9])
async def test_a_commit_is_accepted_for_the_topics_that_the_client_may_read(guarded, version):
    """What is refused comes first, in the order of the request; whether a denied topic exists is not said."""
    guarded.permits.allow(READ_GROUP, GROUP)
    guarded.permits.allow(READ_TOPIC, "orders", "nowhere")
    client = await guarded.client()
    request = commit(GROUP, {"orders": [0, 9], "events": [0], "nowhere": [0], "secret": [0]})
    assert by_topic(await client.call("OffsetCommit", version, request)) == [
        ("orders", [(9, UNKNOWN_TOPIC), (0, 0)]),
        ("events", [(0, TOPIC_DENIED)]),
        ("nowhere", [(0, UNKNOWN_TOPIC)]),
        ("secret", [(0, TOPIC_DENIED)]),
    ]
    async with everything(guarded) as client:
        assert await offsets(client, "orders", "events") == [7, -1]


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


async def test_a_commit_by_topic_id_says_which_ids_are_unknown(guarded):
    guarded.permits.allow(READ_GROUP, GROUP)
    guarded.permits.allow(READ_TOPIC, "orders")
    client = await guarded.client()
    ids = {name: topic_id(guarded, name) for name in ("orders", "events")} | {"?": b"?" * 16}
    request = commit(GROUP, {"orders": [0], "?": [0], "events": [0]}, ids=ids)
    response = await client.call("OffsetCommit", 10, request)
    assert [(each.topic_id, each.partitions[0].error_code) for each in response.topics] == [
        (ids["?"], ErrorCode.UNKNOWN_TOPIC_ID),
        (ids["events"], TOPIC_DENIED),
        (ids["orders"], 0),
    ]


async def test_a_group_does_not_see_a_commit_of_which_nothing_is_left(guarded):
    """So its fence does not answer."""
    guarded.permits.allow(READ_GROUP, GROUP)
    client = await guarded.client()
    await guarded.join(client, GROUP)
    request = commit(GROUP, {"orders": [0]}, generation=5, member="nobody")
    assert by_topic(await client.call("OffsetCommit", 9, request)) == [("orders", [(0, TOPIC_DENIED)])]
    guarded.permits.allow(READ_TOPIC, "events")
    request = commit(GROUP, {"orders": [0], "events": [0]}, generation=5, member="nobody")
    assert by_topic(await client.call("OffsetCommit", 9, request)) == [
        ("orders", [(0, TOPIC_DENIED)]),
        ("events", [(0, ErrorCode.UNKNOWN_MEMBER_ID)]),
    ]


async def commit_everything(world, group=GROUP):
    async with everything(world) as client:
        for topic in ("events", "orders"):
            await client.call("OffsetCommit", 9, commit(group, {topic: [0]}))


@pytest.mark.parametrize("version", [1, 2, 7])
async def test_offsets_of_topics_that_may_not_be_described_are_refused_behind_the_others(guarded, version):
    await commit_everything(guarded)
    guarded.permits.allow(DESCRIBE_GROUP, GROUP)
    guarded.permits.allow(DESCRIBE_TOPIC, "orders", "nowhere")
    client = await guarded.client()
    asked = [
        OffsetFetchRequest.OffsetFetchRequestTopic(name, [0]) for name in ("events", "nowhere", "secret", "orders")
    ]
    response = await client.call("OffsetFetch", version, group_id=GROUP, topics=asked)
    assert [
        (topic.name, each.committed_offset, each.error_code) for topic in response.topics for each in topic.partitions
    ] == [("nowhere", -1, 0), ("orders", 7, 0), ("events", -1, TOPIC_DENIED), ("secret", -1, TOPIC_DENIED)]
    assert response.error_code == 0


async def test_all_offsets_of_a_group_are_those_of_topics_that_may_be_described(guarded):
    await commit_everything(guarded)
    guarded.permits.allow(DESCRIBE_GROUP, GROUP)
    guarded.permits.allow(DESCRIBE_TOPIC, "orders")
    client = await guarded.client()
    response = await client.call("OffsetFetch", 7, group_id=GROUP, topics=None)
    assert by_topic(response) == [("orders", [(0, 0)])]
    asked = [OffsetFetchRequest.OffsetFetchRequestGroup(group_id=GROUP, topics=None)]
    for version in (8, 9, 10):
        response = await client.call("OffsetFetch", version, groups=asked)
        (topic,) = response.groups[0].topics
        assert (topic.name, topic.topic_id) in (("orders", bytes(16)), ("", topic_id(guarded, "orders")))
    assert guarded.permits.denied == []  # nobody has asked for a topic by its name


async def test_groups_of_one_fetch_are_refused_one_by_one(guarded):
    await commit_everything(guarded)
    await commit_everything(guarded, "other")
    guarded.permits.allow(DESCRIBE_GROUP, "other", "empty")
    guarded.permits.allow(DESCRIBE_TOPIC, "orders")
    client = await guarded.client()
    ids = [(topic_id(guarded, "events"), "events"), (b"?" * 16, "?"), (topic_id(guarded, "orders"), "orders")]
    for version in (8, 9, 10):
        topics = [OffsetFetchRequest.OffsetFetchRequestTopics(name, each, [0]) for each, name in ids]
        groups = [
            OffsetFetchRequest.OffsetFetchRequestGroup(group_id=each, topics=topics)
            for each in ("other", GROUP, "empty")
        ]
        response = await client.call("OffsetFetch", version, groups=groups)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if version == 10 else TOPIC_DENIED
        assert [(group.group_id, group.error_code) for group in response.groups] == [
            ("other", 0), (GROUP, GROUP_DENIED), ("empty", 0),
        ]  # fmt: skip
        answers = [
            [(topic.partitions[0].committed_offset, topic.partitions[0].error_code) for topic in group.topics]
            for group in response.groups
        ]
        assert answers == [
            [(7, 0), (-1, TOPIC_DENIED), (-1, unknown)],
            [],
            [(-1, 0), (-1, TOPIC_DENIED), (-1, unknown)],
        ]


async def test_offsets_are_deleted_of_the_topics_that_the_client_may_read(guarded):
    await commit_everything(guarded)
    guarded.permits.allow(DELETE_GROUP, GROUP)
    guarded.permits.allow(READ_TOPIC, "orders")
    client = await guarded.client()
    request = OffsetDeleteRequest(
        group_id=GROUP,
        topics=[
            OffsetDeleteRequest.OffsetDeleteRequestTopic(name, [OffsetDeleteRequest.OffsetDeleteRequestPartition(0)])
            for name in ("orders", "events", "secret")
        ],
    )
    assert by_topic(await client.call("OffsetDelete", 0, request)) == [
        ("events", [(0, TOPIC_DENIED)]),
        ("secret", [(0, TOPIC_DENIED)]),
        ("orders", [(0, 0)]),
    ]
    async with everything(guarded) as client:
        assert await offsets(client, "orders", "events") == [-1, 7]


# --- what exists ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("key_type", "access"), [(0, DESCRIBE_GROUP), (1, DESCRIBE_TRANSACTIONAL_ID)])
async def test_coordinators_are_found_for_the_keys_that_may_be_described(guarded, key_type, access):
    guarded.permits.allow(access, "mine")
    client = await guarded.client()
    denied = TXN_DENIED if key_type else GROUP_DENIED
    response = await client.call("FindCoordinator", 4, key_type=key_type, coordinator_keys=["theirs", "mine"])
    assert [(each.key, each.error_code, each.node_id, each.port > 0) for each in response.coordinators] == [
        ("theirs", denied, -1, False),
        ("mine", 0, 1, True),
    ]
    refused = "Transactional Id authorization failed." if key_type else "Group authorization failed."
    for key, code, text in (("theirs", denied, refused), ("mine", 0, "NONE")):
        response = await client.call("FindCoordinator", 3, key=key, key_type=key_type)
        assert (response.error_code, response.error_message) == (code, text)


async def test_a_share_coordinator_is_looked_for_by_brokers_only(guarded):
    client = await guarded.client()
    asked = {"key_type": 2, "coordinator_keys": ["g:AAAAAAAAAAAAAAAAAAAAAA:0"]}
    for version, code in ((5, ErrorCode.INVALID_REQUEST), (6, CLUSTER_DENIED)):
        assert error_codes(await client.call("FindCoordinator", version, **asked)) == [code]


async def test_groups_are_listed_that_may_be_described_unless_the_cluster_may_be(guarded):
    for group in ("a", "b"):
        await commit_everything(guarded, group)
    guarded.permits.allow(DESCRIBE_GROUP, "b")
    guarded.permits.denied.clear()
    client = await guarded.client()

    async def listed():
        return [group.group_id for group in (await client.call("ListGroups", 5)).groups]

    assert await listed() == ["b"]
    assert guarded.permits.denied == []  # nobody has asked for a group by its name
    guarded.permits.allow(DESCRIBE_CLUSTER, ANY_NAME)
    assert await listed() == ["a", "b"]


def counted_slices(monkeypatch):
    """A list that gets an entry for each slice after the first one of a request."""
    slices, take_slice = [], SlicedWork.take_slice

    def count(work):
        slices.append(work)
        take_slice(work)

    monkeypatch.setattr(SlicedWork, "take_slice", count)
    return slices


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


async def test_a_description_of_groups_begins_with_those_that_are_refused(guarded):
    await commit_everything(guarded)
    guarded.permits.allow(DESCRIBE_GROUP, GROUP, "")
    guarded.permits.allow(READ_GROUP, GROUP)
    client = await guarded.client()
    may = 1 << AclOperation.READ | 1 << AclOperation.DESCRIBE
    for version in (3, 6):
        for asks, operations in ((True, may), (False, NOTHING)):
            response = await client.call(
                "DescribeGroups", version, groups=[GROUP, "secret", GROUP, "nowhere"],
                include_authorized_operations=asks,
            )  # fmt: skip
            assert [
                (each.group_id, each.error_code, each.group_state, each.authorized_operations)
                for each in response.groups
            ] == [
                ("secret", GROUP_DENIED, "", NOTHING),
                ("nowhere", GROUP_DENIED, "", NOTHING),
                (GROUP, 0, "Empty", operations),
                (GROUP, 0, "Empty", operations),
            ]
    for api in ("ConsumerGroupDescribe", "StreamsGroupDescribe"):
        response = await client.call(api, 1, group_ids=[GROUP, "secret", ""], include_authorized_operations=True)
        assert [(each.group_id, each.error_code) for each in response.groups] == [
            ("secret", GROUP_DENIED),
            ("", ErrorCode.INVALID_GROUP_ID),
            (GROUP, ErrorCode.GROUP_ID_NOT_FOUND),
        ]


async def test_groups_that_may_not_be_deleted_come_last(guarded):
    for group in ("a", "b", "c"):
        await commit_everything(guarded, group)
    guarded.permits.allow(DELETE_GROUP, "a", "c", "nowhere")
    client = await guarded.client()
    response = await client.call("DeleteGroups", 2, groups_names=["b", "c", "secret", "nowhere", "a", "b"])
    assert [(each.group_id, each.error_code) for each in response.results] == [
        ("c", 0),
        ("nowhere", ErrorCode.GROUP_ID_NOT_FOUND),
        ("a", 0),
        ("b", GROUP_DENIED),
        ("secret", GROUP_DENIED),
    ]
    async with everything(guarded) as client:
        assert [group.group_id for group in (await client.call("ListGroups", 5)).groups] == ["b"]


# --- consumer groups --------------------------------------------------------------------------------------------------


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


async def test_a_group_with_topics_that_may_not_be_described_is_not_described(guarded):
    async with everything(guarded) as client:
        await beat(client, subscribed_topic_names=["orders", "events"])
        await client.call(
            "ConsumerGroupHeartbeat", 1, group_id="other", member_id="m", rebalance_timeout_ms=30_000, topic_partitions=[],
            subscribed_topic_names=["orders"],
        )  # fmt: skip
    guarded.permits.allow(DESCRIBE_GROUP, GROUP, "other")
    guarded.permits.allow(DESCRIBE_TOPIC, "orders")
    client = await guarded.client()
    response = await client.call(
        "ConsumerGroupDescribe", 1, group_ids=[GROUP, "other", "secret"], include_authorized_operations=True
    )
    assert [
        (each.group_id, each.error_code, each.group_state, len(each.members), each.authorized_operations)
        for each in response.groups
    ] == [
        ("secret", GROUP_DENIED, "", 0, NOTHING),
        (GROUP, TOPIC_DENIED, "", 0, NOTHING),
        ("other", 0, "Stable", 1, 1 << AclOperation.DESCRIBE),
    ]
    assert response.groups[1].error_message == (
        "The group has described topic(s) that the client is not authorized to describe."
    )


# --- streams groups ---------------------------------------------------------------------------------------------------


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


async def test_a_topology_has_valid_topics_that_the_member_may_describe(guarded):
    guarded.permits.allow(READ_GROUP, GROUP)
    guarded.permits.allow(DESCRIBE_TOPIC, "orders")
    client = await guarded.client()
    for source, code in (
        ("__consumer_offsets", ErrorCode.STREAMS_INVALID_TOPOLOGY),
        ("not valid", ErrorCode.STREAMS_INVALID_TOPOLOGY),
        ("events", TOPIC_DENIED),
        ("orders", 0),
    ):
        assert (await streams_beat(client, topology(source))).error_code == code
    assert (await streams_beat(client, topology("orders", "app-changelog"))).error_code == TOPIC_DENIED


async def test_internal_topics_are_created_for_a_member_that_may_create_all_of_them(guarded):
    guarded.permits.allow(READ_GROUP, GROUP)
    guarded.permits.allow(DESCRIBE_TOPIC, "orders", "app-changelog")
    client = await guarded.client()
    asked = topology("orders", "app-changelog")
    detail = missing_topics(await streams_beat(client, asked))
    assert detail.endswith("; Unauthorized to CREATE on topics app-changelog.")
    assert topic_id(guarded, "app-changelog") is None
    guarded.permits.allow(CREATE_TOPIC, "app-changelog")
    assert "Unauthorized" not in missing_topics(await streams_beat(client, asked))
    await until(lambda: topic_id(guarded, "app-changelog"))


def missing_topics(response):
    (detail,) = (each.status_detail for each in response.status if each.status_code == MISSING_INTERNAL_TOPICS)
    return detail


async def until(condition):
    async with asyncio.timeout(WITHIN_S):
        while not condition():  # noqa: ASYNC110 - what the server does sets no event
            await asyncio.sleep(0.01)


async def test_whoever_may_create_in_the_cluster_needs_no_permission_for_an_internal_topic(guarded):
    guarded.permits.allow(READ_GROUP, GROUP)
    guarded.permits.allow(DESCRIBE_TOPIC, "orders", "app-changelog")
    guarded.permits.allow(CREATE_CLUSTER, ANY_NAME)
    client = await guarded.client()
    assert "Unauthorized" not in missing_topics(await streams_beat(client, topology("orders", "app-changelog")))
    await until(lambda: topic_id(guarded, "app-changelog"))


async def test_a_streams_group_with_topics_that_may_not_be_described_is_not_described(guarded):
    async with everything(guarded) as client:
        await streams_beat(client, topology("orders", "app-changelog"))
    guarded.permits.allow(DESCRIBE_GROUP, GROUP)
    guarded.permits.allow(DESCRIBE_TOPIC, "orders")
    client = await guarded.client()
    (group,) = (await client.call("StreamsGroupDescribe", 1, group_ids=[GROUP])).groups
    assert (group.group_id, group.error_code, group.members, group.topology) == (GROUP, TOPIC_DENIED, [], None)
    assert group.error_message == "The described group uses topics that the client is not authorized to describe."
    guarded.permits.allow(DESCRIBE_TOPIC, "app-changelog")
    (group,) = (await client.call("StreamsGroupDescribe", 1, group_ids=[GROUP])).groups
    assert (group.error_code, len(group.members)) == (0, 1)


# --- transactions -----------------------------------------------------------------------------------------------------


async def begin(client, transactional_id, topic="orders"):
    """Begins a transaction with a partition; returns its producer."""
    given = await client.call("InitProducerId", 4, transactional_id=transactional_id, transaction_timeout_ms=60_000)
    producer = given.producer_id, given.producer_epoch
    answer = await client.call("AddPartitionsToTxn", 3, partitions_request(transactional_id, producer, {topic: [0]}))
    assert error_codes(answer) == []
    return producer


def partitions_request(transactional_id, producer, topics):
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[
            AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name, partitions) for name, partitions in topics.items()
        ],
    )


async def test_a_producer_id_needs_the_transactional_id_or_a_topic_or_idempotent_writes(guarded):
    client = await guarded.client()

    async def asked(transactional_id=None):
        answer = await client.call(
            "InitProducerId", 4, transactional_id=transactional_id, transaction_timeout_ms=60_000
        )
        return answer.error_code

    assert [await asked("t"), await asked()] == [TXN_DENIED, CLUSTER_DENIED]
    guarded.permits.allow(WRITE_TRANSACTIONAL_ID, "t")
    assert [await asked("t"), await asked("u"), await asked()] == [0, TXN_DENIED, CLUSTER_DENIED]
    for access, name in ((WRITE_TOPIC, "orders"), (IDEMPOTENT_WRITE, ANY_NAME)):
        guarded.permits.allow(access, name)
        assert await asked() == 0
        guarded.permits.forbid(access, name)
    assert await asked() == CLUSTER_DENIED


async def test_a_transaction_gets_all_of_its_partitions_or_none(guarded):
    async with everything(guarded) as client:
        producer = await begin(client, "t")
    client = await guarded.client()
    request = partitions_request("t", producer, {"orders": [0, 1], "events": [0], "__consumer_offsets": [0]})

    async def asked():
        answer = await client.call("AddPartitionsToTxn", 3, request)
        return [
            (topic.name, [(each.partition_index, each.partition_error_code) for each in topic.results_by_partition])
            for topic in answer.results_by_topic_v3_and_below
        ]

    assert await asked() == [
        ("orders", [(0, TXN_DENIED), (1, TXN_DENIED)]),
        ("events", [(0, TXN_DENIED)]),
        ("__consumer_offsets", [(0, TXN_DENIED)]),
    ]
    guarded.permits.allow(WRITE_TRANSACTIONAL_ID, "t")
    guarded.permits.allow(WRITE_TOPIC, "orders", "__consumer_offsets")
    left = ErrorCode.OPERATION_NOT_ATTEMPTED
    assert await asked() == [
        ("orders", [(0, left), (1, left)]),
        ("events", [(0, TOPIC_DENIED)]),
        ("__consumer_offsets", [(0, TOPIC_DENIED)]),
    ]
    guarded.permits.allow(WRITE_TOPIC, "events")
    request = partitions_request("t", producer, {"orders": [0, 1], "events": [0]})
    assert await asked() == [("orders", [(0, 0), (1, 0)]), ("events", [(0, 0)])]


async def test_the_batched_form_is_for_brokers(guarded):
    async with everything(guarded) as client:
        producer = await begin(client, "t")
    guarded.permits.allow(WRITE_TRANSACTIONAL_ID, "t")
    guarded.permits.allow(WRITE_TOPIC, "orders")
    client = await guarded.client()
    topics = [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic("orders", [1])]
    transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction("t", *producer, False, topics)
    for version in (4, 5):
        answer = await client.call("AddPartitionsToTxn", version, transactions=[transaction])
        assert (answer.error_code, answer.results_by_transaction) == (CLUSTER_DENIED, [])
    guarded.permits.allow(CLUSTER_ACTION, ANY_NAME)
    assert error_codes(await client.call("AddPartitionsToTxn", 4, transactions=[transaction])) == []


async def test_the_batched_form_may_add_offsets_and_no_other_internal_topic(guarded):
    async with everything(guarded) as client:
        producer = await begin(client, "t")
        codes = {}
        for name in ("__consumer_offsets", "__transaction_state"):
            topics = [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name, [0])]
            transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction("t", *producer, False, topics)
            codes[name] = error_codes(await client.call("AddPartitionsToTxn", 4, transactions=[transaction]))
    assert codes == {"__consumer_offsets": [], "__transaction_state": [TOPIC_DENIED]}


async def test_offsets_in_a_transaction_need_the_transaction_then_the_group(guarded):
    async with everything(guarded) as client:
        producer = await begin(client, "t")
    client = await guarded.client()
    fields = {"transactional_id": "t", "producer_id": producer[0], "producer_epoch": producer[1], "group_id": GROUP}

    async def asked(api="AddOffsetsToTxn", version=3, **more):
        return await client.call(api, version, **fields, **more)

    request = txn_commit(fields, {"orders": [0]})
    for code, access, name in ((TXN_DENIED, WRITE_TRANSACTIONAL_ID, "t"), (GROUP_DENIED, READ_GROUP, GROUP)):
        assert (await asked()).error_code == code
        assert by_topic(await client.call("TxnOffsetCommit", 5, request)) == [("orders", [(0, code)])]
        guarded.permits.allow(access, name)
    assert (await asked()).error_code == 0
    assert by_topic(await client.call("TxnOffsetCommit", 5, request)) == [("orders", [(0, TOPIC_DENIED)])]


def txn_commit(fields, topics):
    request = TxnOffsetCommitRequest
    return request(
        **fields,
        generation_id_or_member_epoch=-1,
        topics=[
            request.TxnOffsetCommitRequestTopic(
                name=name, partitions=[request.TxnOffsetCommitRequestPartition(each, 7) for each in partitions]
            )
            for name, partitions in topics.items()
        ],
    )


async def test_a_commit_in_a_transaction_is_accepted_for_the_topics_that_the_client_may_read(guarded):
    guarded.permits.allow(READ_GROUP, GROUP)
    guarded.permits.allow(READ_TOPIC, "orders", "nowhere")
    guarded.permits.allow(WRITE_TRANSACTIONAL_ID, "t")
    client = await guarded.client()
    given = await client.call("InitProducerId", 4, transactional_id="t", transaction_timeout_ms=60_000)
    producer = {"producer_id": given.producer_id, "producer_epoch": given.producer_epoch}
    fields = {"transactional_id": "t", "group_id": GROUP, **producer}
    request = txn_commit(fields, {"events": [0], "orders": [0], "secret": [0], "nowhere": [0]})
    assert by_topic(await client.call("TxnOffsetCommit", 5, request)) == [
        ("events", [(0, TOPIC_DENIED)]),
        ("secret", [(0, TOPIC_DENIED)]),
        ("nowhere", [(0, UNKNOWN_TOPIC)]),
        ("orders", [(0, 0)]),
    ]
    ended = await client.call("EndTxn", 4, transactional_id="t", committed=True, **producer)
    assert ended.error_code == 0
    async with everything(guarded) as client:
        assert await offsets(client, "orders", "events") == [7, -1]


async def test_a_transaction_is_ended_by_whoever_may_write_with_its_id(guarded):
    async with everything(guarded) as client:
        producer_id, epoch = await begin(client, "t")
    client = await guarded.client()
    fields = {"transactional_id": "t", "producer_id": producer_id, "producer_epoch": epoch, "committed": True}
    refused = await client.call("EndTxn", 5, **fields)
    assert (refused.error_code, refused.producer_id, refused.producer_epoch) == (TXN_DENIED, -1, -1)
    guarded.permits.allow(WRITE_TRANSACTIONAL_ID, "t")
    assert (await client.call("EndTxn", 4, **fields)).error_code == 0


@pytest.mark.parametrize("access", [ALTER_CLUSTER, CLUSTER_ACTION])
async def test_markers_are_written_for_administrators_and_brokers(guarded, access):
    client = await guarded.client()
    topic = WriteTxnMarkersRequest.WritableTxnMarkerTopic("orders", [0, 1])
    marker = WriteTxnMarkersRequest.WritableTxnMarker(5, 0, False, [topic], 0)
    answer = await client.call("WriteTxnMarkers", 1, markers=[marker])
    assert error_codes(answer) == [CLUSTER_DENIED, CLUSTER_DENIED]
    assert guarded.permits.denied == [(CLUSTER_ACTION, "kafka-cluster")]
    guarded.permits.allow(access, ANY_NAME)
    assert error_codes(await client.call("WriteTxnMarkers", 1, markers=[marker])) == []


async def test_transactions_are_described_and_listed_as_far_as_the_client_may_see_them(guarded):
    async with everything(guarded) as client:
        for transactional_id, topic in (("a", "orders"), ("b", "events")):
            await begin(client, transactional_id, topic)
        producer = await begin(client, "c")
        request = partitions_request("c", producer, {"events": [0]})
        assert error_codes(await client.call("AddPartitionsToTxn", 3, request)) == []
    guarded.permits.allow(DESCRIBE_TRANSACTIONAL_ID, "a", "c", "nowhere")
    guarded.permits.allow(DESCRIBE_TOPIC, "orders")
    client = await guarded.client()
    response = await client.call("DescribeTransactions", 0, transactional_ids=["c", "b", "secret", "nowhere", "c"])
    assert [
        (each.transactional_id, each.error_code, each.transaction_state, [topic.topic for topic in each.topics])
        for each in response.transaction_states
    ] == [
        ("c", 0, "Ongoing", ["orders"]),
        ("b", TXN_DENIED, "", []),
        ("secret", TXN_DENIED, "", []),
        ("nowhere", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "", []),
        ("c", 0, "Ongoing", ["orders"]),
    ]
    guarded.permits.denied.clear()
    listed = await client.call("ListTransactions", 2)
    assert guarded.permits.denied == []  # nobody has asked for an id by name
    assert sorted(each.transactional_id for each in listed.transaction_states) == ["a", "c"]


# --- fault rules and recordings ---------------------------------------------------------------------------------------


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
