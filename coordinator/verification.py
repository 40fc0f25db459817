"""Whether a write belongs to the open transaction that it claims to be part of (KIP-890).

A batch of a transaction that has already ended, delayed on its way, would stay open in its partition for ever: nobody would
write a marker for it. So before the first transactional write to a partition, the transaction's coordinator is asked; in
Kafka by AddPartitionsToTxn between brokers, here by a call:

    adds False   the partition must be in the transaction already (Produce before v12, TxnOffsetCommit before v5)
    adds True    the partition is added, and with the first one the transaction begins (the later versions)

An addition that meets a transaction whose end is still being written is repeated for a moment, as in Kafka: a client that
has its answer to EndTxn is right to go on.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.runtime.internal_request import InternalRequest
from coordinator.runtime.result import Producer
from coordinator.runtime.router import Router
from coordinator.runtime.timers import Schedule
from coordinator.transactions.add_partitions import Addition, add_partitions
from coordinator.transactions.transactions import Transactions
from coordinator.transactions.verify import verify_partitions

ADD_RETRY_MS = 20
ADD_RETRY_MS_MAX = 100
"""Kafka's add.partitions.to.txn.retry.backoff.ms and .max.ms."""

Refused = dict[tuple[str, int], ErrorCode]


class Verification:
    """Asks the coordinator of a transactional id."""

    def __init__(self, transactions: Router[Transactions], *, enabled: bool, schedule: Schedule) -> None:
        """`enabled`: transaction.partition.verification.enable; additions are made in any case."""
        self._transactions = transactions
        self._enabled = enabled
        self._schedule = schedule

    def check(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Mapping[str, Sequence[int]],
        adds: bool,
        done: Callable[[Refused], None],
        *,
        abortable: bool = True,
    ) -> None:
        """`done` gets the refused partitions, each with its error: nothing in it means that all may be written to.

        It may be called before this returns. `abortable`: the asker's client knows TRANSACTION_ABORTABLE (Produce 11+,
        TxnOffsetCommit 4+); others are told INVALID_TXN_STATE. A stale epoch is INVALID_PRODUCER_EPOCH here, as Kafka has it
        for these two APIs, and a transaction that is just ending CONCURRENT_TRANSACTIONS.
        """
        if not adds and not self._enabled:
            done({})
            return
        wanted = [(topic, index) for topic, indexes in partitions.items() for index in indexes]
        addition = Addition(transactional_id, producer, wanted, 2)
        waited_ms = 0

        def ask() -> None:
            operation = add_partitions if adds else verify_partitions
            self._transactions.submit(transactional_id, operation, InternalRequest(addition, answered, writes=adds))

        def answered(outcome: Any) -> None:
            nonlocal waited_ms
            refused: Refused
            if isinstance(outcome, KafkaError):
                if adds and outcome.code is ErrorCode.CONCURRENT_TRANSACTIONS and waited_ms < ADD_RETRY_MS_MAX:
                    waited_ms += ADD_RETRY_MS
                    self._schedule(ADD_RETRY_MS, ask)
                    return
                refused = dict.fromkeys(wanted, _said(outcome.code, abortable=abortable))
            else:
                verdicts = {} if adds else outcome
                refused = {
                    partition: _said(error, abortable=abortable)
                    for partition, error in verdicts.items()
                    if error is not ErrorCode.NONE
                }
            done(refused)

        ask()


def _said(error: ErrorCode, *, abortable: bool) -> ErrorCode:
    """What Produce and TxnOffsetCommit make of the coordinator's answer."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and not abortable:
        return ErrorCode.INVALID_TXN_STATE
    return error
