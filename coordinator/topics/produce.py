"""Produce: a batch per partition, checked without looking into its records, given its offset and written as it came.

What is checked is what the header says, and the checksum over everything: a producer's batch is a sealed letter. The
records inside are not decoded (nor decompressed), so a producer that seals nonsense is told so by its consumers and not
by this server; Kafka looks inside. Only a compacted topic has its records' keys looked at. Likewise `compression.type` of
a topic is told but batches are never recompressed on their way in.

Two fields outside the checksum are set: base offset and leader epoch. Where the topic's clock is the server's
(LogAppendTime) the timestamp is set and the batch sealed anew.

A batch of a transaction is taken when the transaction's coordinator says that the partition is part of it (KIP-890), or adds
it: from version 12 on, whose clients do not announce their partitions (transaction.version 2).

The order of the checks decides which error a producer sees, and whether the answer tells the log's start offset: not
before the request itself has been found in order. Both are Kafka's.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from struct import Struct
from typing import NamedTuple, Protocol

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
from coordinator.runtime.result import Producer
from coordinator.topics import names
from coordinator.topics.engine import LEADER_EPOCH, Topics
from coordinator.topics.partition import Partition, State
from coordinator.topics.producer_state import Verification

_MAGIC_AT = 16
_ATTRIBUTES_AT = 21
_ADDS_PARTITIONS_SINCE = 12
_ABORTABLE_IS_KNOWN_SINCE = 11
_COORDINATOR_AWAY = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
_ZSTD, _ZSTD_SINCE = 4, 7
_COMPRESSION_MAX = 4
_RECORD_BYTES_MIN = 7
_RECORD_ERRORS_TOLD = 3
_IDS_SINCE = 13
_NO_TIMESTAMP = -1
_LENGTH = Struct(">i").unpack_from
_LENGTH_AND_MAGIC = Struct(">i4xb").unpack_from
_LENGTH_MIN = 14
"""Of a message of the oldest format, which Kafka has looked for first."""

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

    @property
    def is_verified(self) -> bool:
        """Whether the coordinator of a transaction has to be asked."""
        return self.header.is_transactional and self.header.producer_id >= 0


class _Entry(NamedTuple):
    """What the request wants in one partition, and where the answer goes."""

    topic: str
    partition: Partition
    batch: _Batch
    answer: _Partition
    done: Callable[[ErrorCode], None]

    @property
    def producer(self) -> Producer:
        return Producer(self.batch.header.producer_id, self.batch.header.producer_epoch)

    def refuse(self, refusal: _Refused) -> None:
        refusal.tell(self.answer)
        self.done(refusal.code)


class Verify(Protocol):
    """Asks a transaction's coordinator whether partitions are part of it (transactions/verification.py)."""

    def __call__(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Mapping[str, Sequence[int]],
        adds: bool,
        done: Callable[[dict[tuple[str, int], ErrorCode]], None],
        *,
        abortable: bool,
    ) -> None:
        """`done` gets the partitions that are refused, maybe before this returns."""


