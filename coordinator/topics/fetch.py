"""Fetch: batches as they lie in the log, now or when there are enough of them.

An answer is built in the order of the request: each partition may fill what the ones before it left of MaxBytes, and
the first batch found is given even if it is larger than every limit, or its reader would never get past it. Partitions that
do not exist come last, as in Kafka. Only whole batches are given.

If less than MinBytes is there the request waits, and is asked again when enough bytes arrived in its partitions or
MaxWaitMs is over. It counts what arrives instead of reading again at each append, which would be quadratic. An error in
any partition ends the wait, for its client has to act on it.

Fetch sessions (KIP-227) are declined: every full request is answered with session id 0, which tells the client to send
full requests. A request that claims to continue a session is told that there is none.
"""

from collections.abc import Callable
from typing import NamedTuple

from coordinator.log.log import OffsetOutOfRange
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import FetchRequest, FetchResponse
from coordinator.runtime.timers import Handle
from coordinator.topics.engine import LEADER_EPOCH, InternalPartition, Topics
from coordinator.topics.partition import Partition, State

_IDS_SINCE = 13
_READ_COMMITTED = 1
_STORAGE_ERROR_IS_KNOWN_SINCE = 6

_Data = FetchResponse.PartitionData
_Topic = FetchResponse.FetchableTopicResponse


class _Asked(NamedTuple):
    """One partition of the request that exists."""

    topic: str
    topic_id: bytes
    partition: Partition | InternalPartition
    asked: FetchRequest.FetchPartition


class _Unknown(NamedTuple):
    """One partition of the request that does not exist."""

    topic: str
    topic_id: bytes
    partition: int
    error: ErrorCode


