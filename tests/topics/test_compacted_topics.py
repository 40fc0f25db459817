"""`cleanup.policy=compact`: a reader from the beginning finds the last record of each key, at its original offset."""

from google_crc32c import value as crc32c

from coordinator.log.batch import decode_records, split
from coordinator.log.compaction import clean, is_due
from coordinator.protocol.errors import ErrorCode
from coordinator.topics.alter_configs import alter_topic, replacing
from tests.topics.data_plane import NOW_MS, DataPlane, batch

SMALL = {"cleanup.policy": "compact", "segment.ms": "1"}
DAY_MS = 24 * 3600 * 1000


def written(plane, pairs, since=0):
    """Each pair is a batch, and a segment, of its own."""
    for index, (key, value) in enumerate(pairs):
        plane.produce(batch(value, key=key, timestamp=NOW_MS + since + index * 10))


def steps(plane, now_ms=NOW_MS + DAY_MS):
    for log in plane.topics.compacted_logs():
        if is_due(log, now_ms):
            for work in clean(log, now_ms):
                if work is not None:
                    work()
                yield


def read(plane, topic="t"):
    """Offset, key and value of everything a consumer gets from the beginning."""
    found, offset = [], 0
    while True:
        data = plane.fetch(topic, offset=offset).records
        if not data:
            return found
        for at, header in split(data):
            found += [(r.offset, r.key, r.value) for r in decode_records(data, at, header)]
            offset = header.next_offset


def test_the_last_record_of_each_key_stays():
    plane = DataPlane()
    plane.create("t", configs=SMALL)
    written(plane, [(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", b"1"), (b"end", b"")])
    before = plane.disk.used_bytes()
    list(steps(plane))
    assert read(plane) == [(1, b"b", b"1"), (2, b"a", b"2"), (3, b"c", b"1"), (4, b"end", b"")]
    assert plane.disk.used_bytes() < before
    plane.killed()
    assert len(read(plane)) == 4
    assert plane.produce(batch(b"more")).base_offset == 5


def test_topics_that_are_deleted_by_age_are_left_alone():
    plane = DataPlane()
    plane.create("t", configs=SMALL | {"cleanup.policy": "delete"})
    written(plane, [(b"a", b"1"), (b"a", b"2"), (b"end", b"")])
    assert plane.topics.compacted_logs() == []


def test_a_topic_whose_policy_changes_is_compacted_from_then_on():
    plane = DataPlane()
    plane.create("t", configs=SMALL | {"cleanup.policy": "delete"})
    written(plane, [(b"a", b"1"), (b"a", b"2"), (b"end", b"")])
    alter_topic(plane.topics, "t", replacing(SMALL), lambda error: None, validate_only=False)
    list(steps(plane))
    assert read(plane) == [(1, b"a", b"2"), (2, b"end", b"")]


def test_older_records_without_keys_and_undecodable_batches_are_kept(monkeypatch):
    plane = DataPlane()
    plane.create("t", configs=SMALL | {"cleanup.policy": "delete"})
    nonsense = bytearray(batch(b"x", key=b"a"))
    nonsense[61:] = b"\xff" * (len(nonsense) - 61)
    nonsense[17:21] = crc32c(bytes(nonsense[21:])).to_bytes(4)
    with monkeypatch.context() as before_records_were_checked:
        before_records_were_checked.setattr("coordinator.topics.append.check_records", lambda *_: None)
        assert plane.produce(bytes(nonsense)).error_code == ErrorCode.NONE
    written(plane, [(b"a", b"1"), (None, b"free"), (b"a", b"2"), (b"end", b"")])
    alter_topic(plane.topics, "t", replacing(SMALL), lambda error: None, validate_only=False)
    list(steps(plane))
    log = plane.topics.partition("t", 0).log
    assert [header.base_offset for _, _, header in log.batches()] == [0, 2, 3, 4]


def test_a_record_younger_than_the_lag_is_not_touched():
    plane = DataPlane()
    plane.create("t", configs=SMALL | {"min.compaction.lag.ms": "1000"})
    written(plane, [(b"a", b"1"), (b"a", b"2"), (b"end", b"")])
    list(steps(plane, NOW_MS + 100))
    assert len(read(plane)) == 3
    list(steps(plane, NOW_MS + 1010))
    assert [offset for offset, _, _ in read(plane)] == [1, 2]


def test_a_record_older_than_the_lag_makes_cleaning_due_however_little_there_is():
    plane = DataPlane()
    plane.create("t", configs=SMALL | {"max.compaction.lag.ms": "1000"})
    written(plane, [(b"%d" % i, b"1") for i in range(20)])
    list(steps(plane, NOW_MS))
    written(plane, [(b"1", b"2"), (b"end", b"")], since=500)
    (log,) = plane.topics.compacted_logs()
    assert not is_due(log, NOW_MS + 600)
    assert is_due(log, NOW_MS + 1501)


def test_a_topic_may_be_deleted_and_recreated_at_any_step_of_its_compaction():
    for step in range(8):
        plane = DataPlane()
        plane.create("t", configs=SMALL)
        written(plane, [(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"end", b"")])
        cleaning = steps(plane)
        for _ in range(step):
            next(cleaning, None)
        plane.delete("t")
        plane.create("t", configs=SMALL)
        written(plane, [(b"a", b"new")])
        offsets = plane.topics.partition("t", 0).log.checkpoint.offsets
        list(cleaning)
        assert read(plane) == [(0, b"a", b"new")]
        assert plane.topics.partition("t", 0).log.checkpoint.offsets == offsets
        plane.killed()
        assert read(plane) == [(0, b"a", b"new")]


def test_aborted_transactions_are_listed_behind_a_segment_that_compaction_emptied():
    plane = DataPlane(producer_id_expiration_ms=1)
    plane.create("t", configs=SMALL)

    def abort(sequence):
        data = batch(producer_id=7, epoch=0, sequence=sequence, attributes=16, timestamp=plane.clock.wall_ms())
        plane.produce(data, version=11, transactional_id="x")
        plane.clock.advance(10)
        plane.end(commit=False)

    abort(0)
    log = plane.topics.partition("t", 0).log
    log.last_batches = dict
    list(steps(plane))
    assert log.segments[0].size_bytes == 0
    abort(1)
    answer = plane.fetch(isolation_level=1)
    assert [header.base_offset for _, header in split(answer.records)] == [1, 2]
    assert [one.first_offset for one in answer.aborted_transactions] == [0, 2]
