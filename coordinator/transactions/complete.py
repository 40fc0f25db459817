"""Completes a transaction: every partition has its marker (TransactionMetadata.prepareComplete).

The request may come late, from before a reload, when the transaction is already complete or its id has begun another one. So it
names the producer epoch of the marker, and only counts for a transaction that is still prepared with exactly that epoch. A
client that keeps its epoch (below version 2) may have ended its next transaction at another worker, and the shard may have come
back since. So the epoch of the coordinator counts, too.
"""

from dataclasses import replace
from typing import NamedTuple

from coordinator.runtime.internal_request import DONE
from coordinator.runtime.result import RequestContext, Result
from coordinator.transactions.prepare import producer_after
from coordinator.transactions.records import transaction_record
from coordinator.transactions.state import Transactions
from coordinator.transactions.transaction import NO_PRODUCER_ID, PREPARED, State


class Completion(NamedTuple):
    """The transaction whose markers are all written."""

    transactional_id: str
    producer_id: int
    epoch: int
    coordinator_epoch: int


def complete(transactions: Transactions, completion: Completion, _context: RequestContext, now_ms: int) -> Result:
    """Replies DONE, also to a request that no longer applies. Raises nothing."""
    prepared = transactions.by_id.get(completion.transactional_id)
    if (
        prepared is None
        or prepared.state not in PREPARED
        or (prepared.producer_id, prepared.epoch) != (completion.producer_id, completion.epoch)
        or transactions.coordinator_epoch != completion.coordinator_epoch
    ):
        return Result(DONE)
    producer_id, epoch = producer_after(prepared)
    completed = replace(
        prepared,
        state=State.COMPLETE_COMMIT if prepared.state is State.PREPARE_COMMIT else State.COMPLETE_ABORT,
        producer_id=producer_id,
        previous_producer_id=prepared.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        epoch=epoch,
        partitions=frozenset(),
        update_ms=now_ms,
    )
    return Result(DONE, [transaction_record(completed, transactions.config.transaction_version)])
