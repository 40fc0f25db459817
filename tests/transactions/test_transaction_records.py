"""The records of `__transaction_state`, in Kafka's format, and what a load makes of them."""

from dataclasses import replace

import pytest

from coordinator.protocol.codec import DecodeError
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import TransactionLogKey, TransactionLogValue
from coordinator.runtime.result import Record
from coordinator.transactions.records import tombstone, transaction_record
from coordinator.transactions.transaction import State, Transaction
from tests.transactions.transactions_world import ID, World, durable_half

WHOLE = Transaction(
    "tx", 5, 4, 6, 7, 60_000, State.PREPARE_COMMIT, frozenset({("u", 0), ("t", 2), ("t", 1)}), 100, 200, 2
)


def test_the_bytes_are_those_of_kafka_0_and_1():
    world = World()
    key, value = world.serde.encode(transaction_record(WHOLE, 0))
    assert key == b"\0\0" + b"\0\x02tx"
    assert value.hex(" ") == (
        "00 00 00 00 00 00 00 00 00 05 00 07 00 00 ea 60 02 00 00 00 02 00 01 74 00 00 00 02 00 00 00 01 00 00 00 02 "
        "00 01 75 00 00 00 01 00 00 00 00 00 00 00 00 00 00 00 c8 00 00 00 00 00 00 00 64"
    )
    _, value = world.serde.encode(transaction_record(WHOLE, 2))
    assert value.hex(" ") == (
        "00 01 00 00 00 00 00 00 00 05 00 07 00 00 ea 60 02 03 02 74 03 00 00 00 01 00 00 00 02 00 "
        "02 75 02 00 00 00 00 00 00 00 00 00 00 00 00 c8 00 00 00 00 00 00 00 64 "
        "03 00 08 00 00 00 00 00 00 00 04 01 08 00 00 00 00 00 00 00 06 02 02 00 02"
    )


def test_partitions_that_are_in_the_transaction_already_need_no_record():
    world = World()
    producer = world.init()
    world.add(producer, ("t", 0), ("t", 1))
    before = len(world.log)
    assert world.add(producer, ("t", 1)) is ErrorCode.NONE
    assert len(world.log) == before
    world.add(producer, ("t", 1), ("t", 2))
    assert len(world.log) == before + 1


@pytest.mark.parametrize("state", [State.EMPTY, State.COMPLETE_COMMIT])
def test_an_idle_id_has_no_partitions_null_if_empty(state):
    record = transaction_record(replace(WHOLE, state=state, partitions=frozenset()), 2)
    assert record.value.transaction_partitions == (None if state is State.EMPTY else [])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_state_in_memory_equals_the_state_after_a_load(version):
    world = World(transaction_version=version)
    producer = world.init()
    for step in range(6):
        world.add(producer, ("t", step), ("u", 0), version=version)
        if step % 2:
            after = world.end(producer, commit=step % 4 == 1, version=5 if version == 2 else 4)
            producer = after if version == 2 else producer
            world.finish()
        world.sync()
        live = durable_half(world.state)
        world.load()
        assert durable_half(world.state) == live


def test_a_tombstone_removes_an_id_and_has_no_effect_for_an_unknown_one():
    world = World()
    world.init()
    world.state.replay(tombstone("stranger"))
    assert world.known is not None
    world.state.replay(tombstone(ID))
    assert (world.known, sum(world.state.states.values()), world.state.last_epochs) == (None, 0, {})


def test_a_state_that_does_not_exist_stops_the_load():
    value = TransactionLogValue(1, -1, -1, 0, transaction_status=9)
    with pytest.raises(DecodeError, match="unknown transaction state 9"):
        World().state.replay(Record(TransactionLogKey(ID), value, 1))


def test_producer_ids_of_a_foreign_log_are_not_given_out_again():
    world = World()
    assert world.state.producer_ids_from == 0
    world.state.replay(transaction_record(replace(WHOLE, producer_id=41, next_producer_id=-1), 2))
    assert world.state.producer_ids_from == 42
    world.state.replay(transaction_record(replace(WHOLE, producer_id=41, next_producer_id=50), 2))
    assert world.state.producer_ids_from == 51
