"""Deleted records stay deleted, whatever happens to the process or the machine."""

from errno import EIO

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import DeleteRecordsRequest
from coordinator.topics.delete_records import delete_records
from tests.topics.data_plane import DataPlane, batch


def delete(plane, offset, topic="t", partition=0):
    asked = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=partition, offset=offset)
    topics = [DeleteRecordsRequest.DeleteRecordsTopic(name=topic, partitions=[asked])]
    result = delete_records(plane.topics, DeleteRecordsRequest(topics=topics)).topics[0].partitions[0]
    return result.error_code, result.low_watermark


@pytest.fixture
def plane():
    plane = DataPlane()
    plane.create("t", configs={"segment.bytes": str(1 << 20)})
    for _ in range(4):
        plane.produce(batch(b"x" * 600_000))
    return plane


@pytest.mark.parametrize("end", ["killed", "crashed"])
def test_the_beginning_stays_where_it_was_put(plane, end):
    assert delete(plane, 3) == (ErrorCode.NONE, 3)
    getattr(plane, end)()
    assert plane.topics.partition("t", 0).start_offset == 3
    assert plane.fetch(offset=2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert plane.fetch(offset=3).error_code == ErrorCode.NONE


def test_whole_segments_give_their_space_back(plane):
    before = plane.disk.used_bytes()
    delete(plane, 3)
    assert before - plane.disk.used_bytes() > 1_700_000


def test_of_a_partition_named_twice_the_last_entry_counts(plane):
    asked = [DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=offset) for offset in (2, 9)]
    topics = [DeleteRecordsRequest.DeleteRecordsTopic(name="t", partitions=asked)]
    (result,) = delete_records(plane.topics, DeleteRecordsRequest(topics=topics)).topics[0].partitions
    assert (result.error_code, result.low_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_what_is_not_durable_cannot_be_deleted():
    plane = DataPlane(late=True)
    plane.create("t")
    plane.sync()
    plane.produce(batch())
    assert delete(plane, 1) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete(plane, -1) == (ErrorCode.NONE, 0)


def test_a_partition_without_records_has_none_to_delete():
    plane = DataPlane()
    plane.create("t")
    assert delete(plane, -1) == (ErrorCode.NONE, 0)
    assert delete(plane, 1) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_the_groups_log_is_not_for_clients_to_delete(plane):
    plane.topics.attach_internal("__consumer_offsets", [plane.topics.partition("t", 0).log])
    assert delete(plane, 1, topic="__consumer_offsets") == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)


def test_a_disk_failure_is_reported(plane):
    plane.disk.sync_errors.append(EIO)
    assert delete(plane, 3) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert plane.fetch(offset=0).error_code == ErrorCode.NONE
