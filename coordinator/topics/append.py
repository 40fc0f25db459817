"""Appends a producer's batch to a partition (Kafka's ReplicaManager.appendRecords and UnifiedLog.appendAsLeader).

Two fields outside the checksum are set: the base offset and the leader epoch. Where the topic's timestamp type is
LogAppendTime, the timestamp is set as well, and the checksum computed again.

The order of the checks decides which error a producer sees, and whether the response has the log start offset: only after
size and checksum were found correct. Both are as in Kafka.
"""

from collections.abc import Callable
from typing import NamedTuple

from coordinator.log.batch import HEADER, LOG_APPEND_TIME, BatchHeader, restamp, with_log_append_time
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ProduceResponse
from coordinator.runtime.result import Producer
from coordinator.topics.batch_validation import (
    Batch,
    Refused,
    check_header,
    check_records,
    check_size_and_checksum,
    without_log_append_time,
)
from coordinator.topics.partition import Partition, State
from coordinator.topics.producer_state import AppendedBatch, VerificationGuard
from coordinator.topics.record_walks import is_long_walk


class Entry(NamedTuple):
    """One partition's batch in a Produce request, with its part of the response."""

    topic: str
    partition: Partition
    batch: Batch
    response: ProduceResponse.PartitionProduceResponse
    done: Callable[[ErrorCode], None]

    @property
    def producer(self) -> Producer:
        return Producer(self.batch.header.producer_id, self.batch.header.producer_epoch)

    def refuse(self, refusal: Refused) -> None:
        refusal.describe(self.response)
        self.done(refusal.code)


def needs_walk(entry: Entry) -> bool:
    """Whether checking the records takes so long that `walk` should do it outside the loop before."""
    if not is_long_walk(entry.batch.header):
        return False
    try:
        _check_batch(entry)
    except Refused:
        return False  # `append` refuses it for the same reason
    return True


def walk(entry: Entry, now_ms: int) -> Refused | None:
    """Checks the records; returns why the batch is refused. May run in any thread."""
    try:
        check_records(entry.batch, entry.partition.name, entry.partition.settings, now_ms)
    except Refused as refusal:
        return refusal
    return None


def append(entry: Entry, now_ms: int, guard: VerificationGuard | None, *, acked: bool, walked: bool = False) -> None:
    """Appends the batch of `entry` and calls its `done`: when the batch is durable, or (`acked` False) when it is accepted.

    `guard`: for a transactional batch, the result of `ProducerState.begin_verification`. `walked`: its records have been
    checked (`walk`). A batch that repeats an earlier one is answered with the earlier offset. `done` gets:

        UNKNOWN_TOPIC_OR_PARTITION    the topic has been deleted
        KAFKA_STORAGE_ERROR           the log cannot be written
        MESSAGE_TOO_LARGE, CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP, UNKNOWN_SERVER_ERROR   see batch_validation.py
        INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_TXN_STATE   see producer_state.py
    """
    accepted: list[ErrorCode] = []
    try:
        _append(entry, now_ms, guard, entry.done if acked else accepted.append, walked=walked)
    except Refused as refusal:
        entry.refuse(refusal)
    else:
        if not acked:
            entry.done(ErrorCode.NONE)


def _check_batch(entry: Entry) -> None:
    """Raises Refused if the batch is refused whatever its records are."""
    partition = entry.partition
    if partition.state is not State.ACTIVE:
        is_removed = partition.state is State.REMOVED
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_removed else ErrorCode.KAFKA_STORAGE_ERROR)
    check_size_and_checksum(entry.batch, partition.settings)
    entry.response.log_start_offset = partition.start_offset
    check_header(entry.batch)


def _append(
    entry: Entry, now_ms: int, guard: VerificationGuard | None, done: Callable[[ErrorCode], None], *, walked: bool
) -> None:
    _, partition, batch, response, _ = entry
    data, header = batch
    settings = partition.settings
    _check_batch(entry)
    if not walked:
        check_records(batch, partition.name, settings, now_ms)
    if settings.log_append_time:
        data = with_log_append_time(data, now_ms)
        header = BatchHeader._make(HEADER.unpack_from(data))
    elif header.attributes & LOG_APPEND_TIME:
        data = without_log_append_time(data)
    if header.producer_id >= 0:
        earlier = _check_producer(partition, header, guard)
        if earlier is not None:
            response.base_offset, response.log_append_time_ms = earlier.base_offset, earlier.timestamp_ms
            partition.when_durable(earlier.base_offset + header.record_count, done)
            return
    base_offset = partition.next_offset
    response.base_offset = base_offset
    if settings.log_append_time:
        response.log_append_time_ms = now_ms
    partition.append(restamp(data, base_offset, partition.epochs.current), header, now_ms, done)


def _check_producer(partition: Partition, header: BatchHeader, guard: VerificationGuard | None) -> AppendedBatch | None:
    """The earlier append that this batch repeats, if any. Raises Refused."""
    if not partition.producers_loaded:
        # The log lost its end on a full disk while the coordinator was asked.
        raise Refused(ErrorCode.KAFKA_STORAGE_ERROR)
    try:
        return partition.producers.check_batch(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.record_count,
            transactional=header.is_transactional,
            guard=guard,
        )
    except KafkaError as error:
        raise Refused(error.code) from error
