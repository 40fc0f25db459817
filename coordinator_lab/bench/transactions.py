"""Transactions of consume-transform-produce loops, with ten records and one offset each.

    python -m coordinator_lab.bench.transactions PLAN      PLAN is JSON (`TransactionPlan`); prints one JSON line

Each producer has its own connection, transactional id, partition and group, and uses the protocol of transaction.version 2:
Produce and TxnOffsetCommit add their partitions, and EndTxn returns the next epoch. If a producer starts a transaction before
all markers of the previous one have been written, it gets CONCURRENT_TRANSACTIONS and retries at once.
"""

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

import uvloop

from coordinator.log.batch import TRANSACTIONAL
from coordinator.log.batch_builder import BatchBuilder
from coordinator.log.log import Log, LogSettings
from coordinator.protocol.codec import Codec
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.java import positive_hash
from coordinator.protocol.messages import (
    CreateTopicsRequest,
    EndTxnRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    ProduceRequest,
    Request,
    TxnOffsetCommitRequest,
)
from coordinator.runtime.serde import Serde
from coordinator.topics.names import TRANSACTION_STATE
from coordinator.transactions.machine import RECORD_KEYS
from coordinator.transactions.records import transaction_record
from coordinator.transactions.transaction import NO_PRODUCER_ID, State, Transaction
from coordinator.world.disk import RealDisk
from coordinator_lab.bench.load import connected, cpu_seconds

TOPIC = "bench-transactions"
PARTITIONS = 16
RECORDS, RECORD_BYTES = 10, 100
READY_WITHIN_S = 30.0
_PRODUCE, _COMMIT, _END = 12, 5, 5
_RETRIABLE = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)
SHARDS = 50


@dataclass(frozen=True, slots=True)
class TransactionRow:
    """A row of the table."""

    name: str
    producers: int


TRANSACTION_ROWS = (
    TransactionRow("transactions of 10 records and 1 offset, 1 producer", 1),
    TransactionRow("transactions of 10 records and 1 offset, 16 producers", 16),
    TransactionRow("transactions of 10 records and 1 offset, 100 producers", 100),
)
IDS_LOADED = 100_000


@dataclass(frozen=True, slots=True)
class TransactionPlan:
    """A measurement."""

    host: str
    port: int
    producers: int
    warm_up_s: float
    seconds: float
    server_pid: int


@dataclass(frozen=True, slots=True)
class TransactionOutcome:
    """The transactions that were committed during the measurement, the CPU time of the server, and the retried requests."""

    transactions: int
    seconds: float
    server_cpu_s: float
    p50_ms: float
    p99_ms: float
    repeated: int


class Loop:
    """A producer."""

    def __init__(self, plan: TransactionPlan, index: int) -> None:
        self.transactional_id = f"bench-transactions-{index}"
        self.group_id = f"bench-transactions-{index}"
        self.partition = index % PARTITIONS
        self.durations_s: list[float] = []
        self.repeated = 0
        self._plan = plan
        self._producer = (NO_PRODUCER_ID, -1)

    async def begin(self) -> None:
        """Connects, and gets a producer id and epoch."""
        self._client = await connected(self._plan.host, self._plan.port)
        await self._ask("FindCoordinator", 4, FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), _found)
        request = InitProducerIdRequest(self.transactional_id, 60_000)
        self._producer = await self._ask("InitProducerId", 5, request, _producer)

    async def run(self) -> None:
        """Runs transactions until it is cancelled."""
        while True:
            began_s = time.perf_counter()
            await self._transaction()
            self.durations_s.append(time.perf_counter() - began_s)

    async def _transaction(self) -> None:
        producer_id, epoch = self._producer
        builder = BatchBuilder()
        for _ in range(RECORDS):
            builder.add(b"key", b"v" * RECORD_BYTES)
        records = builder.build(
            0, int(time.time() * 1000), producer_id=producer_id, producer_epoch=epoch, attributes=TRANSACTIONAL
        )
        data = ProduceRequest.PartitionProduceData(index=self.partition, records=records)
        topic = ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[data])
        produce = ProduceRequest(self.transactional_id, -1, 10_000, [topic])
        await self._ask("Produce", _PRODUCE, produce, _produced)
        offset = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(self.partition, 42, committed_metadata="")
        commit = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=self.group_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            topics=[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[offset])],
        )
        await self._ask("TxnOffsetCommit", _COMMIT, commit, _committed)
        end = EndTxnRequest(self.transactional_id, producer_id, epoch, committed=True)
        self._producer = await self._ask("EndTxn", _END, end, _producer)

    async def _ask(self, name: str, version: int, message: Request[Any], read: Any) -> Any:
        """Sends a request, and retries while the error is retriable. `read` returns the error and the result."""
        deadline = time.monotonic() + READY_WITHIN_S
        while True:
            answer = await self._client.send(message, version)
            error, found = read(answer)
            if error == ErrorCode.NONE:
                return found
            if error not in _RETRIABLE or time.monotonic() > deadline:
                raise SystemExit(f"transactions: {name} returned error {error}")
            self.repeated += 1
            await asyncio.sleep(0 if error == ErrorCode.CONCURRENT_TRANSACTIONS else 0.1)


