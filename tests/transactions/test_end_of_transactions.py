"""The end of a transaction: decided once, delivered to every partition, completed; with the epochs of both protocols."""

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.transactions.complete import Completion, complete
from coordinator.transactions.describe import describe
from coordinator.transactions.transaction import EPOCH_EXHAUSTED, EPOCH_MAX, State
from tests.transactions.transactions_world import ID, World

COMMITTED_AND_ABORTED = pytest.mark.parametrize("commit", [True, False])


@pytest.fixture
def world():
    return World()


def begun(world, *partitions, version=2):
    producer = world.init()
    assert world.add(producer, *(partitions or [("t", 0)]), version=version) is ErrorCode.NONE
    world.sync()
    return producer


@COMMITTED_AND_ABORTED
def test_no_marker_is_written_before_the_decision_is_durable(world, commit):
    producer = begun(world, ("t", 0), ("u", 3))
    assert world.end(producer, commit) == (1000, 1)
    assert world.deliveries == []
    world.sync()
    ((name, marker, partitions),) = world.deliveries
    assert (name, marker.commit, marker.producer_epoch, partitions) == (ID, commit, 1, {("t", 0), ("u", 3)})
    assert marker.transaction_version == 2


@COMMITTED_AND_ABORTED
def test_below_version_2_the_epoch_stays(world, commit):
    producer = begun(world, version=0)
    assert world.end(producer, commit, version=4) == (-1, -1)
    world.sync()
    assert world.deliveries[0][1].producer_epoch == 0
    assert world.deliveries[0][1].transaction_version == 0
    assert world.end(producer, commit, version=4) is ErrorCode.CONCURRENT_TRANSACTIONS
    world.finish()
    assert world.known.state is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)
    assert world.end(producer, commit, version=4) == (-1, -1)
    assert world.end(producer, not commit, version=4) is ErrorCode.INVALID_TXN_STATE
    assert world.add(producer, ("t", 1), version=0) is ErrorCode.NONE


@COMMITTED_AND_ABORTED
def test_while_markers_are_being_delivered_every_request_has_to_be_retried(world, commit):
    producer = begun(world)
    after = world.end(producer, commit)
    world.sync()
    assert world.end(producer, commit) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.end(producer, not commit) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.add(after, ("t", 0)) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.verify(after, ("t", 0)) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    world.finish()
    assert world.end(producer, commit) == after
    assert world.end(producer, not commit) is ErrorCode.INVALID_TXN_STATE


@COMMITTED_AND_ABORTED
def test_the_last_epoch_ends_in_a_new_producer_id(world, commit):
    world.init()
    world.put(epoch=EPOCH_EXHAUSTED)
    producer = (1000, EPOCH_EXHAUSTED)
    world.add(producer, ("t", 0))
    assert world.end(producer, commit) == (1001, 0)
    world.sync()
    marker = world.deliveries[0][1]
    assert (marker.producer_id, marker.producer_epoch) == (1000, EPOCH_MAX)
    world.load()
    assert world.deliveries[1][1] == marker, "a restart goes on with the same decision"
    assert world.add((1001, 0), ("t", 0)) is ErrorCode.CONCURRENT_TRANSACTIONS
    world.finish()
    assert (world.known.producer_id, world.known.epoch, world.known.previous_producer_id) == (1001, 0, 1000)
    assert world.end(producer, commit) == (1001, 0), "the answer was lost"
    assert world.end(producer, not commit) is ErrorCode.INVALID_TXN_STATE
    assert world.end((1000, EPOCH_EXHAUSTED - 1), commit) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert world.add((1001, 0), ("t", 0)) is ErrorCode.NONE
    assert world.end(producer, commit) is ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the next transaction has begun"


def test_the_last_epoch_waits_for_a_producer_id(world):
    world.init()
    world.put(epoch=EPOCH_EXHAUSTED)
    world.add((1000, EPOCH_EXHAUSTED), ("t", 0))
    world.ids.exhausted = True
    assert world.end((1000, EPOCH_EXHAUSTED)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.known.state is State.ONGOING


def test_an_abort_of_nothing_gives_a_new_epoch(world):
    producer = world.init()
    world.now_ms += 7
    assert world.end(producer, commit=False) == (1000, 1)
    world.sync()
    ((_, _, partitions),) = world.deliveries
    assert partitions == set()
    world.finish()
    assert (world.known.state, world.known.start_ms) == (State.COMPLETE_ABORT, world.now_ms)


@COMMITTED_AND_ABORTED
def test_a_load_delivers_decided_transactions_and_nothing_else(world, commit):
    producer = begun(world, ("t", 0), ("t", 1))
    world.load()
    assert world.deliveries == []
    assert world.known.state is State.ONGOING
    world.end(producer, commit)
    world.sync()
    world.load()
    assert len(world.deliveries) == 2
    assert world.deliveries[0] == world.deliveries[1]
    world.finish()
    world.load()
    assert world.deliveries == []
    assert world.known.state is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)


