"""Checks whether partitions are in a transaction (TransactionCoordinator.handleVerifyPartitionsInTransaction; KIP-890).

This is asked before a client of the older protocol writes to a partition.
"""

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.runtime.result import RequestContext, Result
from coordinator.transactions.add_partitions import Addition, check_producer, find
from coordinator.transactions.state import Transactions
from coordinator.transactions.transaction import PREPARED


def verify_partitions(transactions: Transactions, addition: Addition, _context: RequestContext, _now_ms: int) -> Result:
    """Replies a dict: partition -> NONE, or TRANSACTION_ABORTABLE if it is not in the transaction.

    Raises for all partitions the same errors as `add_partitions`.
    """
    transaction = find(transactions, addition)
    check_producer(transactions, transaction, addition.producer)
    if transaction.state in PREPARED:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    verdicts = {
        partition: ErrorCode.NONE if partition in transaction.partitions else ErrorCode.TRANSACTION_ABORTABLE
        for partition in addition.partitions
    }
    return Result(verdicts)  # type: ignore[arg-type]  # the reply to an internal request is any object
