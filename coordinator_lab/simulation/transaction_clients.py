"""Transactional producers and readers of committed records, and the checks of transactions (I10).

A transaction writes values to some partitions and then commits or aborts. Only its producer knows the outcome, and sometimes
not even the producer: if the response to a commit was lost and the producer was then fenced. The checks:

    a value of a transaction that was aborted, or whose commit was not requested, is never read       (aborted read)
    a value of a committed transaction is never missing below the last stable offset                  (lost write)
    a transaction of unknown outcome shows all of its values or none                                  (torn transaction)
    a value is read at one offset only, and an offset has one value only
    an open transaction in a partition is known to its coordinator, which will end it                 (hanging transaction)

The producers use version 2 of the protocol (KIP-890) and share only the topic. It is compacted, and each value has a unique
key, so that aborted values may be dropped and committed ones may not. As with all clients here, requests may arrive late
and twice. InitProducerId aborts the open transaction of its transactional id.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from coordinator.log.batch import TRANSACTIONAL, BatchHeader, CorruptBatch, key_values, split
from coordinator.log.batch_builder import encode_batch
from coordinator.log.end_transaction_marker import read_end_transaction
from coordinator.log.record import LogRecord
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import EndTxnRequest, InitProducerIdRequest, ProduceRequest
from coordinator.runtime.shard import Status
from coordinator.server.composition import Server
from coordinator.topics.partition import State
from coordinator_lab.simulation.clients import RETRIABLE, World
from coordinator_lab.simulation.data_clients import READ_COMMITTED, IdempotentClient, PartitionReader
from coordinator_lab.simulation.history import OnBroken
from coordinator_lab.simulation.wire import NoResponse

LEDGER, PARTITIONS = "ledger", 2
CONFIGS = {"cleanup.policy": "compact", "segment.ms": "200"}
INVARIANT = "I10 transactions"
TIMEOUT_MS = 15_000
_RETRIABLE = RETRIABLE | {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_SERVER_ERROR,
}
_FENCED = {
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
}
"""Errors after the transaction timed out, or after a late InitProducerId of the same producer."""


class Outcome(Enum):
    """The outcome of a transaction, as far as its producer knows."""

    OPEN = "open"
    ASKED = "its commit was asked for"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(slots=True)
class Transaction:
    """A producer's transaction. `places` are those of its acknowledged values."""

    name: str
    outcome: Outcome = Outcome.OPEN
    places: dict[tuple[int, int], str] = field(default_factory=dict)
    """Partition and offset -> value."""
    seen: str = ""
    """One of its values that was read; empty if none was."""


class Ledger:
    """The transactions of a run and everything known about them."""

    def __init__(self, broken: OnBroken) -> None:
        self.transactions: dict[str, Transaction] = {}
        self.committed = 0
        self._broken = broken
        self._values: list[dict[int, str]] = [{} for _ in range(PARTITIONS)]
        self._offsets: list[dict[str, int]] = [{} for _ in range(PARTITIONS)]

    def begin(self, name: str) -> Transaction:
        """A new transaction, whose commit has not been requested yet."""
        return self.transactions.setdefault(name, Transaction(name))

    def ended(self, transaction: Transaction, outcome: Outcome) -> None:
        """Records the outcome, which the producer has learned."""
        transaction.outcome = outcome
        if outcome is Outcome.COMMITTED:
            self.committed += 1
        elif transaction.seen:
            self._broken(INVARIANT, f"{transaction.seen!r} was read, and {transaction.name} is {outcome.value}")

    def read(self, partition: int, offset: int, value: str) -> None:
        """Checks and records a value that a reader of committed records received."""
        name = value.rpartition(" ")[0]
        transaction = self.transactions[name]
        transaction.seen = value
        if transaction.outcome in {Outcome.OPEN, Outcome.ABORTED}:
            self._broken(INVARIANT, f"{value!r} was read at {offset}, and {name} is {transaction.outcome.value}")
        there = self._values[partition].setdefault(offset, value)
        place = self._offsets[partition].setdefault(value, offset)
        if there != value or place != offset:
            self._broken(
                INVARIANT,
                f"partition {partition}: {value!r} was read at {offset}, but {there!r} is there, or it is at {place}",
            )

    def must_have(self, partition: int) -> dict[int, str]:
        """Offset -> value for all values that are certainly committed by now."""
        return {
            offset: value
            for transaction in self.transactions.values()
            if transaction.outcome is Outcome.COMMITTED or transaction.seen
            for (where, offset), value in transaction.places.items()
            if where == partition
        }