def test_a_decision_that_the_log_lost_has_no_effect(world):
    producer = begun(world)
    world.end(producer, commit=True)
    world.load(kept=world.durable)
    assert world.deliveries == []
    assert world.known.state is State.ONGOING
    assert world.end(producer, commit=False) == (1000, 1)


def test_the_completion_of_an_earlier_transaction_has_no_effect(world):
    producer = begun(world)
    world.end(producer)
    world.sync()
    late = Completion(ID, 1000, 0, 0)
    world.do(complete, late)
    world.do(complete, Completion("nobody", 1000, 1, 0))
    of_an_earlier_owner = world.known.epoch, world.state.coordinator_epoch - 1
    world.do(complete, Completion(ID, 1000, *of_an_earlier_owner))
    assert world.known.state is State.PREPARE_COMMIT
    world.finish()
    before = len(world.log)
    world.do(complete, Completion(ID, 1000, 1, 0))
    assert len(world.log) == before


@pytest.mark.parametrize("version", [4, 5])
def test_every_request_about_a_transaction_names_a_known_transactional_id(world, version):
    producer, nothing = world.init(), ErrorCode.INVALID_REQUEST
    for transactional_id, error in (("", nothing), ("unknown", ErrorCode.INVALID_PRODUCER_ID_MAPPING)):
        assert world.end(producer, version=version, transactional_id=transactional_id) is error
        assert world.add(producer, ("t", 0), transactional_id=transactional_id) is error
    assert world.init(transactional_id="") is nothing


def test_an_end_that_gives_a_new_epoch_only_repeats_itself_or_aborts_nothing(world):
    producer = world.init()
    assert world.end(producer) is ErrorCode.INVALID_TXN_STATE
    assert world.end((producer[0], 1)) is ErrorCode.PRODUCER_FENCED
    world.add(producer, ("t", 0))
    world.end(producer)
    world.finish()
    assert world.known.epoch == 1
    assert world.end(producer, commit=False) is ErrorCode.INVALID_TXN_STATE
    assert world.end(producer) == (producer[0], 1)
    assert world.end((producer[0], 1)) is ErrorCode.INVALID_TXN_STATE
    for epoch in (-1, 2):
        assert world.end((producer[0], epoch)) is ErrorCode.PRODUCER_FENCED
    assert world.end((producer[0] + 1, 1)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_describe_shows_the_partitions_that_wait_for_their_marker(world):
    producer = begun(world, ("t", 0), ("t", 1), ("u", 0))
    world.end(producer)
    world.sync()
    world.deliveries[0][2].discard(("t", 0))
    (shown,) = world.do(describe, [ID]).transaction_states
    assert (shown.transaction_state, [(t.topic, t.partitions) for t in shown.topics]) == (
        "PrepareCommit",
        [("t", [1]), ("u", [0])],
    )


def test_ends_are_counted_by_outcome_and_cause(world):
    world.end(begun(world), commit=True)
    world.finish()
    world.add((1000, 1), ("t", 0))
    world.end((1000, 1), commit=False)
    assert world.state.ended == {("commit", "client"): 1, ("abort", "client"): 1}


def test_refusals_to_fenced_producers_are_counted_by_api(world):
    world.init()
    world.init()
    assert world.end((1000, 0)) is ErrorCode.PRODUCER_FENCED
    assert world.add((1000, 0), ("t", 0)) is ErrorCode.PRODUCER_FENCED
    assert world.state.fenced == {"EndTxn": 1, "AddPartitionsToTxn": 1}


@pytest.mark.parametrize("version", [4, 5])
def test_only_the_producer_of_the_transaction_ends_it(world, version):
    number, epoch = begun(world, version=0)
    assert world.end((number + 1, epoch), version=version) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert world.end((number, epoch + 1), version=version) is ErrorCode.PRODUCER_FENCED
    assert world.known.state is State.ONGOING
