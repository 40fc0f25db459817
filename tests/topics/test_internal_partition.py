"""A shard's log as consumers see it, with open and aborted transactions like any other partition."""

import pytest

from coordinator.log.batch import TRANSACTIONAL
from coordinator.log.batch_builder import BatchBuilder
from coordinator.log.compaction import clean
from coordinator.log.end_transaction_marker import end_transaction
from coordinator.log.journaled_log import JournaledLog
from coordinator.log.log import LogSettings
from coordinator.topics import producer_walk
from tests.topics.data_plane import FOLDER, DataPlane

COMMITTED = 1
TOPIC = "__consumer_offsets"


@pytest.fixture
def plane():
    plane = DataPlane()
    plane.shard = JournaledLog.open(plane.disk, f"{FOLDER}/{TOPIC}-0", LogSettings(segment_ms=None, retention_ms=None))
    plane.topics.attach_internal(TOPIC, [plane.shard])
    return plane


def write(plane, key=b"k", producer=-1):
    builder = BatchBuilder()
    builder.add(key, b"v")
    attributes = TRANSACTIONAL if producer >= 0 else 0
    epoch = 0 if producer >= 0 else -1
    offset = plane.shard.end_offset
    batch = builder.build(offset, 1, producer_id=producer, producer_epoch=epoch, attributes=attributes)
    plane.shard.append(batch, 1, 1)
    plane.shard.sync()


def end(plane, producer, commit):
    offset = plane.shard.end_offset
    batch = end_transaction(offset, 1, producer_id=producer, producer_epoch=0, commit=commit, coordinator_epoch=0)
    plane.shard.append(batch, 1, 1)
    plane.shard.sync()
    plane.topics.wake(TOPIC, 0)


def committed(plane, offset=0):
    answer = plane.fetch(TOPIC, offset=offset, isolation_level=COMMITTED)
    return answer.last_stable_offset, [one.first_offset for one in answer.aborted_transactions]


def test_the_last_stable_offset_follows_the_log(plane):
    assert committed(plane) == (0, [])
    write(plane)
    write(plane, producer=5)
    write(plane)
    assert committed(plane) == (1, [])
    assert plane.offset_at(-1, topic=TOPIC, isolation=COMMITTED).offset == 1
    assert plane.offset_at(-1, topic=TOPIC).offset == 3
    end(plane, 5, commit=False)
    assert committed(plane) == (4, [1])
    write(plane, producer=5)
    end(plane, 5, commit=True)
    assert committed(plane) == (6, [1])
    assert committed(plane, offset=4) == (6, [])


def test_a_marker_wakes_readers_of_committed_records(plane):
    write(plane, producer=5)
    _, answers = plane.fetch_later([(TOPIC, 0, 0)], isolation_level=COMMITTED)
    end(plane, 5, commit=True)
    assert answers[0].responses[0].partitions[0].last_stable_offset == 2


def test_transactions_that_compaction_removed_are_no_longer_listed(plane):
    write(plane, producer=5)
    end(plane, 5, commit=False)
    write(plane, b"other")
    plane.shard._roll()
    write(plane)
    assert committed(plane) == (4, [0])
    for now_ms in (0, 1 << 40, 1 << 41):
        for work in clean(plane.shard, now_ms):
            if work is not None:
                work()
    assert committed(plane) == (4, [])


def test_a_long_log_is_looked_through_in_a_worker(plane, monkeypatch):
    monkeypatch.setattr(producer_walk, "WALK_BYTES", -1)
    write(plane, producer=5)
    plane.late = True
    _, answers = plane.fetch_later([(TOPIC, 0, 0)], isolation_level=COMMITTED, max_wait_ms=0)
    _, plain = plane.fetch_later([(TOPIC, 0, 0)], max_wait_ms=0)
    assert plain[0].responses[0].partitions[0].last_stable_offset == 1, "nobody asked"
    assert answers == []
    partition = plane.topics.partition(TOPIC, 0)
    assert (partition.last_stable_offset, len(partition.producers)) == (0, 0)
    plane.sync()
    assert answers[0].responses[0].partitions[0].last_stable_offset == 0
    write(plane, producer=6)
    plane.fetch_later([(TOPIC, 0, 0)], isolation_level=COMMITTED, max_wait_ms=0)
    under_way, _ = plane.jobs[0]
    under_way()
    assert [producer.producer_id for producer in partition.producers] == [5], "not before the loop hears of it"
    plane.jobs[0] = (lambda: None, plane.jobs[0][1])
    plane.sync()
    assert [producer.producer_id for producer in partition.producers] == [5, 6]
