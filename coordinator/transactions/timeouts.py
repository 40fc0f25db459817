"""Aborts transactions that were left open too long, and fences their producers.

This is Kafka's TransactionCoordinator.abortTimedOutTransactions. Such transactions are looked for at an interval, as in Kafka,
so a transaction can live for its time-out plus that interval. The abort increases the epoch, so a producer that was just slow
finds out with its next request. While no transaction of a shard is open, there is nothing to look for and no timer.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from coordinator.protocol.errors import KafkaError
from coordinator.runtime.result import Fact, Record, Result, Timer, TimerKey
from coordinator.transactions.prepare import TIMEOUT, prepare
from coordinator.transactions.records import transaction_record
from coordinator.transactions.state import Transactions
from coordinator.transactions.transaction import NEVER_TIMES_OUT_MS, Transaction

TIMER: TimerKey = ("transactions-timeout",)


def abort_timed_out(transactions: Transactions, now_ms: int) -> Result:
    """Aborts the transactions that have been open for longer than their time-out; its timer stays while any is open."""
    update = Abort([], [], [])
    for ongoing in transactions.ongoing.values():
        if ongoing.timeout_ms == NEVER_TIMES_OUT_MS or ongoing.start_ms + ongoing.timeout_ms >= now_ms:
            continue
        with suppress(KafkaError):  # no producer id is ready: the next round will have one
            abort(transactions, ongoing, now_ms, update)
    timers = (check_timer(transactions),) if transactions.ongoing else ()
    return Result(records=update.records, timers=timers, facts=update.facts, after=update.after)


def check_timer(transactions: Transactions) -> Timer:
    """The timer of the next look. It is armed while a transaction is open."""
    return Timer(TIMER, transactions.config.transaction_abort_timed_out_transaction_cleanup_interval_ms)


class Abort(NamedTuple):
    """What the aborts of an operation want done."""

    records: list[Record]
    facts: list[Fact]
    after: list[Callable[[], None]]


def abort(transactions: Transactions, ongoing: Transaction, now_ms: int, update: Abort) -> None:
    """Aborts an open transaction because its time is over. Raises COORDINATOR_LOAD_IN_PROGRESS: no producer id is ready."""
    version = transactions.config.transaction_version
    prepared = prepare(transactions, ongoing, commit=False, client_version=version, cause=TIMEOUT, now_ms=now_ms)
    update.records.append(transaction_record(prepared, version))
    update.after.append(transactions.delivery(prepared))
    fields = {
        "transactional_id": ongoing.transactional_id,
        "producer_id": ongoing.producer_id,
        "epoch": ongoing.epoch,
        "open_ms": now_ms - ongoing.start_ms,
    }
    update.facts.append(Fact("transaction_timed_out", fields))
