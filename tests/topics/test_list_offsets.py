"""ListOffsets: special places, timestamps, and what older versions may ask for."""

import pytest

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ListOffsetsRequest
from coordinator.topics.list_offsets import list_offsets
from tests.topics.data_plane import NOW_MS, DataPlane, batch


@pytest.fixture
def plane():
    """Batches of two records at times 1000, 3000, 2000; partition 1 is empty."""
    plane = DataPlane()
    plane.create("t", 2)
    for timestamp in (1000, 3000, 2000):
        plane.produce(batch(b"a", b"b", timestamp=timestamp))
    return plane


def place(answer):
    return answer.error_code, answer.timestamp, answer.offset, answer.leader_epoch


@pytest.mark.parametrize(
    ("timestamp", "full", "empty"),
    [
        (-1, (0, -1, 6, 0), (0, -1, 0, 0)),
        (-2, (0, -1, 0, 0), (0, -1, 0, 0)),
        (-3, (0, 3000, 2, 0), (0, -1, -1, -1)),
        (-4, (0, -1, 0, 0), (0, -1, 0, 0)),
        (-5, (0, -1, -1, -1), (0, -1, -1, -1)),
        (-6, (0, -1, -1, -1), (0, -1, -1, -1)),
        (0, (0, 1000, 0, 0), (0, -1, -1, -1)),
        (1000, (0, 1000, 0, 0), (0, -1, -1, -1)),
        (1001, (0, 3000, 2, 0), (0, -1, -1, -1)),
        (3001, (0, -1, -1, -1), (0, -1, -1, -1)),
    ],
)
def test_places_and_times(plane, timestamp, full, empty):
    assert place(plane.offset_at(timestamp)) == full
    assert place(plane.offset_at(timestamp, partition=1)) == empty


@pytest.mark.parametrize(("timestamp", "since"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11)])
def test_a_place_is_unknown_to_versions_before_it(plane, timestamp, since):
    assert plane.offset_at(timestamp, version=since - 1).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert plane.offset_at(timestamp, version=since).error_code == ErrorCode.NONE


def test_a_number_below_zero_without_a_place(plane):
    assert plane.offset_at(-7).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_an_unknown_isolation_level(plane):
    with pytest.raises(KafkaError) as error:
        plane.offset_at(-1, isolation=5)
    assert error.value.code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_versions_before_4_know_no_epoch(plane):
    assert plane.offset_at(-1, version=3).leader_epoch == -1


def test_unknown_places_and_epochs(plane):
    assert plane.offset_at(-1, topic="nope").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert plane.offset_at(-1, partition=2).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert plane.offset_at(-1, epoch=0).error_code == ErrorCode.NONE
    assert plane.offset_at(-1, epoch=1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert plane.offset_at(-1, epoch=-2).error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_a_duplicate_partition_is_an_invalid_request(plane):
    asked = [ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=-1) for index in (0, 1, 0)]
    request = ListOffsetsRequest(topics=[ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=asked)])
    answers = []
    list_offsets(plane.topics, request, 7, answers.append, list, lambda: False)
    (topic,) = answers[0].topics
    assert [(p.partition_index, p.error_code, p.offset) for p in topic.partitions] == [
        (0, ErrorCode.INVALID_REQUEST, -1),
        (1, ErrorCode.NONE, 0),
    ]


def test_what_is_not_durable_has_no_offset():
    plane = DataPlane(late=True)
    plane.create("t")
    plane.sync()
    plane.produce(batch(timestamp=1000))
    assert place(plane.offset_at(-1)) == (0, -1, 0, 0)
    assert place(plane.offset_at(0)) == (0, -1, -1, -1)
    plane.sync()
    assert place(plane.offset_at(0)) == (0, 1000, 0, 0)


def test_no_time_is_before_the_beginning_even_where_the_records_cannot_be_read(monkeypatch):
    monkeypatch.setattr("coordinator.topics.append.check_records", lambda *_: None)
    plane = DataPlane()
    plane.create("t")
    plane.produce(batch(b"a", b"b", b"c", attributes=3, is_garbled=True))
    plane.topics.partition("t", 0).delete_before(2)
    assert plane.offset_at(-3).offset == 2
    assert plane.offset_at(NOW_MS).offset == 2
