"""Validates a producer's batch: its header and checksum, and that its records can be read (Kafka: `LogValidator`).

A batch that no consumer can read stops all of them at its offset, so each record's encoding is checked (log/record_check.py).
That may take long, so it is a function of its own, `check_records`, which may run in a thread (record_walks.py). Kafka answers
a codec that fails, and compressed records whose offsets are not consecutive, with UNKNOWN_SERVER_ERROR, and so do we.

A compressed batch with more than 100,000 records or 64 MiB is refused with MESSAGE_TOO_LARGE, which Kafka does not do:
producers split it and try again.
"""

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
    BadlyCompressed,
    BatchHeader,
    CorruptBatch,
    OversizeBatch,
    content_key_values,
    decode_records,
    record_bytes,
)
from coordinator.log.record_check import Disordered, check_encoding
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import ProduceResponse
from coordinator.topics.topic_settings import TopicSettings

_MAGIC_AT = 16
_ATTRIBUTES_AT = 21
_ZSTD, _ZSTD_SINCE = 4, 7
_COMPRESSION_MAX = 4
_RECORD_BYTES_MIN = 7
_RECORD_ERRORS_REPORTED = 3
_NO_TIMESTAMP = -1
_LENGTH = Struct(">i").unpack_from
_LENGTH_AND_MAGIC = Struct(">i4xb").unpack_from
_LENGTH_MIN = 14
"""The length of an empty message in the oldest format, which Kafka checks first."""

RecordError = ProduceResponse.BatchIndexAndErrorMessage


class Refused(Exception):
    """A batch is refused, with the error to answer."""

    def __init__(self, code: ErrorCode, message: str | None = None, *, records: tuple[RecordError, ...] = ()) -> None:
        super().__init__(code.name)
        self.code = code
        self.message = message
        self.records = records

    def describe(self, response: ProduceResponse.PartitionProduceResponse) -> None:
        """Sets the message and the record errors in the response of the partition, but not the code."""
        response.record_errors = list(self.records)
        response.error_message = self.message


class Batch(NamedTuple):
    """A batch that is well-formed as far as its length, magic and compression show."""

    data: bytes
    header: BatchHeader

    @property
    def needs_verification(self) -> bool:
        """Whether the batch belongs to a transaction, whose coordinator has to be asked."""
        return self.header.is_transactional and self.header.producer_id >= 0


def is_transactional(records: bytes | None) -> bool:
    """Whether the raw records of a partition begin with a transactional batch."""
    return (
        records is not None
        and len(records) > _ATTRIBUTES_AT + 1
        and bool(records[_ATTRIBUTES_AT + 1] & TRANSACTIONAL)
        and records[_MAGIC_AT] == MAGIC
    )


def read_batch(records: bytes | None, api_version: int) -> Batch:
    """Reads the one batch of a partition (Kafka's ProduceRequest.validateRecords and UnifiedLog.analyzeAndValidateRecords).

    Bytes after it that are not a whole batch are a torn tail and ignored, as in Kafka. Raises Refused:

        INVALID_RECORD                 no batch, more than one batch, or an old message format
        CORRUPT_MESSAGE                an impossible length or magic
        UNSUPPORTED_COMPRESSION_TYPE   zstd before version 7
    """
    if records is None or len(records) <= _MAGIC_AT:
        raise Refused(ErrorCode.INVALID_RECORD)
    length, magic = _LENGTH_AND_MAGIC(records, 8)
    if length < _LENGTH_MIN:
        message = f"Record size {length} is less than the minimum record overhead ({_LENGTH_MIN})"
        raise Refused(ErrorCode.CORRUPT_MESSAGE, message)
    if not 0 <= magic <= MAGIC:
        raise Refused(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {magic}")
    size = length + PREFIX_BYTES
    if magic < MAGIC or size > len(records):
        raise Refused(ErrorCode.INVALID_RECORD)
    if size < HEADER_BYTES:
        raise Refused(ErrorCode.CORRUPT_MESSAGE)
    if size < len(records):
        if len(records) - size >= PREFIX_BYTES and _LENGTH(records, size + 8)[0] + PREFIX_BYTES <= len(records) - size:
            raise Refused(ErrorCode.INVALID_RECORD)
        records = records[:size]
    header = BatchHeader._make(HEADER.unpack_from(records))
    if header.compression == _ZSTD and api_version < _ZSTD_SINCE:
        raise Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    return Batch(records, header)


def check_size_and_checksum(batch: Batch, settings: TopicSettings) -> None:
    """Raises Refused with MESSAGE_TOO_LARGE or CORRUPT_MESSAGE."""
    data, header = batch
    if header.base_offset == 0:
        if len(data) > settings.max_message_bytes:
            raise Refused(ErrorCode.MESSAGE_TOO_LARGE)
        if crc32c(data[CHECKSUM_FROM:]) != header.crc:
            raise Refused(ErrorCode.CORRUPT_MESSAGE)


def check_header(batch: Batch) -> None:
    """Raises Refused with INVALID_RECORD if the fields of the header contradict each other.

    Raises Refused with UNKNOWN_SERVER_ERROR for a codec that Kafka does not have.
    """
    data, header = batch
    if (
        header.base_offset != 0
        or header.attributes & CONTROL
        or header.record_count <= 0
        or header.last_offset_delta != header.record_count - 1
        or (header.producer_id >= 0 and header.base_sequence < 0)
        or (not header.compression and header.record_count * _RECORD_BYTES_MIN > len(data) - HEADER_BYTES)
    ):
        raise Refused(ErrorCode.INVALID_RECORD)
    if header.compression > _COMPRESSION_MAX:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR)


