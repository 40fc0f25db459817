"""InitProducerId with a transactional id: whoever asks becomes the only producer of that id.

A newcomer (no producer named) gets the next epoch, so every request of its predecessors is fenced. A producer that goes on
after an error names the id and epoch it has (KIP-360) and is fenced itself if they are no longer the last ones; if they are
those before the last bump, that bump's answer was lost, and it is given again.

A transaction that is still open is aborted first, with an epoch that no client ever sees, and the asker told to come again
(CONCURRENT_TRANSACTIONS). An epoch that cannot grow any more is replaced by a new producer id at epoch 0.
"""

from typing import TYPE_CHECKING

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import InitProducerIdRequest, InitProducerIdResponse
from coordinator.runtime.result import Fact, RequestContext, Result
from coordinator.transactions.prepare import FENCE, decided
from coordinator.transactions.records import transaction_record
from coordinator.transactions.transaction import (
    EPOCH_EXHAUSTED,
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIME,
    PREPARED,
    State,
    Transaction,
)

if TYPE_CHECKING:
    from coordinator.transactions.transactions import Transactions


def init_producer_id(
    transactions: "Transactions", request: InitProducerIdRequest, _call: RequestContext, now_ms: int
) -> Result:
    config = transactions.config
    transactional_id = request.transactional_id
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if not 0 < request.transaction_timeout_ms <= config.transaction_max_timeout_ms:
        raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    known = transactions.by_id.get(transactional_id)
    if known is None:
        return _made(transactions, request, _fresh_id(transactions), 0, NO_EPOCH, now_ms)
    if known.state in PREPARED:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if not _may_ask(request, known):
        transactions.count_fenced("InitProducerId")
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if known.state is State.ONGOING:
        return _abort_first(transactions, known, now_ms)
    names_producer = request.producer_id != NO_PRODUCER_ID
    if known.is_epoch_exhausted and (not names_producer or request.producer_epoch == known.epoch):
        last = known.epoch if names_producer else NO_EPOCH
        return _made(transactions, request, _fresh_id(transactions), 0, last, now_ms)
    last, epoch = _next_epoch(transactions, request, known)
    return _made(transactions, request, known.producer_id, epoch, last, now_ms)


def _may_ask(request: InitProducerIdRequest, known: Transaction) -> bool:
    """Whether the producer that the asker names, if any, is or was just now the one of this id."""
    return request.producer_id in (NO_PRODUCER_ID, known.producer_id) or (
        request.producer_id == known.previous_producer_id and request.producer_epoch >= EPOCH_EXHAUSTED
    )


def _next_epoch(transactions: "Transactions", request: InitProducerIdRequest, known: Transaction) -> tuple[int, int]:
    """The epoch before the bump, to be remembered, and the epoch to answer with."""
    if request.producer_id == NO_PRODUCER_ID:
        return NO_EPOCH, known.epoch + 1
    if request.producer_epoch == known.epoch:
        return known.epoch, known.epoch + 1
    last = transactions.last_epochs.get(known.transactional_id, NO_EPOCH)
    if request.producer_epoch == last:
        return last, known.epoch
    transactions.count_fenced("InitProducerId")
    raise KafkaError(ErrorCode.PRODUCER_FENCED)


def _fresh_id(transactions: "Transactions") -> int:
    producer_id = transactions.producer_ids.take()
    if producer_id is None:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return producer_id


def _made(
    transactions: "Transactions",
    request: InitProducerIdRequest,
    producer_id: int,
    epoch: int,
    last_epoch: int,
    now_ms: int,
) -> Result:
    assert request.transactional_id is not None
    known = transactions.by_id.get(request.transactional_id)
    made = Transaction(
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
    transactions.last_epochs[made.transactional_id] = last_epoch
    return Result(
        InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch),
        [transaction_record(made, transactions.config.transaction_version)],
    )


def _abort_first(transactions: "Transactions", ongoing: Transaction, now_ms: int) -> Result:
    prepared = decided(
        transactions,
        ongoing,
        commit=False,
        client_version=transactions.config.transaction_version,  # the server's own decision, so its own version
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
