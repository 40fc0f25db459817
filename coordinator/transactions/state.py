"""The transactional ids of one shard of `__transaction_state`: the state that every operation works on.

    operation(transactions, request, context, now_ms) -> Result   transactions/<operation>.py
    transactions.replay(record)                                   the only way the durable state changes

Mirrors Kafka's `TransactionStateManager`. machine.py completes the class with time: loading and timers.

A transaction ends in three steps, in this order even if the server crashes in between:

    decision    end.py writes PrepareCommit or PrepareAbort; from then on there is no other outcome
    markers     when that record is durable, `deliver` brings the decision to every partition (`Result.after`)
    completion  when all partitions have it, complete.py writes CompleteCommit or CompleteAbort

A load finds a transaction between two of these steps and continues with the next; markers may be written twice.
"""

from collections.abc import Callable
from typing import Any, Protocol

from coordinator.runtime.result import Marker, Record
from coordinator.transactions.records import from_record
from coordinator.transactions.settings import TransactionsConfig
from coordinator.transactions.transaction import PREPARED, Partition, State, Transaction

FENCING_APIS = ("InitProducerId", "AddPartitionsToTxn", "EndTxn")
"""The APIs by which fenced requests are counted. AddOffsetsToTxn and implicit additions count as AddPartitionsToTxn."""

COORDINATOR_EPOCH = 0
"""That of a server whose shards never move."""


class ProducerIdSource(Protocol):
    """Gives out new producer ids (producer_id_pool.py)."""

    def take(self) -> int | None:
        """Returns an id that was never given out before, or None if none is ready yet."""


Deliver = Callable[[str, Marker, set[Partition]], None]
"""`deliver(transactional id, marker, partitions)`: writes the marker to all partitions, removes those that have it from the
set, and then runs `complete`."""


class Transactions:
    """The transactional ids of one shard. Operations may read everything, and change only fields that are not in the log."""

    __slots__ = ("by_id", "config", "coordinator_epoch", "deliver", "ended", "fenced", "last_epochs", "ongoing", "prepared",
                 "producer_ids", "states", "undelivered")  # fmt: skip

    def __init__(
        self,
        config: TransactionsConfig,
        producer_ids: ProducerIdSource,
        deliver: Deliver,
        coordinator_epoch: int = COORDINATOR_EPOCH,
    ) -> None:
        """`coordinator_epoch`: grows whenever another server takes the shard; markers have it, so that late ones are fenced."""
        self.coordinator_epoch = coordinator_epoch
        self.config = config
        self.producer_ids = producer_ids
        self.deliver = deliver
        self.by_id: dict[str, Transaction] = {}
        self.ongoing: dict[str, Transaction] = {}
        """The ids in state Ongoing, which can time out."""
        self.prepared: dict[str, Transaction] = {}
        """The ids whose markers are being delivered."""
        self.states = dict.fromkeys(State, 0)
        """The number of ids in each state."""

        self.last_epochs: dict[str, int] = {}
        """The epoch before the last bump that the producer itself asked for. Kafka's record does not have it, so it is lost
        at a load: a producer that repeats InitProducerId after a restart is treated as fenced, as in Kafka."""
        self.undelivered: dict[str, set[Partition]] = {}
        """The partitions of prepared transactions that do not have their marker yet."""
        self.ended: dict[tuple[str, str], int] = {}
        """Decisions since the load, by outcome (commit, abort) and cause (client, timeout, fence), for metrics."""
        self.fenced: dict[str, int] = {}
        """Requests that were fenced since the load, by API, for metrics."""

    def replay(self, record: Record) -> None:
        """Applies a record: the only way in which the durable state changes."""
        key: Any = record.key
        value: Any = record.value
        transactional_id = key.transactional_id
        before = self.by_id.get(transactional_id)
        if before is not None:
            self.states[before.state] -= 1
            if before.state is State.ONGOING:
                del self.ongoing[transactional_id]
            elif before.state in PREPARED:
                del self.prepared[transactional_id]
        if value is None:
            self.by_id.pop(transactional_id, None)
            self.last_epochs.pop(transactional_id, None)
            return
        transaction = from_record(key, value)
        state = transaction.state
        self.by_id[transactional_id] = transaction
        self.states[state] += 1
        if state is State.ONGOING:
            self.ongoing[transactional_id] = transaction
        elif state in PREPARED:
            self.prepared[transactional_id] = transaction
        else:
            self.undelivered.pop(transactional_id, None)

    @property
    def producer_ids_from(self) -> int:
        """All producer ids in this state are smaller. A log of a Kafka cluster has ids that this server did not give out."""
        return 1 + max((max(each.producer_id, each.next_producer_id) for each in self.by_id.values()), default=-1)

    def delivery(self, transaction: Transaction) -> Callable[[], None]:
        """Returns the callback that delivers a decision, for when it is durable."""
        marker = Marker(
            transaction.producer_id,
            transaction.epoch,
            commit=transaction.state is State.PREPARE_COMMIT,
            coordinator_epoch=self.coordinator_epoch,
            transaction_version=transaction.client_version,
        )
        left = self.undelivered[transaction.transactional_id] = set(transaction.partitions)
        return lambda: self.deliver(transaction.transactional_id, marker, left)

    def count_ended(self, outcome: str, cause: str) -> None:
        self.ended[outcome, cause] = self.ended.get((outcome, cause), 0) + 1

    def count_fenced(self, api: str) -> None:
        self.fenced[api] = self.fenced.get(api, 0) + 1