def hanging_transactions(server: Server) -> list[str]:
    """Transactions that are open in a partition but unknown to their coordinator, so that nothing will ever end them."""
    shards = server.transactions.shards
    if any(shard.status is not Status.ACTIVE for shard in shards):
        return []
    states = [shard.state for shard in shards]
    known = {each.producer_id for state in states for each in [*state.ongoing.values(), *state.prepared.values()]}
    partitions = [server.topics.user_partition(LEDGER, index) for index in range(PARTITIONS)]
    return [
        f"producer {producer.producer_id} at {producer.first_offset} of {partition.name}"
        for partition in partitions
        if partition is not None and partition.state is State.ACTIVE and partition.producers_loaded
        for producer in partition.producers
        if producer.first_offset >= 0 and producer.producer_id not in known
    ]


class Accountant(IdempotentClient):
    """Writes one transaction after another. It makes progress when one of them commits or aborts."""

    def __init__(self, world: World, number: int, ledger: Ledger) -> None:
        super().__init__(world, f"accountant-{number}", PARTITIONS)
        self.ledger = ledger

    async def _retry_until_answered(self, ask: Callable[[], Any]) -> tuple[Any, ErrorCode, bool]:
        """Retries until a response is not retriable. Returns it, its error, and whether there was a retry."""
        again = False
        while True:
            try:
                answer, code = await ask()
            except NoResponse:
                code = None
            if code is not None and code not in _RETRIABLE:
                return answer, code, again
            again = True
            await self.think()

    async def _init_producer_id(self) -> None:
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=TIMEOUT_MS)
        response = await self.call(request, self.random.choice([4, 5]))
        code = ErrorCode(response.error_code)
        if code is not ErrorCode.NONE:
            if code not in _RETRIABLE:
                self.unexpected("InitProducerId", code)
            raise NoResponse
        self._set_producer(response.producer_id, response.producer_epoch)

    def _set_producer(self, producer_id: int, epoch: int) -> None:
        self._producer_id, self._epoch, self._sequences = producer_id, epoch, [0] * PARTITIONS

    async def _next_operation(self) -> None:
        """Writes a transaction and ends it, or abandons it."""
        self._count += 1
        transaction = self.ledger.begin(f"{self.name} {self._count}")
        for step in range(self.random.randint(1, 4)):
            if not await self._produce(transaction, step):
                self._abandon(transaction)
                return
            await self.think()
        if not self.world.is_healed and self.random.random() < 0.1:
            self._abandon(transaction)
            return
        await self._end(transaction, committed=self.random.random() < 0.7)

    def _abandon(self, transaction: Transaction) -> None:
        """Leaves the transaction open; its commit was never requested."""
        self.ledger.ended(transaction, Outcome.ABORTED)
        self._producer_id = -1

    async def _produce(self, transaction: Transaction, step: int) -> bool:
        """Writes one batch; False if the producer was fenced."""
        partition = self.random.randrange(PARTITIONS)
        values = [f"{transaction.name} {step}.{each}" for each in range(self.random.randint(1, 3))]
        self._written_ms += 20
        batch = encode_batch(
            [
                LogRecord(index, self._written_ms, value.encode(), value.encode(), ())
                for index, value in enumerate(values)
            ],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=self._sequences[partition],
            attributes=TRANSACTIONAL,
        )
        data = ProduceRequest.PartitionProduceData(partition, batch)
        topic = ProduceRequest.TopicProduceData(name=LEDGER, partition_data=[data])
        request = ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=5_000, topic_data=[topic])

        async def ask() -> tuple[Any, ErrorCode]:
            response = await self.call(request, 12)
            answer = response.responses[0].partition_responses[0]
            return answer, ErrorCode(answer.error_code)

        answer, code, _ = await self._retry_until_answered(ask)
        if code is not ErrorCode.NONE:
            if code not in _FENCED:
                self.unexpected("Produce", code)
            return False
        self._sequences[partition] += len(values)
        for index, value in enumerate(values):
            transaction.places[partition, answer.base_offset + index] = value
        return True

    async def _end(self, transaction: Transaction, *, committed: bool) -> None:
        if committed:
            transaction.outcome = Outcome.ASKED
        request = EndTxnRequest(
            transactional_id=self.name, producer_id=self._producer_id, producer_epoch=self._epoch, committed=committed
        )

        async def ask() -> tuple[Any, ErrorCode]:
            response = await self.call(request, 5)
            return response, ErrorCode(response.error_code)

        response, code, again = await self._retry_until_answered(ask)
        if code is ErrorCode.NONE:
            self.ledger.ended(transaction, Outcome.COMMITTED if committed else Outcome.ABORTED)
            self._set_producer(response.producer_id, response.producer_epoch)
            self.answered_s = self.world.loop.time()
            return
        if code not in _FENCED:
            self.unexpected("EndTxn", code)
        if not committed or not again:
            self.ledger.ended(transaction, Outcome.ABORTED)
        self._producer_id = -1


