"""The second lock, on Apache Kafka: batches of a log carry the epoch of a producer, and leaders refuse those of a lower one.

Whoever has a claim initializes the transactional id of the log, which gives it the producer id of the owner before and a higher
epoch, and writes idempotent batches with them, without transactions. From its first batch on, the leader of the partition
refuses batches of the old owner (`ProducerAppendInfo.checkProducerEpoch`), so they leave nothing in the log.

This lock never decides who owns a log. Whoever is refused reads the log: a newer claim is there, or it initializes again. That
closes what the lock leaves open: a transactional id is forgotten after seven days (`transactional.id.expiration.ms`), an epoch
in a partition after one (`producer.id.expiration.ms`), an epoch that overflows gets another producer id, and the lock is shut
only with the owner's first batch. Other brokers than Apache Kafka's compare sequences alone, so they are not asked.
"""

import logging

from coordinator.cluster.engine.engine import EngineUnavailable
from coordinator.cluster.engine.kafka.cluster import Cluster, refuse_error
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    FindCoordinatorRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
)

_log = logging.getLogger(__name__)

REFUSED = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""What a leader says to a batch that this lock keeps out. It has appended nothing."""
TRANSACTION_TIMEOUT_MS = 60_000
"""No transaction ever begins."""
_TRANSACTIONAL_ID = 1
_SEQUENCES = 1 << 31


class Producer:
    """A producer id and epoch, and the sequence of the next record."""

    __slots__ = ("epoch", "id", "sequence")

    def __init__(self, producer_id: int = -1, epoch: int = -1) -> None:
        self.id = producer_id
        self.epoch = epoch
        self.sequence = 0 if producer_id >= 0 else -1

    @property
    def of_batch(self) -> tuple[int, int, int]:
        """What the next batch carries."""
        return self.id, self.epoch, self.sequence

    def sent(self, records: int) -> None:
        """The leader has appended a batch of so many records."""
        if self.id >= 0:
            self.sequence = (self.sequence + records) % _SEQUENCES


UNLOCKED = Producer()
"""Batches without a producer, where there is no second lock."""


class Producers:
    """Makes producers."""

    def __init__(self, cluster: Cluster, prefix: str) -> None:
        self._cluster = cluster
        self._prefix = prefix

    async def of(self, log: str) -> Producer:
        """A producer that shuts those before it out of a log. `UNLOCKED`: the cluster has none to give."""
        if not self._cluster.is_apache:
            return UNLOCKED
        try:
            answer = await self._cluster.repeat(lambda: self._init(f"{self._prefix}-{log}"))
        except EngineUnavailable as error:
            _log.warning("event=no_second_lock log=%s reason=%s", log, error)
            return UNLOCKED
        return Producer(answer.producer_id, answer.producer_epoch)

    async def _init(self, transactional_id: str) -> InitProducerIdResponse:
        request = FindCoordinatorRequest(transactional_id, _TRANSACTIONAL_ID)
        found = await self._cluster.ask_any("producers", request)
        refuse_error("FindCoordinator", found.error_code)
        init = InitProducerIdRequest(transactional_id, TRANSACTION_TIMEOUT_MS)
        answer = await self._cluster.ask(found.node_id, "producers", init)
        refuse_error("InitProducerId", answer.error_code)
        return answer
