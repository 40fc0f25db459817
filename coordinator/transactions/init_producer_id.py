"""InitProducerId: the client becomes the only producer of a transactional id (TransactionCoordinator.handleInitProducerId).

A new producer, which names no producer id, gets the next epoch, so every request of its predecessors is fenced. A producer that
recovers from an error names its id and epoch (KIP-360). It is fenced itself if these are no longer the current ones; if they
are those before the last bump, the response to that bump was lost, and it is given again.

A transaction that is still open is aborted first, with an epoch that no client ever sees, and the client has to retry
(CONCURRENT_TRANSACTIONS). When the epoch cannot grow any more, a new producer id at epoch 0 takes its place.
"""

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import InitProducerIdRequest, InitProducerIdResponse
from coordinator.runtime.result import Fact, RequestContext, Result
from coordinator.transactions.prepare import FENCE, prepare
from coordinator.transactions.records import transaction_record
from coordinator.transactions.state import Transactions
from coordinator.transactions.transaction import (
    EPOCH_EXHAUSTED,
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIME,
    PREPARED,
    State,
    Transaction,
)


def init_producer_id(
    transactions: Transactions, request: InitProducerIdRequest, _context: RequestContext, now_ms: int
) -> Result:
    """Replies the producer id and epoch to use. An open transaction is aborted, and the reply is CONCURRENT_TRANSACTIONS.

    Raises:
        INVALID_REQUEST               the transactional id is empty
        INVALID_TRANSACTION_TIMEOUT   not positive, or above transaction.max.timeout.ms
        CONCURRENT_TRANSACTIONS       the end of the last transaction is still being delivered
        PRODUCER_FENCED               the named producer is not, or no longer, the producer of the transactional id
        COORDINATOR_LOAD_IN_PROGRESS  a new producer id is needed and none is ready
    """
    config = transactions.config
    transactional_id = request.transactional_id
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if not 0 < request.transaction_timeout_ms <= config.transaction_max_timeout_ms:
        raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    known = transactions.by_id.get(transactional_id)
    if known is None:
        return _initialized(transactions, request, _new_producer_id(transactions), 0, NO_EPOCH, now_ms)
    if known.state in PREPARED:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if not _is_current_producer(request, known):
        transactions.count_fenced("InitProducerId")
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if known.state is State.ONGOING:
        return _abort_first(transactions, known, now_ms)
    names_producer = request.producer_id != NO_PRODUCER_ID
    if known.is_epoch_exhausted and (not names_producer or request.producer_epoch == known.epoch):
        last = known.epoch if names_producer else NO_EPOCH
        return _initialized(transactions, request, _new_producer_id(transactions), 0, last, now_ms)
    last, epoch = _next_epoch(transactions, request, known)
    return _initialized(transactions, request, known.producer_id, epoch, last, now_ms)


def _is_current_producer(request: InitProducerIdRequest, known: Transaction) -> bool:
    """Whether the client names no producer, the current one, or the one that it has just replaced."""
    return request.producer_id in (NO_PRODUCER_ID, known.producer_id) or (
        request.producer_id == known.previous_producer_id and request.producer_epoch >= EPOCH_EXHAUSTED
    )


def _next_epoch(transactions: Transactions, request: InitProducerIdRequest, known: Transaction) -> tuple[int, int]:
    """Returns the epoch before the bump, to be remembered, and the epoch to reply. Raises PRODUCER_FENCED."""
    if request.producer_id == NO_PRODUCER_ID:
        return NO_EPOCH, known.epoch + 1
    if request.producer_epoch == known.epoch:
        return known.epoch, known.epoch + 1
    last = transactions.last_epochs.get(known.transactional_id, NO_EPOCH)
    if request.producer_epoch == last:
        return last, known.epoch
    transactions.count_fenced("InitProducerId")
    raise KafkaError(ErrorCode.PRODUCER_FENCED)


def _new_producer_id(transactions: Transactions) -> int:
    producer_id = transactions.producer_ids.take()
    if producer_id is None:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return producer_id


def _initialized(
    transactions: Transactions,
    request: InitProducerIdRequest,
    producer_id: int,
    epoch: int,
    last_epoch: int,
    now_ms: int,
) -> Result:
    assert request.transactional_id is not None
    known = transactions.by_id.get(request.transactional_id)
    initialized = Transaction(
        request.transactional_id,
        producer_id,
        producer_id if known is None else known.producer_id,
        NO_PRODUCER_ID,
        epoch,
        request.transaction_timeout_ms,
        State.EMPTY,
        frozenset(),
        NO_TIME,
        now_ms,
        0 if known is None else known.client_version,
    )
    transactions.last_epochs[initialized.transactional_id] = last_epoch
    return Result(
        InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch),
        [transaction_record(initialized, transactions.config.transaction_version)],
    )


def _abort_first(transactions: Transactions, ongoing: Transaction, now_ms: int) -> Result:
    prepared = prepare(
        transactions,
        ongoing,
        commit=False,
        client_version=transactions.config.transaction_version,  # the server decides, so its own version counts
        cause=FENCE,
        now_ms=now_ms,
    )
    return Result(
        InitProducerIdResponse(
            error_code=ErrorCode.CONCURRENT_TRANSACTIONS, producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH
        ),
        [transaction_record(prepared, transactions.config.transaction_version)],
        facts=[
            Fact("transaction_fenced", {
                "transactional_id": ongoing.transactional_id, "producer_id": ongoing.producer_id,
                "epoch": ongoing.epoch, "open_ms": now_ms - ongoing.start_ms,
            })
        ],
        after=[transactions.delivery(prepared)],
    )  # fmt: skip
