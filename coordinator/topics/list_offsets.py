"""ListOffsets: the offset at a timestamp, or at one of the special places with a negative number (ReplicaManager.fetchOffset).

The special places came with later versions; an older version that asks for one gets UNSUPPORTED_VERSION for that partition.
There is no tiered storage, so everything is "local", and the places in tiered storage have no offset (-1). Only durable records
count, and for readers of committed records only stable ones: a record that a reader cannot fetch has no offset yet.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from coordinator.log.log import DamagedLog
from coordinator.log.record import LogRecord
from coordinator.log.timestamps import BatchToDecode, Search, TimestampOffset, search_latest_timestamp, search_timestamp
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ListOffsetsRequest, ListOffsetsResponse
from coordinator.topics.partition import Partition
from coordinator.topics.record_walks import is_long_walk
from coordinator.topics.topics import InternalPartition, Topics

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
_SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1
_EPOCH_SINCE = 4
_PIECE_PARTITIONS = 50
"""Partitions that are looked up in about a millisecond."""

_Response = ListOffsetsResponse.ListOffsetsPartitionResponse


def list_offsets(
    topics: Topics,
    request: ListOffsetsRequest,
    api_version: int,
    reply: Callable[[ListOffsetsResponse], None],
    run: Callable[[Iterator[None]], None],
    is_over: Callable[[], bool],
) -> None:
    """Calls `reply`, when the producers are loaded: only then the last stable offset is known.

    `run` does the work in pieces. Large batches in which a timestamp is searched are decoded outside the loop, as long as
    `is_over` says that somebody waits for the response.

    The response has the errors of single partitions: UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST (a partition named twice),
    UNKNOWN_LEADER_EPOCH, FENCED_LEADER_EPOCH, UNSUPPORTED_VERSION, KAFKA_STORAGE_ERROR. Raises UNKNOWN_SERVER_ERROR for an
    unknown isolation level.
    """
    if request.isolation_level not in {_READ_UNCOMMITTED, _READ_COMMITTED}:
        # As in Kafka, which has no error code for this.
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    places = _Places(topics, request, api_version, reply, is_over)
    if request.isolation_level != _READ_COMMITTED:
        run(places.look_up())
        return
    asked = [(topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions]
    topics.load_producers(asked, lambda: run(places.look_up()))


class _Unfinished(NamedTuple):
    """A search that needs the records of a large batch."""

    search: Search
    batch: BatchToDecode
    response: _Response
    partition: Partition | InternalPartition


class _Places:
    """The offsets that one request asks for."""

    def __init__(
        self,
        topics: Topics,
        request: ListOffsetsRequest,
        api_version: int,
        reply: Callable[[ListOffsetsResponse], None],
        is_over: Callable[[], bool],
    ) -> None:
        self._topics = topics
        self._request = request
        self._version = api_version
        self._reply = reply
        self._is_over = is_over
        self._committed = request.isolation_level == _READ_COMMITTED
        self._response = ListOffsetsResponse()
        self._unfinished: list[_Unfinished] = []

    def look_up(self) -> Iterator[None]:
        """Looks up everything that is quick, and yields in between; then begins with the rest, or replies."""
        by_name: dict[str, dict[int, list[ListOffsetsRequest.ListOffsetsPartition]]] = {}
        for topic in self._request.topics:
            for partition in topic.partitions:
                by_name.setdefault(topic.name, {}).setdefault(partition.partition_index, []).append(partition)
        left = _PIECE_PARTITIONS
        for name, partitions in by_name.items():
            responses: list[_Response] = []
            self._response.topics.append(ListOffsetsResponse.ListOffsetsTopicResponse(name=name, partitions=responses))
            for index, asked in partitions.items():
                response = _Response(partition_index=index)
                responses.append(response)
                if len(asked) > 1:
                    response.error_code = ErrorCode.INVALID_REQUEST
                else:
                    self._look_up(name, asked[0], response)
                left -= 1
                if not left:
                    left = _PIECE_PARTITIONS
                    yield
        self._decode_next()

    def _look_up(self, name: str, asked: ListOffsetsRequest.ListOffsetsPartition, response: _Response) -> None:
        timestamp = asked.timestamp
        if timestamp < 0 and self._version < _SINCE.get(timestamp, self._version + 1):
            response.error_code = ErrorCode.UNSUPPORTED_VERSION
            return
        partition = self._topics.partition(name, asked.partition_index)
        if partition is None:
            response.error_code = self._topics.why_absent(name, asked.partition_index)
            return
        if partition.is_offline:
            response.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            return
        response.error_code = partition.epochs.check(asked.current_leader_epoch)
        if response.error_code:
            return
        log = partition.log
        if timestamp == LATEST:
            self._found(response, self._offset_end(partition), partition.epochs.current)
        elif timestamp in {EARLIEST, EARLIEST_LOCAL}:
            self._found(response, partition.start_offset, partition.epochs.at(partition.start_offset))
        elif timestamp not in {LATEST_TIERED, EARLIEST_PENDING_UPLOAD} and log is not None:
            segments = list(log.segments)
            search = (
                search_latest_timestamp(segments, log.start_offset)
                if timestamp == MAX_TIMESTAMP
                else search_timestamp(segments, log.start_offset, timestamp)
            )
            self._search(lambda: next(search), search, response, partition)

    def _search(
        self,
        step: Callable[[], BatchToDecode],
        search: Search,
        response: _Response,
        partition: Partition | InternalPartition,
    ) -> None:
        """Continues a search until it has ended or needs a large batch."""
        try:
            batch = step()
            while not is_long_walk(batch.header):
                batch = search.send(batch.records())
            _ = batch.segment.file  # the worker finds it open
        except StopIteration as found:
            self._found_time(response, partition, found.value)
        except (OSError, ValueError, DamagedLog):
            response.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        else:
            batch.segment.hold()
            self._unfinished.append(_Unfinished(search, batch, response, partition))

    def _decode_next(self) -> None:
        """Lets the worker decode the next large batch, or replies if no search needs one."""
        if self._is_over():
            for each in self._unfinished:
                each.batch.segment.release()
            return
        if not self._unfinished:
            self._reply(self._response)
            return
        search, batch, response, partition = self._unfinished.pop()

        def on_decoded(records: list[LogRecord] | BaseException | None) -> None:
            batch.segment.release()
            if isinstance(records, BaseException):
                response.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            else:
                self._search(lambda: search.send(records), search, response, partition)
            self._decode_next()

        self._topics.record_walks.submit(batch.records, on_decoded)

    def _found_time(
        self, response: _Response, partition: Partition | InternalPartition, found: TimestampOffset | None
    ) -> None:
        if found is not None and found.offset < self._offset_end(partition):
            self._found(response, found.offset, found.leader_epoch)
            response.timestamp = found.timestamp

    def _found(self, response: _Response, offset: int, epoch: int) -> None:
        response.offset = offset
        if self._version >= _EPOCH_SINCE:
            response.leader_epoch = epoch

    def _offset_end(self, partition: Partition | InternalPartition) -> int:
        return partition.last_stable_offset if self._committed else partition.high_watermark
