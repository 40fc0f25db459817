"""Fetch: sizes, order, errors, and when a waiting reader is woken."""

import pytest

from coordinator.log.batch import split
from coordinator.log.batch_builder import BatchBuilder
from coordinator.log.journaled_log import JournaledLog
from coordinator.log.log import LogSettings
from coordinator.protocol.errors import ErrorCode
from tests.topics.data_plane import FOLDER, DataPlane, batch

ONE = len(batch())


@pytest.fixture
def plane():
    """t-0 has offsets 0, 1, 2 in a batch each; t-1 is empty; u-0 has one."""
    plane = DataPlane()
    plane.create("t", 2)
    plane.create("u")
    for _ in range(3):
        plane.produce(batch())
    plane.produce(batch(), topic="u")
    return plane


def sizes(response):
    """(topic, partition) -> batches, in the order of the answer."""
    return [
        ((topic.topic, partition.partition_index), len(split(partition.records)))
        for topic in response.responses
        for partition in topic.partitions
    ]


def at_once(plane, partitions, **options):
    _, answers = plane.fetch_later(partitions, **options)
    (response,) = answers
    return response


def test_records_from_an_offset_on(plane):
    data = plane.fetch(offset=1)
    assert [header.base_offset for _, header in split(data.records)] == [1, 2]
    assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (3, 3, 0)
    assert (data.aborted_transactions, data.preferred_read_replica) == (None, -1)
    assert plane.fetch(isolation_level=1).aborted_transactions == []


def test_partitions_fill_the_response_in_the_order_of_the_request(plane):
    asked = [("t", 0, 0), ("u", 0, 0)]
    assert sizes(at_once(plane, asked)) == [(("t", 0), 3), (("u", 0), 1)]
    assert sizes(at_once(plane, asked, max_bytes=2 * ONE)) == [(("t", 0), 2), (("u", 0), 0)]
    assert sizes(at_once(plane, asked[::-1], max_bytes=2 * ONE)) == [(("u", 0), 1), (("t", 0), 1)]
    narrow = [("t", 0, 0, {"partition_max_bytes": ONE}), ("u", 0, 0)]
    assert sizes(at_once(plane, narrow)) == [(("t", 0), 1), (("u", 0), 1)]


@pytest.mark.parametrize("max_bytes", [-1, 0, 1])
def test_the_first_batch_passes_whatever_the_limits(plane, max_bytes):
    asked = [("t", 1, 0), ("t", 0, 0, {"partition_max_bytes": 0}), ("u", 0, 0)]
    answer = at_once(plane, asked, max_bytes=max_bytes, min_bytes=0)
    assert sizes(answer) == [(("t", 1), 0), (("t", 0), 1), (("u", 0), 0)]


def test_the_server_caps_an_answer():
    plane = DataPlane(fetch_max_bytes=2 * ONE)
    plane.create("t")
    for _ in range(3):
        plane.produce(batch())
    assert sizes(at_once(plane, [("t", 0, 0)])) == [(("t", 0), 2)]