def produce(
    topics: Topics,
    request: ProduceRequest,
    api_version: int,
    verify: Verify,
    reply: Callable[[ProduceResponse, bool], None],
) -> bool:
    """Appends, and replies when all of it is durable: `reply(response, any_error)`. With acks=0 it does not wait for that.

    Returns whether batches of a transaction are still to be appended: what comes behind on the connection must not overtake
    them. Raises KafkaError for an error of the whole request.
    """
    if request.acks not in {-1, 0, 1}:
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
    if request.transactional_id is None and _has_transactional_batches(request):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
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

    plain: list[_Entry] = []
    transactional: list[_Entry] = []
    wanted: dict[tuple[str, bytes], dict[int, bytes | None]] = {}
    for topic in request.topic_data:
        # Of a partition named twice the last entry counts.
        named = wanted.setdefault((topic.name, topic.topic_id), {})
        named.update({data.index: data.records for data in topic.partition_data})
    for (topic_name, topic_id), partitions in wanted.items():
        answers = ProduceResponse.TopicProduceResponse(name=topic_name, topic_id=topic_id)
        name = topic_name if api_version < _IDS_SINCE else topics.topic_name(topic_id)
        for index, records in partitions.items():
            answer = _Partition(index=index, base_offset=-1)
            answers.partition_responses.append(answer)
            left += 1
            done = partial(finished, answer)
            try:
                partition = _partition(topics, name, index)
                batch = _read(records, api_version)
            except _Refused as refusal:
                refusal.tell(answer)
                done(refusal.code)
            else:
                entry = _Entry(name or "", partition, batch, answer, done)
                (transactional if batch.is_verified else plain).append(entry)
        if answers.partition_responses:
            response.responses.append(answers)
    now_ms = topics.clock.wall_ms()
    if transactional and len({entry.producer for entry in transactional}) > 1:
        message = "The batches of one request are in the transactions of several producers"
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, message)
    acked = request.acks != 0
    for entry in plain:
        partition = entry.partition
        if partition.producers_known:
            _append(entry, now_ms, None, acked=acked)
            continue
        append = partial(_append, entry, now_ms, None, acked=acked)
        if entry.batch.header.producer_id >= 0:
            # An idempotent producer must not be taken at its word before.
            partition.know_producers(now_ms, append)
        else:
            partition.know_producers(now_ms, _nothing)
            append()
    waits = False
    if transactional:
        transactional_id = request.transactional_id or ""
        batches = _Transactional(transactional_id, transactional, api_version, verify, now_ms, acked=acked)
        batches.know()
        waits = not batches.taken
    left -= 1
    if not left:
        reply(response, failed)
    return waits


class _Transactional:
    """The batches of one request that belong to a transaction: they are appended when its coordinator says that they do.

    A partition in which the transaction is open already needs no asking, but waits for the answer about the others, as in
    Kafka.
    """

    def __init__(
        self,
        transactional_id: str,
        entries: Sequence[_Entry],
        api_version: int,
        verify: Verify,
        now_ms: int,
        *,
        acked: bool,
    ) -> None:
        self._transactional_id = transactional_id
        self._entries = entries
        self._verify = verify
        self._adds = api_version >= _ADDS_PARTITIONS_SINCE
        self._knows_abortable = api_version >= _ABORTABLE_IS_KNOWN_SINCE
        self._now_ms = now_ms
        self._acked = acked
        self._unknown = len(entries)
        self.taken = False
        """Whether each batch was appended or refused."""

    def know(self) -> None:
        """Begins as soon as it is known what the producer did in each of the partitions."""
        for entry in self._entries:
            entry.partition.know_producers(self._now_ms, self._known)

    def _known(self) -> None:
        self._unknown -= 1
        if not self._unknown:
            self._ask()

    def _ask(self) -> None:
        verifications: dict[tuple[str, int], Verification] = {}
        refused: dict[tuple[str, int], ErrorCode] = {}
        wanted: dict[str, list[int]] = {}
        for entry in self._entries:
            place = entry.topic, entry.partition.index
            header = entry.batch.header
            try:
                verification = entry.partition.producers.verify(
                    header.producer_id, header.producer_epoch, header.base_sequence, self._now_ms, adds=self._adds
                )
            except KafkaError as error:
                refused[place] = error.code
                continue
            if verification is not None:
                verifications[place] = verification
                wanted.setdefault(entry.topic, []).append(entry.partition.index)

        def answered(found: dict[tuple[str, int], ErrorCode]) -> None:
            self.taken = True
            for entry in self._entries:
                place = entry.topic, entry.partition.index
                error = found.get(place, refused.get(place))
                if error is None:
                    _append(entry, self._now_ms, verifications.get(place), acked=self._acked)
                else:
                    entry.refuse(self._translated(error))

        if wanted:
            self._verify(
                self._transactional_id,
                self._entries[0].producer,
                wanted,
                self._adds,
                answered,
                abortable=self._knows_abortable,
            )
        else:
            answered({})

    def _translated(self, error: ErrorCode) -> _Refused:
        """Errors of a coordinator that a producer does not expect from a partition: it shall try again."""
        if error in _COORDINATOR_AWAY or (error is ErrorCode.CONCURRENT_TRANSACTIONS and not self._adds):
            return _Refused(ErrorCode.NOT_ENOUGH_REPLICAS, f"The transaction could not be verified: {error.name}")
        if error is ErrorCode.INVALID_TXN_STATE:
            return _Refused(error, "The partition is not part of the transaction")
        return _Refused(error)


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


