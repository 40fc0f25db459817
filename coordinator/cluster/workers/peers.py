"""Asks other workers, as brokers of a Kafka cluster ask each other: about transactions whose shard or group is there.

    WriteTxnMarkers       the end of a transaction, for the shard of a group (Kafka's TransactionMarkerChannelManager)
    AddPartitionsToTxn    whether a group's partition is in a transaction, or that it is now (Kafka's AddPartitionsToTxnManager)
    *ShareGroupState*     the state of a share partition (Kafka's PersisterStateManager)
    OffsetForLeaderEpoch  where partitions end, for the lags of share groups. Kafka's PartitionMetadataClient asks ListOffsets,
                          for which a worker would need a right to each topic. Here all partitions have the same epoch
    Produce               events about the records of share groups (server/delivery_events.py; Kafka has none)

One request at a time travels to a worker. What is not answered in time, or before the worker is dead, gets
COORDINATOR_NOT_AVAILABLE, and whoever asked tries again: all of these requests may be repeated.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from coordinator.client.asynchronous import Client, connect
from coordinator.client.conversation import LinkFailed
from coordinator.client.login.sasl import Sasl
from coordinator.cluster.engine.engine import Worker
from coordinator.cluster.workers.cluster import Workers
from coordinator.cluster.workers.tasks import end
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    Answer,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    ProduceRequest,
    ProduceResponse,
    Request,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from coordinator.runtime.result import Marker
from coordinator.security.tls import UnusableTls
from coordinator.share_state import questions
from coordinator.topics import names
from coordinator.topics.leader_epochs import LEADER_EPOCH
from coordinator.transactions.add_partitions import Addition

_log = logging.getLogger(__name__)

ANSWER_S = 2.0
RESPONSE_BYTES_MAX = 16 << 20
"""The largest response that is read. One to a hundred thousand partitions has a megabyte."""
_CLIENT_ID = "coordinator-worker"
_MARKERS_VERSION, _PARTITIONS_VERSION, _EPOCHS_VERSION, _PRODUCE_VERSION = 2, 5, 4, 11
_NOT_AVAILABLE = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)


class PeerFailed(Exception):
    """The other worker did not answer, or one of the two does not trust the other."""


class PeerAccess(NamedTuple):
    """How a worker connects to others, at the listener for workers (`inter.broker.listener.name`), and who it is there."""

    tls: Callable[[], ssl.SSLContext] | None = None
    """Makes the context of a connection, from files that may have changed; None: without TLS."""
    sasl: Sasl | None = None


UNPROTECTED = PeerAccess()


class PeerConnection:
    """A connection to one worker, which is opened by the first request."""

    def __init__(self, worker: Worker, access: PeerAccess) -> None:
        self._worker = worker
        self._access = access
        self._turn = asyncio.Lock()
        self._client: Client | None = None
        self._failure = ""
        self._limit: asyncio.Timeout | None = None
        """Of the request under way."""

    async def ask(self, request: Request[Answer], version: int) -> Answer:
        """The response. Raises PeerFailed; then the connection must not be used any more.

        What waits for its turn fails with the request before it: many that wait for a stopped worker would take very long.
        """
        async with self._turn:
            if self._failure:
                raise PeerFailed(self._failure)
            try:
                async with asyncio.timeout(ANSWER_S) as self._limit:
                    if self._client is None:
                        self._client = await self._open()
                    return await self._client.send(request, version)
            except (LinkFailed, TimeoutError, UnusableTls) as error:
                self.close()
                self._failure = self._failure or str(error) or "no answer in time"
                raise PeerFailed(self._failure) from error
            finally:
                self._limit = None

    def give_up(self, reason: str) -> None:
        """Fails the request under way, and those that wait after it, at once."""
        self._failure = reason
        if self._limit is None:
            self.close()
        else:
            self._limit.reschedule(asyncio.get_running_loop().time())

    async def _open(self) -> Client:
        tls, sasl = self._access
        return await connect(
            self._worker.host,
            self._worker.port,
            _CLIENT_ID,
            tls=None if tls is None else tls(),
            sasl=sasl,
            asks_versions=False,
            response_bytes_max=RESPONSE_BYTES_MAX,
        )

    def close(self) -> None:
        """Closes it; requests under way fail."""
        if self._client is not None:
            self._client.close()
            self._client = None


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

        def answered(response: WriteTxnMarkersResponse | None) -> None:
            if response is None:
                done(ErrorCode.COORDINATOR_NOT_AVAILABLE)
                return
            of_partition = response.markers[0].topics[0].partitions[0]
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

        def answered(response: AddPartitionsToTxnResponse | None) -> None:
            if response is None:
                done(_NOT_AVAILABLE)
                return
            verdicts = _verdicts(response)
            error = next((code for code in verdicts.values() if code is not ErrorCode.NONE), ErrorCode.NONE)
            if error is ErrorCode.NOT_COORDINATOR or not verdicts:
                done(_NOT_AVAILABLE)
            elif adds and error is not ErrorCode.NONE:
                done(KafkaError(error))
            else:
                done(verdicts)

        self._ask(log, request, _PARTITIONS_VERSION, answered)

    def ask_share_coordinator(self, shard: int, asked: Any, done: Callable[[Any], None]) -> None:
        """Asks the worker that has a shard of share partitions. `done` gets what the operation there replies, or a KafkaError.

        `asked`: the argument of an operation (share_state/questions.py).
        """

        def answered(response: Any) -> None:
            done(_NOT_AVAILABLE if response is None else questions.reply(asked, response))

        version = questions.BY_ASKED[type(asked)].version
        self._ask(f"{names.SHARE_GROUP_STATE}-{shard}", questions.request(asked), version, answered)

    def end_offsets(
        self, partitions: Mapping[str, Sequence[int]], done: Callable[[Mapping[tuple[str, int], int]], None]
    ) -> None:
        """Asks the worker that leads the topics. `done` gets the high watermarks that it knows."""
        wanted = OffsetForLeaderEpochRequest.OffsetForLeaderPartition
        request = OffsetForLeaderEpochRequest(
            topics=[
                OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
                    name, [wanted(partition=index, leader_epoch=LEADER_EPOCH) for index in indexes]
                )
                for name, indexes in partitions.items()
            ],
        )

        def answered(response: OffsetForLeaderEpochResponse | None) -> None:
            topics = [] if response is None else response.topics
            done({
                (topic.topic, each.partition): each.end_offset
                for topic in topics
                for each in topic.partitions
                if each.error_code == ErrorCode.NONE
            })  # fmt: skip

        self._ask(next(iter(partitions)), request, _EPOCHS_VERSION, answered)

    def append_events(self, shard: int, batch: bytes, done: Callable[[ErrorCode], None]) -> None:
        """Appends events to those of a shard of groups, at the worker that has it."""
        data = ProduceRequest.PartitionProduceData(shard, batch)
        topic = ProduceRequest.TopicProduceData(name=names.COORDINATOR_EVENTS, partition_data=[data])
        request = ProduceRequest(None, -1, int(ANSWER_S * 1_000), [topic])

        def answered(response: ProduceResponse | None) -> None:
            if response is None:
                done(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            else:
                done(ErrorCode(response.responses[0].partition_responses[0].error_code))

        self._ask(f"{names.CONSUMER_OFFSETS}-{shard}", request, _PRODUCE_VERSION, answered)

    def _ask(self, log: str, request: Request[Answer], version: int, answered: Callable[[Answer | None], None]) -> None:
        is_internal = log.rpartition("-")[0] in names.INTERNAL
        worker = self._cluster.owner_of(log) if is_internal else self._cluster.data_owner()
        if worker is None or worker is self._cluster.me:
            answered(None)
            return
        task = asyncio.get_running_loop().create_task(self._exchange(worker, request, version, answered))
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _exchange(
        self, worker: Worker, request: Request[Answer], version: int, answered: Callable[[Answer | None], None]
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
