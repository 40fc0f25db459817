"""Whether partitions are in a transaction (KIP-890): asked before a client of the older protocol writes to them."""

from typing import TYPE_CHECKING

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.runtime.result import RequestContext, Result
from coordinator.transactions.add_partitions import Addition, check_producer, known
from coordinator.transactions.transaction import PREPARED

if TYPE_CHECKING:
    from coordinator.transactions.transactions import Transactions


def verify_partitions(transactions: "Transactions", addition: Addition, _call: RequestContext, _now_ms: int) -> Result:
    """Replies a dict of the partitions with NONE or TRANSACTION_ABORTABLE. Raises KafkaError for all of them."""
    transaction = known(transactions, addition)
    check_producer(transactions, transaction, addition.producer)
    if transaction.state in PREPARED:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    verdicts = {
        partition: ErrorCode.NONE if partition in transaction.partitions else ErrorCode.TRANSACTION_ABORTABLE
        for partition in addition.partitions
    }
    return Result(verdicts)  # type: ignore[arg-type]  # an errand's reply is any object
