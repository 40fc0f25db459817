"""Produce: a batch per partition, checked without looking into its records, given its offset and written as it came.

What is checked is what the header says, and the checksum over everything: a producer's batch is a sealed letter. The
records inside are not decoded (nor decompressed), so a producer that seals nonsense is told so by its consumers and not
by this server; Kafka looks inside. Only a compacted topic has its records' keys looked at, where the compression is one
that can be read. Likewise `compression.type` of a topic is told but batches are never recompressed.

Two fields outside the checksum are set: base offset and leader epoch. Where the topic's clock is the server's
(LogAppendTime) the timestamp is set and the batch sealed anew.

The order of the checks decides which error a producer sees, and whether the answer tells the log's start offset: not
before the request itself has been found in order. Both are Kafka's.
"""

from collections.abc import Callable
from struct import Struct
from typing import NamedTuple

from google_crc32c import value as crc32c

from coordinator.log.batch import (
    CHECKSUM_FROM,
    CONTROL,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    PREFIX_BYTES,
    TRANSACTIONAL,
    BatchHeader,
    CorruptBatch,
    UnsupportedCompression,
    decode_records,
    key_values,
    restamp,
    with_log_append_time,
)
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ProduceRequest, ProduceResponse
from coordinator.topics import names
from coordinator.topics.engine import LEADER_EPOCH, Topics
from coordinator.topics.partition import Partition, State

_MAGIC_AT = 16
_ZSTD, _ZSTD_SINCE = 4, 7
_COMPRESSION_MAX = 4
_RECORD_BYTES_MIN = 7
_RECORD_ERRORS_TOLD = 3
_IDS_SINCE = 13
_NO_TIMESTAMP = -1
_LENGTH = Struct(">i").unpack_from

_Partition = ProduceResponse.PartitionProduceResponse
_RecordError = ProduceResponse.BatchIndexAndErrorMessage


class _Refused(Exception):
    """A batch that is not taken, with the answer."""

    def __init__(self, code: ErrorCode, message: str | None = None, *, records: tuple[_RecordError, ...] = ()) -> None:
        super().__init__(code.name)
        self.code = code
        self.message = message
        self.records = records

    def tell(self, answer: _Partition) -> None:
        """Puts it into the answer of the partition, the code left out."""
        answer.record_errors = list(self.records)
        answer.error_message = self.message


class _Batch(NamedTuple):
    """A batch of the request that may be looked at: the request's form is in order."""

    data: bytes
    header: BatchHeader


def produce(
    topics: Topics, request: ProduceRequest, api_version: int, reply: Callable[[ProduceResponse, bool], None]
) -> None:
    """Appends, and replies when all of it is durable: `reply(response, any_error)`. With acks=0 it replies at once."""
    if request.acks not in {-1, 0, 1}:
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
    response = ProduceResponse()
    left = 1
    failed = False

    def finished(answer: _Partition, error: ErrorCode) -> None:
        nonlocal left, failed
        if error is not ErrorCode.NONE:
            failed = True
            answer.error_code, answer.base_offset, answer.log_append_time_ms = error, -1, -1
        left -= 1
        if not left:
            reply(response, failed)

    now_ms = topics.clock.wall_ms()
    for topic in request.topic_data:
        answers = ProduceResponse.TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
        name = topic.name if api_version < _IDS_SINCE else topics.topic_name(topic.topic_id)
        # Of a partition named twice the last entry counts.
        for index, records in {data.index: data.records for data in topic.partition_data}.items():
            answer = _Partition(index=index, base_offset=-1)
            answers.partition_responses.append(answer)
            left += 1
            done = _ignore if request.acks == 0 else (lambda error, answer=answer: finished(answer, error))
            try:
                partition = _partition(topics, name, index)
                batch = _read(records, api_version, request.transactional_id)
                if batch.header.producer_id >= 0 and not partition.producers_known:
                    _append_later(partition, batch, answer, now_ms, done)
                else:
                    _append(partition, batch, answer, now_ms, done)
            except _Refused as refusal:
                refusal.tell(answer)
                finished(answer, refusal.code)
            else:
                if request.acks == 0:
                    finished(answer, ErrorCode.NONE)
        if answers.partition_responses:
            response.responses.append(answers)
    left -= 1
    if not left:
        reply(response, failed)


