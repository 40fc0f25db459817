"""Removes transactional ids that were not used for long (TransactionStateManager.removeExpiredTransactionalIds).

`transactional.id.expiration.ms` is a week by default. An id whose transaction is open or prepared does not expire, however old
it is. A producer that comes back later gets a new producer id.
"""

from itertools import islice

from coordinator.runtime.result import Fact, Result, Timer, TimerKey
from coordinator.transactions.records import tombstone
from coordinator.transactions.state import Transactions
from coordinator.transactions.transaction import RESTING

TIMER: TimerKey = ("transactions-expire",)
IDS_PER_TURN_MAX = 10_000
"""The rest is left to the next turn, because the records of one operation are one batch."""


def remove_expired(transactions: Transactions, now_ms: int) -> Result:
    """Writes tombstones for the expired ids, and arms its timer again."""
    config = transactions.config
    used_before_ms = now_ms - config.transactional_id_expiration_ms
    found = (
        transaction.transactional_id
        for transaction in transactions.by_id.values()
        if transaction.state in RESTING and transaction.update_ms <= used_before_ms
    )
    expired = list(islice(found, IDS_PER_TURN_MAX))
    full = len(expired) == IDS_PER_TURN_MAX
    delay_ms = 0 if full else config.transaction_remove_expired_transaction_cleanup_interval_ms
    return Result(
        records=[tombstone(transactional_id) for transactional_id in expired],
        timers=[Timer(TIMER, delay_ms)],
        facts=[Fact("transactional_ids_expired", {"ids": len(expired)})] if expired else (),
    )
