"""An administrator ends a transaction, as if its timeout had passed (timeouts.py): it is aborted and its producer fenced."""

from typing import NamedTuple

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.runtime.internal_request import DONE
from coordinator.runtime.result import RequestContext, Result
from coordinator.transactions.state import Transactions
from coordinator.transactions.timeouts import Abort, abort
from coordinator.transactions.transaction import NAMES


class ExpireTransaction(NamedTuple):
    """The request."""

    transactional_id: str


def expire_now(transactions: Transactions, request: ExpireTransaction, _context: RequestContext, now_ms: int) -> Result:
    """Aborts the open transaction.

    Raises:
        TRANSACTIONAL_ID_NOT_FOUND    there is no such transactional id
        INVALID_TXN_STATE             its transaction is not open
        COORDINATOR_LOAD_IN_PROGRESS  a new producer id is needed and none is ready
    """
    transaction = transactions.by_id.get(request.transactional_id)
    if transaction is None:
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "no such transactional id")
    ongoing = transactions.ongoing.get(request.transactional_id)
    if ongoing is None:
        state = NAMES[transaction.state]
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, f"the transactional id has no open transaction; it is {state}")
    update = Abort([], [], [])
    abort(transactions, ongoing, now_ms, update)
    return Result(DONE, update.records, facts=update.facts, after=update.after)