def refusal(request: ProduceRequest, error: KafkaError) -> ProduceResponse:
    """The same error for every partition."""
    return ProduceResponse(
        responses=[
            ProduceResponse.TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    _Partition(index=data.index, error_code=error.code, base_offset=-1, error_message=error.message)
                    for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _ignore(_error: ErrorCode) -> None:
    """Nobody waits."""


def _partition(topics: Topics, name: str | None, index: int) -> Partition:
    if name is None:
        raise _Refused(ErrorCode.UNKNOWN_TOPIC_ID)
    if name in names.INTERNAL:
        raise _Refused(ErrorCode.INVALID_TOPIC_EXCEPTION)
    partition = topics.user_partition(name, index)
    if partition is None:
        raise _Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return partition


def _read(records: bytes | None, api_version: int, transactional_id: str | None) -> _Batch:
    """The one batch of a partition. What follows it and is no whole batch is a cut tail, and ignored (as in Kafka)."""
    if records is None or len(records) <= _MAGIC_AT:
        raise _Refused(ErrorCode.INVALID_RECORD)
    size = _LENGTH(records, 8)[0] + PREFIX_BYTES
    magic = records[_MAGIC_AT]
    if magic > MAGIC:
        raise _Refused(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {magic}")
    if magic < MAGIC or not HEADER_BYTES <= size <= len(records):
        raise _Refused(ErrorCode.INVALID_RECORD)
    if size < len(records):
        if len(records) - size >= PREFIX_BYTES and _LENGTH(records, size + 8)[0] + PREFIX_BYTES <= len(records) - size:
            raise _Refused(ErrorCode.INVALID_RECORD)
        records = records[:size]
    header = BatchHeader._make(HEADER.unpack_from(records))
    if header.compression == _ZSTD and api_version < _ZSTD_SINCE:
        raise _Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    if header.attributes & TRANSACTIONAL:
        # There are no transactions here, so no producer can have begun one.
        raise _Refused(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            if transactional_id is None
            else ErrorCode.INVALID_PRODUCER_ID_MAPPING
        )
    return _Batch(records, header)


def _append_later(
    partition: Partition, batch: _Batch, answer: _Partition, now_ms: int, done: Callable[[ErrorCode], None]
) -> None:
    """Appends when the partition knows its producers: an idempotent one must not be taken at its word before."""

    def append() -> None:
        try:
            _append(partition, batch, answer, now_ms, done)
        except _Refused as refusal:
            refusal.tell(answer)
            done(refusal.code)

    partition.know_producers(now_ms, append)


def _append(
    partition: Partition, batch: _Batch, answer: _Partition, now_ms: int, done: Callable[[ErrorCode], None]
) -> None:
    data, header = batch
    settings = partition.settings
    if partition.state is not State.ACTIVE:
        gone = partition.state is State.REMOVED
        raise _Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if gone else ErrorCode.KAFKA_STORAGE_ERROR)
    if header.base_offset == 0:
        if len(data) > settings.max_message_bytes:
            raise _Refused(ErrorCode.MESSAGE_TOO_LARGE)
        if crc32c(data[CHECKSUM_FROM:]) != header.crc:
            raise _Refused(ErrorCode.CORRUPT_MESSAGE)
    answer.log_start_offset = partition.start_offset
    _check_header(batch)
    if settings.compacts:
        _check_keys(partition, batch)
    if settings.log_append_time:
        data = with_log_append_time(data, now_ms)
        header = BatchHeader._make(HEADER.unpack_from(data))
    else:
        _check_timestamps(partition, batch, now_ms)
        if header.attributes & LOG_APPEND_TIME:
            data = _without_log_append_time(data)
    if header.producer_id >= 0:
        try:
            earlier = partition.producers.check(
                header.producer_id, header.producer_epoch, header.base_sequence, header.record_count
            )
        except KafkaError as error:
            raise _Refused(error.code) from error
        if earlier is not None:
            answer.base_offset, answer.log_append_time_ms = earlier.base_offset, earlier.timestamp_ms
            partition.when_durable(earlier.base_offset + header.record_count, done)
            return
    base_offset = partition.next_offset
    answer.base_offset = base_offset
    if settings.log_append_time:
        answer.log_append_time_ms = now_ms
    partition.append(restamp(data, base_offset, LEADER_EPOCH), header, now_ms, done)


def _check_header(batch: _Batch) -> None:
    data, header = batch
    if (
        header.base_offset != 0
        or header.attributes & CONTROL
        or header.record_count <= 0
        or header.last_offset_delta != header.record_count - 1
        or (header.producer_id >= 0 and header.base_sequence < 0)
        or header.compression > _COMPRESSION_MAX
        or (not header.compression and header.record_count * _RECORD_BYTES_MIN > len(data) - HEADER_BYTES)
    ):
        raise _Refused(ErrorCode.INVALID_RECORD)


def _check_keys(partition: Partition, batch: _Batch) -> None:
    """Compaction keeps the last of each key, so a record without one can neither stay nor go."""
    try:
        records = key_values(batch.data, 0, batch.header)
    except UnsupportedCompression:
        return
    except CorruptBatch as error:
        raise _Refused(ErrorCode.INVALID_RECORD) from error
    text = f"Compacted topic cannot accept message without key in topic partition {partition.name}"
    wrong = [index for index, (_, key, _) in enumerate(records) if key is None]
    if wrong:
        told = ", ".join(f"RecordError(batchIndex={index}, message='{text}')" for index in wrong[:_RECORD_ERRORS_TOLD])
        raise _Refused(
            ErrorCode.INVALID_RECORD,
            f"One or more records have been rejected due to {len(wrong)} record errors in total, "
            f"and only showing the first three errors at most: [{told}]",
            records=tuple(_RecordError(batch_index=index, batch_index_error_message=text) for index in wrong),
        )


def _check_timestamps(partition: Partition, batch: _Batch, now_ms: int) -> None:
    data, header = batch
    settings = partition.settings
    earliest, latest = now_ms - settings.timestamp_before_max_ms, now_ms + settings.timestamp_after_max_ms

    def wrong(timestamp: int) -> bool:
        return timestamp != _NO_TIMESTAMP and not earliest <= timestamp <= latest

    if not wrong(header.base_timestamp) and not wrong(header.max_timestamp):
        return
    try:
        timestamps = [record.timestamp for record in decode_records(data, 0, header)]
    except (CorruptBatch, UnsupportedCompression):
        timestamps = [header.base_timestamp if wrong(header.base_timestamp) else header.max_timestamp]
    told = [
        _RecordError(
            batch_index=index,
            batch_index_error_message=f"Timestamp {timestamp} of message with offset {index} is out of range. "
            f"The timestamp should be within [{earliest}, {latest}]",
        )
        for index, timestamp in enumerate(timestamps)
        if wrong(timestamp)
    ]
    if told:
        raise _Refused(
            ErrorCode.INVALID_TIMESTAMP,
            "One or more records have been rejected due to invalid timestamp",
            records=tuple(told),
        )


def _without_log_append_time(data: bytes) -> bytes:
    """A batch whose producer claims what only the server may say: the mark is taken out and the batch sealed anew."""
    body = bytearray(data[CHECKSUM_FROM:])
    body[1] &= ~LOG_APPEND_TIME & 0xFF
    return b"".join((data[:17], crc32c(bytes(body)).to_bytes(4), body))
