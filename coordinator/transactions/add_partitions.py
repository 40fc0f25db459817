"""Adds partitions to a transaction; the first one begins it (TransactionCoordinator.handleAddPartitionsToTransaction).

Three requests lead here: a client's AddPartitionsToTxn, AddOffsetsToTxn (which adds the partition of `__consumer_offsets` that
has the group), and the first transactional write to a partition, which adds it implicitly (transaction.version 2). Adding
partitions that are all in the transaction already writes no record.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.runtime.internal_request import DONE
from coordinator.runtime.result import Producer, RequestContext, Result
from coordinator.transactions.records import transaction_record
from coordinator.transactions.state import Transactions
from coordinator.transactions.timeouts import check_timer
from coordinator.transactions.transaction import PREPARED, Partition, State, Transaction


class Addition(NamedTuple):
    """The partitions to add to a producer's transaction, or to look for in it (verify.py)."""

    transactional_id: str
    producer: Producer
    partitions: Sequence[Partition]
    client_version: int
    """The `transaction.version` that the version of the client's request implies."""


def add_partitions(transactions: Transactions, addition: Addition, _context: RequestContext, now_ms: int) -> Result:
    """Replies DONE.

    Raises:
        INVALID_REQUEST              the transactional id is empty
        INVALID_PRODUCER_ID_MAPPING  the transactional id is unknown, or belongs to another producer id
        PRODUCER_FENCED              the producer's epoch is not the current one
        CONCURRENT_TRANSACTIONS      the end of the previous transaction is still being delivered
    """
    transaction = find(transactions, addition)
    if transaction.state in PREPARED:
        # Checked before the producer: it may already be the next one, whose id takes effect at the completion.
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
    timers = () if transactions.ongoing else (check_timer(transactions),)
    return Result(DONE, [transaction_record(ongoing, transactions.config.transaction_version)], timers)


def find(transactions: Transactions, addition: Addition) -> Transaction:
    """Returns the transaction. Raises INVALID_REQUEST or INVALID_PRODUCER_ID_MAPPING."""
    if not addition.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    transaction = transactions.by_id.get(addition.transactional_id)
    if transaction is None:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    return transaction


def check_producer(transactions: Transactions, transaction: Transaction, producer: Producer) -> None:
    """Raises INVALID_PRODUCER_ID_MAPPING or PRODUCER_FENCED unless this is the producer of the transactional id."""
    if transaction.producer_id != producer.id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.epoch != producer.epoch:
        transactions.count_fenced("AddPartitionsToTxn")
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
