"""The decisions of a share partition, on virtual time."""

import tracemalloc

import pytest

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.share_state.share_state import Batch
from coordinator.topics.share.in_flight import RecordState
from coordinator.topics.share.machine import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledgement,
    FetchedBatch,
    Limits,
    ShareMachine,
    Wanted,
    persisted,
)

LIMITS = Limits(lock_ms=1_000, delivery_count=5, locks=200, renews=True)
MANY = 10_000


class Partition:
    """A machine with a clock, which reads a log whose batches have ten records unless they are given."""

    def __init__(self, *batches, start=0, limits=LIMITS, log=None):
        self.machine = ShareMachine(0, start, batches)
        self.limits = limits
        self.now_ms = 0
        self.log = log or [(first, first + 9) for first in range(0, 1_000, 10)]

    def fetch(self, member="m", *, most=MANY, strict=False, size=MANY, bytes_batches=10, aborted=()):
        """Acquires what a fetch of so many batches finds at the next offset."""
        offset = self.machine.next_fetch_offset()
        read = [FetchedBatch(a, b, a in aborted) for a, b in self.log if b >= offset][:bytes_batches]
        wanted = Wanted(member, most, size, strict)
        return [tuple(each) for each in self.machine.acquire(wanted, offset, read, self.limits, self.now_ms)]

    def say(self, first, last, *types, member="m"):
        """Acknowledges, without making it durable."""
        return self.machine.acknowledge(member, [Acknowledgement(first, last, types)], self.limits, self.now_ms)

    def settle(self, transitions, *, durable=True):
        return self.machine.settle(transitions, self.limits, self.now_ms, is_durable=durable)

    def ack(self, first, last, *types, member="m"):
        """Acknowledges, and makes it durable; returns what that was."""
        transitions = self.say(first, last, *types, member=member)
        self.settle(transitions)
        return [tuple(batch) for batch in persisted(transitions)]

    def error(self, first, last, *types, member="m"):
        with pytest.raises(KafkaError) as raised:
            self.ack(first, last, *types, member=member)
        return raised.value.code

    def pass_time(self, duration_ms):
        self.now_ms += duration_ms
        expired = self.machine.expire(self.limits, self.now_ms)
        self.machine.expired()
        return [tuple(batch) for batch in expired]

    @property
    def states(self):
        """(first, last, state's name, delivery count, member) of every span in flight."""
        return [
            (span.first, span.last, span.state.name, span.delivery_count, span.member_id)
            for batch in self.machine.in_flight
            for span in batch.spans
        ]

    @property
    def bounds(self):
        return self.machine.start_offset, self.machine.end_offset, self.machine.delivery_complete_count


# --- acquiring --------------------------------------------------------------------------------------------------------


def test_records_are_acquired_once():
    partition = Partition()
    assert partition.fetch("a", bytes_batches=2) == [(0, 19, 1)]
    assert partition.fetch("b", bytes_batches=2) == [(20, 39, 1)]
    assert partition.states == [(0, 19, "ACQUIRED", 1, "a"), (20, 39, "ACQUIRED", 1, "b")]


def test_a_batch_of_the_log_is_acquired_whole_unless_the_limit_is_strict():
    assert Partition().fetch(most=12) == [(0, 19, 1)]
    strict = Partition()
    assert strict.fetch(most=12, strict=True) == [(0, 11, 1)]
    assert strict.fetch("b", most=3, strict=True) == [(12, 14, 1)]
    assert strict.fetch("b", most=50, strict=True, bytes_batches=2) == [(15, 19, 1), (20, 29, 1)]


def test_new_records_are_acquired_in_batches_of_the_wanted_size():
    assert Partition().fetch(size=15, bytes_batches=5) == [(0, 19, 1), (20, 39, 1), (40, 49, 1)]


def test_what_is_in_flight_is_bounded():
    partition = Partition(limits=LIMITS._replace(locks=25))
    assert partition.fetch() == [(0, 29, 1)], "whole batches, as far as the first one beyond the limit"
    assert not partition.machine.can_acquire(partition.limits)
    assert partition.fetch("b") == []
    partition.ack(5, 6, RELEASE)
    assert partition.machine.can_acquire(partition.limits)
    assert partition.fetch("b") == [(5, 6, 2)], "what was given back is in flight already"


def test_after_records_were_given_back_the_first_of_them_is_fetched_next():
    partition = Partition()
    partition.fetch(bytes_batches=3)
    partition.ack(12, 13, RELEASE)
    partition.ack(7, 7, RELEASE)
    assert partition.machine.next_fetch_offset() == 7
    assert partition.fetch("b", bytes_batches=4) == [(7, 7, 2), (12, 13, 2), (30, 39, 1)]


