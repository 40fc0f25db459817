"""A restart restores the producers, from the snapshot or from the log, and never blocks the loop for it."""

from random import Random

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.topics import producer_state, producer_walk
from coordinator.topics.alter_configs import alter_topic, replacing
from coordinator.topics.producer_snapshot import NAME, decode, encode
from coordinator.topics.producer_state import AppendedBatch, ProducerState
from tests.topics.data_plane import FOLDER, NOW_MS, DataPlane, batch

FILE = f"{FOLDER}/t-0/{NAME}"
SMALL_SEGMENTS = {"segment.ms": "1"}


@pytest.fixture
def plane():
    plane = DataPlane()
    plane.create("t", configs=SMALL_SEGMENTS)
    return plane


def send(plane, sequence, producer=7, epoch=0, at=None, value=b"v"):
    """Each batch is in a segment of its own."""
    timestamp = NOW_MS + (sequence * 10 if at is None else at)
    return plane.produce(batch(value, producer_id=producer, epoch=epoch, sequence=sequence, timestamp=timestamp))


def retried(plane, count):
    """Offsets that the last `count` of ten batches get when they are sent again, and what follows them."""
    return [send(plane, sequence).base_offset for sequence in range(10 - count, 11)]


def test_a_file_is_read_as_it_was_written():
    producers = ProducerState(1000)
    for producer in (5, 9, 2):
        for sequence in range(7):
            appended = AppendedBatch(sequence, sequence, sequence * 30 + producer, NOW_MS)
            producers.append(producer, 1, appended, NOW_MS + producer, transactional=producer != 9)
    producers.end_transaction(5, 2, 3, 300, NOW_MS, NOW_MS, commit=False)
    offset, found = decode(encode(77, producers))
    assert offset == 77
    again = ProducerState(1000)
    again.restore(found)
    assert list(again) == list(producers)
    assert [(len(producer.batches), producer.first_offset) for producer in again] == [(5, -1), (5, 2), (0, -1)]
    assert again.first_open_offset == 2


def test_a_damaged_file_is_ignored():
    producers = ProducerState(1000)
    producers.append(5, 0, AppendedBatch(0, 0, 0, NOW_MS), NOW_MS, transactional=False)
    whole = encode(1, producers)
    assert decode(whole) is not None
    assert all(decode(whole[:length]) is None for length in range(len(whole)))
    assert all(decode(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]) is None for at in range(len(whole)))


@pytest.mark.parametrize("end", ["closed", "killed", "crashed"])
@pytest.mark.parametrize("snapshot", ["as it is", "torn", "gone"])
def test_a_retry_over_a_restart_is_kept_once(plane, end, snapshot):
    for sequence in range(10):
        send(plane, sequence)
    if end == "closed":
        plane.topics.close()
    if snapshot == "torn":
        plane.disk.open(FILE).truncate(9)
    elif snapshot == "gone":
        plane.disk.remove(FILE)
    plane.crashed() if end == "crashed" else plane.killed()
    assert retried(plane, 5) == [5, 6, 7, 8, 9, 10]
    assert send(plane, 12).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_no_batches_are_walked_after_a_clean_stop(plane, monkeypatch):
    for sequence in range(10):
        send(plane, sequence)
    plane.topics.close()
    plane.killed()
    walked = []
    monkeypatch.setattr(producer_walk.Walk, "go", lambda walk: walked.extend(walk._parts))
    assert retried(plane, 2) == [8, 9, 10]
    assert walked == []


def test_a_kill_leaves_the_last_segment_to_walk(plane, monkeypatch):
    for sequence in range(10):
        send(plane, sequence)
    plane.killed()
    go, parts = producer_walk.Walk.go, []
    monkeypatch.setattr(producer_walk.Walk, "go", lambda walk: parts.extend(walk._parts) or go(walk))
    assert retried(plane, 2) == [8, 9, 10]
    assert [segment.base_offset for segment, _, _ in parts] == [9]


def test_a_producer_outlives_its_records(plane):
    send(plane, 0)
    for at in range(1, 5):
        plane.produce(batch(timestamp=NOW_MS + at * 10))
    plane.topics.partition("t", 0).delete_before(4)
    plane.killed()
    assert send(plane, 5, at=100).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(plane, 1, at=100).error_code == ErrorCode.NONE


@pytest.mark.parametrize("how", ["deleted", "retired"])
def test_a_producer_outlives_its_records_even_if_the_snapshot_was_lost(plane, how):
    """Another snapshot is made before the records are deleted."""
    for sequence in range(4):
        send(plane, sequence)
    plane.produce(batch(timestamp=NOW_MS + 500))
    plane.topics.close()
    plane.disk.remove(FILE)
    plane.killed()
    assert send(plane, 9, at=500).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    if how == "deleted":
        plane.topics.partition("t", 0).delete_before(4)
    else:
        alter_topic(
            plane.topics,
            "t",
            replacing({**SMALL_SEGMENTS, "retention.bytes": "1"}),
            lambda _: None,
            validate_only=False,
        )
        plane.advance(300_000)
        assert plane.topics.partition("t", 0).start_offset == 4
    plane.crashed()
    assert send(plane, 9, at=600).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(plane, 4, at=600).error_code == ErrorCode.NONE


