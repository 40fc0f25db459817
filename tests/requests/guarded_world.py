"""A whole server whose ACLs a test changes, and the requests of its clients."""

from contextlib import asynccontextmanager

from coordinator.api.sliced_work import SlicedWork
from coordinator.protocol.messages import AddPartitionsToTxnRequest, OffsetCommitRequest, OffsetFetchRequest
from tests.rules.samples import APIS, GROUP
from tests.rules.world import running
from tests.support.permitting import ANY_NAME, AllowedByAcls

ALL = sorted({access for api in APIS.values() for access in api.access})
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@asynccontextmanager
async def server(folder, settings=()):
    """A running server, and in `permits` what its clients may do: nothing yet."""
    async with running(folder, [*settings, f"authorizer.class.name={AUTHORIZER}"]) as world:
        world.permits = AllowedByAcls(world.server.authorizer)
        yield world


@asynccontextmanager
async def everything(world):
    """A client that may do everything meanwhile."""
    for access in ALL:
        world.permits.allow(access, ANY_NAME)
    yield await world.client()
    for access in ALL:
        world.permits.forbid(access, ANY_NAME)


def commit(group, topics, *, generation=-1, member=""):
    """`topics`: name -> partitions."""
    partition, topic = OffsetCommitRequest.OffsetCommitRequestPartition, OffsetCommitRequest.OffsetCommitRequestTopic
    wanted = [topic(name, partitions=[partition(index, 7) for index in indexes]) for name, indexes in topics.items()]
    return OffsetCommitRequest(
        group_id=group, generation_id_or_member_epoch=generation, member_id=member, topics=wanted
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


async def begin(client, transactional_id, topic="orders"):
    """Begins a transaction with a partition; returns its producer."""
    given = await client.call("InitProducerId", 4, transactional_id=transactional_id, transaction_timeout_ms=60_000)
    producer = given.producer_id, given.producer_epoch
    topics = [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(topic, [0])]
    answer = await client.call(
        "AddPartitionsToTxn", 3, AddPartitionsToTxnRequest([], transactional_id, *producer, v3_and_below_topics=topics)
    )
    assert [each.partition_error_code for each in answer.results_by_topic_v3_and_below[0].results_by_partition] == [0]
    return producer


def counted_slices(monkeypatch):
    """A list that gets an entry for each slice after the first one of a request."""
    slices, take_slice = [], SlicedWork.take_slice

    def count(work):
        slices.append(work)
        take_slice(work)

    monkeypatch.setattr(SlicedWork, "take_slice", count)
    return slices
