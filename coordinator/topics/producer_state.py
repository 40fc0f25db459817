"""The state of a partition's producers: it distinguishes a retry from a gap, and an open transaction from a decided one.

This is Kafka's ProducerStateManager and ProducerAppendInfo.

A producer numbers its records per partition. The first sequence of a batch must follow the last one accepted. A batch whose
first and last sequence are those of one of the last five accepted is a retry and is answered with the offset of the first
attempt (five, because a client has at most five requests in flight). Anything else is a gap: OUT_OF_ORDER_SEQUENCE_NUMBER.
A higher epoch starts again at 0, a lower one is refused with INVALID_PRODUCER_EPOCH.

An unknown producer may start at any sequence: its earlier records may have been deleted by retention or forgotten after
`producer.id.expiration.ms`, and refusing it would leave it stuck. So UNKNOWN_PRODUCER_ID is never returned (KIP-360).

A transaction is open in a partition from its first batch there to its marker. The first batch is accepted only after the
transaction's coordinator was asked (KIP-890): a delayed batch of a transaction that has ended would open a transaction that
nobody ends. The question is represented by a `VerificationGuard`, and the append must present the current one. A marker
discards it, so an answer that was given before a marker is worth nothing after it. While several batches wait for their
answer, the one with the lowest sequence must be appended first.

The state is derived from the log: the part that no snapshot covers (producer_snapshot.py) is rebuilt from the batches by the
same `append` and `end_transaction` that the live path uses. Guards are not stored, because the requests that hold them are
gone.

Producers are kept in the order of their last append, so that expired ones are in front and finding them costs nothing. A
producer with an open transaction does not expire. Expiry counts from the append (after a restart: from the load) and not from
the record's own timestamp as in Kafka, where replaying old events loses the protection of idempotence. Clients can invent
producer ids, so their number per partition is bounded.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from coordinator.log.aborted import Aborted
from coordinator.log.log import LastBatch
from coordinator.protocol.errors import ErrorCode, KafkaError

BATCHES_REMEMBERED = 5
PRODUCERS_MAX = 50_000
"""The most producers of one partition; they take about thirty megabytes."""
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
    """The largest timestamp in the batch, which is also in the response to a retry."""

    @property
    def last_offset(self) -> int:
        return self.base_offset + ((self.last_sequence - self.first_sequence) & _SEQUENCE_MAX)


class ProducerEntry(NamedTuple):
    """A producer as it is stored in a snapshot and shown by DescribeProducers. -1 stands for none."""

    producer_id: int
    epoch: int
    coordinator_epoch: int
    """The epoch of the last marker."""
    first_offset: int
    """The first offset of the open transaction."""
    timestamp_ms: int
    """The timestamp of the last batch or marker."""
    seen_ms: int
    """When that was appended, by the server's clock."""
    batches: list[AppendedBatch]


class EndedTransaction(NamedTuple):
    """A transaction that a marker ended."""

    first_offset: int
    aborted: Aborted | None


