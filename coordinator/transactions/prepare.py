"""The decision to commit or abort a transaction (TransactionMetadata.prepareAbortOrCommit).

There are three causes, each with its rule for the epoch:

    a client below version 2          the epoch stays
    a client of version 2             the epoch grows by one, so that nothing that was sent before can belong to the client's
                                      next transaction. If it was the last epoch, the next producer id is chosen now and
                                      takes effect when the transaction is complete
    a time-out, or a new producer     the epoch grows in either version; this fences the old producer
"""

from dataclasses import replace

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.transactions.state import Transactions
from coordinator.transactions.transaction import (
    EPOCH_BUMPS_SINCE,
    EPOCH_MAX,
    NO_EPOCH,
    NO_PRODUCER_ID,
    State,
    Transaction,
)

CLIENT, TIMEOUT, FENCE = "client", "timeout", "fence"
"""The causes for which a transaction ends."""
ENDS = (("commit", CLIENT), ("abort", CLIENT), ("abort", TIMEOUT), ("abort", FENCE))
"""Every outcome with each of its possible causes."""


def prepare(
    transactions: Transactions, transaction: Transaction, *, commit: bool, client_version: int, cause: str, now_ms: int
) -> Transaction:
    """Returns the prepared transaction.

    Raises COORDINATOR_LOAD_IN_PROGRESS if a new producer id is needed and none is ready.
    """
    epoch, next_producer_id = transaction.epoch, NO_PRODUCER_ID
    if client_version >= EPOCH_BUMPS_SINCE:
        if transaction.is_epoch_exhausted:
            taken = transactions.producer_ids.take()
            if taken is None:
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            next_producer_id = taken
        transactions.last_epochs[transaction.transactional_id] = epoch
        epoch = min(epoch + 1, EPOCH_MAX)
    elif cause != CLIENT:
        transactions.last_epochs[transaction.transactional_id] = NO_EPOCH
        epoch = min(epoch + 1, EPOCH_MAX)
    transactions.count_ended("commit" if commit else "abort", cause)
    return replace(
        transaction,
        state=State.PREPARE_COMMIT if commit else State.PREPARE_ABORT,
        previous_producer_id=transaction.producer_id,
        next_producer_id=next_producer_id,
        epoch=epoch,
        start_ms=transaction.start_ms if transaction.state is State.ONGOING else now_ms,
        update_ms=now_ms,
        client_version=client_version,
    )


def producer_after(prepared: Transaction) -> tuple[int, int]:
    """The producer id and epoch that are valid when a prepared transaction is complete."""
    if prepared.client_version >= EPOCH_BUMPS_SINCE and prepared.next_producer_id != NO_PRODUCER_ID:
        return prepared.next_producer_id, 0
    return prepared.producer_id, prepared.epoch
