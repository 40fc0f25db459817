"""Aborts transactions that were left open too long, and fences their producers.

This is Kafka's TransactionCoordinator.abortTimedOutTransactions. Such transactions are looked for at an interval, as in Kafka,
so a transaction can live for its time-out plus that interval. The abort increases the epoch, so a producer that was just slow
finds out with its next request.
"""

from coordinator.protocol.errors import KafkaError
from coordinator.runtime.result import Fact, Result, Timer, TimerKey
from coordinator.transactions.prepare import TIMEOUT, prepare
from coordinator.transactions.records import transaction_record
from coordinator.transactions.state import Transactions
from coordinator.transactions.transaction import NEVER_TIMES_OUT_MS

TIMER: TimerKey = ("transactions-timeout",)


def abort_timed_out(transactions: Transactions, now_ms: int) -> Result:
    """Aborts the transactions that have been open for longer than their time-out, and arms its timer again."""
    config = transactions.config
    result = Result(timers=[Timer(TIMER, config.transaction_abort_timed_out_transaction_cleanup_interval_ms)])
    records, facts, after = [], [], []
    for ongoing in transactions.ongoing.values():
        if ongoing.timeout_ms == NEVER_TIMES_OUT_MS or ongoing.start_ms + ongoing.timeout_ms >= now_ms:
            continue
        version = config.transaction_version
        try:
            prepared = prepare(
                transactions, ongoing, commit=False, client_version=version, cause=TIMEOUT, now_ms=now_ms
            )
        except KafkaError:  # no producer id is ready: the next round will have one
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
