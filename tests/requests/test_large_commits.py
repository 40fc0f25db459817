"""Large commits, and groups with many offsets, are handled in slices: over a socket, with an authorizer.

A commit in slices is compared with the same commit at once.
"""

import asyncio

import pytest

from coordinator.api import sliced_work
from coordinator.groups.offsets import validate_partitions
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import OffsetCommitRequest, OffsetFetchRequest, TxnOffsetCommitRequest
from coordinator.requests import offset_commit
from coordinator.runtime import router
from coordinator.security.access import READ_TOPIC
from tests.requests.guarded_world import ALL, begin, counted_slices, server
from tests.rules.world import WITHIN_S
from tests.support.permitting import ANY_NAME

READABLE = ("orders", "events", "nowhere")
TOO_LARGE = "m" * 5_000
TOPICS = [
    ("orders", [0, 1, 2]), ("secret", [0, 1]), ("events", [0]), ("nowhere", [0]), ("orders", [3, 99, 0]), ("events", [77]),
    ("secret", [5]), ("orders", []),
]  # fmt: skip
"""Partitions that exist, that do not, and that the client may not read; some topics twice, and one without partitions."""
METADATA = {0: "here", 2: TOO_LARGE}


@pytest.fixture
async def world(tmp_path):
    async with server(tmp_path) as world:
        for access in ALL:
            for name in READABLE if access == READ_TOPIC else [ANY_NAME]:
                world.permits.allow(access, name)
        yield world


@pytest.fixture
def in_slices(monkeypatch):
    """Every commit from now on is a large one, and takes several turns."""

    def begin_slices():
        monkeypatch.setattr(offset_commit, "LARGE_ELEMENTS", 0)
        monkeypatch.setattr(sliced_work, "SLICE_PIECES", 1)
        monkeypatch.setattr(validate_partitions, "PIECE_PARTITIONS", 2)

    return begin_slices


def topics(world, request, wanted=TOPICS):
    topic, partition = f"{request.__name__}Topic", f"{request.__name__}Partition"
    return [
        getattr(request, topic)(
            name,
            world.server.topics.topic_id(name) or b"?" * 16,
            [
                getattr(request, partition)(index, 100 * place + index, committed_metadata=METADATA.get(index))
                for index in partitions
            ],
        )
        for place, (name, partitions) in enumerate(wanted)
    ]


def outcome(answer):
    return [
        (topic.name, topic.topic_id, [(each.partition_index, each.error_code) for each in topic.partitions])
        for topic in answer.topics
    ]


async def fetched(client, group):
    answer = await client.call("OffsetFetch", 7, group_id=group, topics=None)
    return {
        (topic.name, each.partition_index): (each.committed_offset, each.metadata)
        for topic in answer.topics
        for each in topic.partitions
    }


def commit(world, group, wanted=TOPICS, **fields):
    fields = {"generation_id_or_member_epoch": -1} | fields
    return OffsetCommitRequest(group_id=group, topics=topics(world, OffsetCommitRequest, wanted), **fields)


@pytest.mark.parametrize("version", [2, 8, 10])
async def test_the_answer_and_the_offsets_are_those_of_a_commit_at_once(world, in_slices, version):
    client = await world.client()
    retention = {"retention_time_ms": 3_600_000} if version == 2 else {}
    found = {"at-once": [], "in-slices": []}
    for way, outcomes in found.items():
        for number, wanted in enumerate((TOPICS, TOPICS[:1], TOPICS[1:2], TOPICS[6:], TOPICS[:1] * 2)):
            group = f"{way}-{number}"
            answer = await client.call("OffsetCommit", version, commit(world, group, wanted, **retention))
            outcomes.append((outcome(answer), await fetched(client, group)))
            assert outcomes[-1][0]
        in_slices()
    assert found["at-once"] == found["in-slices"]


@pytest.mark.parametrize("version", [3, 5])
@pytest.mark.parametrize("committed", [True, False])
async def test_so_are_those_of_a_commit_in_a_transaction(world, in_slices, version, committed):
    client, found = await world.client(), []
    world.permits.allow(READ_TOPIC, *READABLE)
    for group in ("at-once", "in-slices"):
        producer_id, epoch = await begin(client, group)
        producer = {"transactional_id": group, "producer_id": producer_id, "producer_epoch": epoch}
        await client.call("AddOffsetsToTxn", 3, group_id=group, **producer)
        request = TxnOffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=-1,
            topics=topics(world, TxnOffsetCommitRequest),
            **producer,
        )
        answer = await client.call("TxnOffsetCommit", version, request)
        before = await fetched(client, group)
        ended = await client.call("EndTxn", 4, committed=committed, **producer)
        assert not ended.error_code
        after = await settled(world, client, group)
        found.append((outcome(answer), before, after))
        assert (after != before) is committed
        in_slices()
    assert found[0] == found[1]


