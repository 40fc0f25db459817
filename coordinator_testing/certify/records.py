"""The records of an event: a steady stream of numbered ones into the topic, and what both topics hold in the end.

The numbers ascend within the partition; `content.py` says what the records hold.
"""

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from coordinator.client.blocking import Address
from coordinator.client.reading import EARLIEST, FETCH_BY_NAME, fetch_request
from coordinator.log.batch import BatchHeader, key_values, whole_batches
from coordinator.log.batch_builder import BatchBuilder
from coordinator.log.transaction_outcomes import marker_commits
from coordinator.operations.client import Client, OperationFailed, refuse_error
from coordinator.operations.groups import positions
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import ProduceRequest
from coordinator_testing.certify.case import InputRecord, OutputRecord, Truncation
from coordinator_testing.certify.content import Content

TICK_S = 0.25
"""The time between two records of a partition."""
ANSWERED_WITHIN_S = 60.0
"""How long the server may take for an answer. It is busy if the programs keep the machine busy."""
_BY_NAME = 12
"""The newest version of Produce that has topic names."""
_FETCH_BYTES = 4 << 20
_LIFE = 1 << 40
"""More records than a partition gets in one event."""


class Producer:
    """Appends one record to each partition in each tick."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, content: Content | None = None) -> None:
        self.partitions = partitions
        self._content = content or Content()
        self._bootstrap = bootstrap
        self._topic = topic
        self._number = 0
        self._client: Client | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins or continues the stream."""
        assert self._task is None
        self._task = asyncio.create_task(self._stream())

    async def stop(self) -> None:
        """Ends the stream. What it has appended is final when this returns."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        self._close()

    async def _stream(self) -> None:
        while True:
            # A shielded append is complete even if the stream is stopped meanwhile.
            append = asyncio.create_task(asyncio.to_thread(self._append))
            try:
                await asyncio.shield(append)
            finally:
                await append
            await asyncio.sleep(TICK_S)

    def _append(self) -> None:
        """One record for each partition. A failed one is not repeated: its number may be in the topic or not."""
        self._number += 1
        try:
            if self._client is None:
                self._client = Client(self._bootstrap, ANSWERED_WITHIN_S)
            for leader, partitions in _leaders(self._client, self._topic).items():
                self._client.to(leader).ask(self._request(partitions), version_max=_BY_NAME)
        except OperationFailed:
            self._close()

    def _request(self, partitions: Iterable[int]) -> ProduceRequest:
        data = [
            ProduceRequest.PartitionProduceData(index=partition, records=self._batch(partition))
            for partition in partitions
            if partition < self.partitions
        ]
        return ProduceRequest(
            acks=-1,
            timeout_ms=5_000,
            topic_data=[ProduceRequest.TopicProduceData(name=self._topic, partition_data=data)],
        )

    def _batch(self, partition: int) -> bytes:
        builder = BatchBuilder()
        builder.add(*self._content.make(partition, self._number))
        return builder.build(0, int(time.time() * 1000))

    def _close(self) -> None:
        if self._client is not None:
            self._client.__exit__()
            self._client = None


def _leaders(client: Client, topic: str) -> Mapping[Address, list[int]]:
    """The leaders of a topic's partitions, with those that each leads. A partition may have none for a moment."""
    metadata = client.metadata([topic])
    addresses = {broker.node_id: (broker.host, broker.port) for broker in metadata.brokers}
    found: dict[Address, list[int]] = {}
    for partition in metadata.topics[0].partitions:
        if partition.leader_id in addresses:
            found.setdefault(addresses[partition.leader_id], []).append(partition.partition_index)
    return found


class Read(NamedTuple):
    """A record of a topic. `producer_id` is that of its transaction; None if it has none."""

    partition: int
    offset: int
    value: bytes | None
    producer_id: int | None


class TopicReader:
    """Reads the values of a topic, from where the last reading ended."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self._next: dict[int, int] = {}
        self._open: dict[tuple[int, int], list[Read]] = {}
        """Partition and producer id -> records of its transaction that has no marker yet."""

    def read(self, client: Client, partitions: int) -> list[Read]:
        """What came since the last reading, without records of aborted transactions.

        Raises OperationFailed.
        """
        new = range(len(self._next), partitions)
        starts = positions(client, {(self.topic, partition): EARLIEST for partition in new})
        self._next.update({partition: starts.get((self.topic, partition), 0) for partition in new})
        return [each for partition in range(partitions) for each in self._read_partition(client, partition)]

    def go_back(self, partition: int, offset: int) -> None:
        """Reads a partition from here on that has lost what it had from there on."""
        self._next[partition] = min(self._next[partition], offset)

    def _read_partition(self, client: Client, partition: int) -> Iterator[Read]:
        for data, position, header in self._batches(client, partition):
            owner = (partition, header.producer_id)
            if header.is_control:
                held = self._open.pop(owner, [])
                if marker_commits(data[position : position + header.size_bytes], header):
                    yield from held
                continue
            producer_id = header.producer_id if header.is_transactional else None
            found = [
                Read(partition, offset, value, producer_id) for offset, _, value in key_values(data, position, header)
            ]
            if header.is_transactional:
                self._open.setdefault(owner, []).extend(found)
            else:
                yield from found

    def _batches(self, client: Client, partition: int) -> Iterator[tuple[bytes, int, BatchHeader]]:
        while True:
            offset = self._next[partition]
            data = _fetch(client, self.topic, partition, offset)
            for position, header in whole_batches(data, offset):
                self._next[partition] = header.next_offset
                yield data, position, header
            if self._next[partition] == offset:
                return


def _fetch(client: Client, topic: str, partition: int, offset: int) -> bytes:
    request = fetch_request([(topic, partition, offset)], 0, _FETCH_BYTES)
    answer = client.any().ask(request, version_max=FETCH_BY_NAME)
    refuse_error(answer.error_code, f"cannot read {topic}-{partition}")
    [found] = answer.responses[0].partitions
    if found.error_code in (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        return b""
    refuse_error(found.error_code, f"cannot read {topic}-{partition}")
    return found.records or b""


def inputs_of(
    rows: list[Read], life: int, truncations: Sequence[Truncation], content: Content
) -> Mapping[int, list[InputRecord]]:
    """The records of the stream, by partition; none of them was there at the last of its truncations. Where values are alike,
    offsets number them.
    """
    found: dict[int, list[InputRecord]] = {}
    for row in rows:
        before = [each.time_ms for each in truncations if each.partition == row.partition]
        read = content.record_of(row.value)
        number = read[1] if read else (life + len(before)) * _LIFE + row.offset
        if row.value in content:
            record = InputRecord(row.offset, number, life, max(before, default=0))
            found.setdefault(row.partition, []).append(record)
    return found


def outputs_of(rows: list[Read], content: Content) -> list[OutputRecord]:
    """The copies in the output topic. Other values are not copies, and say nothing."""
    found = [(row, content.record_of(row.value)) for row in rows]
    return [OutputRecord(row.partition, row.offset, *read, row.producer_id) for row, read in found if read is not None]
