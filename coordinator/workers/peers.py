"""Asks other workers, as brokers of a Kafka cluster ask each other: about transactions whose shard or group is there.

    WriteTxnMarkers       the end of a transaction, for the shard of a group (Kafka's TransactionMarkerChannelManager)
    AddPartitionsToTxn    whether a group's partition is in a transaction, or that it is now (Kafka's AddPartitionsToTxnManager)

One request at a time travels to a worker. What is not answered in time gets COORDINATOR_NOT_AVAILABLE, and whoever asked tries
again: both requests may be repeated.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, cast

from coordinator.engine.engine import Worker
from coordinator.protocol.codec import Codec, DecodeError
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    Message,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from coordinator.runtime.result import Marker
from coordinator.transactions.add_partitions import Addition
from coordinator.workers.cluster import Workers
from coordinator.workers.tasks import end

_log = logging.getLogger(__name__)

ANSWER_S = 2.0
_MARKERS_VERSION, _PARTITIONS_VERSION = 2, 5
_NOT_AVAILABLE = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
_CLIENT_ID = b"coordinator-worker"


class PeerFailed(Exception):
    """The other worker did not answer."""


class Peers:
    """The connections of one worker to the others."""

    def __init__(self, cluster: Workers) -> None:
        self._cluster = cluster
        self._connections: dict[str, _Connection] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def stop(self) -> None:
        """Closes all connections; nobody is answered any more."""
        await end(self._tasks)
        for connection in self._connections.values():
            connection.close()

    def write_marker(self, marker: Marker, topic: str, partition: int, done: Callable[[ErrorCode], None]) -> None:
        """As `MarkerWriter.write_once`, at the worker that has the partition of an internal topic."""
        request = WriteTxnMarkersRequest(
            markers=[
                WriteTxnMarkersRequest.WritableTxnMarker(
                    producer_id=marker.producer_id,
                    producer_epoch=marker.producer_epoch,
                    transaction_result=marker.commit,
                    topics=[WriteTxnMarkersRequest.WritableTxnMarkerTopic(topic, [partition])],
                    coordinator_epoch=marker.coordinator_epoch,
                    transaction_version=marker.transaction_version,
                )
            ]
        )

        def answered(response: Message | None) -> None:
            if response is None:
                done(ErrorCode.COORDINATOR_NOT_AVAILABLE)
                return
            of_partition = cast(WriteTxnMarkersResponse, response).markers[0].topics[0].partitions[0]
            done(ErrorCode(of_partition.error_code))

        self._ask(f"{topic}-{partition}", request, _MARKERS_VERSION, answered)

    def add_partitions(self, log: str, addition: Addition, adds: bool, done: Callable[[Any], None]) -> None:
        """Asks the worker that has the log of the transactional id. `done` gets what the operation there replies.

        That is anything if partitions are added, else their verdicts; or a KafkaError.
        """
        topics: dict[str, list[int]] = {}
        for topic, index in addition.partitions:
            topics.setdefault(topic, []).append(index)
        request = AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
                    transactional_id=addition.transactional_id,
                    producer_id=addition.producer.id,
                    producer_epoch=addition.producer.epoch,
                    verify_only=not adds,
                    topics=[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(*each) for each in topics.items()],
                )
            ]
        )

        def answered(response: Message | None) -> None:
            if response is None:
                done(_NOT_AVAILABLE)
                return
            verdicts = _verdicts(cast(AddPartitionsToTxnResponse, response))
            error = next((code for code in verdicts.values() if code is not ErrorCode.NONE), ErrorCode.NONE)
            if error is ErrorCode.NOT_COORDINATOR or not verdicts:
                done(_NOT_AVAILABLE)
            elif adds and error is not ErrorCode.NONE:
                done(KafkaError(error))
            else:
                done(verdicts)

        self._ask(log, request, _PARTITIONS_VERSION, answered)

    def _ask(self, log: str, request: Message, version: int, answered: Callable[[Message | None], None]) -> None:
        worker = self._cluster.owner_of(log)
        if worker is None or worker is self._cluster.me:
            answered(None)
            return
        task = asyncio.get_running_loop().create_task(self._exchange(worker, request, version, answered))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _exchange(
        self, worker: Worker, request: Message, version: int, answered: Callable[[Message | None], None]
    ) -> None:
        connection = self._connections.setdefault(worker.id, _Connection(worker))
        try:
            response = await connection.ask(request, version)
        except PeerFailed as error:
            _log.warning("event=peer_failed worker=%s:%d reason=%s", worker.host, worker.port, error)
            self._connections.pop(worker.id, None)
            answered(None)
        else:
            answered(response)


def _verdicts(response: AddPartitionsToTxnResponse) -> Mapping[tuple[str, int], ErrorCode]:
    """The verdict on each partition; empty if the request as a whole was refused."""
    return {
        (topic.name, each.partition_index): ErrorCode(each.partition_error_code)
        for transaction in response.results_by_transaction
        for topic in transaction.topic_results
        for each in topic.results_by_partition
    }


class _Connection:
    """A connection to one worker, which is opened by the first request."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._turn = asyncio.Lock()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._correlation_id = 0

    async def ask(self, request: Message, version: int) -> Message:
        """The response. Raises PeerFailed; then the connection must not be used any more."""
        try:
            async with self._turn, asyncio.timeout(ANSWER_S):
                return await self._ask(request, version)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, DecodeError) as error:
            self.close()
            raise PeerFailed(f"{type(error).__name__}: {error}") from error

    async def _ask(self, request: Message, version: int) -> Message:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._worker.host, self._worker.port)
        reader, writer = self._streams
        self._correlation_id += 1
        writer.write(_frame(request, version, self._correlation_id))
        size = int.from_bytes(await reader.readexactly(4))
        answer = await reader.readexactly(size)
        name = request.NAME.removesuffix("Request")
        codec = Codec.of()
        header_bytes = 5 if codec.is_flexible(f"{name}Response", version) else 4
        message, _ = codec.decoder(f"{name}Response", version)(answer, header_bytes)
        return message

    def close(self) -> None:
        """Closes it; requests under way fail."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def _frame(request: Message, version: int, correlation_id: int) -> bytes:
    codec = Codec.of()
    assert request.API_KEY is not None
    head = request.API_KEY.to_bytes(2) + version.to_bytes(2) + correlation_id.to_bytes(4)
    head += len(_CLIENT_ID).to_bytes(2) + _CLIENT_ID
    head += b"\0" if codec.is_flexible(request.NAME, version) else b""
    body = codec.encoder(request.NAME, version)(request)
    return (len(head) + len(body)).to_bytes(4) + head + body