class CommittedReader(PartitionReader):
    """Reads committed records, from the beginning to the last stable offset."""

    def __init__(self, world: World, number: int, ledger: Ledger) -> None:
        super().__init__(world, f"committed-reader-{number}", LEDGER, PARTITIONS, READ_COMMITTED)
        self.ledger = ledger

    async def read_all(self, partition: int) -> None:
        """Every value certainly committed when this began must be there. Raises NoResponse."""
        must_have = self.ledger.must_have(partition)
        seen: set[str] = set()
        offset = 0
        while True:
            batches, left_out, stable_offset = await self._fetch(partition, offset)
            aborting: set[int] = set()
            for header, records in batches:
                while left_out and left_out[0][0] <= header.last_offset:
                    aborting.add(left_out.pop(0)[1])
                if header.is_control:
                    ends = [read_end_transaction(key, value) for _, key, value in records]
                    if any(end is not None and not end[0] for end in ends):
                        aborting.discard(header.producer_id)
                elif header.producer_id not in aborting:
                    for at, _, value in records:
                        if at >= offset and value is not None:
                            self.ledger.read(partition, at, value.decode())
                            seen.add(value.decode())
                offset = max(offset, header.next_offset)
            if not batches or offset >= stable_offset:
                break
        lost = [(at, value) for at, value in must_have.items() if at < stable_offset and value not in seen]
        if lost:
            self.world.broken(INVARIANT, f"partition {partition} is stable to {stable_offset} and has lost {lost[:3]}")

    async def _fetch(
        self, partition: int, offset: int
    ) -> tuple[list[tuple[BatchHeader, Any]], list[tuple[int, int]], int]:
        """Batches, aborted transactions (first offset, producer id) in order, and the last stable offset."""
        answer = await self.fetch_some(partition, offset)
        content = answer.records or b""
        try:
            batches = [(header, key_values(content, at, header)) for at, header in split(content)]
        except CorruptBatch as error:
            self.world.broken(INVARIANT, f"partition {partition} at {offset}: {error}")
            raise NoResponse from None
        left_out = sorted((one.first_offset, one.producer_id) for one in answer.aborted_transactions or [])
        return batches, left_out, answer.last_stable_offset
