"""Markers reach every partition: retried where one fails, skipped where one is pointless; then the transaction is completed."""

import pytest

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.runtime.internal_request import DONE
from coordinator.runtime.result import Marker
from coordinator.runtime.shard import Status
from coordinator.transactions.complete import Completion, complete
from coordinator.transactions.marker_delivery import RETRY_MS_FIRST, RETRY_MS_MAX, MarkerDelivery, MarkerWriter

MARKER = Marker(7, 3, commit=True, coordinator_epoch=0, transaction_version=2)
OFFSETS = "__consumer_offsets"


class Shard:
    """Answers requests by hand."""

    def __init__(self, index=0):
        self.index = index
        self.status = Status.ACTIVE
        self.asked = []

    def submit(self, operation, request):
        self.asked.append((operation, request))

    def answer(self, outcome):
        self.asked.pop(0)[1].send(KafkaError(outcome) if outcome else DONE)


class Router:
    def __init__(self, count):
        self.shards = [Shard(index) for index in range(count)]

    def shard_of(self, _key):
        return self.shards[0]


class Timer:
    def __init__(self, timers, timer):
        self.cancel = lambda: timers.remove(timer)


class World:
    """The data plane, the shards and the clock around `MarkerWriter`."""

    def __init__(self):
        self.written = []
        self.errors = {}
        self.timers = []
        self.facts = []
        self.groups = Router(2)
        self.transactions = Router(1)
        self.markers = MarkerWriter(
            self, self.groups, OFFSETS, self.write_to_groups, schedule=self.schedule, on_fact=self.facts.append
        )
        self.deliveries = MarkerDelivery(self.markers, self.schedule)
        self.deliveries.transactions = self.transactions

    def write_to_groups(self, groups, marker, call, now_ms):
        raise AssertionError

    def write_marker(self, topic, partition, marker, done):
        self.written.append((topic, partition, marker))
        queue = self.errors.get((topic, partition), [])
        done(queue.pop(0) if queue else ErrorCode.NONE)

    def schedule(self, delay_ms, callback):
        self.timers.append((delay_ms, callback))
        return Timer(self.timers, self.timers[-1])

    def wait(self):
        """Fires the next timer; returns its delay."""
        delay_ms, callback = self.timers.pop(0)
        callback()
        return delay_ms


@pytest.fixture
def world():
    return World()


def test_done_is_called_when_every_partition_has_the_marker(world):
    done, left = [], {("t", 1), ("t", 0), (OFFSETS, 1)}
    world.markers.write(MARKER, left, lambda: done.append(True))
    assert world.written == [("t", 0, MARKER), ("t", 1, MARKER)]
    assert (left, done) == ({(OFFSETS, 1)}, [])
    ((operation, request),) = world.groups.shards[1].asked
    assert (operation, request.request, request.writes) == (world.write_to_groups, MARKER, True)
    world.groups.shards[1].answer(None)
    assert (left, done) == (set(), [True])


def test_a_transaction_without_partitions_is_done_at_once(world):
    done = []
    world.markers.write(MARKER, set(), lambda: done.append(True))
    assert done == [True]


def test_a_partition_that_fails_is_retried_with_growing_delays(world):
    world.errors["t", 0] = [ErrorCode.KAFKA_STORAGE_ERROR] * 8
    done = []
    world.markers.write(MARKER, {("t", 0), ("t", 1)}, lambda: done.append(True))
    assert done == []
    pauses = [world.wait() for _ in range(8)]
    assert pauses[:3] == [RETRY_MS_FIRST, 2 * RETRY_MS_FIRST, 4 * RETRY_MS_FIRST]
    assert pauses[-1] == RETRY_MS_MAX
    assert done == [True]
    assert [fact.name for fact in world.facts] == ["marker_failed"] * 5, "reported at first only"
    assert world.written.count(("t", 1, MARKER)) == 1


def test_a_partition_that_another_worker_takes_over_is_tried_at_once(world):
    """Not after the second that a marker waits for in the end; then the pauses grow from the first one on."""
    world.errors["t", 0] = [ErrorCode.KAFKA_STORAGE_ERROR] * 8
    world.errors["t", 1] = [ErrorCode.KAFKA_STORAGE_ERROR]
    done = []
    world.markers.write(MARKER, {("t", 0), ("t", 1)}, lambda: done.append(True))
    while len(world.errors["t", 0]) > 2:
        world.wait()
    world.markers.on_moved("t", 0)
    assert [delay_ms for delay_ms, _ in world.timers] == [RETRY_MS_FIRST]
    world.markers.on_moved("t", 0)
    world.markers.on_moved("t", 0)
    assert (done, world.timers) == ([True], [])


