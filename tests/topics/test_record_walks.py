"""The records of large batches are looked into outside the loop, and nothing overtakes what waits for that."""

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import ListOffsetsRequest
from coordinator.topics.list_offsets import list_offsets
from coordinator.topics.record_walks import RECORDS_ON_LOOP_MAX, RecordWalks
from tests.topics.data_plane import NOW_MS, DataPlane, batch

MANY = [b"v"] * (RECORDS_ON_LOOP_MAX + 1)
COMPACTED = {"cleanup.policy": "compact"}


@pytest.fixture
def plane():
    plane = DataPlane(durability="write")
    plane.create("t", 3)
    plane.create("c", 3, configs=COMPACTED)
    plane.late = True
    return plane


def errors(answers):
    ((response, failed),) = answers
    found = {
        (topic.name, part.index): ErrorCode(part.error_code).name
        for topic in response.responses
        for part in topic.partition_responses
    }
    assert failed is any(error != "NONE" for error in found.values())
    return found


def test_a_large_batch_of_a_compacted_topic_is_checked_in_the_worker(plane):
    answers = plane.produce_many({("c", 0): batch(*MANY)})
    assert answers == []
    assert plane.waits, "later requests of the connection must not overtake it"
    assert plane.topics.partition("c", 0).high_watermark == 0
    assert not plane.topics.idle
    plane.sync()
    assert errors(answers) == {("c", 0): "NONE"}
    assert plane.topics.partition("c", 0).high_watermark == len(MANY)
    assert plane.topics.idle


@pytest.mark.parametrize("data", [batch(*MANY[:-1]), batch()])
def test_a_small_one_is_checked_at_once(plane, data):
    answers = plane.produce_many({("c", 0): data})
    assert len(answers) == 1
    assert not plane.waits


def test_a_compressed_batch_may_become_megabytes_and_is_checked_in_the_worker(plane):
    answers = plane.produce_many({("t", 0): batch(attributes=4), ("t", 1): batch(attributes=4, is_garbled=True)})
    assert answers == []
    plane.sync()
    assert errors(answers) == {("t", 0): "NONE", ("t", 1): "UNKNOWN_SERVER_ERROR"}


@pytest.mark.parametrize(("data", "error"), [
    (batch(*MANY, key=None), "INVALID_RECORD"),
    (batch(*MANY, timestamp=NOW_MS + 10**9), "INVALID_TIMESTAMP"),
])  # fmt: skip
def test_a_refused_batch_is_as_one_that_is_checked_at_once(plane, data, error):
    answers = plane.produce_many({("c", 0): data, ("c", 1): batch(), ("t", 0): batch()})
    plane.sync()
    assert errors(answers) == {("c", 0): error, ("c", 1): "NONE", ("t", 0): "NONE"}
    refused = answers[0][0].responses[0].partition_responses[0]
    assert len(refused.record_errors) == len(MANY)
    assert refused.base_offset == -1
    assert refused.log_start_offset == 0
    assert plane.topics.partition("c", 0).high_watermark == 0


def test_a_batch_with_a_wrong_checksum_is_not_looked_into(plane):
    data = batch(*MANY)
    assert errors(plane.produce_many({("c", 0): data[:-1] + b"!"})) == {("c", 0): "CORRUPT_MESSAGE"}


def test_transactional_batches_wait_too(plane):
    answers = plane.produce_many(
        {("c", 0): batch(*MANY, producer_id=7, epoch=0, sequence=0, attributes=16)}, transactional_id="x"
    )
    assert plane.coordinator.asked == []
    plane.sync()
    assert errors(answers) == {("c", 0): "NONE"}
    assert len(plane.coordinator.asked) == 1


def test_a_topic_that_is_deleted_meanwhile(plane):
    answers = plane.produce_many({("c", 0): batch(*MANY)})
    walk = plane.jobs.pop(0)
    plane.delete("c")
    plane.sync()
    plane.jobs.append(walk)
    plane.sync()
    assert errors(answers) == {("c", 0): "UNKNOWN_TOPIC_OR_PARTITION"}


