"""Checks that a write belongs to the open transaction that it names (KIP-890; Kafka's AddPartitionsToTxnManager).

A delayed batch of a transaction that has already ended would stay open in its partition for ever: nobody would write a
marker for it. So before the first transactional write to a partition, the transaction's coordinator is asked. Kafka's brokers
send each other AddPartitionsToTxn for this; here it is a call to the transaction's shard:

    adds False   the partition must be in the transaction already (Produce before v12, TxnOffsetCommit before v5)
    adds True    the partition is added, and the first one begins the transaction (later versions)

While the end of the previous transaction is still being written, an addition is retried for a moment, as in Kafka: a client
that has received its answer to EndTxn may begin the next transaction at once.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.runtime.internal_request import InternalRequest
from coordinator.runtime.result import Producer
from coordinator.runtime.router import Router
from coordinator.runtime.shard import Status
from coordinator.transactions.add_partitions import Addition, add_partitions
from coordinator.transactions.machine import TransactionMachine
from coordinator.transactions.transaction import Partition
from coordinator.transactions.verify import verify_partitions
from coordinator.world.schedule import Schedule

ADD_RETRY_MS = 20
ADD_RETRY_MS_MAX = 100
"""Kafka's defaults of add.partitions.to.txn.retry.backoff.ms and add.partitions.to.txn.retry.backoff.max.ms."""

Refused = dict[Partition, ErrorCode]
AskElsewhere = Callable[[int, Addition, bool, Callable[[Any], None]], None]
"""`ask(index of the shard, addition, adds, done)`. `done` gets what the operation replies there, or a KafkaError."""


class Verifier(Protocol):
    """Checks that writes belong to open transactions."""

    needs_guard: bool
    """Whether a marker that arrives during the check may be that of the transaction which is checked."""

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
        """As `Verification.check`."""


class Verification:
    """Asks the coordinator of a transactional id."""

    needs_guard = True

    def __init__(self, transactions: Router[TransactionMachine], *, enabled: bool, schedule: Schedule) -> None:
        """`enabled`: transaction.partition.verification.enable. Additions are made in either case."""
        self.elsewhere: AskElsewhere | None = None
        """Asks the worker that has the shard of a transactional id; None: all are here."""
        self._transactions = transactions
        self.enabled = enabled
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
        """Calls `done` with the refused partitions and their errors; an empty dict means that all may be written to.

        `done` may be called before this returns. `abortable`: the client knows TRANSACTION_ABORTABLE (Produce 11+,
        TxnOffsetCommit 4+). The errors are those that Kafka returns from these two APIs:

            INVALID_PRODUCER_EPOCH       the producer's epoch is stale
            INVALID_PRODUCER_ID_MAPPING  the transactional id is unknown or belongs to another producer id
            CONCURRENT_TRANSACTIONS      the previous transaction is still ending
            TRANSACTION_ABORTABLE        the partition is not in the transaction; INVALID_TXN_STATE unless `abortable`
            INVALID_REQUEST              the transactional id is empty
        """
        if not adds and not self.enabled:
            done({})
            return
        wanted = [(topic, index) for topic, indexes in partitions.items() for index in indexes]
        addition = Addition(transactional_id, producer, wanted, 2)
        waited_ms = 0

        def ask() -> None:
            if self.elsewhere is not None:
                shard = self._transactions.shard_of(transactional_id)
                if shard.status is Status.ELSEWHERE:
                    self.elsewhere(shard.index, addition, adds, on_outcome)
                    return
            operation = add_partitions if adds else verify_partitions
            self._transactions.submit(transactional_id, operation, InternalRequest(addition, on_outcome, writes=adds))

        def on_outcome(outcome: Any) -> None:
            nonlocal waited_ms
            refused: Refused
            if isinstance(outcome, KafkaError):
                if adds and outcome.code is ErrorCode.CONCURRENT_TRANSACTIONS and waited_ms < ADD_RETRY_MS_MAX:
                    waited_ms += ADD_RETRY_MS
                    self._schedule(ADD_RETRY_MS, ask)
                    return
                refused = dict.fromkeys(wanted, error_for_client(outcome.code, abortable=abortable))
            else:
                verdicts = {} if adds else outcome
                refused = {
                    partition: error_for_client(error, abortable=abortable)
                    for partition, error in verdicts.items()
                    if error is not ErrorCode.NONE
                }
            done(refused)

        ask()


def error_for_client(error: ErrorCode, *, abortable: bool) -> ErrorCode:
    """Translates the coordinator's error into the one that Produce and TxnOffsetCommit return."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and not abortable:
        return ErrorCode.INVALID_TXN_STATE
    return error
