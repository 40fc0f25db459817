"""Asks other workers, as brokers of a Kafka cluster ask each other: about transactions whose shard or group is there.

    WriteTxnMarkers       the end of a transaction, for the shard of a group (Kafka's TransactionMarkerChannelManager)
    AddPartitionsToTxn    whether a group's partition is in a transaction, or that it is now (Kafka's AddPartitionsToTxnManager)

One request at a time travels to a worker. What is not answered in time, or before the worker is dead, gets
COORDINATOR_NOT_AVAILABLE, and whoever asked tries again: both requests may be repeated.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, cast

from coordinator.engine.engine import Worker
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    Message,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from coordinator.runtime.result import Marker
from coordinator.topics import names
from coordinator.transactions.add_partitions import Addition
from coordinator.workers.cluster import Workers
from coordinator.workers.peer_connection import UNPROTECTED, PeerAccess, PeerConnection, PeerFailed
from coordinator.workers.tasks import end

_log = logging.getLogger(__name__)

_MARKERS_VERSION, _PARTITIONS_VERSION = 2, 5
_NOT_AVAILABLE = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)


class Peers:
    """The connections of one worker to the others."""

    def __init__(self, cluster: Workers, access: PeerAccess = UNPROTECTED) -> None:
        self._cluster = cluster
        self._access = access
        self._connections: dict[str, PeerConnection] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        cluster.on_living = self._give_up_dead

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
        is_internal = log.rpartition("-")[0] in names.INTERNAL
        worker = self._cluster.owner_of(log) if is_internal else self._cluster.data_owner()
        if worker is None or worker is self._cluster.me:
            answered(None)
            return
        task = asyncio.get_running_loop().create_task(self._exchange(worker, request, version, answered))
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _exchange(
        self, worker: Worker, request: Message, version: int, answered: Callable[[Message | None], None]
    ) -> None:
        connection = self._connections.setdefault(worker.id, PeerConnection(worker, self._access))
        try:
            response = await connection.ask(request, version)
        except PeerFailed as error:
            if self._connections.get(worker.id) is connection:
                _log.warning("event=peer_failed worker=%s:%d reason=%s", worker.host, worker.port, error)
                del self._connections[worker.id]
            answered(None)
        else:
            answered(response)

    def _give_up_dead(self) -> None:
        """Another worker takes the shards of a dead one: what waits for that should ask the other."""
        living = {worker.id for worker in self._cluster.living}
        for dead in [worker_id for worker_id in self._connections if worker_id not in living]:
            self._connections.pop(dead).give_up("the worker is dead")


def _verdicts(response: AddPartitionsToTxnResponse) -> Mapping[tuple[str, int], ErrorCode]:
    """The verdict on each partition; empty if the request as a whole was refused."""
    return {
        (topic.name, each.partition_index): ErrorCode(each.partition_error_code)
        for transaction in response.results_by_transaction
        for topic in transaction.topic_results
        for each in topic.results_by_partition
    }