def _found(answer: Any) -> tuple[int, None]:
    return answer.coordinators[0].error_code, None


def _producer(answer: Any) -> tuple[int, tuple[int, int]]:
    return answer.error_code, (answer.producer_id, answer.producer_epoch)


def _produced(answer: Any) -> tuple[int, None]:
    return answer.responses[0].partition_responses[0].error_code, None


def _committed(answer: Any) -> tuple[int, None]:
    return answer.topics[0].partitions[0].error_code, None


async def run(plan: TransactionPlan) -> TransactionOutcome:
    """Creates the topic, warms up and measures."""
    client = await connected(plan.host, plan.port)
    topic = CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
    await client.send(CreateTopicsRequest(topics=[topic], timeout_ms=5_000), 7)
    client.close()
    loops = [Loop(plan, index) for index in range(plan.producers)]
    for loop in loops:
        await loop.begin()
    tasks = [asyncio.ensure_future(loop.run()) for loop in loops]
    await asyncio.sleep(plan.warm_up_s)
    for loop in loops:
        loop.durations_s.clear()
        loop.repeated = 0
    cpu_s, began_s = cpu_seconds(plan.server_pid), time.perf_counter()
    await asyncio.wait(tasks, timeout=plan.seconds)
    seconds, spent_s = time.perf_counter() - began_s, cpu_seconds(plan.server_pid) - cpu_s
    durations_s = sorted(each for loop in loops for each in loop.durations_s)
    for task in tasks:
        task.cancel()
    for failed in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(failed, BaseException) and not isinstance(failed, asyncio.CancelledError):
            raise failed
    p50_ms, p99_ms = (durations_s[len(durations_s) * percent // 100] * 1e3 for percent in (50, 99))
    return TransactionOutcome(len(durations_s), seconds, spent_s, p50_ms, p99_ms, sum(loop.repeated for loop in loops))


def write_ids(count: int, folder: str) -> None:
    """Writes the log of `count` transactional ids, each with a committed transaction."""
    serde = Serde(Codec.of(None), RECORD_KEYS)
    by_shard: list[list[Transaction]] = [[] for _ in range(SHARDS)]
    now_ms = int(time.time() * 1000)
    for number in range(count):
        name = f"bench-application-{number:06d}"
        done = Transaction(
            name,
            number,
            number,
            NO_PRODUCER_ID,
            number % 1000,
            60_000,
            State.COMPLETE_COMMIT,
            frozenset(),
            now_ms,
            now_ms,
            2,
        )
        by_shard[positive_hash(name) % SHARDS].append(done)
    for shard, transactions in enumerate(by_shard):
        path = f"{folder}/{TRANSACTION_STATE}-{shard}"
        log = Log.open(RealDisk(), path, LogSettings(segment_ms=None, retention_ms=None))
        for at in range(0, len(transactions), 500):
            builder = BatchBuilder()
            for each in transactions[at : at + 500]:
                builder.add(*serde.encode(transaction_record(each, 2)))
            log.append(builder.build(log.end_offset, now_ms), builder.count, now_ms)
        log.sync()
        log.close()


if __name__ == "__main__":
    print(json.dumps(asdict(uvloop.run(run(TransactionPlan(**json.loads(sys.argv[1])))))))  # noqa: T201
