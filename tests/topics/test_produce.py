"""Produce: which batches are refused and how, what is appended, and when the producer is answered."""

from errno import EIO

import pytest
from google_crc32c import value as crc32c

from coordinator.log.batch import read_header, split
from coordinator.log.log import ROOM_BYTES
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import ProduceRequest
from coordinator.topics.produce import produce
from tests.topics.data_plane import NOW_MS, DataPlane, batch

HOUR_MS = 3_600_000


@pytest.fixture
def plane():
    plane = DataPlane()
    plane.create("t", 2)
    return plane


def refused(plane, data, **options):
    """Error and log start offset: -1 where the request itself was not in order."""
    answer = plane.produce(data, **options)
    assert (answer.base_offset, answer.log_append_time_ms) == (-1, -1)
    assert plane.topics.partition("t", 0).next_offset == 0
    return ErrorCode(answer.error_code).name, answer.log_start_offset


def test_batches_get_the_next_offsets_and_keep_their_bytes(plane):
    first, second = batch(b"a", b"b"), batch(b"c")
    assert plane.produce(first).base_offset == 0
    assert plane.produce(second).base_offset == 2
    kept = plane.fetch().records
    assert [header.base_offset for _, header in split(kept)] == [0, 2]
    assert kept[12:16] == bytes(4), "the leader epoch is set"
    assert kept[16 : len(first)] == first[16:], "everything under the checksum is the producer's"


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (None, "INVALID_RECORD"),
        (b"", "INVALID_RECORD"),
        (batch()[:8], "INVALID_RECORD"),
        (batch()[:-1], "INVALID_RECORD"),
        (batch(magic=1), "INVALID_RECORD"),
        (batch(magic=3), "CORRUPT_MESSAGE"),
        (batch(magic=-1), "CORRUPT_MESSAGE"),
        (bytes(61), "CORRUPT_MESSAGE"),
        (bytes(11) + b"\x20" + bytes(4) + b"\2" + bytes(60), "CORRUPT_MESSAGE"),
        (batch() + batch(), "INVALID_RECORD"),
        (batch()[:17] + b"\0\0\0\0" + batch()[21:], "CORRUPT_MESSAGE"),
        (batch(b"x" * 1_048_588), "MESSAGE_TOO_LARGE"),
    ],
)
def test_anything_but_one_whole_batch_is_refused_before_the_log_is_consulted(plane, data, error):
    assert refused(plane, data) == (error, -1)


@pytest.mark.parametrize(
    "data",
    [
        batch(base_offset=5),
        batch(attributes=32),
        batch(b"a", b"b", count=3),
        batch(b"a", b"b", delta=3),
        batch(b"a", b"b", count=1 << 30, delta=(1 << 30) - 1),
        batch(count=0, delta=-1),
        batch(producer_id=1, epoch=0, sequence=-1),
    ],
)
def test_headers_that_contradict_themselves_are_refused(plane, data):
    assert refused(plane, data) == ("INVALID_RECORD", 0)


@pytest.mark.parametrize("tail", [b"xx", batch()[:40]])
def test_a_cut_tail_behind_the_batch_is_ignored(plane, tail):
    assert plane.produce(batch() + tail).error_code == ErrorCode.NONE
    assert plane.fetch().high_watermark == 1


def test_the_largest_batch(plane):
    room = 1_048_588 - len(batch(b"")) - 4
    assert plane.produce(batch(b"x" * room)).error_code == ErrorCode.NONE


def test_zstd_is_for_producers_that_know_it(plane):
    assert refused(plane, batch(attributes=4), version=6) == ("UNSUPPORTED_COMPRESSION_TYPE", -1)
    assert plane.produce(batch(attributes=4), version=7).error_code == ErrorCode.NONE


def test_unknown_places(plane):
    assert plane.produce(batch(), topic="nope").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert plane.produce(batch(), partition=2).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert plane.produce(batch(), version=13).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert plane.produce(batch(), topic="__consumer_offsets").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_topic_named_twice_has_one_answer_and_the_last_batch_of_a_partition_counts(plane):
    ((response, _),) = plane.produce_many({("t", 0): batch(b"first"), ("t", 1): batch()})
    assert [[part.index for part in topic.partition_responses] for topic in response.responses] == [[0, 1]]
    request = ProduceRequest(acks=-1)
    for value in (b"first", b"second"):
        data = ProduceRequest.PartitionProduceData(index=0, records=batch(value))
        request.topic_data.append(ProduceRequest.TopicProduceData(name="t", partition_data=[data]))
    answers = []
    produce(
        plane.topics,
        request,
        9,
        plane.coordinator,
        lambda response, _failed: answers.append(response),
        list,
        lambda: None,
    )
    assert [part.base_offset for part in answers[0].responses[0].partition_responses] == [1]
    assert plane.fetch().records.endswith(batch(b"second")[16:])


def test_acks_are_all_one_or_none(plane):
    assert plane.produce(batch(), acks=2).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert plane.fetch().records == b""


def test_a_timestamp_from_the_future_is_refused_record_by_record(plane):
    answer = plane.produce(batch(b"a", b"b", timestamp=NOW_MS + HOUR_MS + 1))
    assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_TIMESTAMP, -1)
    assert [error.batch_index for error in answer.record_errors] == [0, 1]
    assert plane.produce(batch(timestamp=NOW_MS + HOUR_MS)).error_code == ErrorCode.NONE
    assert plane.produce(batch(timestamp=5)).error_code == ErrorCode.NONE