def test_offsets_that_compaction_has_removed_are_archived_when_a_fetch_passes_them():
    partition = Partition()
    partition.fetch(bytes_batches=3)
    partition.ack(0, 9, RELEASE)
    partition.log = [(20, 29), (30, 39)]
    assert partition.fetch("b") == [(30, 39, 1)]
    assert partition.states[0] == (0, 9, "ARCHIVED", 1, "")


def test_a_log_that_begins_later_moves_the_start():
    partition = Partition(log=[(40, 49)])
    assert partition.fetch() == [(40, 49, 1)]
    assert partition.bounds == (40, 49, 0)


def test_records_of_aborted_transactions_are_never_acquired():
    partition = Partition()
    assert partition.fetch(bytes_batches=4, aborted={10, 30}) == [(0, 9, 1), (20, 29, 1)]
    assert partition.bounds == (0, 39, 20)
    partition.ack(0, 9, ACCEPT)
    assert partition.bounds == (20, 39, 10)
    partition.ack(20, 29, ACCEPT)
    assert partition.bounds == (40, 40, 0)


def test_aborted_records_alone_do_not_stop_the_start():
    partition = Partition(limits=LIMITS._replace(locks=10))
    assert partition.fetch(bytes_batches=1, aborted={0}) == []
    assert partition.bounds == (10, 10, 0)


# --- acknowledging ----------------------------------------------------------------------------------------------------


def test_acknowledged_and_rejected_records_are_done_with():
    partition = Partition()
    partition.fetch(bytes_batches=1)
    assert partition.ack(0, 3, ACCEPT, REJECT, GAP, ACCEPT) == [(0, 0, 2, 1), (1, 1, 4, 1), (2, 2, 4, 1), (3, 3, 2, 1)]
    assert partition.bounds == (4, 9, 0)
    assert partition.ack(6, 9, ACCEPT) == [(6, 9, 2, 1)]
    assert partition.bounds == (4, 9, 4)
    assert partition.ack(4, 5, ACCEPT) == [(4, 5, 2, 1)]
    assert partition.bounds == (10, 10, 0)


def test_a_record_is_delivered_as_often_as_the_limit_allows():
    partition = Partition(limits=LIMITS._replace(delivery_count=2), log=[(0, 0)])
    assert [partition.fetch() or partition.states, partition.ack(0, 0, RELEASE)] == [[(0, 0, 1)], [(0, 0, 0, 1)]]
    assert [partition.fetch(), partition.ack(0, 0, RELEASE)] == [[(0, 0, 2)], [(0, 0, 4, 2)]]
    assert partition.fetch() == []
    assert partition.bounds == (1, 1, 0)


def test_nobody_can_have_records_whose_release_is_not_durable():
    partition = Partition(log=[(0, 9)])
    partition.fetch("a")
    released = partition.say(0, 4, RELEASE, member="a")
    assert partition.fetch("b") == []
    assert partition.error(0, 4, ACCEPT, member="a") is ErrorCode.INVALID_RECORD_STATE
    assert partition.settle(released)
    assert partition.fetch("b") == [(0, 4, 2)]


def test_what_cannot_be_made_durable_is_undone():
    partition = Partition()
    partition.fetch(bytes_batches=1)
    partition.settle(partition.say(0, 9, ACCEPT), durable=False)
    assert partition.states == [(0, 9, "ACQUIRED", 1, "m")]
    assert partition.bounds == (0, 9, 0)
    assert partition.pass_time(1_000) == [(0, 9, 0, 1)], "the lock goes on"


def test_the_lock_of_an_undone_acknowledgement_may_have_ended():
    partition = Partition(limits=LIMITS._replace(delivery_count=1))
    partition.fetch(bytes_batches=1)
    accepted = partition.say(0, 4, ACCEPT) + partition.say(5, 9, RELEASE)
    assert partition.pass_time(1_000) == []
    partition.settle(accepted, durable=False)
    assert partition.states == [(0, 9, "ARCHIVED", 1, "")]
    assert partition.machine.delivery_complete_count == 10


def test_a_wrong_acknowledgement_changes_nothing():
    partition = Partition()
    partition.fetch("a", bytes_batches=1)
    partition.fetch("b", bytes_batches=1)
    before = partition.states, partition.bounds
    for first, last, types, member, code in (
        (0, 9, [ACCEPT], "b", ErrorCode.INVALID_RECORD_STATE),
        (0, 19, [ACCEPT], "a", ErrorCode.INVALID_RECORD_STATE),
        (5, 14, [ACCEPT] * 10, "a", ErrorCode.INVALID_RECORD_STATE),
        (10, 25, [ACCEPT], "b", ErrorCode.INVALID_REQUEST),
        (20, 25, [ACCEPT], "b", ErrorCode.INVALID_REQUEST),
    ):
        assert partition.error(first, last, *types, member=member) is code
        assert (partition.states, partition.bounds) == before
    assert Partition().error(3, 4, ACCEPT) is ErrorCode.INVALID_RECORD_STATE


