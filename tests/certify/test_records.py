"""The numbered records, and what both topics hold in the end, against a real server."""

import asyncio

import pytest
from confluent_kafka import Producer as Confluent

from coordinator_testing.certify.case import InputRecord, OutputRecord, Truncation
from coordinator_testing.certify.content import Content
from coordinator_testing.certify.records import Producer
from coordinator_testing.certify.topics import Topics
from tests.support.waiting import wait_until


@pytest.fixture
def topics(kafka_coordinator, content) -> Topics:
    found = Topics(
        kafka_coordinator.bootstrap_servers,
        kafka_coordinator.topic("input"),
        kafka_coordinator.topic("output"),
        content,
    )
    found.create(2)
    return found


@pytest.fixture
def content() -> Content:
    return Content()


async def test_every_partition_gets_ascending_numbers_until_the_stream_is_stopped(kafka_coordinator, topics, content):
    producer = Producer(kafka_coordinator.bootstrap_servers, kafka_coordinator.topic("input"), 2, content)
    producer.start()
    await asyncio.to_thread(wait_until, lambda: len(topics.inputs().get(1, ())) >= 3)
    await producer.stop()
    inputs = topics.inputs()
    ends = topics.ends(kafka_coordinator.topic("input"), 2)
    for partition in range(2):
        offsets = [each.offset for each in inputs[partition]]
        numbers = [each.number for each in inputs[partition]]
        assert offsets == list(range(ends[partition]))
        assert numbers == list(range(1, len(offsets) + 1))


async def test_a_topic_that_was_made_again_begins_another_life(kafka_coordinator, topics, content):
    name = kafka_coordinator.topic("input")
    writer = Confluent({"bootstrap.servers": kafka_coordinator.bootstrap_servers})
    writer.produce(name, content.make(0, 1)[1], partition=0)
    assert writer.flush(30) == 0
    topics.recreate(name, 2)
    writer = Confluent({"bootstrap.servers": kafka_coordinator.bootstrap_servers})
    writer.produce(name, content.make(0, 2)[1], partition=0)
    assert writer.flush(30) == 0
    assert topics.inputs()[0] == [InputRecord(0, 1, 0), InputRecord(0, 2, 1)]
    topics.grow(name, 3)
    assert set(topics.ends(name, 3)) == {0, 1, 2}


def test_records_behind_a_truncation_have_the_offsets_of_those_that_were_lost(kafka_coordinator, topics, content):
    name = kafka_coordinator.topic("input")
    writer = Confluent({"bootstrap.servers": kafka_coordinator.bootstrap_servers})
    for number in (1, 2, 3):
        writer.produce(name, content.make(0, number)[1], partition=0)
        assert writer.flush(30) == 0
    topics.inputs()
    topics.truncated(Truncation(5, 0, 1, 3))
    expected = [InputRecord(0, 1, 0), InputRecord(1, 2, 0, 0, 5), InputRecord(2, 3, 0, 0, 5)]
    # The server of this test is one broker and loses nothing, so what is read again are the same records.
    assert topics.inputs()[0] == [*expected, InputRecord(1, 2, 0, 5), InputRecord(2, 3, 0, 5)]


def test_only_copies_of_committed_transactions_count(kafka_coordinator, topics, content):
    name = kafka_coordinator.topic("output")
    writer = Confluent({"bootstrap.servers": kafka_coordinator.bootstrap_servers, "transactional.id": f"{name}-writer"})
    writer.init_transactions(30)
    for number, end in ((1, writer.commit_transaction), (2, writer.abort_transaction), (3, writer.commit_transaction)):
        writer.begin_transaction()
        writer.produce(name, content.make(0, number)[1], partition=1)
        assert writer.flush(30) == 0
        end(30)
    plain = Confluent({"bootstrap.servers": kafka_coordinator.bootstrap_servers})
    plain.produce(name, content.make(1, 1)[1], partition=0)
    plain.produce(name, b"no copy", partition=0)
    assert plain.flush(30) == 0
    first, *others = topics.outputs()
    assert first == OutputRecord(0, 0, 1, 1, None)
    [producer_id] = {each.producer_id for each in others}
    assert isinstance(producer_id, int)
    assert others == [OutputRecord(1, 0, 0, 1, producer_id), OutputRecord(1, 4, 0, 3, producer_id)]
