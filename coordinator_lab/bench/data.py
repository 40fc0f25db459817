"""Load on the data plane: Produce with batches of a hundred records of 1 KiB, and Fetch of the same records.

    python -m coordinator_lab.bench.data PLAN      PLAN is JSON (`DataPlan`); prints one JSON line (`DataOutcome`)

Producers write the same batch to each partition in turn. Consumers read the same part of a log, which the operating system
has in memory, so the server is measured and not the disk. Responses are counted and discarded. Before the measurement, one
response is decoded, and its error code must be NONE.
"""

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass
from functools import partial
from typing import cast

import uvloop

from coordinator.client.conversation import Splitter, request_frame
from coordinator.log.batch_builder import BatchBuilder
from coordinator.protocol.messages import CreateTopicsRequest, FetchRequest, ProduceRequest
from coordinator_lab.bench.load import CLIENT_ID, connected, cpu_seconds

TOPIC = "bench-data"
PARTITIONS = 4
RECORDS, RECORD_BYTES = 100, 1024
READ_BYTES = 1 << 20
_PRODUCE, _FETCH = 9, 12


@dataclass(frozen=True, slots=True)
class DataRow:
    """A row of the table."""

    name: str
    request: str
    connections: int
    in_flight: int


DATA_ROWS = (
    DataRow("produce 100 x 1 KiB, 1 connection x5", "produce", 1, 5),
    DataRow("produce 100 x 1 KiB, 10 connections", "produce", 10, 1),
    DataRow("fetch 1 MiB of them, 1 connection", "fetch", 1, 1),
    DataRow("fetch 1 MiB of them, 10 connections", "fetch", 10, 1),
)


@dataclass(frozen=True, slots=True)
class DataPlan:
    """A measurement. `request` is "produce" or "fetch"."""

    host: str
    port: int
    request: str
    connections: int
    in_flight: int
    warm_up_s: float
    seconds: float
    server_pid: int


@dataclass(frozen=True, slots=True)
class DataOutcome:
    """The number of responses and the bytes of batches during the measurement, and the CPU time of the server."""

    answers: int
    batch_bytes: int
    seconds: float
    server_cpu_s: float


def batch() -> bytes:
    """The batch that producers write."""
    builder = BatchBuilder()
    for _ in range(RECORDS):
        builder.add(b"key", b"v" * RECORD_BYTES)
    return builder.build(0, int(time.time() * 1000))


def produce(partition: int, records: bytes) -> ProduceRequest:
    """A request with a batch for one partition."""
    data = ProduceRequest.PartitionProduceData(index=partition, records=records)
    topic = ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[data])
    return ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic])


def fetch(partition: int) -> FetchRequest:
    """A request for a mebibyte from the start of a partition."""
    wanted = FetchRequest.FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=READ_BYTES)
    topic = FetchRequest.FetchTopic(topic=TOPIC, partitions=[wanted])
    return FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=READ_BYTES, session_epoch=-1, topics=[topic])


class DataConnection(asyncio.Protocol):
    """A connection that sends these requests in turn, `in_flight` at a time, and counts and discards the responses."""

    def __init__(self, requests: list[bytes], in_flight: int) -> None:
        self.answers = 0
        self._requests = requests
        self._in_flight = in_flight
        self._turn = 0
        self._responses = Splitter()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's does not inherit from it

    def begin(self) -> None:
        for _ in range(self._in_flight):
            self._ask()

    def _ask(self) -> None:
        assert self._transport is not None
        self._transport.write(self._requests[self._turn % len(self._requests)])
        self._turn += 1

    def data_received(self, data: bytes) -> None:
        for _ in self._responses.split(data):
            self.answers += 1
            self._ask()

    def stop(self) -> None:
        assert self._transport is not None
        self._transport.abort()


async def prepare(plan: DataPlan) -> int:
    """Creates the topic and writes records. Returns the bytes of batches in a request or response."""
    client = await connected(plan.host, plan.port)

    topic = CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
    await client.send(CreateTopicsRequest(topics=[topic], timeout_ms=5_000), 7)
    records = batch()
    deadline = time.monotonic() + 20
    for partition in range(PARTITIONS):
        written = 0
        while written < 2 * READ_BYTES:
            produced = await client.send(produce(partition, records), _PRODUCE)
            error = produced.responses[0].partition_responses[0].error_code
            if error and time.monotonic() > deadline:
                raise SystemExit(f"data: Produce returned error {error}")
            written += 0 if error else len(records)
    fetched = await client.send(fetch(0), _FETCH)
    (partition_data,) = fetched.responses[0].partitions
    if partition_data.error_code:
        raise SystemExit(f"data: Fetch returned error {partition_data.error_code}")
    client.close()
    return len(records) if plan.request == "produce" else len(partition_data.records or b"")


async def run(plan: DataPlan) -> DataOutcome:
    """Prepares, warms up and measures."""
    batch_bytes = await prepare(plan)
    if plan.request == "produce":
        requests = [
            request_frame(produce(partition, batch()), _PRODUCE, 7, CLIENT_ID) for partition in range(PARTITIONS)
        ]
    else:
        requests = [request_frame(fetch(partition), _FETCH, 7, CLIENT_ID) for partition in range(PARTITIONS)]
    loop = asyncio.get_running_loop()
    connections = []
    for _ in range(plan.connections):
        _, connection = await loop.create_connection(
            partial(DataConnection, requests, plan.in_flight), plan.host, plan.port
        )
        connections.append(connection)
    for connection in connections:
        connection.begin()
    await asyncio.sleep(plan.warm_up_s)
    answers, cpu_s, began = sum(each.answers for each in connections), cpu_seconds(plan.server_pid), time.perf_counter()
    await asyncio.sleep(plan.seconds)
    seconds = time.perf_counter() - began
    spent_s = cpu_seconds(plan.server_pid) - cpu_s
    answers = sum(each.answers for each in connections) - answers
    for connection in connections:
        connection.stop()
    return DataOutcome(answers, answers * batch_bytes, seconds, spent_s)


if __name__ == "__main__":
    print(json.dumps(asdict(uvloop.run(run(DataPlan(**json.loads(sys.argv[1])))))))  # noqa: T201
