"""Events about the records of share groups come to the worker that has the group, whoever leads the share partition."""

import asyncio
import json

from coordinator.admin.event_history import History
from coordinator.admin.event_stream import ServerEvents
from coordinator.groups.events import EVENT_KEYS
from coordinator.groups.share.deliveries import Deliveries, as_messages
from coordinator.log.batch_builder import encode_batch
from coordinator.log.record import LogRecord
from coordinator.protocol.codec import Codec
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import EventLogClosedKey, EventLogClosedValue, ProduceRequest
from coordinator.runtime.result import Record
from coordinator.runtime.serde import Serde
from coordinator.topics.names import COORDINATOR_EVENTS
from tests.cluster.workers.world import SHARDS, WITHIN_S, workers

GROUPS = ("a", "b", "c", "d", "e", "f")


def acquired(group_id, number):
    return Deliveries(
        "acquired", group_id, "m", "jobs", bytes(15) + b"1", 0, "", 3, [(number, number + 2, 1, -1)], 7_000, number
    )


async def numbers(worker, group_id):
    """The numbers of the events about records that the worker has of a group."""
    history = History(ServerEvents(worker.server), group_id)
    found = []
    while not history.is_at_end:
        found += [json.loads(event) for _, event in await history.read(100)]
    return [each["number"] for each in found if each["type"] == "RecordsAcquired"]


async def arrived(world, group_id, expected):
    """Waits until the worker that has the group has these events."""
    index = world.running[0].server.groups.shard_of(group_id).index
    async with asyncio.timeout(WITHIN_S):
        while True:
            owner = world.owner(index)
            if owner is not None and owner.server.topics.partition(COORDINATOR_EVENTS, index) is not None:
                found = await numbers(owner, group_id)
                if found == expected:
                    return
            await asyncio.sleep(0.02)


async def produce(worker, index, batch):
    """The error of writing a batch to the events of a shard."""
    client = await worker.client()
    data = ProduceRequest.PartitionProduceData(index, batch)
    topic = ProduceRequest.TopicProduceData(name=COORDINATOR_EVENTS, partition_data=[data])
    answer = await client.call("Produce", 11, acks=-1, timeout_ms=1_000, topic_data=[topic])
    return answer.responses[0].partition_responses[0].error_code


async def test_events_come_to_the_worker_that_has_the_group_in_their_order_and_follow_it(tmp_path):
    async with workers(tmp_path) as world:
        first, second = await world.start(1, 2)
        await world.until_spread()
        for number in range(3):
            for group_id in GROUPS:
                first.server.delivery_events.note(acquired(group_id, number))
        for group_id in GROUPS:
            await arrived(world, group_id, [0, 1, 2])
        await world.stop(second)
        for group_id in GROUPS:
            first.server.delivery_events.note(acquired(group_id, 3))
        for group_id in GROUPS:
            await arrived(world, group_id, [0, 1, 2, 3])


async def test_nothing_but_events_about_records_of_the_shard_can_be_written_there(tmp_path):
    async with workers(tmp_path) as world:
        (worker,) = await world.start(1)
        await world.until(lambda: len(worker.shards) == SHARDS)
        index = worker.server.groups.shard_of("a").index
        records = [as_messages(acquired("a", 0)), (EventLogClosedKey(), EventLogClosedValue())]
        good, bad = (encode_batch([LogRecord(0, 0, *encoded(*each), ())]) for each in records)
        assert await produce(worker, index, bad) == ErrorCode.INVALID_RECORD
        assert await produce(worker, (index + 1) % SHARDS, good) == ErrorCode.INVALID_RECORD
        assert await produce(worker, index, good[:-1] + b"!") == ErrorCode.CORRUPT_MESSAGE
        assert await produce(worker, SHARDS, good) == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert await produce(worker, -1, good) == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert await produce(worker, index, good) == ErrorCode.NONE
        await arrived(world, "a", [0])


def encoded(key, value):
    return Serde(Codec.of(), EVENT_KEYS).encode(Record(key, value, 0))
