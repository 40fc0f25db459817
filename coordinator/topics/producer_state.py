"""What a partition remembers of its producers: enough to tell a retry from a gap, and what is decided from what is open.

A producer numbers its records per partition. The first sequence of a batch must follow the last one accepted; a batch
whose first and last sequence are those of one of the last five accepted is a retry, and is answered with the offset
that the first attempt got (five, because a client has at most five requests in flight). Anything else is a gap or a
mix-up: OUT_OF_ORDER_SEQUENCE_NUMBER. A higher epoch starts again at 0; a lower one is INVALID_PRODUCER_EPOCH.

A producer that is not remembered may begin anywhere: its earlier records may have been deleted by retention or
forgotten after `producer.id.expiration.ms`, and refusing it would strand it. So UNKNOWN_PRODUCER_ID is never answered
(KIP-360).

A transaction is open in a partition from its first batch there to its marker. Such a batch is taken only if the
transaction's coordinator has been asked (KIP-890): a delayed batch of a transaction that has ended would open one that
nobody ends. The question is a `Verification`, and the append must come with the very one that is under way: a marker ends
it, so that an answer from before the marker is worth nothing after it. While several batches wait for their answer the
lowest sequence must be appended first.

The state is what the log says: where no snapshot (producer_snapshot.py) tells it, it is rebuilt from the batches by the
same `record` and `end` that the live path uses. Verifications are not kept; their askers are gone.

Producers are kept in the order of their last append, so the expired ones are at the front and forgetting them costs
nothing per request; one whose transaction is open is not forgotten. Expiry counts from the append (after a restart: from
the load), not from the record's own timestamp as in Kafka, where replaying old events loses the protection of idempotence.
Anybody can make up producer ids, so a partition remembers so many and no more.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from coordinator.log.aborted import Aborted
from coordinator.log.log import LastBatch
from coordinator.protocol.errors import ErrorCode, KafkaError

BATCHES_REMEMBERED = 5
PRODUCERS_MAX = 50_000
"""Of one partition; thirty megabytes or so."""
_SEQUENCE_MAX = 2**31 - 1
_EPOCH_MAX = 2**15 - 1
_NONE = -1
_STRICT_SINCE = 2


class AppendedBatch(NamedTuple):
    """A batch that an idempotent producer appended. Sequences wrap to 0 after 2^31 - 1."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    timestamp_ms: int
    """The batch's largest timestamp; a retry is answered with it."""

    @property
    def last_offset(self) -> int:
        return self.base_offset + ((self.last_sequence - self.first_sequence) & _SEQUENCE_MAX)


class Remembered(NamedTuple):
    """A producer as it is kept in a snapshot and told to who asks (DescribeProducers). -1 where there is nothing."""

    producer_id: int
    epoch: int
    coordinator_epoch: int
    """Of the last marker."""
    first_offset: int
    """Of the open transaction."""
    timestamp_ms: int
    """Of the last batch or marker."""
    seen_ms: int
    """When that was appended, by the server's clock."""
    batches: list[AppendedBatch]


class Ended(NamedTuple):
    """A transaction that a marker ended."""

    first_offset: int
    aborted: Aborted | None


class Verification:
    """A question to a transaction's coordinator that is under way, or has been answered with yes."""

    __slots__ = ("adds", "epoch", "lowest_sequence", "seen_ms")

    def __init__(self, epoch: int, lowest_sequence: int, seen_ms: int, *, adds: bool) -> None:
        self.epoch = epoch
        self.lowest_sequence = lowest_sequence
        self.seen_ms = seen_ms
        self.adds = adds
        """The producer's epoch grows with each transaction (transaction.version 2)."""


class _Producer:
    __slots__ = ("batches", "coordinator_epoch", "epoch", "first_offset", "seen_ms", "timestamp_ms")

    def __init__(self) -> None:
        self.epoch = _NONE
        self.batches: list[AppendedBatch] = []
        self.coordinator_epoch = _NONE
        self.first_offset = _NONE
        self.timestamp_ms = _NONE
        self.seen_ms = 0


def last_sequence(first_sequence: int, count: int) -> int:
    """The sequence of the last of `count` records."""
    return (first_sequence + count - 1) & _SEQUENCE_MAX


