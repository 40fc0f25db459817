"""CreatePartitions: the new partitions become visible together or not at all, and survive a restart."""

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import CreatePartitionsRequest
from coordinator.topics.create_partitions import create_partitions
from coordinator_lab.simulation.disk import PowerCut
from tests.topics.data_plane import DataPlane, batch


def grow(plane, counts, **fields):
    """The list that will hold the answer. `counts`: (name, count) pairs."""
    wanted = [CreatePartitionsRequest.CreatePartitionsTopic(name=n, count=c, assignments=None) for n, c in counts]
    answers = []
    create_partitions(plane.topics, CreatePartitionsRequest(topics=wanted, **fields), answers.append)
    return answers


def errors(answers):
    return [result.error_code for result in answers[0].results]


@pytest.fixture
def plane():
    plane = DataPlane()
    plane.create("t", 2)
    return plane


def test_new_partitions_take_records_and_survive_a_restart(plane):
    assert errors(grow(plane, [("t", 4)])) == [ErrorCode.NONE]
    assert plane.produce(batch(), partition=3).error_code == ErrorCode.NONE
    plane.killed()
    assert plane.topics.partition_count("t") == 4
    assert plane.fetch(partition=3).high_watermark == 1


def test_existing_partitions_are_unchanged(plane):
    plane.produce(batch(b"before"))
    before = plane.topics.partition("t", 0)
    grow(plane, [("t", 3)])
    assert plane.topics.partition("t", 0) is before


def test_new_partitions_have_the_topics_settings(plane):
    plane.create("small", configs={"max.message.bytes": "100"})
    grow(plane, [("small", 2)])
    assert plane.produce(batch(b"x" * 100), topic="small", partition=1).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_new_partitions_are_invisible_until_they_are_durable():
    plane = DataPlane(late=True)
    plane.create("t")
    plane.sync()
    answers = grow(plane, [("t", 2)])
    assert (answers, plane.topics.partition_count("t")) == ([], 1)
    assert plane.produce(batch(), partition=1).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    plane.sync()
    assert errors(answers) == [ErrorCode.NONE]


def test_two_growths_at_once_do_not_overlap():
    plane = DataPlane(late=True)
    plane.create("t")
    plane.sync()
    first, second = grow(plane, [("t", 3)]), grow(plane, [("t", 2)])
    plane.sync()
    assert (errors(first), errors(second)) == ([ErrorCode.NONE], [ErrorCode.INVALID_PARTITIONS])
    assert plane.topics.partition_count("t") == 3


@pytest.mark.parametrize("cut_at", range(1, 6))
def test_a_power_cut_leaves_all_topics_grown_or_none(plane, cut_at):
    plane.create("u")
    plane.disk.cut_after(cut_at)
    try:
        acknowledged = bool(grow(plane, [("t", 5), ("u", 5)]))
    except PowerCut:
        acknowledged = False
    plane.crashed(seed=cut_at)
    counts = plane.topics.partition_count("t"), plane.topics.partition_count("u")
    assert counts in ({(5, 5)} if acknowledged else {(2, 1), (5, 5)})


def test_a_full_disk_adds_nothing(plane):
    plane.fill_disk()
    assert errors(grow(plane, [("t", 3)])) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert plane.topics.partition_count("t") == 2


def test_the_limit_applies_to_the_partitions_that_one_request_adds():
    plane = DataPlane(topic_partitions_max=4)
    plane.create("t", 2)
    plane.create("u", 1)
    assert errors(grow(plane, [("t", 5), ("u", 3)])) == [ErrorCode.POLICY_VIOLATION] * 2
    assert errors(grow(plane, [("t", 6)])) == [ErrorCode.NONE]


def test_the_number_of_group_shards_cannot_change(plane):
    plane.topics.attach_internal("__consumer_offsets", [])
    assert errors(grow(plane, [("__consumer_offsets", 60)])) == [ErrorCode.POLICY_VIOLATION]


def test_a_deleted_topic_does_not_grow(plane):
    plane.late = True
    plane.delete("t")
    answers = grow(plane, [("t", 3)])
    plane.sync()
    assert errors(answers) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_no_partition_is_created_beyond_the_limit_and_deleted_topics_free_theirs():
    plane = DataPlane(limit_partitions=6)
    plane.topics.attach_internal("__transaction_state", [])
    assert plane.create("a", 4).error_code == ErrorCode.NONE
    assert plane.create("b", 3).error_code == ErrorCode.POLICY_VIOLATION
    assert plane.create("b", 2).error_code == ErrorCode.NONE
    assert errors(grow(plane, [("b", 3)])) == [ErrorCode.POLICY_VIOLATION]
    plane.topics.auto_create(["c"])
    assert plane.topics.partition_count("c") is None
    plane.killed()
    assert plane.topics.registry.partitions == 6
    plane.delete("a")
    assert errors(grow(plane, [("b", 5)])) == [ErrorCode.NONE]
    plane.topics.auto_create(["c", "d"])
    assert (plane.topics.partition_count("c"), plane.topics.partition_count("d")) == (1, None)