class Fetch:
    """One Fetch request until it is answered."""

    __slots__ = (
        "_asked", "_bytes_left_max", "_bytes_min", "_bytes_short", "_done", "_reply", "_request", "_timer", "_unknown",
        "_version",
    )  # fmt: skip

    def __init__(
        self, topics: Topics, request: FetchRequest, api_version: int, reply: Callable[[FetchResponse], None]
    ) -> None:
        """Replies now or later, once. Raises KafkaError for an error of the whole request."""
        if request.session_epoch > 0:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        self._request = request
        self._version = api_version
        self._reply = reply
        self._timer: Handle | None = None
        self._done = False
        self._asked: list[_Asked] = []
        self._unknown: list[_Unknown] = []
        self._resolve(topics)
        self._bytes_left_max = max(0, min(request.max_bytes, topics.config.fetch_max_bytes))
        self._bytes_min = min(request.min_bytes, self._bytes_left_max)
        self._bytes_short = 0
        response, bytes_read, final = self._read()
        if final or request.max_wait_ms <= 0 or not self._asked or bytes_read >= self._bytes_min:
            self._done = True
            reply(response)
            return
        self._bytes_short = self._bytes_min - bytes_read
        for entry in self._asked:
            entry.partition.readers[self] = None
        self._timer = topics.schedule(request.max_wait_ms, self._answer)

    def arrived(self, bytes_count: int) -> None:
        """A partition it waits for got more bytes, or went away (0)."""
        self._bytes_short -= bytes_count
        if self._bytes_short <= 0 or not bytes_count:
            self._answer()

    def cancel(self) -> None:
        """Nobody waits for the answer any more."""
        self._done = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for entry in self._asked:
            entry.partition.readers.pop(self, None)

    def _answer(self) -> None:
        if not self._done:
            self.cancel()
            self._reply(self._read()[0])

    def _resolve(self, topics: Topics) -> None:
        by_id = self._version >= _IDS_SINCE
        found: dict[tuple[str | bytes, int], _Asked | _Unknown] = {}
        for topic in self._request.topics:
            name = topics.topic_name(topic.topic_id) if by_id else topic.topic
            for asked in topic.partitions:
                key = (topic.topic_id if by_id else topic.topic, asked.partition)
                partition = topics.partition(name, asked.partition) if name is not None else None
                if partition is not None and name is not None:
                    found[key] = _Asked(name, topic.topic_id, partition, asked)
                else:
                    error = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    found[key] = _Unknown(name or "", topic.topic_id, asked.partition, error)
        for entry in found.values():
            if isinstance(entry, _Asked):
                self._asked.append(entry)
            else:
                self._unknown.append(entry)

    def _read(self) -> tuple[FetchResponse, int, bool]:
        """The answer as it is now, how many bytes it holds, and whether waiting would not help."""
        response = FetchResponse()
        topics = response.responses
        left, bytes_read, final = self._bytes_left_max, 0, False
        for entry in self._asked:
            data = self._read_partition(entry, left, at_least_one=not bytes_read)
            assert data.records is not None
            bytes_read += len(data.records)
            left = max(0, left - len(data.records))
            final = final or bool(data.error_code) or data.diverging_epoch.epoch >= 0
            _add(topics, entry.topic, entry.topic_id, data)
        for unknown in self._unknown:
            data = _error(unknown.partition, unknown.error)
            data.aborted_transactions = []
            _add(topics, unknown.topic, unknown.topic_id, data)
        return response, bytes_read, final

    def _read_partition(self, entry: _Asked, bytes_left: int, *, at_least_one: bool) -> _Data:
        partition, asked = entry.partition, entry.asked
        index, offset = partition.index, asked.fetch_offset
        if partition.state is State.REMOVED:
            by_id = self._version >= _IDS_SINCE
            return _error(index, ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if self._request.replica_id >= 0 or self._request.replica_state.replica_id >= 0:
            return _error(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if asked.current_leader_epoch > LEADER_EPOCH:
            return _error(index, ErrorCode.UNKNOWN_LEADER_EPOCH)
        start_offset, high_watermark = partition.start_offset, partition.high_watermark
        data = _Data(
            partition_index=index,
            high_watermark=high_watermark,
            last_stable_offset=high_watermark,
            log_start_offset=start_offset,
            aborted_transactions=[] if self._request.isolation_level == _READ_COMMITTED else None,
            preferred_read_replica=-1,
            records=b"",
        )
        if asked.last_fetched_epoch == LEADER_EPOCH and offset > high_watermark:
            # The client read beyond what survived (KIP-320): it is told where its history ends.
            data.diverging_epoch = FetchResponse.EpochEndOffset(epoch=LEADER_EPOCH, end_offset=high_watermark)
            return data
        if not start_offset <= offset <= high_watermark or (
            # A groups' log that a Kafka cluster wrote has batches of later epochs than ours.
            asked.last_fetched_epoch > LEADER_EPOCH and isinstance(partition, Partition)
        ):
            return _error(index, ErrorCode.OFFSET_OUT_OF_RANGE)
        log = partition.log
        if offset == high_watermark or log is None or not (bytes_left or at_least_one):
            return data
        limit = max(0, min(asked.partition_max_bytes, bytes_left))
        try:
            data.records = log.read(offset, limit, offset_end=high_watermark, at_least_one=at_least_one)
        except OffsetOutOfRange:
            return _error(index, ErrorCode.OFFSET_OUT_OF_RANGE)
        except (OSError, ValueError):
            known = self._version >= _STORAGE_ERROR_IS_KNOWN_SINCE
            return _error(index, ErrorCode.KAFKA_STORAGE_ERROR if known else ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return data


def _error(index: int, error: ErrorCode) -> _Data:
    return _Data(
        partition_index=index,
        error_code=error,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        aborted_transactions=None,
        preferred_read_replica=-1,
        records=b"",
    )


def _add(topics: list[_Topic], name: str, topic_id: bytes, data: _Data) -> None:
    """Appends to the last topic if it is the same one."""
    if not topics or topics[-1].topic != name or topics[-1].topic_id != topic_id:
        topics.append(_Topic(topic=name, topic_id=topic_id))
    topics[-1].partitions.append(data)
