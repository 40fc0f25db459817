"""InitProducerId with a transactional id, in cases that a scenario cannot reach: exhausted epochs, no producer ids."""

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.transactions.transaction import EPOCH_EXHAUSTED, EPOCH_MAX, State
from tests.transactions.transactions_world import World


@pytest.fixture
def world():
    return World()


def test_an_epoch_that_cannot_grow_is_replaced_by_a_new_producer_id(world):
    assert world.init() == (1000, 0)
    world.put(epoch=EPOCH_EXHAUSTED - 1)
    assert world.init() == (1000, EPOCH_EXHAUSTED)
    assert world.init() == (1001, 0)
    assert (world.known.previous_producer_id, world.known.state) == (1000, State.EMPTY)


def test_a_producer_that_recovers_at_the_last_epoch_gets_a_new_id_and_may_retry(world):
    world.init()
    world.put(epoch=EPOCH_EXHAUSTED)
    assert world.init((1000, EPOCH_EXHAUSTED)) == (1001, 0)
    assert world.init((1000, EPOCH_EXHAUSTED)) == (1001, 0)
    assert world.init((1000, EPOCH_EXHAUSTED - 1)) is ErrorCode.PRODUCER_FENCED
    assert world.init((1001, 0)) == (1001, 1)


def test_an_older_epoch_is_fenced_also_when_the_current_one_is_exhausted(world):
    world.init()
    world.put(epoch=EPOCH_EXHAUSTED)
    assert world.init((1000, EPOCH_EXHAUSTED - 1)) is ErrorCode.PRODUCER_FENCED
    assert world.state.fenced == {"InitProducerId": 1}


def test_without_a_ready_producer_id_the_client_retries(world):
    world.ids.exhausted = True
    assert world.init() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.known is None
    world.ids.exhausted = False
    assert world.init() == (1000, 0)


def test_a_transaction_has_a_positive_timeout_up_to_the_maximum(world):
    longest_ms = world.config.transaction_max_timeout_ms
    for timeout_ms in (0, longest_ms + 1):
        assert world.init(timeout_ms=timeout_ms) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert [world.init(timeout_ms=timeout_ms) for timeout_ms in (1, longest_ms)] == [(1000, 0), (1000, 1)]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_open_transaction_is_aborted_before_the_id_is_given(version):
    world = World(transaction_version=version)
    old = world.init()
    world.add(old, ("t", 0), version=0)
    world.sync()
    assert world.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.deliveries == [], "the decision is not durable"
    assert world.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    world.sync()
    ((_, marker, partitions),) = world.deliveries
    assert (marker.producer_id, marker.producer_epoch, marker.commit, partitions) == (1000, 1, False, {("t", 0)})
    assert marker.transaction_version == version
    assert world.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    world.finish()
    assert world.init() == (1000, 2)
    assert world.state.ended == {("abort", "fence"): 1}
    assert [fact.name for fact in world.facts] == ["transaction_fenced"]


@pytest.mark.parametrize("version", [1, 2])
def test_a_producer_with_the_last_epoch_can_still_be_fenced(version):
    world = World(transaction_version=version)
    old = world.init()
    world.put(epoch=EPOCH_EXHAUSTED)
    world.add((old[0], EPOCH_EXHAUSTED), ("t", 0), version=version)
    assert world.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    world.sync()
    assert world.deliveries[0][1].producer_epoch == EPOCH_MAX
    world.finish()
    assert world.init() == ((1001, 1) if version == 2 else (1001, 0))


def test_a_repetition_is_recognized_until_a_restart():
    world = World()
    world.init()
    assert world.init((1000, 0)) == (1000, 1)
    assert world.init((1000, 0)) == (1000, 1)
    world.sync()
    world.load()
    assert world.init((1000, 0)) is ErrorCode.PRODUCER_FENCED
    assert world.init((1000, 1)) == (1000, 2)


def test_after_a_new_id_only_the_last_epoch_of_the_former_one_is_no_zombies(world):
    world.init()
    world.put(epoch=EPOCH_EXHAUSTED)
    assert world.init((1000, EPOCH_EXHAUSTED)) == (1001, 0)
    for zombie in ((1000, 0), (999, EPOCH_EXHAUSTED)):
        assert world.init(zombie) is ErrorCode.PRODUCER_FENCED
    assert (world.known.producer_id, world.known.epoch) == (1001, 0)
    assert world.state.fenced == {"InitProducerId": 2}


def test_no_version_of_a_client_is_known_before_its_first_transaction(world):
    world.init()
    assert world.known.client_version == 0


def test_it_is_reported_how_long_a_transaction_was_open_that_a_new_producer_aborts(world):
    producer = world.init()
    assert world.add(producer, ("t", 0)) is ErrorCode.NONE
    world.now_ms += 7_000
    assert world.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    (fact,) = (each for each in world.facts if each.name == "transaction_fenced")
    assert (fact.fields["epoch"], fact.fields["open_ms"]) == (0, 7_000)