def test_records_cannot_be_acknowledged_twice_unless_the_start_has_passed_them():
    partition = Partition()
    partition.fetch(bytes_batches=1)
    partition.ack(5, 9, ACCEPT)
    assert partition.error(5, 9, ACCEPT) is ErrorCode.INVALID_RECORD_STATE
    partition.ack(0, 4, ACCEPT)
    assert partition.ack(0, 9, ACCEPT) == []


def test_a_renewed_lock_lasts_longer():
    partition = Partition()
    partition.fetch(bytes_batches=1)
    partition.pass_time(900)
    assert partition.ack(2, 3, RENEW) == []
    assert partition.pass_time(100) == [(0, 1, 0, 1), (4, 9, 0, 1)]
    assert partition.machine.next_deadline() == 1_900
    assert partition.pass_time(900) == [(2, 3, 0, 1)]


def test_locks_are_renewed_only_in_groups_that_allow_it():
    partition = Partition(limits=LIMITS._replace(renews=False))
    partition.fetch(bytes_batches=1)
    assert partition.error(0, 9, RENEW) is ErrorCode.INVALID_RECORD_STATE


def test_a_member_that_leaves_gives_back_all_it_has():
    partition = Partition()
    partition.fetch("a", bytes_batches=1)
    partition.fetch("b", bytes_batches=1)
    partition.fetch("a", bytes_batches=1)
    partition.ack(2, 4, ACCEPT, member="a")
    partition.settle(partition.machine.release("a", partition.limits))
    assert [span for span in partition.states if span[4]] == [(10, 19, "ACQUIRED", 1, "b")]
    assert partition.fetch("c", bytes_batches=3) == [(0, 1, 2), (5, 9, 2), (20, 29, 2)]


# --- locks ------------------------------------------------------------------------------------------------------------


def test_a_lock_ends_after_its_time():
    partition = Partition()
    partition.fetch("a", bytes_batches=1)
    partition.pass_time(400)
    partition.fetch("b", bytes_batches=1)
    assert partition.machine.next_deadline() == 1_000
    assert partition.pass_time(599) == []
    assert partition.pass_time(1) == [(0, 9, 0, 1)]
    assert partition.error(0, 9, ACCEPT, member="a") is ErrorCode.INVALID_RECORD_STATE
    assert partition.fetch("c", bytes_batches=1) == [(0, 9, 2)]
    assert partition.machine.next_deadline() == 1_400


def test_the_last_lock_that_ends_archives():
    partition = Partition(limits=LIMITS._replace(delivery_count=1))
    partition.fetch(bytes_batches=1)
    assert partition.pass_time(1_000) == [(0, 9, 4, 1)]
    assert partition.bounds == (10, 10, 0)
    assert partition.machine.next_deadline() is None


@pytest.mark.parametrize("kinds", [(), (ACCEPT, RELEASE), (RELEASE, REJECT)])
def test_a_record_in_flight_takes_few_bytes_however_it_differs_from_its_neighbours(kinds):
    limits = LIMITS._replace(locks=MANY)
    partition = Partition(limits=limits, log=[(each, each) for each in range(MANY)])
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for offset in range(2_000):
            partition.now_ms += 1
            read = [FetchedBatch(offset, offset)]
            partition.machine.acquire(Wanted(f"{offset % 7}", 1, 1, False), offset, read, limits, partition.now_ms)
            if kinds and offset > 1:
                partition.ack(offset, offset, kinds[offset % 2], member=f"{offset % 7}")
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(partition.machine.in_flight) == 2_000
    assert (after - before) / 2_000 < 70


def test_records_that_were_delivered_often_are_given_out_in_ever_smaller_portions():
    partition = Partition(log=[(0, 15)])
    found = []
    for _ in range(5):
        taken = partition.fetch()
        found.append(taken)
        partition.pass_time(1_000)
    assert found == [[(0, 15, 1)], [(0, 15, 2)], [(0, 15, 3)], [(0, 7, 4)], [(0, 0, 5)]]
    assert partition.states[:2] == [(0, 0, "ARCHIVED", 5, ""), (1, 7, "AVAILABLE", 4, "")]
    assert partition.bounds == (1, 15, 0)


# --- the start --------------------------------------------------------------------------------------------------------


