"""What a partition remembers of its idempotent producers: enough to tell a retry from a gap.

A producer numbers its records per partition. The first sequence of a batch must follow the last one accepted; a batch
whose first and last sequence are those of one of the last five accepted is a retry, and is answered with the offset
that the first attempt got (five, because a client has at most five requests in flight). Anything else is a gap or a
mix-up: OUT_OF_ORDER_SEQUENCE_NUMBER. A higher epoch starts again at 0; a lower one is INVALID_PRODUCER_EPOCH.

A producer that is not remembered may begin anywhere: its earlier records may have been deleted by retention or
forgotten after `producer.id.expiration.ms`, and refusing it would strand it. So UNKNOWN_PRODUCER_ID is never answered
(KIP-360).

The state is what the log says: where no snapshot (producer_snapshot.py) tells it, it is rebuilt from the batch headers,
by the same `record` that the live path uses.

Producers are kept in the order of their last append, so the expired ones are at the front and forgetting them costs
nothing per request. Expiry counts from the append (after a restart: from the load), not from the record's own timestamp
as in Kafka, where replaying old events loses the protection of idempotence. Anybody can make up producer ids, so a
partition remembers so many and no more.
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

from coordinator.protocol.errors import ErrorCode, KafkaError

BATCHES_REMEMBERED = 5
PRODUCERS_MAX = 50_000
"""Of one partition; thirty megabytes or so."""
_SEQUENCE_MAX = 2**31 - 1
_NO_EPOCH = -1


class AppendedBatch(NamedTuple):
    """A batch that an idempotent producer appended. Sequences wrap to 0 after 2^31 - 1."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    timestamp_ms: int
    """The batch's largest timestamp; a retry is answered with it."""


class _Producer:
    __slots__ = ("batches", "epoch", "seen_ms")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: list[AppendedBatch] = []
        self.seen_ms = 0


def last_sequence(first_sequence: int, count: int) -> int:
    """The sequence of the last of `count` records."""
    return (first_sequence + count - 1) & _SEQUENCE_MAX


class ProducerState:
    """The producers of one partition."""

    __slots__ = ("_expiration_ms", "_producers")

    def __init__(self, expiration_ms: int) -> None:
        self._expiration_ms = expiration_ms
        self._producers: OrderedDict[int, _Producer] = OrderedDict()

    def __len__(self) -> int:
        return len(self._producers)

    def check(self, producer_id: int, epoch: int, first_sequence: int, count: int) -> AppendedBatch | None:
        """The earlier append that this batch repeats, or None if it may be appended. Raises KafkaError."""
        producer = self._producers.get(producer_id)
        if producer is None:
            return None
        if epoch < producer.epoch:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
        if epoch > producer.epoch:
            if first_sequence != 0 and producer.epoch != _NO_EPOCH:
                raise KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
            return None
        last = last_sequence(first_sequence, count)
        for batch in producer.batches:
            if batch.first_sequence == first_sequence and batch.last_sequence == last:
                return batch
        expected = (producer.batches[-1].last_sequence + 1) & _SEQUENCE_MAX
        if first_sequence != expected and epoch != _NO_EPOCH:
            raise KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        return None

    def record(self, producer_id: int, epoch: int, batch: AppendedBatch, now_ms: int) -> None:
        """Remembers an append, live or read back from the log."""
        producers = self._producers
        producer = producers.get(producer_id)
        if producer is None or producer.epoch != epoch:
            producer = producers[producer_id] = _Producer(epoch)
        producers.move_to_end(producer_id)
        producer.seen_ms = now_ms
        producer.batches.append(batch)
        if len(producer.batches) > BATCHES_REMEMBERED:
            del producer.batches[0]
        if len(producers) > PRODUCERS_MAX:
            producers.popitem(last=False)
        self.expire(now_ms)

    def __iter__(self) -> Iterator[tuple[int, int, int, list[AppendedBatch]]]:
        """Id, epoch, time of the last append and batches of each producer, the one first that was silent longest."""
        for producer_id, producer in self._producers.items():
            yield producer_id, producer.epoch, producer.seen_ms, producer.batches

    def restore(self, producer_id: int, epoch: int, seen_ms: int, batches: list[AppendedBatch]) -> None:
        """Puts back a producer as iteration gave it, in that order."""
        producer = self._producers[producer_id] = _Producer(epoch)
        producer.seen_ms = seen_ms
        producer.batches = batches

    def clear(self) -> None:
        """Forgets everything (the log is about to be read again)."""
        self._producers.clear()

    def expire(self, now_ms: int) -> None:
        """Forgets the producers that were silent for too long."""
        producers, oldest_ms = self._producers, now_ms - self._expiration_ms
        while producers:
            producer_id = next(iter(producers))
            if producers[producer_id].seen_ms >= oldest_ms:
                return
            del producers[producer_id]
