"""Reads, writes and trims partitions of the cluster."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import NamedTuple

from coordinator.cluster.engine.engine import EngineUnavailable
from coordinator.cluster.engine.kafka.cluster import BrokerError, Cluster, Partition, refuse_error
from coordinator.log import batch
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    DeleteRecordsRequest,
    FetchRequest,
    ListOffsetsRequest,
    ProduceRequest,
)

PAGE_BYTES = 4 << 20
LATEST, EARLIEST = -1, -2
ALL_REPLICAS = -1
READS, WRITES = "reads", "writes"
"""Purposes of connections."""


class Written(NamedTuple):
    """What a leader says to a batch."""

    code: ErrorCode
    offset: int = -1
    """Of the first record."""
    time_ms: int = -1
    """When it was appended, by the broker's clock."""


class Page(NamedTuple):
    """What a leader has from an offset on."""

    records: bytes
    end: int
    """Behind the last record that every replica in sync has."""
    begin: int
    """The first offset that was not trimmed."""


class Partitions:
    """The partitions that a cluster's brokers lead."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._gathered: dict[Partition, bytes] = {}
        """What is to be written to logs at the end of this turn of the loop."""
        self._sending: asyncio.Task[dict[Partition, Written]] | None = None

    # --- reading ------------------------------------------------------------------------------------------------------

    async def fetch(self, partition: Partition, offset: int, *, purpose: str = READS, wait_ms: int = 0) -> Page:
        """A page of a partition. Raises: EngineUnavailable."""
        wanted = FetchRequest.FetchPartition(
            partition.number,
            fetch_offset=offset,
            partition_max_bytes=PAGE_BYTES,
            current_leader_epoch=-1,
            log_start_offset=-1,
        )
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=wait_ms,
            min_bytes=1 if wait_ms else 0,
            max_bytes=PAGE_BYTES,
            session_epoch=-1,
            topics=[FetchRequest.FetchTopic(partition.topic, partitions=[wanted])],
        )
        answer = await self._cluster.ask_leader(partition, purpose, request)
        refuse_error("Fetch", answer.error_code)
        found = answer.responses[0].partitions[0]
        refuse_error(f"Fetch of {partition.topic}", found.error_code)
        return Page(found.records or b"", found.high_watermark, found.log_start_offset)

    async def read(self, partition: Partition, begin: int, end: int) -> AsyncGenerator[bytes, None]:
        """Pages with every record from `begin` to `end`, and perhaps some before and behind. Fetches one page ahead.

        Raises: EngineUnavailable; BrokerError with OFFSET_OUT_OF_RANGE: the partition was trimmed.
        """

        def ahead_from(offset: int) -> asyncio.Task[bytes] | None:
            return asyncio.create_task(self._page(partition, offset)) if offset < end else None

        ahead = ahead_from(begin)
        try:
            while ahead is not None:
                records = await ahead
                ahead = ahead_from(next_offset(records))
                await asyncio.sleep(0)  # so that it is sent before this page is worked on
                yield records
        finally:
            if ahead is not None:
                ahead.cancel()
                ahead.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def _page(self, partition: Partition, offset: int) -> bytes:
        """Records from an offset on, of which there is at least one; it waits for a leader that has it."""

        async def fetch() -> bytes:
            page = await self.fetch(partition, offset)
            if next_offset(page.records) <= offset:
                raise BrokerError(f"Fetch of {partition.topic} at {offset}", ErrorCode.OFFSET_NOT_AVAILABLE)
            return page.records

        return await self._cluster.repeat(fetch, partition)

    async def end(self, partition: Partition) -> int:
        """The offset behind the last record that every replica in sync has. Raises: EngineUnavailable."""
        return await self._offset(partition, LATEST)

    async def begin(self, partition: Partition) -> int:
        """The first offset that was not trimmed. Raises: EngineUnavailable."""
        return await self._offset(partition, EARLIEST)

    async def _offset(self, partition: Partition, which: int) -> int:
        async def ask() -> int:
            wanted = ListOffsetsRequest.ListOffsetsPartition(partition.number, -1, which)
            topic = ListOffsetsRequest.ListOffsetsTopic(partition.topic, [wanted])
            request = ListOffsetsRequest(-1, topics=[topic])
            answer = await self._cluster.ask_leader(partition, READS, request)
            found = answer.topics[0].partitions[0]
            refuse_error(f"ListOffsets of {partition.topic}", found.error_code)
            return found.offset

        return await self._cluster.repeat(ask, partition)

    # --- writing ------------------------------------------------------------------------------------------------------

    async def write(self, partition: Partition, records: bytes, purpose: str = WRITES) -> Written:
        """Appends a batch, and tries again: it may be there twice, or without an answer. Raises: EngineUnavailable.

        Batches of one turn of the loop, such as the claims of a dead worker's logs, leave together.
        """

        async def attempt() -> Written:
            if purpose != WRITES or partition in self._gathered:
                written = (await self.write_once({partition: records}, purpose))[partition]
            else:
                self._gathered[partition] = records
                self._sending = self._sending or asyncio.create_task(self._send_gathered())
                # What leaves with others does not end with its own time-out.
                written = (await asyncio.shield(self._sending))[partition]
            refuse_error(f"Produce to {partition.topic}", written.code)
            return written

        return await self._cluster.repeat(attempt, partition)

    async def _send_gathered(self) -> dict[Partition, Written]:
        gathered, self._gathered, self._sending = self._gathered, {}, None
        return await self.write_once(gathered, WRITES)

    async def write_once(self, records: Mapping[Partition, bytes], purpose: str) -> dict[Partition, Written]:
        """Sends a batch to each partition, one request to each broker. A batch without an answer gets NETWORK_EXCEPTION."""
        await self._cluster.learn(records)
        by_leader: dict[int, list[Partition]] = {}
        written: dict[Partition, Written] = {}
        for partition in records:
            try:
                by_leader.setdefault(await self._cluster.leader(partition), []).append(partition)
            except EngineUnavailable:
                written[partition] = Written(ErrorCode.LEADER_NOT_AVAILABLE)
        sent = (self._send(leader, {each: records[each] for each in led}, purpose) for leader, led in by_leader.items())
        for answers in await asyncio.gather(*sent):
            written |= answers
        self._cluster.forget(partition for partition, answer in written.items() if answer.code)
        return written

    async def _send(self, leader: int, records: Mapping[Partition, bytes], purpose: str) -> dict[Partition, Written]:
        topics: dict[str, list[ProduceRequest.PartitionProduceData]] = {}
        for partition, data in records.items():
            topics.setdefault(partition.topic, []).append(ProduceRequest.PartitionProduceData(partition.number, data))
        request = ProduceRequest(
            acks=ALL_REPLICAS,
            timeout_ms=round(self._cluster.attempt_s * 1000),
            topic_data=[ProduceRequest.TopicProduceData(topic, partition_data=data) for topic, data in topics.items()],
        )
        try:
            answer = await self._cluster.ask(leader, purpose, request)
        except EngineUnavailable:
            return dict.fromkeys(records, Written(ErrorCode.NETWORK_EXCEPTION))
        except asyncio.CancelledError:
            self._cluster.forget(records)
            raise
        return {
            Partition(topic.name, each.index): Written(
                ErrorCode(each.error_code), each.base_offset, each.log_append_time_ms
            )
            for topic in answer.responses
            for each in topic.partition_responses
        }

    async def trim(self, partition: Partition, offset: int) -> None:
        """Removes every record before an offset (DeleteRecords). Raises: EngineUnavailable."""

        async def ask() -> None:
            wanted = DeleteRecordsRequest.DeleteRecordsPartition(partition.number, offset)
            topic = DeleteRecordsRequest.DeleteRecordsTopic(partition.topic, [wanted])
            request = DeleteRecordsRequest([topic], round(self._cluster.attempt_s * 1000))
            answer = await self._cluster.ask_leader(partition, WRITES, request)
            code = answer.topics[0].partitions[0].error_code
            # Another trim was quicker, and went further.
            if code != ErrorCode.OFFSET_OUT_OF_RANGE:
                refuse_error(f"DeleteRecords of {partition.topic}", code)

        await self._cluster.repeat(ask, partition)


def next_offset(records: bytes) -> int:
    """The offset behind the last whole batch; -1 without one."""
    position, offset = 0, -1
    while len(records) - position >= batch.HEADER_BYTES:
        header = batch.read_header(records, position)
        position += header.size_bytes
        if position > len(records):
            break
        offset = header.next_offset
    return offset