def test_deleted_records_are_archived_and_members_keep_what_they_have():
    partition = Partition()
    partition.fetch("a", bytes_batches=1)
    partition.fetch("b", bytes_batches=2)
    partition.ack(10, 19, RELEASE, member="b")
    partition.ack(20, 22, ACCEPT, member="b")
    assert partition.bounds == (0, 29, 3)
    partition.machine.log_starts_at(21)
    assert partition.bounds == (21, 29, 2)
    assert partition.ack(0, 9, ACCEPT, member="a") == [], "before the start"
    assert partition.pass_time(1_000) == [(0, 9, 4, 1), (23, 29, 0, 1)]
    assert partition.bounds == (23, 29, 0)
    assert partition.fetch("c", bytes_batches=1) == [(23, 29, 2)]


def test_the_start_does_not_go_back_when_deleted_records_are_given_back():
    partition = Partition()
    partition.fetch(bytes_batches=1)
    partition.machine.log_starts_at(50)
    partition.settle(partition.machine.release("m", partition.limits))
    assert partition.bounds == (50, 50, 0)


def test_the_deletion_of_all_that_is_known_begins_again_behind_it():
    partition = Partition()
    partition.fetch(bytes_batches=1)
    partition.machine.log_starts_at(50)
    assert partition.machine.next_fetch_offset() == 50
    assert partition.fetch("b", bytes_batches=1) == [(50, 59, 1)]
    empty = Partition()
    empty.machine.log_starts_at(7)
    assert empty.bounds == (7, 7, 0)


# --- after a start ----------------------------------------------------------------------------------------------------


def test_after_a_start_the_offsets_between_known_ones_are_acquired_as_new():
    partition = Partition(Batch(5, 9, 2, 1), Batch(14, 15, 0, 3), Batch(20, 24, 4, 5), start=2)
    assert partition.bounds == (2, 24, 10)
    assert partition.fetch("a") == [(2, 4, 1), (10, 13, 1)]
    assert partition.fetch("b") == [(14, 14, 4)], "delivered three times already"
    assert partition.fetch("c", bytes_batches=3) == [(15, 15, 4)]
    assert partition.fetch("d", bytes_batches=3) == [(16, 19, 1), (25, 39, 1)]


def test_after_a_start_records_at_the_beginning_that_are_done_with_are_passed():
    partition = Partition(Batch(0, 3, 2, 1), Batch(4, 9, 0, 1))
    assert partition.bounds == (4, 9, 0)
    done = Partition(Batch(0, 3, 2, 1), Batch(4, 9, 4, 1))
    assert done.bounds == (10, 10, 0)


def test_records_on_the_way_to_the_dead_letter_queue_hold_the_start_also_after_a_start():
    partition = Partition(Batch(0, 3, 2, 1), Batch(4, 9, 3, 1))
    assert partition.bounds == (4, 9, 0)
    (dead,) = partition.machine.archiving()
    assert partition.machine.archive(dead) == [Batch(4, 9, 4, 1)]
    assert partition.machine.expired()
    assert partition.bounds == (10, 10, 0)


def test_the_start_does_not_move_over_a_gap_that_may_have_records():
    partition = Partition(Batch(0, 9, 2, 1), Batch(15, 19, 2, 1))
    assert partition.bounds == (10, 19, 5)
    assert partition.fetch(bytes_batches=1) == [(10, 14, 1)]
    partition.ack(10, 14, ACCEPT)
    assert partition.bounds == (15, 19, 5), "until something behind them is acquired, as in Kafka"
    assert partition.fetch(bytes_batches=1) == [(20, 29, 1)]
    partition.ack(20, 29, ACCEPT)
    assert partition.bounds == (30, 30, 0)


def test_a_gap_of_deleted_records_is_not_fetched_again():
    partition = Partition(Batch(6, 6, 0, 1), Batch(8, 8, 2, 1), start=6)
    partition.machine.log_starts_at(8)
    assert partition.machine.next_fetch_offset() == 9
    assert partition.fetch(bytes_batches=1) == [(9, 9, 1)]
    partition.ack(9, 9, ACCEPT)
    assert partition.bounds == (10, 10, 0)


def test_a_gap_without_records_is_not_fetched_again():
    """A fetch that gets as much as one batch would find the same one for ever."""
    partition = Partition(Batch(5, 6, 2, 1), Batch(8, 8, 2, 1), start=5, log=[(8, 8), (9, 12)])
    assert partition.machine.next_fetch_offset() == 7
    assert partition.fetch(bytes_batches=1) == []
    assert partition.machine.next_fetch_offset() == 9
    assert partition.fetch(bytes_batches=1) == [(9, 12, 1)]


def test_a_state_from_before_its_start_is_cut():
    partition = Partition(Batch(0, 9, 2, 1), Batch(8, 14, 0, 2), start=5)
    assert partition.bounds == (10, 14, 0)
    assert partition.states == [(10, 14, RecordState.AVAILABLE.name, 2, "")]
