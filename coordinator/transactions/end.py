"""EndTxn: the producer commits or aborts its transaction.

The answer leaves when the decision is durable; the markers follow, as in Kafka, so a producer that begins again at once may
meet CONCURRENT_TRANSACTIONS for a moment.

A lost answer makes the client repeat its request. Below version 2 the epoch stays, so the state alone tells a repetition:
CompleteCommit agrees to a commit. In version 2 the epoch has grown at the end, so a repetition names the epoch before (or,
after the last epoch, the producer id before), and the current epoch means *this* transaction:

                      abort                    commit
                  repeated   current      repeated   current
    Empty          fenced    bumped        fenced    INVALID_TXN_STATE
    CompleteAbort   NONE     bumped       INVALID    INVALID_TXN_STATE
    CompleteCommit INVALID   bumped         NONE     INVALID_TXN_STATE

"bumped": an abort of nothing. A client that cannot know whether its transaction ever began may ask for it.
"""

from typing import TYPE_CHECKING

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import EndTxnRequest, EndTxnResponse
from coordinator.runtime.result import RequestContext, Result
from coordinator.transactions.prepare import CLIENT, decided, producer_after
from coordinator.transactions.records import transaction_record
from coordinator.transactions.transaction import (
    EPOCH_BUMPS_SINCE,
    EPOCH_EXHAUSTED,
    NO_EPOCH,
    NO_PRODUCER_ID,
    PREPARED,
    State,
    Transaction,
)

if TYPE_CHECKING:
    from coordinator.transactions.transactions import Transactions

EPOCH_IN_ANSWER_SINCE = 5
"""The version by which a client says that it takes new epochs (transaction.version 2)."""

_AGREES = {
    State.COMPLETE_COMMIT: True,
    State.COMPLETE_ABORT: False,
    State.PREPARE_COMMIT: True,
    State.PREPARE_ABORT: False,
}


def end(transactions: "Transactions", request: EndTxnRequest, context: RequestContext, now_ms: int) -> Result:
    if not request.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    transaction = transactions.by_id.get(request.transactional_id)
    if transaction is None:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    bumps = context.api_version >= EPOCH_IN_ANSWER_SINCE
    check = _is_done_with_bumps if bumps else _is_done
    try:
        done = check(transaction, request)
    except KafkaError as error:
        if error.code is ErrorCode.PRODUCER_FENCED:
            transactions.count_fenced("EndTxn")
        raise
    if done:
        producer = (transaction.producer_id, transaction.epoch) if bumps else (NO_PRODUCER_ID, NO_EPOCH)
        return Result(EndTxnResponse(producer_id=producer[0], producer_epoch=producer[1]))
    prepared = decided(
        transactions,
        transaction,
        commit=request.committed,
        client_version=EPOCH_BUMPS_SINCE if bumps else 0,
        cause=CLIENT,
        now_ms=now_ms,
    )
    producer = producer_after(prepared) if bumps else (NO_PRODUCER_ID, NO_EPOCH)
    return Result(
        EndTxnResponse(producer_id=producer[0], producer_epoch=producer[1]),
        [transaction_record(prepared, transactions.config.transaction_version)],
        after=[transactions.delivery(prepared)],
    )


def _is_done(transaction: Transaction, request: EndTxnRequest) -> bool:
    """Whether the transaction has ended so already, for a client that keeps its epoch. Raises KafkaError if it cannot end."""
    if transaction.producer_id != request.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.epoch != request.producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if transaction.state in PREPARED:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if transaction.state is State.ONGOING:
        return False
    if _AGREES.get(transaction.state) is not request.committed:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)
    return True


def _is_done_with_bumps(transaction: Transaction, request: EndTxnRequest) -> bool:
    """The same for a client that gets a new epoch at each end: the table above."""
    if transaction.state in PREPARED:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    repeated_over_ids = (
        transaction.previous_producer_id == request.producer_id
        and request.producer_epoch == EPOCH_EXHAUSTED
        and transaction.epoch == 0
    )
    if transaction.producer_id != request.producer_id and not repeated_over_ids:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    repeated = transaction.epoch == request.producer_epoch + 1 or repeated_over_ids
    if transaction.state in (State.ONGOING, State.EMPTY):
        repeated = False
        if transaction.epoch != request.producer_epoch:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
    elif not repeated and transaction.epoch != request.producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if transaction.state is State.ONGOING:
        return False
    if repeated:
        if _AGREES[transaction.state] is not request.committed:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE)
        return True
    if request.committed:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)
    return False