def test_each_marker_that_waits_for_a_partition_is_tried_when_it_moves(world):
    world.errors["t", 0] = [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    done = []
    for number in (1, 2):
        world.markers.write(MARKER._replace(producer_id=number), {("t", 0)}, lambda number=number: done.append(number))
    world.wait()
    world.markers.on_moved("t", 0)
    assert (done, world.timers) == ([1, 2], [])


def test_a_group_shard_that_refuses_is_retried(world):
    done = []
    world.markers.write(MARKER, {(OFFSETS, 0)}, lambda: done.append(True))
    world.groups.shards[0].answer(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    world.wait()
    world.groups.shards[0].answer(None)
    assert done == [True]


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_a_partition_that_can_never_need_the_marker_is_skipped(world, error):
    world.errors["t", 0] = [error]
    done = []
    world.markers.write(MARKER, {("t", 0)}, lambda: done.append(True))
    assert (done, world.timers) == ([True], [])
    assert [fact.name for fact in world.facts] == ["marker_not_needed"]


def test_a_shard_that_does_not_exist_needs_no_marker(world):
    done = []
    world.markers.write(MARKER, {(OFFSETS, 2)}, lambda: done.append(True))
    assert done == [True]


def test_a_log_with_a_later_coordinator_epoch_gets_a_higher_one(world):
    world.errors["t", 0] = [ErrorCode.TRANSACTION_COORDINATOR_FENCED] * 3
    done = []
    world.markers.write(MARKER, {("t", 0)}, lambda: done.append(True))
    assert [marker.coordinator_epoch for _, _, marker in world.written] == [0, 1, 3, 7]
    assert done == [True]


def test_a_log_with_the_last_coordinator_epoch_gets_no_marker(world):
    world.errors["t", 0] = [ErrorCode.TRANSACTION_COORDINATOR_FENCED] * 2
    done, last = [], MARKER._replace(coordinator_epoch=2**31 - 1)
    world.markers.write(last, {("t", 0)}, lambda: done.append(True))
    assert (world.written, done) == ([("t", 0, last)], [True])
    assert [fact.name for fact in world.facts] == ["marker_not_needed"]


def test_another_worker_writes_the_markers_of_what_it_has(world):
    """Shards of groups, and all data if the records of topics are there."""
    asked, left = [], {("t", 0), (OFFSETS, 0), (OFFSETS, 1), (OFFSETS, 2)}
    world.markers.elsewhere = lambda marker, topic, partition, done: asked.append((topic, partition))
    world.groups.shards[0].status = Status.ELSEWHERE
    world.markers.write(MARKER, left, lambda: None)
    assert asked == [(OFFSETS, 0)]
    assert left == {(OFFSETS, 0), (OFFSETS, 1)}, "the second is asked here, and the third does not exist"
    world.markers.is_data_elsewhere = True
    world.markers.write(MARKER, {("t", 0)}, lambda: None)
    assert asked == [(OFFSETS, 0), ("t", 0)]
    assert world.written == [("t", 0, MARKER)]


def test_a_coordinator_that_was_replaced_leaves_the_delivery_to_the_next_one(world):
    world.errors["t", 0] = [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
    world.markers.elsewhere = lambda *_: None
    done = []
    world.markers.write(MARKER, {("t", 0)}, lambda: done.append(True))
    assert (world.written, done, world.timers) == ([("t", 0, MARKER)], [True], [])


def test_writing_once_returns_the_error_and_does_not_retry(world):
    world.errors["t", 0] = [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
    errors = []
    world.markers.write_once(MARKER, "t", 0, errors.append)
    world.markers.write_once(MARKER, OFFSETS, 0, errors.append)
    world.groups.shards[0].answer(ErrorCode.INVALID_PRODUCER_EPOCH)
    assert errors == [ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH]
    assert (world.timers, world.facts) == ([], [])


def test_the_transaction_is_completed_when_every_partition_has_the_marker(world):
    world.deliveries.deliver("tx", MARKER, {("t", 0)})
    ((operation, request),) = world.transactions.shards[0].asked
    assert (operation, request.request) == (complete, Completion("tx", 7, 3, 0))
    world.transactions.shards[0].answer(None)
    assert world.timers == []


def test_a_refused_completion_is_retried_without_new_markers(world):
    world.deliveries.deliver("tx", MARKER, {("t", 0)})
    shard = world.transactions.shards[0]
    shard.answer(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    world.deliveries.deliver("tx", MARKER, {("t", 0)})
    assert shard.asked == [], "it is in progress: a shard that was reloaded asks twice"
    world.wait()
    shard.answer(None)
    assert len(world.written) == 1
    world.deliveries.deliver("tx", MARKER, {("t", 0)})
    assert len(world.written) == 2


def test_a_shard_that_comes_back_delivers_beside_what_it_left_unfinished(world):
    """The producer's next transaction has the same epoch below version 2, and may have ended at another worker meanwhile."""
    world.errors["t", 0] = [ErrorCode.KAFKA_STORAGE_ERROR]
    world.deliveries.deliver("tx", MARKER, {("t", 0)})
    world.deliveries.deliver("tx", MARKER._replace(commit=False, coordinator_epoch=2), {("t", 0)})
    assert world.written[-1] == ("t", 0, MARKER._replace(commit=False, coordinator_epoch=2))
    ((_, request),) = world.transactions.shards[0].asked
    assert request.request == Completion("tx", 7, 3, 2)


def test_a_shard_that_failed_for_good_is_left_alone(world):
    world.deliveries.deliver("tx", MARKER, set())
    shard = world.transactions.shards[0]
    shard.status = Status.FAILED
    shard.answer(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert world.timers == []


def test_a_server_that_stops_does_not_retry(world):
    world.errors["t", 0] = [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    world.markers.write(MARKER, {("t", 0)}, lambda: None)
    world.deliveries.deliver("tx", MARKER, set())
    world.transactions.shards[0].answer(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    world.markers.stop()
    written = len(world.written)
    world.wait()
    world.wait()
    world.deliveries.deliver("next", MARKER, {("t", 0)})
    assert len(world.written) == written
    assert world.transactions.shards[0].asked == []
