"""Transactions that were left open too long are aborted, and their producers fenced.

Looked for at an interval, as in Kafka: a transaction lives up to its time-out and that interval. The epoch grows by the
abort, so a producer that was only slow learns of it at its next request.
"""

from typing import TYPE_CHECKING

from coordinator.protocol.errors import KafkaError
from coordinator.runtime.result import Fact, Result, Timer, TimerKey
from coordinator.transactions.prepare import TIMEOUT, decided
from coordinator.transactions.records import transaction_record
from coordinator.transactions.transaction import NEVER_TIMES_OUT_MS

if TYPE_CHECKING:
    from coordinator.transactions.transactions import Transactions

TIMER: TimerKey = ("transactions-timeout",)


def abort_timed_out(transactions: "Transactions", now_ms: int) -> Result:
    """Aborts what has been open for longer than its producer allowed, and arms itself again."""
    config = transactions.config
    result = Result(timers=[Timer(TIMER, config.transaction_abort_timed_out_transaction_cleanup_interval_ms)])
    records, facts, after = [], [], []
    for ongoing in transactions.ongoing.values():
        if ongoing.timeout_ms == NEVER_TIMES_OUT_MS or ongoing.start_ms + ongoing.timeout_ms >= now_ms:
            continue
        version = config.transaction_version
        try:
            prepared = decided(
                transactions, ongoing, commit=False, client_version=version, cause=TIMEOUT, now_ms=now_ms
            )
        except KafkaError:  # no producer id is at hand: the next round will have one
            continue
        records.append(transaction_record(prepared, version))
        after.append(transactions.delivery(prepared))
        fields = {
            "transactional_id": ongoing.transactional_id,
            "producer_id": ongoing.producer_id,
            "epoch": ongoing.epoch,
            "open_ms": now_ms - ongoing.start_ms,
        }
        facts.append(Fact("transaction_timed_out", fields))
    result.records, result.facts, result.after = records, facts, after
    return result