def _nothing() -> None:
    """Nobody waits."""


def _has_transactional_batches(request: ProduceRequest) -> bool:
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if (
                records is not None
                and len(records) > _ATTRIBUTES_AT + 1
                and records[_ATTRIBUTES_AT + 1] & TRANSACTIONAL
                and records[_MAGIC_AT] == MAGIC
            ):
                return True
    return False


def _partition(topics: Topics, name: str | None, index: int) -> Partition:
    if name is None:
        raise _Refused(ErrorCode.UNKNOWN_TOPIC_ID)
    if name in names.INTERNAL:
        raise _Refused(ErrorCode.INVALID_TOPIC_EXCEPTION)
    partition = topics.user_partition(name, index)
    if partition is None:
        raise _Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return partition


def _read(records: bytes | None, api_version: int) -> _Batch:
    """The one batch of a partition. What follows it and is no whole batch is a cut tail, and ignored (as in Kafka)."""
    if records is None or len(records) <= _MAGIC_AT:
        raise _Refused(ErrorCode.INVALID_RECORD)
    length, magic = _LENGTH_AND_MAGIC(records, 8)
    if length < _LENGTH_MIN:
        message = f"Record size {length} is less than the minimum record overhead ({_LENGTH_MIN})"
        raise _Refused(ErrorCode.CORRUPT_MESSAGE, message)
    if not 0 <= magic <= MAGIC:
        raise _Refused(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {magic}")
    size = length + PREFIX_BYTES
    if magic < MAGIC or size > len(records):
        raise _Refused(ErrorCode.INVALID_RECORD)
    if size < HEADER_BYTES:
        raise _Refused(ErrorCode.CORRUPT_MESSAGE)
    if size < len(records):
        if len(records) - size >= PREFIX_BYTES and _LENGTH(records, size + 8)[0] + PREFIX_BYTES <= len(records) - size:
            raise _Refused(ErrorCode.INVALID_RECORD)
        records = records[:size]
    header = BatchHeader._make(HEADER.unpack_from(records))
    if header.compression == _ZSTD and api_version < _ZSTD_SINCE:
        raise _Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    return _Batch(records, header)


def _append(entry: _Entry, now_ms: int, verification: Verification | None, *, acked: bool) -> None:
    """Without acks the producer hears only whether its batch was taken."""
    taken: list[ErrorCode] = []
    try:
        _try_append(entry, now_ms, verification, entry.done if acked else taken.append)
    except _Refused as refusal:
        entry.refuse(refusal)
    else:
        if not acked:
            entry.done(ErrorCode.NONE)


def _try_append(
    entry: _Entry, now_ms: int, verification: Verification | None, done: Callable[[ErrorCode], None]
) -> None:
    _, partition, batch, answer, _ = entry
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
        if not partition.producers_known:
            # The log has lost its end on a full disk while the coordinator was asked.
            raise _Refused(ErrorCode.KAFKA_STORAGE_ERROR)
        try:
            earlier = partition.producers.check(
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                header.record_count,
                transactional=header.is_transactional,
                verification=verification,
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
    if earliest <= header.base_timestamp <= latest and earliest <= header.max_timestamp <= latest:
        return

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