def test_log_append_time_is_the_servers():
    plane = DataPlane()
    plane.create("t", configs={"message.timestamp.type": "LogAppendTime"})
    answer = plane.produce(batch(timestamp=77))
    assert answer.log_append_time_ms == NOW_MS
    kept = plane.fetch().records
    header = read_header(kept)
    assert (header.attributes & 8, header.max_timestamp) == (8, NOW_MS)
    assert header.crc == crc32c(kept[21:])


def test_a_producer_cannot_claim_the_servers_time(plane):
    plane.produce(batch(attributes=8))
    header = read_header(plane.fetch().records)
    assert header.attributes == 0
    assert plane.produce(batch(b"x", attributes=8)).error_code == ErrorCode.NONE


def test_a_compacted_topic_wants_keys():
    plane = DataPlane()
    plane.create("t", configs={"cleanup.policy": "compact,delete"})
    answer = plane.produce(batch(b"a", b"b", key=None))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [0, 1]
    assert plane.produce(batch()).error_code == ErrorCode.NONE


def test_the_answer_leaves_when_every_partition_is_durable():
    plane = DataPlane(late=True)
    plane.create("t", 2)
    plane.sync()
    answers = plane.produce_many({("t", 0): batch(), ("t", 1): batch(), ("nope", 0): batch()})
    assert answers == []
    assert plane.fetch().high_watermark == 0, "nobody reads what a crash could take back"
    first, second = plane.jobs
    plane.jobs = [first]
    plane.sync()
    assert answers == []
    plane.jobs = [second]
    plane.sync()
    ((response, failed),) = answers
    assert failed, "one of them does not exist"
    assert [p.error_code for topic in response.responses for p in topic.partition_responses] == [0, 0, 3]
    assert plane.fetch().high_watermark == 1


def test_acks_0_waits_for_nothing_and_reports_only_failures():
    plane = DataPlane(late=True)
    plane.create("t")
    plane.sync()
    assert plane.produce_many({("t", 0): batch()}, acks=0)[0][1] is False
    assert plane.produce_many({("nope", 0): batch()}, acks=0)[0][1] is True


def test_with_durability_write_the_answer_does_not_wait_for_the_disk():
    plane = DataPlane(late=True, durability="write")
    plane.create("t")
    plane.sync()
    assert plane.produce(batch()).base_offset == 0
    assert plane.fetch().high_watermark == 1


def test_acknowledged_records_survive_a_power_cut():
    for seed in range(5):
        plane = DataPlane(late=True)
        plane.create("t")
        plane.sync()
        plane.produce(batch(b"kept"))
        plane.sync()
        plane.produce(batch(b"maybe"))
        plane.crashed(seed)
        assert plane.fetch().high_watermark >= 1


def test_a_full_disk_refuses_a_batch_and_takes_the_next_when_there_is_space(plane):
    data = batch(producer_id=7, epoch=0, sequence=0)
    plane.produce(batch())
    plane.disk.capacity_bytes = 0
    assert plane.produce(data).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    plane.disk.capacity_bytes = None
    answer = plane.produce(data)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 1), "the refused attempt is not remembered"


def test_partitions_are_reported_full_until_there_is_space(plane):
    plane.produce(batch())
    plane.disk.capacity_bytes = 0
    plane.produce(batch())
    plane.produce(batch(), partition=1)  # it cannot even make its folder
    assert [state for _, state, _ in plane.topics.partition_states()] == ["full", "full"]
    plane.disk.capacity_bytes = plane.disk.used_bytes() + ROOM_BYTES
    assert [state for _, state, _ in plane.topics.partition_states()] == ["active", "active"]
    plane.produce(batch())
    plane.disk.capacity_bytes = plane.disk.used_bytes()
    assert [state for _, state, _ in plane.topics.partition_states()] == ["active", "full"], "nothing was refused since"


def test_a_failed_partition_is_reported_with_the_reason(plane):
    plane.disk.sync_errors.append(EIO)
    plane.produce(batch())
    assert [state for _, state, _ in plane.topics.partition_states()] == ["failed", "active"]
    assert all(reason for _, state, reason in plane.topics.partition_states() if state == "failed")


def test_after_a_failed_sync_a_partition_refuses_writes_and_serves_durable_records(plane):
    plane.produce(batch(b"durable"))
    plane.disk.sync_errors.append(EIO)
    assert plane.produce(batch(b"lost")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert plane.produce(batch()).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert plane.fetch().high_watermark == 1
    assert plane.produce(batch(), partition=1).error_code == ErrorCode.NONE, "the other partition is not concerned"


def test_a_partition_without_records_has_no_folder(plane):
    assert not plane.disk.exists("/data/t-0")
    plane.produce(batch())
    assert plane.disk.exists("/data/t-0")
    assert not plane.disk.exists("/data/t-1")


def test_deleting_a_topic_answers_the_producers_that_wait():
    plane = DataPlane(late=True)
    plane.create("t")
    plane.sync()
    answers = plane.produce_many({("t", 0): batch()})
    (written,), plane.jobs = plane.jobs, []
    plane.delete("t")
    plane.sync()
    assert answers[0][0].responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    plane.jobs = [written]
    plane.sync()