class ProducerState:
    """The producers of one partition."""

    __slots__ = ("_expiration_ms", "_open", "_producers", "_verifications")

    def __init__(self, expiration_ms: int) -> None:
        self._expiration_ms = expiration_ms
        self._producers: OrderedDict[int, _Producer] = OrderedDict()
        self._open: dict[int, int] = {}
        """First offset of each open transaction, ascending, and whose it is."""
        self._verifications: OrderedDict[int, Verification] = OrderedDict()

    def __len__(self) -> int:
        return len(self._producers)

    @property
    def first_open_offset(self) -> int | None:
        """Where the oldest open transaction begins."""
        return next(iter(self._open), None)

    def open_offsets(self) -> Iterable[int]:
        """Where the open transactions begin, ascending."""
        return self._open.keys()

    def is_open_at(self, offset: int) -> bool:
        """Whether an open transaction begins at the offset."""
        return offset in self._open

    # --- what may be appended -----------------------------------------------------------------------------------------

    def verify(
        self, producer_id: int, epoch: int, first_sequence: int, now_ms: int, *, adds: bool
    ) -> Verification | None:
        """What must come with the append, once the coordinator said yes; None if the transaction is open already.

        Raises KafkaError for an epoch that is over.
        """
        producer = self._producers.get(producer_id)
        if producer is not None:
            if epoch < producer.epoch:
                raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
            if epoch == producer.epoch and producer.first_offset >= 0:
                return None
        verification = self._verifications.get(producer_id)
        if verification is None:
            verification = Verification(epoch, first_sequence, now_ms, adds=adds)
            self._verifications[producer_id] = verification
            if len(self._verifications) > PRODUCERS_MAX:
                self._verifications.popitem(last=False)
        elif epoch > verification.epoch:
            verification.epoch, verification.lowest_sequence = epoch, first_sequence
        elif epoch == verification.epoch:
            verification.lowest_sequence = min(verification.lowest_sequence, first_sequence)
        return verification

    def check(
        self,
        producer_id: int,
        epoch: int,
        first_sequence: int,
        count: int,
        *,
        transactional: bool,
        verification: Verification | None,
    ) -> AppendedBatch | None:
        """The earlier append that this batch repeats, or None if it may be appended. Raises KafkaError."""
        producer = self._producers.get(producer_id)
        under_way = self._verifications.get(producer_id)
        if producer is not None and epoch == producer.epoch:
            last = last_sequence(first_sequence, count)
            for batch in producer.batches:
                if batch.first_sequence == first_sequence and batch.last_sequence == last:
                    return batch
        if producer is not None and epoch < producer.epoch:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
        is_open = producer is not None and producer.first_offset >= 0
        belongs = producer is not None and is_open and epoch == producer.epoch
        if transactional and not belongs and (verification is None or verification is not under_way):
            raise KafkaError(ErrorCode.INVALID_TXN_STATE)
        self._check_sequence(producer, under_way, epoch, first_sequence)
        if is_open and not transactional:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE)
        return None

    def _check_sequence(
        self, producer: _Producer | None, under_way: Verification | None, epoch: int, first_sequence: int
    ) -> None:
        known = producer is not None and bool(producer.batches)
        if under_way is not None and (
            first_sequence > under_way.lowest_sequence or (under_way.adds and first_sequence and not known)
        ):
            raise KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        if producer is None or producer.epoch == _NONE:
            return
        expected = (
            (producer.batches[-1].last_sequence + 1) & _SEQUENCE_MAX
            if epoch == producer.epoch and producer.batches
            else 0
        )
        if first_sequence != expected:
            raise KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int, transaction_version: int) -> None:
        """Whether a marker may be appended. Raises KafkaError.

        Under transaction.version 2 its epoch is above that of the records, so that it cannot end a later transaction;
        the same one again does no harm when none is open (KAFKA-19999).
        """
        producer = self._producers.get(producer_id)
        if producer is None:
            return
        if transaction_version < _STRICT_SINCE:
            stale = epoch < producer.epoch
        else:
            repeats = epoch == producer.epoch and (producer.first_offset < 0 or epoch == _EPOCH_MAX)
            stale = epoch <= producer.epoch and not repeats
        if stale:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
        if coordinator_epoch < producer.coordinator_epoch:
            raise KafkaError(ErrorCode.TRANSACTION_COORDINATOR_FENCED)

    # --- what was appended --------------------------------------------------------------------------------------------

    def record(self, producer_id: int, epoch: int, batch: AppendedBatch, now_ms: int, *, transactional: bool) -> None:
        """Remembers an append, live or read back from the log."""
        producer = self._touch(producer_id, epoch, batch.timestamp_ms, now_ms)
        producer.batches.append(batch)
        if len(producer.batches) > BATCHES_REMEMBERED:
            del producer.batches[0]
        if transactional:
            self._verifications.pop(producer_id, None)
            if producer.first_offset < 0:
                producer.first_offset = batch.base_offset
                self._open[batch.base_offset] = producer_id
        self._make_room()
        self.expire(now_ms)

    def end(
        self,
        producer_id: int,
        epoch: int,
        coordinator_epoch: int,
        offset: int,
        timestamp_ms: int,
        now_ms: int,
        *,
        commit: bool,
    ) -> Ended | None:
        """Remembers a marker, live or read back from the log; None if it ended nothing."""
        under_way = self._verifications.get(producer_id)
        if under_way is not None and not (under_way.adds and under_way.epoch == epoch):
            # Under transaction.version 2 the marker has the next transaction's epoch, and this one may have begun.
            del self._verifications[producer_id]
        producer = self._touch(producer_id, epoch, timestamp_ms, now_ms)
        producer.coordinator_epoch = coordinator_epoch
        first_offset, producer.first_offset = producer.first_offset, _NONE
        self._make_room()
        self.expire(now_ms)
        if first_offset < 0:
            return None
        del self._open[first_offset]
        if commit:
            return Ended(first_offset, None)
        stable_offset = next(iter(self._open), offset + 1)
        return Ended(first_offset, Aborted(producer_id, first_offset, offset, stable_offset))

    def _touch(self, producer_id: int, epoch: int, timestamp_ms: int, now_ms: int) -> _Producer:
        producers = self._producers
        producer = producers.get(producer_id)
        if producer is None:
            producer = producers[producer_id] = _Producer()
        if producer.epoch != epoch:
            producer.epoch, producer.batches = epoch, []
        producers.move_to_end(producer_id)
        producer.timestamp_ms, producer.seen_ms = timestamp_ms, now_ms
        return producer

    def _make_room(self) -> None:
        producers = self._producers
        for _ in range(len(self._open) + 1):
            if len(producers) <= PRODUCERS_MAX:
                return
            producer_id = next(iter(producers))
            if producers[producer_id].first_offset < 0:
                del producers[producer_id]
            else:
                producers.move_to_end(producer_id)

    # --- keeping ------------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Remembered]:
        """Each producer, the one first that was silent longest."""
        for producer_id, producer in self._producers.items():
            yield Remembered(
                producer_id,
                producer.epoch,
                producer.coordinator_epoch,
                producer.first_offset,
                producer.timestamp_ms,
                producer.seen_ms,
                producer.batches,
            )

    def last_batches(self) -> dict[int, LastBatch]:
        """What each producer wrote last, which compaction must not take as long as it is remembered."""
        return {
            producer_id: LastBatch(producer.batches[-1].last_offset if producer.batches else None, producer.epoch)
            for producer_id, producer in self._producers.items()
        }

    def restore(self, remembered: Iterable[Remembered]) -> None:
        """Puts back the producers as iteration gave them."""
        opened: list[tuple[int, int]] = []
        for entry in remembered:
            producer = self._producers[entry.producer_id] = _Producer()
            (
                producer_id,
                producer.epoch,
                producer.coordinator_epoch,
                producer.first_offset,
                producer.timestamp_ms,
                producer.seen_ms,
                producer.batches,
            ) = entry
            if producer.first_offset >= 0:
                opened.append((producer.first_offset, producer_id))
        self._open = dict(sorted(opened))

    def copy(self) -> "ProducerState":
        """The same producers, verifications left out."""
        copied = ProducerState(self._expiration_ms)
        copied.restore(remembered._replace(batches=[*remembered.batches]) for remembered in self)
        return copied

    def expire(self, now_ms: int) -> None:
        """Forgets the producers that were silent for too long, and verifications whose askers never came back."""
        producers, oldest_ms = self._producers, now_ms - self._expiration_ms
        while producers:
            producer_id = next(iter(producers))
            producer = producers[producer_id]
            if producer.seen_ms >= oldest_ms:
                break
            if producer.first_offset < 0:
                del producers[producer_id]
            else:
                producer.seen_ms = now_ms
                producers.move_to_end(producer_id)
        while self._verifications:
            producer_id, verification = next(iter(self._verifications.items()))
            if verification.seen_ms >= oldest_ms:
                break
            del self._verifications[producer_id]
