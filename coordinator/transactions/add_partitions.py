"""Partitions join a transaction; with the first one it begins.

Three requests lead here: AddPartitionsToTxn of a client, AddOffsetsToTxn (the partition of `__consumer_offsets` that the
group lives in), and the first transactional write to a partition, which adds it by itself (transaction.version 2). The answer
to a partition that is in already costs no record.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.runtime.internal_request import DONE
from coordinator.runtime.result import Producer, RequestContext, Result
from coordinator.transactions.records import transaction_record
from coordinator.transactions.transaction import PREPARED, Partition, State, Transaction

if TYPE_CHECKING:
    from coordinator.transactions.transactions import Transactions


class Addition(NamedTuple):
    """Which partitions join, or are looked for in, whose transaction."""

    transactional_id: str
    producer: Producer
    partitions: Sequence[Partition]
    client_version: int
    """The `transaction.version` that the client's request shows."""


def add_partitions(transactions: "Transactions", addition: Addition, _call: RequestContext, now_ms: int) -> Result:
    """Replies DONE. Raises KafkaError if nothing is added."""
    transaction = known(transactions, addition)
    if transaction.state in PREPARED:
        # Before the producer is looked at: it may be the next one already, whose id takes over at the completion.
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    check_producer(transactions, transaction, addition.producer)
    if transaction.state is State.ONGOING and transaction.partitions.issuperset(addition.partitions):
        return Result(DONE)
    ongoing = replace(
        transaction,
        state=State.ONGOING,
        previous_producer_id=transaction.producer_id,
        partitions=transaction.partitions.union(addition.partitions),
        start_ms=transaction.start_ms if transaction.state is State.ONGOING else now_ms,
        update_ms=now_ms,
        client_version=addition.client_version,
    )
    return Result(DONE, [transaction_record(ongoing, transactions.config.transaction_version)])


def known(transactions: "Transactions", addition: Addition) -> Transaction:
    """The transaction that is meant. Raises KafkaError if there is none."""
    if not addition.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    transaction = transactions.by_id.get(addition.transactional_id)
    if transaction is None:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    return transaction


def check_producer(transactions: "Transactions", transaction: Transaction, producer: Producer) -> None:
    """Raises KafkaError unless the producer is the one of this transactional id."""
    if transaction.producer_id != producer.id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.epoch != producer.epoch:
        transactions.count_fenced("AddPartitionsToTxn")
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