def check_records(batch: Batch, partition_name: str, settings: TopicSettings, now_ms: int) -> None:
    """Raises Refused if a record cannot be read or accepted. May run in any thread.

    INVALID_RECORD         a record is malformed, or has no key in a compacted topic
    INVALID_TIMESTAMP
    MESSAGE_TOO_LARGE      there is too much in a compressed batch to look at
    UNKNOWN_SERVER_ERROR   the codec fails, or offsets of compressed records are not consecutive
    """
    data, header = batch
    try:
        content = record_bytes(data, 0, header)
        extremes = check_encoding(content, header.record_count, ordered=bool(header.compression))
    except OversizeBatch as error:
        raise Refused(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from error
    except (BadlyCompressed, Disordered) as error:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR) from error
    except CorruptBatch as error:
        raise Refused(ErrorCode.INVALID_RECORD) from error
    if settings.compacts:
        _check_keys(content, header, partition_name)
    if not settings.log_append_time and not _has_good_timestamps(header, extremes, settings, now_ms):
        _check_timestamps(batch, settings, now_ms)


def _check_keys(content: bytes, header: BatchHeader, partition_name: str) -> None:
    """Raises Refused with INVALID_RECORD if a record of a compacted topic has no key.

    Compaction keeps the last record of each key, so a record without one could be neither kept nor removed.
    """
    records = content_key_values(content, header)
    text = f"Compacted topic cannot accept message without key in topic partition {partition_name}"
    wrong = [index for index, (_, key, _) in enumerate(records) if key is None]
    if wrong:
        reported = ", ".join(
            f"RecordError(batchIndex={index}, message='{text}')" for index in wrong[:_RECORD_ERRORS_REPORTED]
        )
        raise Refused(
            ErrorCode.INVALID_RECORD,
            f"One or more records have been rejected due to {len(wrong)} record errors in total, "
            f"and only showing the first three errors at most: [{reported}]",
            records=tuple(RecordError(batch_index=index, batch_index_error_message=text) for index in wrong),
        )


def _has_good_timestamps(header: BatchHeader, deltas: tuple[int, int], settings: TopicSettings, now_ms: int) -> bool:
    """Whether no record can be too far in the past or the future. `deltas`: see `check_encoding`."""
    earliest, latest = now_ms - settings.timestamp_before_max_ms, now_ms + settings.timestamp_after_max_ms
    base = header.base_timestamp
    timestamps = base, header.max_timestamp, base + deltas[0], base + deltas[1]
    return all(timestamp == _NO_TIMESTAMP or earliest <= timestamp <= latest for timestamp in timestamps)


def _check_timestamps(batch: Batch, settings: TopicSettings, now_ms: int) -> None:
    """Raises Refused with INVALID_TIMESTAMP if a record is too far in the past or the future."""
    data, header = batch
    earliest, latest = now_ms - settings.timestamp_before_max_ms, now_ms + settings.timestamp_after_max_ms

    def is_wrong(timestamp: int) -> bool:
        return timestamp != _NO_TIMESTAMP and not earliest <= timestamp <= latest

    timestamps = [record.timestamp for record in decode_records(data, 0, header)]
    errors = tuple(
        RecordError(
            batch_index=index,
            batch_index_error_message=f"Timestamp {timestamp} of message with offset {index} is out of range. "
            f"The timestamp should be within [{earliest}, {latest}]",
        )
        for index, timestamp in enumerate(timestamps)
        if is_wrong(timestamp)
    )
    if errors:
        message = "One or more records have been rejected due to invalid timestamp"
        raise Refused(ErrorCode.INVALID_TIMESTAMP, message, records=errors)


def without_log_append_time(data: bytes) -> bytes:
    """The batch without the LogAppendTime attribute, which only a server may set, and with a new checksum."""
    body = bytearray(data[CHECKSUM_FROM:])
    body[1] &= ~LOG_APPEND_TIME & 0xFF
    return b"".join((data[:17], crc32c(bytes(body)).to_bytes(4), body))
