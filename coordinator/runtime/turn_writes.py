"""The batches that a shard writes at the end of a turn of the loop.

Plain records of a turn go into one open batch. Records of a transaction, and the marker that ends one, must be batches of
their own (Kafka's format allows no other way). To keep the order, the open batch is closed before each of them, and all
batches of the turn are written together. They have one timestamp.

The shard reads `batch`, `closed` and `closed_bytes` directly, because it does so with every request.
"""

from coordinator.log.batch import TRANSACTIONAL
from coordinator.log.batch_builder import BatchBuilder
from coordinator.log.end_transaction_marker import end_transaction
from coordinator.runtime.result import Marker, Producer
from coordinator.world.clock import Clock


class TurnWrites:
    """The batches of the present turn. `offset` is always the offset of the next record."""

    __slots__ = ("_clock", "_closed_records", "_time_ms", "batch", "closed", "closed_bytes")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.clear()

    def clear(self) -> None:
        """Forgets all batches."""
        self.batch = BatchBuilder()
        """The open batch of plain records."""
        self.closed: list[bytes] = []
        """The closed batches, which come before the open one."""
        self._closed_records = 0
        self.closed_bytes = 0
        self._time_ms = 0

    def add_transactional(self, records: BatchBuilder, producer: Producer, offset: int) -> None:
        """Adds a batch of records in the producer's open transaction."""
        self._close_batch(offset)
        data = records.build(
            offset, self._time_ms, producer_id=producer.id, producer_epoch=producer.epoch, attributes=TRANSACTIONAL
        )
        self._add_closed(data, records.count)

    def add_marker(self, marker: Marker, offset: int) -> None:
        """Adds the control batch that ends a transaction."""
        self._close_batch(offset)
        data = end_transaction(
            offset,
            self._time_ms,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            commit=marker.commit,
            coordinator_epoch=marker.coordinator_epoch,
        )
        self._add_closed(data, 1)

    def take(self, offset: int) -> tuple[bytes, int]:
        """Removes and returns the batches of the turn and their number of records, which is not 0."""
        if self.closed:
            self._close_batch(offset)
            data, record_count = b"".join(self.closed), self._closed_records
            self.clear()
        else:
            batch, self.batch = self.batch, BatchBuilder()
            data, record_count = batch.build(offset - batch.count, self._clock.wall_ms()), batch.count
        return data, record_count

    def _close_batch(self, offset: int) -> None:
        if not self.closed:
            self._time_ms = self._clock.wall_ms()
        batch = self.batch
        if batch.count:
            self.batch = BatchBuilder()
            self._add_closed(batch.build(offset - batch.count, self._time_ms), batch.count)

    def _add_closed(self, data: bytes, record_count: int) -> None:
        self.closed.append(data)
        self._closed_records += record_count
        self.closed_bytes += len(data)
