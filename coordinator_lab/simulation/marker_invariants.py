"""Every transaction's markers reach every group shard, although workers die (I41).

- I41: when a transaction is complete, no shard of groups has offsets of it that still wait for the outcome. A marker says what
  the coordinator has decided, durably and before. Offsets are only written for a transaction that is open, so none wait for an
  outcome that never comes; at rest none wait for one that was decided.

I10 sees the same from outside, when a client reads the offsets. This one reads what becomes durable in the engine, in that
order, and has its own idea of it: a few dictionaries.
"""

from dataclasses import dataclass, field

from coordinator.log.batch import BatchHeader
from coordinator.log.end_transaction_marker import read_end_transaction
from coordinator.protocol.codec import Codec
from coordinator.runtime.serde import Serde
from coordinator.server.composition import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from coordinator.transactions.machine import RECORD_KEYS
from coordinator.transactions.records import from_record
from coordinator.transactions.transaction import PREPARED, State, Transaction
from coordinator_lab.simulation.history import OnBroken
from coordinator_lab.simulation.invariants import read_batches

INVARIANT = "I41 markers reach every group shard"
COMPLETE = (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)


@dataclass(slots=True)
class _Producer:
    """What is durable of one producer id."""

    transaction: Transaction | None = None
    decisions: dict[int, bool] = field(default_factory=dict)
    """Epoch of the markers -> whether the last transaction with it commits."""
    waiting: dict[int, int] = field(default_factory=dict)
    """Shard of groups -> epoch of the offsets that wait there."""


class MarkerInvariants:
    """Follows the logs of a run."""

    def __init__(self, broken: OnBroken) -> None:
        self._broken = broken
        self._producers: dict[int, _Producer] = {}
        self._serde = Serde(Codec.of(None), RECORD_KEYS)
        self.completed = 0
        """Transactions with offsets of which every marker was there."""

    def appended(self, log: str, data: bytes) -> None:
        """A piece of a log is durable."""
        topic, _, index = log.rpartition("-")
        if topic not in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
            return
        for header, records in read_batches(data):
            if topic == TRANSACTIONS_TOPIC:
                for _, key, value, *_ in records:
                    self._decided(key, value)
            elif header.is_control:
                self._ended(int(index), header, records[0].key, records[0].value)
            elif header.is_transactional:
                self._written(int(index), header)

    def _of(self, producer_id: int) -> _Producer:
        return self._producers.setdefault(producer_id, _Producer())

    def _decided(self, key: bytes | None, value: bytes | None) -> None:
        record = None if key is None else self._serde.decode(key, value)
        if record is None or record.value is None:
            return
        transaction = from_record(record.key, record.value)  # type: ignore[arg-type]
        producer = self._of(transaction.producer_id)
        before, producer.transaction = producer.transaction, transaction
        if transaction.state in PREPARED:
            producer.decisions[transaction.epoch] = transaction.state is State.PREPARE_COMMIT
        elif transaction.state in COMPLETE and before is not None and before.state in PREPARED:
            self._check_complete(before, producer)

    def _check_complete(self, decided: Transaction, producer: _Producer) -> None:
        shards = [index for topic, index in decided.partitions if topic == OFFSETS_TOPIC]
        for index in shards:
            if producer.waiting.get(index, decided.epoch + 1) <= decided.epoch:
                self._broken(INVARIANT, f"{decided} is complete, and shard {index} of groups has no marker")
        self.completed += bool(shards)

    def _written(self, shard: int, header: BatchHeader) -> None:
        producer = self._of(header.producer_id)
        transaction = producer.transaction
        is_open = (
            transaction is not None
            and transaction.state is State.ONGOING
            and transaction.epoch == header.producer_epoch
            and (OFFSETS_TOPIC, shard) in transaction.partitions
        )
        is_ending = transaction is not None and transaction.state in PREPARED
        if not is_open and not is_ending:
            self._broken(INVARIANT, f"shard {shard} of groups has offsets of {header}, and there is {transaction}")
        producer.waiting[shard] = header.producer_epoch

    def _ended(self, shard: int, header: BatchHeader, key: bytes | None, value: bytes | None) -> None:
        end = read_end_transaction(key, value)
        producer = self._of(header.producer_id)
        decision = producer.decisions.get(header.producer_epoch)
        if end is not None and decision is not end[0]:
            self._broken(INVARIANT, f"shard {shard} of groups has a marker {header} {end}, and decided is {decision}")
        if producer.waiting.get(shard, header.producer_epoch + 1) <= header.producer_epoch:
            del producer.waiting[shard]

    def check_at_rest(self) -> None:
        """Reports offsets that wait for an outcome that was decided, or that nobody will decide."""
        for producer_id, producer in self._producers.items():
            transaction = producer.transaction
            if producer.waiting and (transaction is None or transaction.state is not State.ONGOING):
                self._broken(INVARIANT, f"producer {producer_id} has offsets in {producer.waiting}: {transaction}")
