"""EndTxn: the producer commits or aborts its transaction (TransactionCoordinator.handleEndTransaction).

The response is sent when the decision is durable, and the markers follow, as in Kafka. So a producer that begins its next
transaction at once may get CONCURRENT_TRANSACTIONS for a moment.

If the response is lost the client repeats its request. Below version 2 the epoch does not change, so a repetition can only be
recognised by the state: a commit agrees with CompleteCommit. In version 2 the epoch grows at the end. So a repetition has the
previous epoch (or, after the last epoch, the previous producer id), and the current epoch means *this* transaction:

                      abort                    commit
                  repeated   current      repeated   current
    Empty          fenced    bumped        fenced    INVALID_TXN_STATE
    CompleteAbort   NONE     bumped       INVALID    INVALID_TXN_STATE
    CompleteCommit INVALID   bumped         NONE     INVALID_TXN_STATE

"fenced": PRODUCER_FENCED. "INVALID": INVALID_TXN_STATE. "bumped": there is nothing to abort, but the epoch grows; a client that
cannot know whether its transaction ever began may ask for this.
"""

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import EndTxnRequest, EndTxnResponse
from coordinator.protocol.releases import Behaviours
from coordinator.runtime.result import RequestContext, Result
from coordinator.transactions.prepare import CLIENT, prepare, producer_after
from coordinator.transactions.records import transaction_record
from coordinator.transactions.state import Transactions
from coordinator.transactions.transaction import (
    EPOCH_BUMPS_SINCE,
    EPOCH_EXHAUSTED,
    NO_EPOCH,
    NO_PRODUCER_ID,
    PREPARED,
    State,
    Transaction,
)

EPOCH_IN_ANSWER_SINCE = 5
"""From this version on the client takes a new epoch from the response (transaction.version 2)."""

_AGREES = {
    State.COMPLETE_COMMIT: True,
    State.COMPLETE_ABORT: False,
    State.PREPARE_COMMIT: True,
    State.PREPARE_ABORT: False,
}


def end(transactions: Transactions, request: EndTxnRequest, context: RequestContext, now_ms: int) -> Result:
    """Decides the outcome of a transaction and starts the delivery of its markers.

    Raises:
        INVALID_REQUEST               the transactional id is empty
        INVALID_PRODUCER_ID_MAPPING   the transactional id is unknown, or belongs to another producer id
        PRODUCER_FENCED               the producer's epoch is not the current one
        CONCURRENT_TRANSACTIONS       the end of the transaction is still being delivered
        INVALID_TXN_STATE             there is no transaction to end, or it ended in the other way
        COORDINATOR_LOAD_IN_PROGRESS  a new producer id is needed and none is ready
    """
    if not request.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    transaction = transactions.by_id.get(request.transactional_id)
    if transaction is None:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    bumps = context.api_version >= EPOCH_IN_ANSWER_SINCE
    try:
        has_ended = (
            _has_ended_with_bumps(transaction, request) if bumps
            else _has_ended(transaction, request, context.behaviours)
        )  # fmt: skip
    except KafkaError as error:
        if error.code is ErrorCode.PRODUCER_FENCED:
            transactions.count_fenced("EndTxn")
        raise
    if has_ended:
        producer = (transaction.producer_id, transaction.epoch) if bumps else (NO_PRODUCER_ID, NO_EPOCH)
        return Result(EndTxnResponse(producer_id=producer[0], producer_epoch=producer[1]))
    prepared = prepare(
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


def _has_ended(transaction: Transaction, request: EndTxnRequest, behaviours: Behaviours) -> bool:
    """Whether the transaction has already ended in this way, for a client that keeps its epoch. Raises if it cannot end."""
    if transaction.producer_id != request.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    is_later = transaction.epoch < request.producer_epoch
    if transaction.epoch != request.producer_epoch and not (is_later and behaviours.later_epochs_end_transactions):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if transaction.state in PREPARED:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if transaction.state is State.ONGOING:
        return False
    if _AGREES.get(transaction.state) is not request.committed:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)
    return True


def _has_ended_with_bumps(transaction: Transaction, request: EndTxnRequest) -> bool:
    """The same for a client that gets a new epoch at every end: the table above."""
    if transaction.state in PREPARED:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    repeated_after_new_id = (
        transaction.previous_producer_id == request.producer_id
        and request.producer_epoch == EPOCH_EXHAUSTED
        and transaction.epoch == 0
    )
    if transaction.producer_id != request.producer_id and not repeated_after_new_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    repeated = transaction.epoch == request.producer_epoch + 1 or repeated_after_new_id
    has_end = transaction.state not in (State.ONGOING, State.EMPTY)
    if transaction.epoch != request.producer_epoch and not (has_end and repeated):
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
