"""DescribeProducers: the producers of each partition."""

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import DescribeProducersRequest
from coordinator.topics.describe_producers import describe_producers
from tests.topics.data_plane import NOW_MS, DataPlane, batch


@pytest.fixture
def plane():
    plane = DataPlane()
    plane.create("t", 2)
    return plane


def described(plane, topic="t", partition=0):
    asked = DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=[partition])
    answers = []
    describe_producers(plane.topics, DescribeProducersRequest(topics=[asked]), answers.append)
    return answers[0].topics[0].partitions[0]


def producers(plane):
    return [
        (one.producer_id, one.producer_epoch, one.last_sequence, one.coordinator_epoch, one.current_txn_start_offset)
        for one in described(plane).active_producers
    ]


def test_idempotent_and_transactional_producers_are_described(plane):
    plane.produce(batch())
    plane.produce(batch(b"a", b"b", producer_id=9, epoch=3, sequence=0))
    plane.produce(batch(producer_id=7, epoch=0, sequence=0, attributes=16), version=11, transactional_id="x")
    assert producers(plane) == [(7, 0, 0, -1, 3), (9, 3, 1, -1, -1)]
    assert {one.last_timestamp for one in described(plane).active_producers} == {NOW_MS}
    plane.end(coordinator_epoch=5)
    assert producers(plane)[0] == (7, 0, 0, 5, -1)
    plane.end(coordinator_epoch=5, epoch=1)
    assert producers(plane)[0] == (7, 1, -1, 5, -1)


def test_the_description_is_the_same_after_a_restart(plane):
    plane.produce(batch(producer_id=7, epoch=0, sequence=0, attributes=16), version=11, transactional_id="x")
    before = producers(plane)
    plane.killed()
    assert producers(plane) == before


def test_unknown_places(plane):
    assert described(plane, partition=1).active_producers == []
    assert described(plane, partition=2).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert described(plane, topic="nope").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert described(plane, topic="no/pe").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