async def settled(world, client, group):
    """What is fetched when the marker of the transaction has arrived."""
    await until(world, group, lambda offsets: group not in offsets.pending.by_group)
    return await fetched(client, group)


async def until(world, group, is_so):
    """Returns when the offsets of the group's shard are as they should be."""
    shard, changed = world.server.groups.shard_of(group), asyncio.Event()
    end = shard.watch(changed.set)
    async with asyncio.timeout(WITHIN_S):
        while not is_so(shard.state.offsets):
            await changed.wait()
            changed.clear()
    end()


@pytest.mark.parametrize(
    ("member", "code"), [({}, ErrorCode.ILLEGAL_GENERATION), ({"member_id": "x"}, ErrorCode.ILLEGAL_GENERATION)]
)
async def test_a_group_that_refuses_refuses_all_of_it(world, in_slices, member, code):
    in_slices()
    client = await world.client()
    wanted = [("orders", [0, 1]), ("nowhere", [0])]
    request = commit(world, "g", wanted, generation_id_or_member_epoch=3, **member)
    answer = await client.call("OffsetCommit", 8, request)
    assert [(name, each) for name, _, each in outcome(answer)] == [
        ("nowhere", [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]),
        ("orders", [(0, code), (1, code)]),
    ]
    assert await fetched(client, "g") == {}


async def test_requests_behind_it_on_its_connection_see_what_it_has_committed(world, in_slices):
    in_slices()
    client = await world.client()
    client.send("OffsetCommit", 8, commit(world, "g", [("orders", [0, 1, 3])]))
    client.send("OffsetFetch", 7, group_id="g", topics=None)
    client.send("OffsetCommit", 8, commit(world, "g", [("events", [0]), ("orders", [1])]))
    client.send("OffsetFetch", 7, group_id="g", topics=None)
    answers = [await client.receive() for _ in range(4)]
    offsets = [
        {
            (topic.name, each.partition_index): each.committed_offset
            for topic in answer.topics
            for each in topic.partitions
        }
        for answer in (answers[1], answers[3])
    ]
    assert offsets[0] == {("orders", 0): 0, ("orders", 1): 1, ("orders", 3): 3}
    assert offsets[1] == offsets[0] | {("events", 0): 0, ("orders", 1): 101}


async def test_it_is_committed_although_its_client_has_gone(world, in_slices):
    in_slices()
    client = await world.client()
    client.send("OffsetCommit", 8, commit(world, "g", [("orders", [0, 1, 3])]))
    client.close()
    await until(world, "g", lambda offsets: offsets.knows("g"))
    offsets = world.server.groups.shard_of("g").state.offsets
    assert sorted(offsets.by_group["g"]) == [("orders", index) for index in (0, 1, 3)]


LARGE = ("a", "b", "c")
WIDE = range(3, 203)
"""Partitions with short metadata."""


def asked(topics):
    group = OffsetFetchRequest.OffsetFetchRequestGroup
    return {"groups": [group(group_id=group_id, topics=topics) for group_id in LARGE]}


@pytest.mark.parametrize(
    ("api", "version", "fields"),
    [
        ("DeleteGroups", 2, {"groups_names": list(LARGE)}),
        ("OffsetFetch", 8, asked(None)),
        ("OffsetFetch", 8, asked([OffsetFetchRequest.OffsetFetchRequestTopics("wide", bytes(16), list(WIDE))])),
    ],
)
async def test_a_slice_ends_with_a_group_that_has_many_offsets(world, monkeypatch, api, version, fields):
    monkeypatch.setattr(router, "PART_WEIGHT", 1)
    world.server.topics.declare("wide", WIDE.stop, {})
    world.permits.allow(READ_TOPIC, "wide")
    client = await world.client()
    for group_id in LARGE:
        answer = await client.call("OffsetCommit", 8, commit(world, group_id, [("wide", WIDE)]))
        assert {code for _, _, codes in outcome(answer) for _, code in codes} == {0}
    slices = counted_slices(monkeypatch)
    answer = await client.call(api, version, **fields)
    assert {each.error_code for each in getattr(answer, type(answer).__slots__[-1])} == {0}
    assert len(slices) >= len(LARGE)


@pytest.mark.parametrize(
    ("version", "fields", "works"),
    [
        (7, {"group_id": "g", "topics": None}, ["asks and finds", "encodes"]),
        (8, {"groups": [OffsetFetchRequest.OffsetFetchRequestGroup("g", topics=None)]}, ["asks", "finds", "encodes"]),
    ],
)
async def test_the_offsets_of_a_group_are_encoded_in_another_slice_than_they_are_found(
    world, monkeypatch, version, fields, works
):
    client = await world.client()
    await client.call("OffsetCommit", 8, commit(world, "g", [("orders", [0, 1])]))
    monkeypatch.setattr(sliced_work, "SLICE_PIECES", 1)
    slices = counted_slices(monkeypatch)
    await client.call("OffsetFetch", version, **fields)
    assert len(set(slices)) == len(works)