def test_a_long_walk_is_done_in_a_worker_and_keeps_the_order(plane, monkeypatch):
    for sequence in range(10):
        send(plane, sequence)
    plane.disk.remove(FILE)
    monkeypatch.setattr(producer_walk, "WALK_BYTES", 100)
    plane.killed()
    plane.late = True
    data = [batch(b"v", producer_id=7, epoch=0, sequence=s, timestamp=NOW_MS + 1000) for s in (9, 10, 11)]
    waiting = [plane.produce_many({("t", 0): one}) for one in data]
    plain = plane.produce_many({("t", 0): batch(b"plain", timestamp=NOW_MS + 1000)})
    assert plane.topics.partition("t", 0).log.end_offset == 11, "only who has no sequence goes on at once"
    plane.sync()
    answers = [answer[0][0].responses[0].partition_responses[0] for answer in [*waiting, plain]]
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, 9), (0, 11), (0, 12), (0, 10)]


def test_a_topic_deleted_meanwhile_is_unknown(plane, monkeypatch):
    send(plane, 0)
    monkeypatch.setattr(producer_walk, "WALK_BYTES", -1)
    plane.killed()
    plane.late = True
    waiting = plane.produce_many({("t", 0): batch(producer_id=7, epoch=0, sequence=1)})
    walk = plane.jobs.pop(0)
    plane.delete("t")
    plane.sync()
    plane.jobs.append(walk)
    while plane.jobs:
        plane.sync()
        plane.advance(5)
    answer = waiting[0][0].responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_log_that_cannot_be_walked_fails_its_partition(plane):
    send(plane, 0)
    send(plane, 1)
    plane.disk.remove(FILE)
    plane.killed()
    plane.disk.flip(f"{FOLDER}/t-0/{0:020d}.log", 16, 5)
    assert send(plane, 2).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert plane.produce(batch()).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert plane.fetch(isolation_level=1).error_code == ErrorCode.KAFKA_STORAGE_ERROR, "what is stable nobody knows"
    assert plane.fetch(offset=1).error_code == ErrorCode.NONE


def test_a_snapshot_of_a_log_that_lost_its_end_is_forgotten(plane):
    for sequence in range(3):
        send(plane, sequence)
    plane.topics.close()
    content = plane.disk.read(FILE)
    plane.delete("t")
    plane.create("t", configs=SMALL_SEGMENTS)
    send(plane, 0)
    plane.killed()
    file = plane.disk.open(FILE)
    file.truncate(0)
    file.append(content)
    assert send(plane, 1).error_code == ErrorCode.NONE
    assert not plane.disk.exists(FILE) or decode(plane.disk.read(FILE)).offset <= 2


def test_a_log_without_idempotent_producers_is_not_read_again(plane):
    for at in range(5):
        plane.produce(batch(timestamp=NOW_MS + at * 10))
    plane.topics.close()
    assert decode(plane.disk.read(FILE)) == (5, [])


def test_a_full_disk_only_affects_the_snapshot(plane):
    for sequence in range(3):
        send(plane, sequence)
    log = plane.topics.partition("t", 0).log
    plane.disk.capacity_bytes = plane.disk.used_bytes() + log.segments[-1].size_bytes + 20
    assert send(plane, 3).error_code == ErrorCode.NONE
    plane.disk.capacity_bytes = None
    plane.killed()
    assert send(plane, 3).base_offset == 3


def test_a_restart_does_not_reset_the_expiry_of_producers():
    plane = DataPlane(producer_id_expiration_ms=1000)
    plane.create("t")
    send(plane, 0)
    plane.topics.close()
    plane.clock.advance(600)
    plane.killed()
    assert send(plane, 9, at=0).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    plane.clock.advance(600)
    plane.topics.partition("t", 0).producers.expire(plane.clock.wall_ms())
    assert send(plane, 9, at=0).error_code == ErrorCode.NONE


def test_silent_producers_expire_even_without_writes():
    plane = DataPlane(producer_id_expiration_ms=1000, log_retention_check_interval_ms=500)
    plane.create("t", configs={"retention.ms": "-1"})
    send(plane, 0)
    producers = plane.topics.partition("t", 0).producers
    plane.advance(500)
    assert len(producers) == 1
    plane.advance(500)
    plane.advance(500)
    assert len(producers) == 0


def test_the_number_of_producers_is_bounded(monkeypatch):
    monkeypatch.setattr(producer_state, "PRODUCERS_MAX", 10)
    plane = DataPlane()
    plane.create("t")
    random = Random(1)
    for _ in range(50):
        send(plane, 0, producer=random.randrange(1 << 60))
    assert len(plane.topics.partition("t", 0).producers) == 10
