"""Transactional ids that nobody has used for long are forgotten (transactional.id.expiration.ms, a week).

An id with a transaction that is open or prepared is not idle, however old. A producer that comes back later gets a new
producer id.
"""

from itertools import islice
from typing import TYPE_CHECKING

from coordinator.runtime.result import Fact, Result, Timer, TimerKey
from coordinator.transactions.records import tombstone
from coordinator.transactions.transaction import RESTING

if TYPE_CHECKING:
    from coordinator.transactions.transactions import Transactions

TIMER: TimerKey = ("transactions-expire",)
IDS_PER_TURN_MAX = 10_000
"""More are left to the next turn: one operation's records are one batch."""


def remove_expired(transactions: "Transactions", now_ms: int) -> Result:
    """Forgets the ids that expired, and arms itself again."""
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
