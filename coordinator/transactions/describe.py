"""DescribeTransactions: the state of transactional ids (TransactionCoordinator.handleDescribeTransactions).

A prepared transaction is shown with the partitions that have no marker yet: its end is waiting for those.
"""

from collections.abc import Iterable, Sequence

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import DescribeTransactionsResponse
from coordinator.runtime.result import RequestContext, Result
from coordinator.transactions.state import Transactions
from coordinator.transactions.transaction import NAMES, Partition, Transaction

_State = DescribeTransactionsResponse.TransactionState
_Topic = DescribeTransactionsResponse.TopicData


def describe(
    transactions: Transactions, transactional_ids: Sequence[str], _context: RequestContext, _now_ms: int
) -> Result:
    """Describes ids of this shard. Their own errors are INVALID_REQUEST (empty) and TRANSACTIONAL_ID_NOT_FOUND."""
    states = []
    for transactional_id in transactional_ids:
        transaction = transactions.by_id.get(transactional_id)
        if not transactional_id:
            states.append(_State(ErrorCode.INVALID_REQUEST, transactional_id))
        elif transaction is None:
            states.append(_State(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id))
        else:
            states.append(_described(transaction, partitions_left(transactions, transaction)))
    return Result(DescribeTransactionsResponse(transaction_states=states))


def partitions_left(transactions: Transactions, transaction: Transaction) -> Iterable[Partition]:
    """The partitions of the transaction; if it is prepared, those without their marker."""
    return transactions.undelivered.get(transaction.transactional_id, transaction.partitions)


def _described(transaction: Transaction, partitions: Iterable[Partition]) -> _State:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return _State(
        ErrorCode.NONE,
        transaction.transactional_id,
        NAMES[transaction.state],
        transaction.timeout_ms,
        transaction.start_ms,
        transaction.producer_id,
        transaction.epoch,
        [_Topic(topic, indexes) for topic, indexes in topics.items()],
    )
