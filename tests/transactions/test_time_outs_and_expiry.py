"""Open transactions are aborted after their time-out, and idle ids expire; nothing else does."""

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.transactions import expire, timeouts
from coordinator.transactions.expire_now import ExpireTransaction, expire_now
from coordinator.transactions.transaction import EPOCH_EXHAUSTED, NEVER_TIMES_OUT_MS, State
from tests.transactions.transactions_world import ID, World, said

TIMEOUT_MS = 10_000


def opened(version=2, timeout_ms=TIMEOUT_MS):
    world = World(transaction_version=version)
    world.apply(world.state.loaded(world.now_ms))
    producer = world.init(timeout_ms=timeout_ms)
    world.add(producer, ("t", 0), version=version)
    world.sync()
    return world, producer


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_open_transaction_is_aborted_after_its_time_out_and_its_producer_fenced(version):
    world, producer = opened(version)
    world.now_ms += TIMEOUT_MS
    world.fire(timeouts.TIMER)
    assert world.known.state is State.ONGOING, "not a moment too early"
    world.now_ms += 1
    world.fire(timeouts.TIMER)
    assert (world.known.state, world.known.epoch) == (State.PREPARE_ABORT, 1)
    ((_, marker, partitions),) = world.deliveries
    assert (marker.commit, marker.producer_epoch, partitions) == (False, 1, {("t", 0)})
    assert world.state.ended == {("abort", "timeout"): 1}
    assert [fact.name for fact in world.facts] == ["transaction_timed_out"]
    world.fire(timeouts.TIMER)
    assert len(world.deliveries) == 1
    world.finish()
    assert world.add(producer, ("t", 0)) is ErrorCode.PRODUCER_FENCED
    assert world.end(producer, version=4) is ErrorCode.PRODUCER_FENCED


def test_the_time_out_counts_from_the_first_partition_of_a_transaction():
    world, producer = opened()
    world.now_ms += TIMEOUT_MS - 1
    world.add(producer, ("t", 1))
    world.now_ms += 2
    world.fire(timeouts.TIMER)
    assert world.known.state is State.PREPARE_ABORT


def test_an_administrator_aborts_an_open_transaction_before_its_time_out():
    world, _ = opened()
    world.now_ms += 7
    world.do(expire_now, ExpireTransaction(ID))
    world.sync()
    assert (world.known.state, world.known.epoch) == (State.PREPARE_ABORT, 1)
    assert [marker.commit for _, marker, _ in world.deliveries] == [False]
    assert [(fact.name, fact.fields["open_ms"]) for fact in world.facts] == [("transaction_timed_out", 7)]
    assert said(lambda: world.do(expire_now, ExpireTransaction(ID))) is ErrorCode.INVALID_TXN_STATE
    assert said(lambda: world.do(expire_now, ExpireTransaction("none"))) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_idle_prepared_and_endless_ones_do_not_time_out():
    world = World(transaction_max_timeout_ms=NEVER_TIMES_OUT_MS)
    endless = world.init(transactional_id="endless", timeout_ms=NEVER_TIMES_OUT_MS)
    world.add(endless, ("t", 0), transactional_id="endless")
    producer = world.init(timeout_ms=1)
    world.now_ms += 5
    world.fire(timeouts.TIMER)
    world.add(producer, ("t", 0))
    world.end(producer)
    world.now_ms += 5
    world.fire(timeouts.TIMER)
    assert world.state.by_id["endless"].state is State.ONGOING
    assert world.known.state is State.PREPARE_COMMIT


def test_a_transaction_times_out_though_an_older_one_has_more_time():
    world, _ = opened()
    other = world.init(transactional_id="short", timeout_ms=1)
    world.add(other, ("t", 0), transactional_id="short")
    world.now_ms += 2
    world.fire(timeouts.TIMER)
    assert (world.known.state, world.state.by_id["short"].state) == (State.ONGOING, State.PREPARE_ABORT)


def test_the_last_epoch_times_out_as_soon_as_there_is_a_producer_id():
    world, _ = opened()
    world.put(epoch=EPOCH_EXHAUSTED)
    world.now_ms += TIMEOUT_MS + 1
    world.ids.exhausted = True
    world.fire(timeouts.TIMER)
    assert world.known.state is State.ONGOING
    world.ids.exhausted = False
    world.fire(timeouts.TIMER)
    assert world.known.state is State.PREPARE_ABORT


def test_time_outs_and_expiry_are_checked_repeatedly():
    world, _ = opened()
    assert world.timers == {timeouts.TIMER: 10_000, expire.TIMER: 3_600_000}
    for repeats in (lambda: [world.fire(key) for key in (timeouts.TIMER, expire.TIMER)], world.load):
        world.timers.clear()
        repeats()
        assert world.timers == {timeouts.TIMER: 10_000, expire.TIMER: 3_600_000}


@pytest.mark.parametrize("end", ["empty", "commit", "abort"])
def test_an_idle_id_expires(end):
    world = World(transactional_id_expiration_ms=1_000)
    producer = world.init()
    if end != "empty":
        world.add(producer, ("t", 0))
        world.end(producer, commit=end == "commit")
        world.finish()
    world.now_ms += 999
    world.fire(expire.TIMER)
    assert world.known is not None
    world.now_ms += 1
    world.fire(expire.TIMER)
    assert world.known is None
    world.load()
    assert world.known is None
    assert world.init(producer) == (1001, 0), "whatever it says it is"


@pytest.mark.parametrize("end", [False, True])
def test_an_id_with_an_open_or_prepared_transaction_is_not_idle(end):
    world = World(transactional_id_expiration_ms=1_000, transaction_max_timeout_ms=10**6)
    producer = world.init()
    world.add(producer, ("t", 0))
    if end:
        world.end(producer)
    world.now_ms += 100_000
    world.fire(expire.TIMER)
    assert world.known is not None


def test_many_ids_expire_in_several_turns(monkeypatch):
    monkeypatch.setattr(expire, "IDS_PER_TURN_MAX", 10)
    world = World(transactional_id_expiration_ms=1_000)
    for number in range(25):
        world.init(transactional_id=f"{ID}{number}")
    world.now_ms += 1_000
    left = []
    for _ in range(3):
        world.fire(expire.TIMER)
        left.append((len(world.state.by_id), world.timers[expire.TIMER]))
    assert left == [(15, 0), (5, 0), (0, 3_600_000)]