class VerificationGuard:
    """A question to a transaction's coordinator that is not answered yet, or was answered with yes.

    Kafka's VerificationGuard together with its VerificationStateEntry.
    """

    __slots__ = ("adds", "epoch", "lowest_sequence", "seen_ms")

    def __init__(self, epoch: int, lowest_sequence: int, seen_ms: int, *, adds: bool) -> None:
        self.epoch = epoch
        self.lowest_sequence = lowest_sequence
        self.seen_ms = seen_ms
        self.adds = adds
        """Whether the producer's epoch grows with each transaction (transaction.version 2)."""


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

    __slots__ = ("_guards", "_open", "_producers", "expiration_ms")

    def __init__(self, expiration_ms: int) -> None:
        self.expiration_ms = expiration_ms
        self._producers: OrderedDict[int, _Producer] = OrderedDict()
        self._open: dict[int, int] = {}
        """First offset of each open transaction, in ascending order -> producer id."""
        self._guards: OrderedDict[int, VerificationGuard] = OrderedDict()

    def __len__(self) -> int:
        return len(self._producers)

    @property
    def first_open_offset(self) -> int | None:
        """The first offset of the oldest open transaction."""
        return next(iter(self._open), None)

    def open_offsets(self) -> Iterable[int]:
        """The first offsets of the open transactions, in ascending order."""
        return self._open.keys()

    def is_open_at(self, offset: int) -> bool:
        """Whether an open transaction begins at the offset."""
        return offset in self._open

    # --- checks before an append --------------------------------------------------------------------------------------

    def begin_verification(
        self, producer_id: int, epoch: int, first_sequence: int, now_ms: int, *, adds: bool
    ) -> VerificationGuard | None:
        """Returns the guard for the append, or None if the transaction is open already and nobody need be asked.

        Kafka's UnifiedLog.maybeStartTransactionVerification. Raises INVALID_PRODUCER_EPOCH for an old epoch.
        """
        producer = self._producers.get(producer_id)
        if producer is not None:
            if epoch < producer.epoch:
                raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
            if epoch == producer.epoch and producer.first_offset >= 0:
                return None
        guard = self._guards.get(producer_id)
        if guard is None:
            guard = VerificationGuard(epoch, first_sequence, now_ms, adds=adds)
            self._guards[producer_id] = guard
            if len(self._guards) > PRODUCERS_MAX:
                self._guards.popitem(last=False)
        elif epoch > guard.epoch:
            guard.epoch, guard.lowest_sequence = epoch, first_sequence
        elif epoch == guard.epoch:
            guard.lowest_sequence = min(guard.lowest_sequence, first_sequence)
        return guard

    def check_batch(
        self,
        producer_id: int,
        epoch: int,
        first_sequence: int,
        count: int,
        *,
        transactional: bool,
        guard: VerificationGuard | None,
    ) -> AppendedBatch | None:
        """Returns the earlier append that this batch repeats, or None if it may be appended (ProducerAppendInfo.append).

        Raises INVALID_PRODUCER_EPOCH for an old epoch, INVALID_TXN_STATE for a batch that is not in its producer's open
        transaction and has no current guard, or not in a transaction while one is open, and OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        producer = self._producers.get(producer_id)
        current_guard = self._guards.get(producer_id)
        if producer is not None and epoch == producer.epoch:
            last = last_sequence(first_sequence, count)
            for batch in producer.batches:
                if batch.first_sequence == first_sequence and batch.last_sequence == last:
                    return batch
        if producer is not None and epoch < producer.epoch:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
        is_open = producer is not None and producer.first_offset >= 0
        belongs = producer is not None and is_open and epoch == producer.epoch
        if transactional and not belongs and (guard is None or guard is not current_guard):
            raise KafkaError(ErrorCode.INVALID_TXN_STATE)
        self._check_sequence(producer, current_guard, epoch, first_sequence)
        if is_open and not transactional:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE)
        return None

    def _check_sequence(
        self, producer: _Producer | None, guard: VerificationGuard | None, epoch: int, first_sequence: int
    ) -> None:
        known = producer is not None and bool(producer.batches)
        if guard is not None and (
            first_sequence > guard.lowest_sequence or (guard.adds and first_sequence and not known)
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
        """Checks that a marker may be appended (ProducerAppendInfo.appendEndTxnMarker).

        Under transaction.version 2 its epoch is above that of the records, so that it cannot end a later transaction.
        A repeated marker is accepted if no transaction is open (KAFKA-19999). Raises INVALID_PRODUCER_EPOCH for an old
        epoch and TRANSACTION_COORDINATOR_FENCED for an old epoch of the coordinator.
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

    # --- updates after an append --------------------------------------------------------------------------------------

    def append(self, producer_id: int, epoch: int, batch: AppendedBatch, now_ms: int, *, transactional: bool) -> None:
        """Updates the state for a batch that was appended, or read back from the log."""
        producer = self._touch(producer_id, epoch, batch.timestamp_ms, now_ms)
        producer.batches.append(batch)
        if len(producer.batches) > BATCHES_REMEMBERED:
            del producer.batches[0]
        if transactional:
            self._guards.pop(producer_id, None)
            if producer.first_offset < 0:
                producer.first_offset = batch.base_offset
                self._open[batch.base_offset] = producer_id
        self._make_room()
        self.expire(now_ms)

    def end_transaction(
        self,
        producer_id: int,
        epoch: int,
        coordinator_epoch: int,
        offset: int,
        timestamp_ms: int,
        now_ms: int,
        *,
        commit: bool,
    ) -> EndedTransaction | None:
        """Updates the state for a marker that was appended, or read back from the log. Returns None if it ended nothing."""
        guard = self._guards.get(producer_id)
        if guard is not None and not (guard.adds and guard.epoch == epoch):
            # Under transaction.version 2 the marker has the epoch of the next transaction, which may have begun.
            del self._guards[producer_id]
        producer = self._touch(producer_id, epoch, timestamp_ms, now_ms)
        producer.coordinator_epoch = coordinator_epoch
        first_offset, producer.first_offset = producer.first_offset, _NONE
        self._make_room()
        self.expire(now_ms)
        if first_offset < 0:
            return None
        del self._open[first_offset]
        if commit:
            return EndedTransaction(first_offset, None)
        stable_offset = next(iter(self._open), offset + 1)
        return EndedTransaction(first_offset, Aborted(producer_id, first_offset, offset, stable_offset))

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

    # --- storage and expiry -------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[ProducerEntry]:
        """All producers, in the order of their last append."""
        for producer_id, producer in self._producers.items():
            yield ProducerEntry(
                producer_id,
                producer.epoch,
                producer.coordinator_epoch,
                producer.first_offset,
                producer.timestamp_ms,
                producer.seen_ms,
                producer.batches,
            )

    def last_batches(self) -> dict[int, LastBatch]:
        """The last batch of each producer. Compaction must keep it as long as the producer is known."""
        return {
            producer_id: LastBatch(producer.batches[-1].last_offset if producer.batches else None, producer.epoch)
            for producer_id, producer in self._producers.items()
        }

    def restore(self, entries: Iterable[ProducerEntry]) -> None:
        """Adds the producers in the order in which iteration gave them."""
        opened: list[tuple[int, int]] = []
        for entry in entries:
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
        """A copy without the guards."""
        copied = ProducerState(self.expiration_ms)
        copied.restore(entry._replace(batches=[*entry.batches]) for entry in self)
        return copied

    def expire(self, now_ms: int) -> None:
        """Removes producers that have not appended for too long, and guards that were never used."""
        producers, oldest_ms = self._producers, now_ms - self.expiration_ms
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
        while self._guards:
            producer_id, guard = next(iter(self._guards.items()))
            if guard.seen_ms >= oldest_ms:
                break
            del self._guards[producer_id]