def test_an_offset_outside_the_log(plane):
    for offset in (-1, 4):
        data = plane.fetch(offset=offset, max_wait_ms=500)
        assert (data.error_code, data.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert plane.fetch(offset=3).error_code == ErrorCode.NONE


def test_a_reader_of_a_lost_tail_learns_where_its_history_ends(plane):
    asked = {"last_fetched_epoch": 0}
    data = at_once(plane, [("t", 0, 7, asked)]).responses[0].partitions[0]
    assert (data.error_code, data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 0, 3)


def test_leader_epochs(plane):
    def error(**asked):
        return at_once(plane, [("t", 0, 0, asked)]).responses[0].partitions[0].error_code

    assert error(current_leader_epoch=0) == ErrorCode.NONE
    assert error(current_leader_epoch=1) == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert error(last_fetched_epoch=5) == ErrorCode.OFFSET_OUT_OF_RANGE


def test_followers_are_refused(plane):
    assert plane.fetch(replica_id=5).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_unknown_partitions_are_listed_last_and_do_not_end_the_wait(plane):
    answer = at_once(plane, [("nope", 0, 0), ("t", 9, 0), ("t", 0, 0)])
    assert [(t.topic, p.partition_index, p.error_code) for t in answer.responses for p in t.partitions] == [
        ("t", 0, ErrorCode.NONE),
        ("nope", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    _, answers = plane.fetch_later([("nope", 0, 0), ("t", 1, 0)])
    assert answers == []


def test_topics_by_id(plane):
    topic_id = plane.topics.topic_id("t")
    answer = at_once(plane, [(topic_id, 0, 0), (b"x" * 16, 0, 0)], version=13)
    assert [(t.topic_id, t.partitions[0].error_code) for t in answer.responses] == [
        (topic_id, ErrorCode.NONE),
        (b"x" * 16, ErrorCode.UNKNOWN_TOPIC_ID),
    ]


def test_of_a_partition_named_twice_the_last_counts(plane):
    assert sizes(at_once(plane, [("t", 0, 0), ("t", 0, 2)])) == [(("t", 0), 1)]


def test_an_append_wakes_a_reader_when_it_is_durable():
    plane = DataPlane(late=True)
    plane.create("t")
    plane.sync()
    _, answers = plane.fetch_later([("t", 0, 0)])
    plane.produce(batch())
    assert answers == []
    plane.sync()
    assert sizes(answers[0]) == [(("t", 0), 1)]
    plane.advance(1000)
    assert len(answers) == 1


def test_a_reader_waits_until_max_wait_is_over(plane):
    _, answers = plane.fetch_later([("t", 1, 0)], max_wait_ms=500)
    plane.advance(499)
    assert answers == []
    plane.advance(1)
    assert sizes(answers[0]) == [(("t", 1), 0)]
    assert not plane.topics.partition("t", 1).readers


def test_a_reader_waits_for_min_bytes_over_all_its_partitions(plane):
    _, answers = plane.fetch_later([("t", 0, 2), ("u", 0, 1)], min_bytes=3 * ONE)
    plane.produce(batch())
    assert answers == [], "one was there, one came"
    plane.produce(batch(), topic="u")
    assert sizes(answers[0]) == [(("t", 0), 2), (("u", 0), 1)]


def test_min_bytes_above_max_bytes_cannot_be_waited_for(plane):
    assert sizes(at_once(plane, [("t", 0, 0)], min_bytes=1 << 20, max_bytes=ONE)) == [(("t", 0), 1)]


def test_an_empty_fetch_is_answered_at_once(plane):
    assert at_once(plane, []).responses == []


def test_a_reader_whose_connection_closed_is_forgotten(plane):
    fetch, answers = plane.fetch_later([("t", 1, 0)])
    fetch.cancel()
    assert not plane.topics.partition("t", 1).readers
    plane.produce(batch(), partition=1)
    plane.advance(1000)
    assert answers == []


@pytest.mark.parametrize("version", [12, 13])
def test_deleting_a_topic_wakes_its_readers(plane, version):
    topic = "t" if version == 12 else plane.topics.topic_id("t")
    _, answers = plane.fetch_later([(topic, 1, 0)], version=version)
    plane.delete("t")
    error = answers[0].responses[0].partitions[0].error_code
    assert error == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if version == 12 else ErrorCode.UNKNOWN_TOPIC_ID)


def test_the_log_of_the_groups_is_served_up_to_its_durable_end():
    plane = DataPlane(late=True)
    log = JournaledLog.open(plane.disk, f"{FOLDER}/__consumer_offsets-0", LogSettings())
    plane.topics.attach_internal("__consumer_offsets", [log])
    writer = plane.journal.writer(log, lambda _: plane.topics.wake("__consumer_offsets", 0), lambda _: None)
    _, answers = plane.fetch_later([("__consumer_offsets", 0, 0, {"last_fetched_epoch": 3})])
    builder = BatchBuilder()
    builder.add(b"key", b"value")
    writer.write(builder.build(0, 1), 1)
    assert (answers, plane.fetch("__consumer_offsets").high_watermark) == ([], 0)
    plane.sync()
    assert sizes(answers[0]) == [(("__consumer_offsets", 0), 1)]


def test_records_survive_a_restart_and_offsets_continue(plane):
    plane.killed()
    assert sizes(at_once(plane, [("t", 0, 0), ("t", 1, 0), ("u", 0, 0)])) == [
        (("t", 0), 3),
        (("t", 1), 0),
        (("u", 0), 1),
    ]
    assert plane.produce(batch()).base_offset == 3


def test_a_damaged_log_fails_its_partition_alone(plane):
    path = f"{FOLDER}/t-0/00000000000000000000.log"
    plane.topics.close()
    plane.disk.flip(path, ONE + 16)
    plane.killed()
    assert [fact.name for fact in plane.facts] == ["partition_failed"]
    assert plane.produce(batch()).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert plane.fetch("u").high_watermark == 1
    assert plane.topics.offline == {"t": frozenset({0})}


@pytest.mark.parametrize("offset", [0, 1, 50])
def test_a_partition_with_a_damaged_log_is_never_answered_as_an_empty_one(plane, offset):
    """With OFFSET_OUT_OF_RANGE, or an end offset of 0, consumers would reset their positions."""
    plane.topics.close()
    plane.disk.flip(f"{FOLDER}/t-0/00000000000000000000.log", 0)
    plane.killed()
    answer = plane.fetch(offset=offset)
    assert (answer.error_code, answer.high_watermark) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert plane.fetch(offset=offset, version=5).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    for timestamp in (-1, -2, -3, 0):
        answer = plane.offset_at(timestamp)
        assert (answer.error_code, answer.offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert plane.end() == "KAFKA_STORAGE_ERROR"
    assert ("t", 0) not in [(name, index) for name, index, _ in plane.topics.sizes_bytes()]


def test_a_read_that_meets_damage_in_an_old_segment_is_a_storage_error():
    plane = DataPlane(log_segment_bytes=2 * ONE)
    plane.create("t")
    for _ in range(3):
        plane.produce(batch())
    plane.topics.close()
    plane.disk.flip(f"{FOLDER}/t-0/00000000000000000000.log", ONE + 16)
    plane.killed()
    assert plane.fetch(offset=0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert plane.offset_at(0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(plane.fetch(offset=2).records) == ONE


def test_retention_deletes_old_segments():
    plane = DataPlane(log_retention_ms=1000, log_retention_check_interval_ms=500, log_segment_bytes=ONE)
    plane.create("t")
    plane.create("kept", configs={"cleanup.policy": "compact"})
    for _ in range(3):
        plane.produce(batch())
        plane.produce(batch(), topic="kept")
    plane.advance(500)
    assert plane.fetch().log_start_offset == 0
    plane.advance(600)
    assert plane.fetch(offset=3).log_start_offset == 3
    assert plane.fetch().error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert plane.fetch("kept").log_start_offset == 0


def test_a_reader_finds_no_records_while_there_is_no_memory_for_them(plane):
    room = False
    plane.topics.has_room = lambda: room
    data = plane.fetch(offset=1, max_wait_ms=0)
    assert (data.error_code, data.high_watermark, data.records) == (ErrorCode.NONE, 3, b"")
    _, answers = plane.fetch_later([("t", 0, 0)], max_wait_ms=500)
    plane.produce(batch())
    assert not answers, "it waits as if nothing had come"
    room = True
    plane.produce(batch())
    assert sizes(answers[0]) == [(("t", 0), 5)]


def test_a_wait_without_memory_ends_in_time_and_with_the_errors_there_are(plane):
    plane.topics.has_room = lambda: False
    _, answers = plane.fetch_later([("t", 0, 0)], max_wait_ms=500)
    plane.advance(500)
    assert sizes(answers[0]) == [(("t", 0), 0)]
    assert plane.fetch(offset=9, max_wait_ms=500).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


class Pieces:
    """Runs a Fetch piece by piece, as a server does that has no time."""

    def __init__(self):
        self.left = []

    def __call__(self, pieces):
        self.left.append(pieces)

    def next(self):
        """Runs the next piece; returns whether another one follows."""
        if next(self.left[0], "over") == "over":
            del self.left[0]
            return False
        return True


def test_many_partitions_are_read_in_pieces():
    plane, run = DataPlane(), Pieces()
    plane.create("wide", 200)
    _, answers = plane.fetch_later([("wide", index, 0) for index in range(200)], max_wait_ms=0, run=run)
    pieces = 1
    while run.next():
        assert answers == []
        pieces += 1
    assert pieces >= 4
    assert [part.partition_index for topic in answers[0].responses for part in topic.partitions] == list(range(200))


def test_records_that_arrive_between_two_pieces_end_the_wait():
    for isolation in (0, 1):
        plane, run = DataPlane(), Pieces()
        plane.create("wide", 200)
        plane.produce(batch(), topic="wide", partition=0)
        asked = [("wide", index, 1 if index == 0 else 0) for index in range(200)]
        _, answers = plane.fetch_later(asked, run=run, isolation_level=isolation)
        assert run.next()
        plane.produce(batch(b"new"), topic="wide", partition=0)
        while run.left:
            run.next()
        assert answers[0].responses[0].partitions[0].records.endswith(b"new\0")


def test_a_fetch_that_is_cancelled_between_two_pieces_has_no_response():
    plane, run = DataPlane(), Pieces()
    plane.create("wide", 200)
    fetch, answers = plane.fetch_later([("wide", index, 0) for index in range(200)], run=run)
    assert run.next()
    fetch.cancel()
    while run.left:
        run.next()
    plane.advance(1_000)
    assert answers == []
