"""Idempotent producers: a retry gets the answer of the first attempt, a gap is refused, also after a restart."""

from errno import ENOSPC
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.topics.producer_state import AppendedBatch, ProducerState, last_sequence
from tests.topics.data_plane import NOW_MS, DataPlane, batch

LAST = 2**31 - 1


@pytest.fixture
def plane():
    plane = DataPlane()
    plane.create("t")
    return plane


def send(plane, sequence, count=1, epoch=0, producer_id=7):
    """Error or base offset."""
    data = batch(*[b"v"] * count, producer_id=producer_id, epoch=epoch, sequence=sequence)
    answer = plane.produce(data)
    return ErrorCode(answer.error_code).name if answer.error_code else answer.base_offset


def test_a_retry_gets_the_offset_and_time_of_the_first_attempt(plane):
    assert send(plane, 0, 2) == 0
    data = batch(b"v", b"v", producer_id=7, epoch=0, sequence=0)
    again = plane.produce(data)
    assert (again.error_code, again.base_offset, again.log_append_time_ms) == (0, 0, NOW_MS)
    assert plane.fetch().high_watermark == 2


def test_five_batches_are_remembered(plane):
    for sequence in range(6):
        assert send(plane, sequence) == sequence
    assert send(plane, 1) == 1
    assert send(plane, 0) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert send(plane, 6) == 6


def test_gaps_overlaps_and_other_lengths_are_refused(plane):
    send(plane, 0, 2)
    for sequence, count in ((3, 1), (1, 1), (0, 1), (0, 3)):
        assert send(plane, sequence, count) == "OUT_OF_ORDER_SEQUENCE_NUMBER"


def test_a_new_epoch_begins_at_0_and_ends_the_old_one(plane):
    send(plane, 0)
    assert send(plane, 3, epoch=1) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert send(plane, 0, epoch=1) == 1
    assert send(plane, 1, epoch=0) == "INVALID_PRODUCER_EPOCH"
    assert send(plane, 0, epoch=0) == "INVALID_PRODUCER_EPOCH"


def test_an_unknown_producer_may_begin_anywhere(plane):
    assert send(plane, 70) == 0
    assert send(plane, 71) == 1


def test_sequences_wrap_to_0(plane):
    assert send(plane, LAST - 1) == 0
    assert send(plane, LAST, 2) == 1
    assert send(plane, 1) == 3
    assert send(plane, LAST, 2) == 1


def test_producers_do_not_disturb_each_other(plane):
    assert send(plane, 0, producer_id=1) == 0
    assert send(plane, 0, producer_id=2) == 1
    assert send(plane, 1, producer_id=1) == 2
    assert plane.produce(batch(sequence=9)).base_offset == 3, "a producer without an id has no sequence"


@pytest.mark.parametrize("end", ["killed", "crashed"])
def test_a_restart_remembers(plane, end):
    for sequence in range(7):
        send(plane, sequence)
    getattr(plane, end)()
    assert send(plane, 6) == 6
    assert send(plane, 2) == 2
    assert send(plane, 1) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert send(plane, 8) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert send(plane, 7) == 7


def test_a_retry_of_a_batch_on_its_way_waits_for_the_same_disk():
    plane = DataPlane(late=True)
    plane.create("t")
    plane.sync()
    data = batch(producer_id=7, epoch=0, sequence=0)
    first, second = plane.produce_many({("t", 0): data}), plane.produce_many({("t", 0): data})
    assert (first, second) == ([], [])
    plane.sync()
    assert [answers[0][0].responses[0].partition_responses[0].base_offset for answers in (first, second)] == [0, 0]


def test_a_producer_expires_after_a_day_without_writes(plane):
    send(plane, 0, producer_id=1)
    plane.clock.advance(86_400_001)
    send(plane, 0, producer_id=2)
    assert len(plane.topics.partition("t", 0).producers) == 1
    assert send(plane, 9, producer_id=1) == 2


def test_old_timestamps_do_not_shorten_the_memory(plane):
    data = batch(producer_id=7, epoch=0, sequence=0, timestamp=5)
    assert [plane.produce(data).base_offset for _ in range(2)] == [0, 0]


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4), st.booleans()), max_size=30))
def test_repeated_batches_are_appended_once(steps):
    """A producer that numbers its batches and repeats some of them at once: offsets as if it had repeated none."""
    state = ProducerState(1_000_000)
    check = partial(state.check_batch, transactional=False, guard=None)
    next_sequence, end_offset = {}, 0
    for producer_id, count, repeats in steps:
        sequence = next_sequence.get(producer_id, 0)
        assert check(producer_id, 0, sequence, count) is None
        appended = AppendedBatch(sequence, last_sequence(sequence, count), end_offset, NOW_MS)
        state.append(producer_id, 0, appended, NOW_MS, transactional=False)
        end_offset += count
        next_sequence[producer_id] = sequence + count
        if repeats:
            assert check(producer_id, 0, sequence, count) == appended
        with pytest.raises(KafkaError):
            check(producer_id, 0, sequence + count + 1, 1)


def test_batches_refused_by_a_full_disk_are_not_remembered():
    """Two batches wait for a sync that finds no space: both are refused, and neither is known when it comes again."""
    plane = DataPlane(late=True)
    plane.create("t")
    plane.sync()
    plane.produce_many({("t", 0): batch(producer_id=7, epoch=0, sequence=0)})
    plane.sync()
    waiting = [plane.produce_many({("t", 0): batch(producer_id=7, epoch=0, sequence=at)}) for at in (1, 2)]
    plane.disk.sync_errors.append(ENOSPC)
    plane.sync()
    refused = [answers[0][0].responses[0].partition_responses[0] for answers in waiting]
    assert [answer.error_code for answer in refused] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    plane.late = False
    assert [send(plane, 2), send(plane, 1), send(plane, 2)] == ["OUT_OF_ORDER_SEQUENCE_NUMBER", 1, 2]


def test_a_transaction_refused_by_a_full_disk_is_not_open():
    plane = DataPlane(late=True)
    plane.create("t")
    plane.sync()
    plane.produce_many({("t", 0): batch()})
    plane.sync()
    data = batch(producer_id=7, epoch=0, sequence=0, attributes=16)
    waiting = plane.produce_many({("t", 0): data}, version=11, transactional_id="x")
    plane.disk.sync_errors.append(ENOSPC)
    plane.sync()
    assert waiting[0][1]
    plane.late = False
    assert plane.fetch(isolation_level=1).last_stable_offset == 1
    assert plane.produce(data, version=11, transactional_id="x").base_offset == 1
    assert plane.fetch(isolation_level=1).last_stable_offset == 1