def test_the_appends_of_one_request_let_others_have_their_turn(plane):
    plane.late = False
    plane.create("wide", 100)
    plane.produce_many({("wide", index): batch() for index in range(100)})
    assert plane.pieces == 100, "the first batch of each partition makes files"
    plane.produce_many({("wide", index): batch() for index in range(100)})
    assert 1 < plane.pieces < 10
    plane.produce_many({("wide", index): batch(*MANY[:-1]) for index in range(100)})
    assert plane.pieces > 10, "the records of every batch are checked"


# --- ListOffsets ------------------------------------------------------------------------------------------------------


def asked(plane, places, is_over=lambda: False):
    """Offset and error of each place, `{partition of "t": timestamp}`, when it is known."""
    partitions = [
        ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=timestamp)
        for index, timestamp in places.items()
    ]
    request = ListOffsetsRequest(topics=[ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=partitions)])
    answers = []
    list_offsets(plane.topics, request, 7, answers.append, list, is_over)
    return answers


def stored(plane, partition):
    """Appends a large batch."""
    plane.produce(batch(*MANY), partition=partition)
    plane.sync()


def offsets(answers):
    (response,) = answers
    return [(part.offset, ErrorCode(part.error_code).name) for part in response.topics[0].partitions]


def test_a_timestamp_in_a_large_batch_is_searched_in_the_worker(plane):
    plane.produce(batch(timestamp=NOW_MS - 5), partition=0)
    stored(plane, 0)
    stored(plane, 2)
    answers = asked(plane, {0: NOW_MS, 1: NOW_MS, 2: -3})
    assert answers == []
    assert len(plane.jobs) == 1, "one batch at a time"
    plane.sync()
    assert offsets(answers) == [(1, "NONE"), (-1, "NONE"), (0, "NONE")]


def test_places_that_need_no_large_batch_are_known_at_once(plane):
    plane.produce(batch(timestamp=NOW_MS - 5), partition=0)
    stored(plane, 0)
    assert offsets(asked(plane, {0: NOW_MS - 5, 1: -2})) == [(0, "NONE"), (0, "NONE")]
    assert offsets(asked(plane, {0: -1})) == [(1 + len(MANY), "NONE")]
    assert plane.jobs == []


def test_nothing_is_searched_for_a_client_that_is_gone(plane):
    stored(plane, 0)
    stored(plane, 2)
    over = []
    answers = asked(plane, {0: NOW_MS, 2: NOW_MS}, lambda: bool(over))
    over.append(True)
    plane.jobs, (job,) = [], plane.jobs
    job[1](job[0]())
    assert plane.jobs == []
    assert answers == []
    before = plane.disk.files_open
    for index in (0, 2):
        plane.topics.partition("t", index).log.delete()
    assert plane.disk.files_open == before - 2, "nobody holds their segments"


def test_a_segment_that_is_deleted_during_its_search_is_readable_until_then(plane):
    stored(plane, 0)
    answers = asked(plane, {0: NOW_MS})
    plane.topics.partition("t", 0).log.delete()
    plane.sync()
    assert offsets(answers)[0][1] == "NONE"


def test_walks_run_one_at_a_time_and_in_order():
    jobs, done = [], []
    walks = RecordWalks(lambda function, finished: jobs.append((function, finished)))
    for number in range(3):
        walks.submit(lambda number=number: number, done.append)
    while jobs:
        assert len(jobs) == 1
        function, finished = jobs.pop()
        finished(function())
    assert done == [0, 1, 2]
    assert walks.idle


def test_a_walk_whose_result_cannot_be_used_does_not_stop_the_others():
    jobs, done = [], []
    walks = RecordWalks(lambda function, finished: jobs.append((function, finished)))

    def fail(outcome):
        raise ValueError(outcome)

    walks.submit(lambda: 1, fail)
    walks.submit(lambda: 2, done.append)
    function, finished = jobs.pop()
    with pytest.raises(ValueError, match="1"):
        finished(function())
    function, finished = jobs.pop()
    finished(function())
    assert done == [2]
