"""Fetch: returns batches as they are in the log, at once or when there are enough of them.

This is Kafka's ReplicaManager.fetchMessages, readFromLog and DelayedFetch.

A response is built in the order of the request: each partition may use the part of MaxBytes that the partitions before it left.
The first batch is returned even if it is larger than every limit, because otherwise its reader could never get past it.
Partitions that the client may not read, or that do not exist, come last, as in Kafka. Only whole batches are returned.

If fewer than MinBytes are there, the request waits until enough bytes have arrived in its partitions or MaxWaitMs has passed,
and then reads again. It counts the bytes that arrive instead of reading at each append, which would be quadratic. An error in
any partition ends the wait, because the client has to react to it. While the server has no memory for more records, the
request finds none and keeps waiting.

A reader of committed records (isolation level 1) gets the records before the last stable offset, including those of aborted
transactions together with a list of these. Bytes arrive for such a reader when a marker makes them stable. After a crash it
may have to wait until the open transactions are known.

In a session (fetch_sessions.py) the partitions are those of the session, and the response has only changes. The session is
updated when the response is sent; a request that still waits has returned nothing. A partition stays in its session when it
is refused, and each request asks again whether the client may read it.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping

from coordinator.log.batch import read_header
from coordinator.log.log import DamagedLog, Log, OffsetOutOfRange
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import FetchRequest, FetchResponse
from coordinator.topics.fetch_sessions import FINAL, FULL, NO_SESSION, FetchedPartition, Key, Session, next_epoch
from coordinator.topics.leader_epochs import UNDEFINED
from coordinator.topics.partition import Partition, Reader, State, nobody_waits
from coordinator.topics.topics import NO_REPLICA, InternalPartition, Topics
from coordinator.world.schedule import Handle

IDS_SINCE = 13
_FOLLOWERS_SINCE = 11
_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1
_STORAGE_ERROR_SINCE = 6
_PIECE_PARTITIONS = 50
"""Partitions that are read in about a millisecond."""

IsDenied = Callable[[str | None], bool]
"""Whether the client may not read the topic of this name; None: one whose id is unknown."""

_Data = FetchResponse.PartitionData
_Topic = FetchResponse.FetchableTopicResponse


class Fetch:
    """One Fetch request until it is answered."""

    __slots__ = (
        "_admits", "_bytes_left_max", "_bytes_min", "_bytes_short", "_committed", "_denied", "_done", "_fetched", "_rack",
        "_reply", "_request", "_run", "_session", "_timer", "_topics", "_version", "_waits_for",
    )  # fmt: skip

    def __init__(
        self,
        topics: Topics,
        request: FetchRequest,
        api_version: int,
        reply: Callable[[FetchResponse], None],
        run: Callable[[Iterator[None]], None],
        is_denied: IsDenied | None = None,
        admits: Callable[[FetchResponse], bool] | None = None,
    ) -> None:
        """Calls `reply` once, now or later. `run` reads the partitions in pieces. `admits`: whether the client may have this
        response; if not, it gets an empty one, and its session remains as it was. None: it may.

        The response has the errors of single partitions: TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION,
        UNKNOWN_TOPIC_ID, OFFSET_OUT_OF_RANGE, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER (a follower, or a disk error
        before version 6), KAFKA_STORAGE_ERROR; or the error of its session (fetch_sessions.py). Raises UNKNOWN_SERVER_ERROR
        for an unknown isolation level, if there is anything to read.
        """
        self._topics = topics
        self._request = request
        self._committed = request.isolation_level == _READ_COMMITTED
        self._version = api_version
        self._rack = request.rack_id if topics.may_move else ""
        """That of a consumer that may be sent to a follower."""
        self._reply = reply
        self._run = run
        self._admits = admits
        self._timer: Handle | None = None
        self._done = False
        self._session: Session | None = None
        self._waits_for: list[FetchedPartition] = []
        self._bytes_left_max = max(0, min(request.max_bytes, topics.config.fetch_max_bytes))
        self._bytes_min = min(request.min_bytes, self._bytes_left_max)
        self._bytes_short = 0
        try:
            self._fetched: Mapping[Key, FetchedPartition] = self._partitions()
        except KafkaError as error:
            # There are no partitions to refuse: without the session nobody knows which they are.
            reply(FetchResponse(error_code=error.code))
            return
        self._denied: Collection[Key] = (
            () if is_denied is None else {key for key, fetched in self._fetched.items() if is_denied(fetched.topic)}
        )
        readable: Iterable[FetchedPartition] = self._fetched.values()
        if self._denied:
            readable = [fetched for fetched in readable if fetched.key not in self._denied]
        self._waits_for = [fetched for fetched in readable if self._resolve(fetched)]
        if self._waits_for and request.isolation_level not in {_READ_UNCOMMITTED, _READ_COMMITTED}:
            # As in Kafka, which has no error code for this.
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        to_load = [fetched.partition for fetched in self._waits_for if self._needs_load(fetched.partition)]
        left, now_ms = len(to_load) + 1 if self._committed else 1, topics.clock.wall_ms()

        def on_loaded() -> None:
            nonlocal left
            left -= 1
            if not left and not self._done:
                run(self._begin())

        for partition in to_load:
            if partition is not None:
                partition.load_producers(now_ms, on_loaded if self._committed else nobody_waits)
        on_loaded()

    def _needs_load(self, partition: Partition | InternalPartition | None) -> bool:
        """Whether to load the producers. The logs of shards are read for transactions only if the client needs them."""
        return (
            partition is not None
            and not partition.producers_loaded
            and (self._committed or isinstance(partition, Partition))
        )

    def _begin(self) -> Iterator[None]:
        request = self._request
        found, bytes_read, final = yield from self._read()
        if self._done:
            return
        if final or request.max_wait_ms <= 0 or not self._waits_for or bytes_read >= self._bytes_min:
            self._done = True
            self._reply(self._response(found))
            return
        self._bytes_short = self._bytes_min - bytes_read
        for fetched in self._waits_for:
            assert fetched.partition is not None
            self._waiters(fetched.partition)[self] = None
        self._timer = self._topics.schedule(request.max_wait_ms, self._answer)
        if any(self._has_more(fetched, data) for fetched, data in found):
            self._answer()

    def _has_more(self, fetched: FetchedPartition, data: _Data) -> bool:
        """Whether records have arrived since the partition was read, between two pieces: nobody has reported them."""
        partition = fetched.partition
        if partition is None or data.error_code:
            return False
        if self._committed:
            return partition.last_stable_offset > data.last_stable_offset
        return partition.high_watermark > data.high_watermark

    def notify(self, bytes_count: int) -> None:
        """One of the partitions has this many more bytes; 0: it was removed, or has another leader."""
        self._bytes_short -= bytes_count
        if (self._bytes_short <= 0 and self._topics.has_room()) or not bytes_count:
            self._answer()

    def cancel(self) -> None:
        """Ends the wait without a response."""
        self._done = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for fetched in self._waits_for:
            if fetched.partition is not None:
                self._waiters(fetched.partition).pop(self, None)

    def _waiters(self, partition: Partition | InternalPartition) -> dict[Reader, None]:
        return partition.stable_readers if self._committed else partition.readers

    def _answer(self) -> None:
        if not self._done:
            self.cancel()
            self._run(self._read_again())

    def _read_again(self) -> Iterator[None]:
        if self._topics.may_move:
            for fetched in self._fetched.values():
                self._resolve(fetched)
        found, _, _ = yield from self._read()
        self._reply(self._response(found))

    # --- the request --------------------------------------------------------------------------------------------------

    def _partitions(self) -> Mapping[Key, FetchedPartition]:
        """The partitions of the request, or of its session. Raises the error of the session."""
        request, by_id = self._request, self._version >= IDS_SINCE
        fetched: dict[Key, FetchedPartition] = {}
        for topic in request.topics:
            name = self._topics.topic_name(topic.topic_id) if by_id else topic.topic
            for requested in topic.partitions:
                key = (topic.topic_id if by_id else topic.topic, requested.partition)
                fetched[key] = FetchedPartition(key, name, topic.topic_id, requested)
        sessions = self._topics.fetch_sessions
        if request.session_epoch in {FULL, FINAL}:
            if request.session_id != NO_SESSION:
                sessions.end(request.session_id)
            return fetched
        forgotten = [
            (topic.topic_id if by_id else topic.topic, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        ]
        self._session = sessions.resume(
            request.session_id,
            request.session_epoch,
            fetched,
            forgotten,
            uses_ids=by_id,
            now_ms=self._topics.clock.machine_ms(),
        )
        return self._session.partitions if self._session is not None else fetched

    def _resolve(self, fetched: FetchedPartition) -> bool:
        """Looks up the partition unless it is known; returns whether it exists."""
        partition = fetched.partition
        if partition is None or partition.state is State.REMOVED or self._topics.may_move:
            index = fetched.requested.partition
            if fetched.topic is None:
                fetched.topic = self._topics.topic_name(fetched.topic_id)
            elif self._version >= IDS_SINCE and self._topics.topic_id(fetched.topic) != fetched.topic_id:
                fetched.partition = None
                return False
            fetched.partition = (
                None
                if fetched.topic is None
                else self._topics.replica(fetched.topic, index)
                if self._version >= _FOLLOWERS_SINCE
                else self._topics.partition(fetched.topic, index)
            )
        return fetched.partition is not None

    # --- the response -------------------------------------------------------------------------------------------------

    def _response(self, found: list[tuple[FetchedPartition, _Data]]) -> FetchResponse:
        """Builds the response and updates the session."""
        request, session = self._request, self._session
        response = FetchResponse()
        if self._admits is not None and not self._admits(self._preview(found)):
            found = []
            if session is None:
                return response
        if session is not None:
            response.session_id = session.id
            if session.epoch != next_epoch(request.session_epoch):
                # A later request of the session arrived while this one waited.
                response.error_code = ErrorCode.INVALID_FETCH_SESSION_EPOCH
                return response
            found = [(fetched, data) for fetched, data in found if session.update(fetched, data)]
        elif request.session_epoch == FULL:
            for fetched, data in found:
                fetched.update(data)
            response.session_id = self._topics.fetch_sessions.begin(
                dict(self._fetched), uses_ids=self._version >= IDS_SINCE, now_ms=self._topics.clock.machine_ms()
            )
        for fetched, data in found:
            _add(response.responses, fetched.topic or "", fetched.topic_id, data)
        return response

    def _preview(self, found: list[tuple[FetchedPartition, _Data]]) -> FetchResponse:
        """The partitions of the response, for those who want to know its size."""
        response = FetchResponse()
        for fetched, data in found:
            if self._session is None or fetched.is_news(data):
                _add(response.responses, fetched.topic or "", fetched.topic_id, data)
        return response

    def _read(self) -> Generator[None, None, tuple[list[tuple[FetchedPartition, _Data]], int, bool]]:
        """Reads all partitions; returns their data, the number of bytes, and whether waiting is pointless.

        Yields after each piece.
        """
        found: list[tuple[FetchedPartition, _Data]] = []
        unknown_ids: list[tuple[FetchedPartition, _Data]] = []
        refused: list[tuple[FetchedPartition, _Data]] = []
        has_room = self._topics.has_room()
        left, bytes_read, final = self._bytes_left_max if has_room else 0, 0, False
        for number, fetched in enumerate(list(self._fetched.values()), 1):
            if not number % _PIECE_PARTITIONS:
                yield
            if self._denied and fetched.key in self._denied:
                refused.append((fetched, refusal(fetched.requested.partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
                continue
            if fetched.partition is None:
                index = fetched.requested.partition
                if self._version >= IDS_SINCE and self._topics.topic_name(fetched.topic_id) is None:
                    unknown_ids.append((fetched, refusal(index, ErrorCode.UNKNOWN_TOPIC_ID)))
                else:
                    why = self._topics.why_absent(fetched.topic or "", index)
                    is_elsewhere = why is ErrorCode.NOT_LEADER_OR_FOLLOWER
                    refused.append((fetched, (_error if is_elsewhere else refusal)(index, why)))
                continue
            data = self._read_partition(fetched, fetched.partition, left, at_least_one=has_room and not bytes_read)
            assert data.records is not None
            bytes_read += len(data.records)
            left = max(0, left - len(data.records))
            is_complete = data.diverging_epoch.epoch >= 0 or data.preferred_read_replica != NO_REPLICA
            final = final or bool(data.error_code) or is_complete
            found.append((fetched, data))
        return found + unknown_ids + refused, bytes_read, final

    def _read_partition(
        self,
        fetched: FetchedPartition,
        partition: Partition | InternalPartition,
        bytes_left: int,
        *,
        at_least_one: bool,
    ) -> _Data:
        requested = fetched.requested
        index, offset = partition.index, requested.fetch_offset
        if partition.state is State.REMOVED:
            by_id = self._version >= IDS_SINCE
            return _error(index, ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if partition.is_offline:
            return _error(index, self._storage_error())
        if self._request.replica_id >= 0 or self._request.replica_state.replica_id >= 0:
            return _error(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        fenced = partition.epochs.check(requested.current_leader_epoch)
        if fenced is not ErrorCode.NONE:
            return _error(index, fenced)
        if self._committed and partition.state is State.FAILED and not partition.producers_loaded:
            return _error(index, self._storage_error())
        start_offset, high_watermark = partition.start_offset, partition.high_watermark
        is_stable_known = self._committed or partition.producers_loaded
        stable_offset = partition.last_stable_offset if is_stable_known else high_watermark
        offset_end = stable_offset if self._committed else high_watermark
        data = _Data(
            partition_index=index,
            high_watermark=high_watermark,
            last_stable_offset=stable_offset,
            log_start_offset=start_offset,
            aborted_transactions=[] if self._committed else None,
            preferred_read_replica=NO_REPLICA,
            records=b"",
        )
        # The log of a shard that a Kafka cluster wrote has batches of later epochs than ours.
        is_ours = isinstance(partition, Partition) or requested.last_fetched_epoch <= partition.epochs.current
        if requested.last_fetched_epoch >= 0 and is_ours:
            epoch, end = partition.epochs.end_of(requested.last_fetched_epoch, start_offset, high_watermark)
            if end == UNDEFINED:
                return _error(index, ErrorCode.OFFSET_OUT_OF_RANGE)
            if epoch < requested.last_fetched_epoch or end < offset:
                # The client has read records that are gone (KIP-320): the response says where its history ends.
                data.diverging_epoch = FetchResponse.EpochEndOffset(epoch=epoch, end_offset=end)
                return data
        if self._rack and start_offset <= offset <= high_watermark:
            data.preferred_read_replica = self._topics.preferred_replica(fetched.topic or "", index, self._rack)
            if data.preferred_read_replica != NO_REPLICA:
                return data
        if not start_offset <= offset <= high_watermark:
            return _error(index, ErrorCode.OFFSET_OUT_OF_RANGE)
        log = partition.log
        if offset >= offset_end or log is None or not (bytes_left or at_least_one):
            return data
        limit = max(0, min(requested.partition_max_bytes, bytes_left))
        try:
            data.records = log.read(offset, limit, offset_end=offset_end, at_least_one=at_least_one)
            if self._committed and data.records:
                data.aborted_transactions = self._aborted(partition, log, offset, data.records)
        except OffsetOutOfRange:
            return _error(index, ErrorCode.OFFSET_OUT_OF_RANGE)
        except (OSError, ValueError, DamagedLog):
            return _error(index, self._storage_error())
        return data

    def _storage_error(self) -> ErrorCode:
        return (
            ErrorCode.KAFKA_STORAGE_ERROR if self._version >= _STORAGE_ERROR_SINCE else ErrorCode.NOT_LEADER_OR_FOLLOWER
        )

    def _aborted(
        self, partition: Partition | InternalPartition, log: Log, offset: int, records: bytes
    ) -> list[FetchResponse.AbortedTransaction]:
        """The aborted transactions in the records, and perhaps a few more, which readers ignore."""
        # Compaction may have removed the offset: the records can be from a later segment.
        first_offset = read_header(records).base_offset
        bound = log.upper_bound(max(offset, first_offset), len(records))
        return [
            FetchResponse.AbortedTransaction(producer_id=entry.producer_id, first_offset=entry.first_offset)
            for entry in partition.aborted_between(offset, bound)
        ]


def refusal(index: int, error: ErrorCode) -> _Data:
    """The response for a partition that was not looked up."""
    data = _error(index, error)
    data.aborted_transactions = []
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
    """Appends to the last topic of the response if it is the same one."""
    if not topics or topics[-1].topic != name or topics[-1].topic_id != topic_id:
        topics.append(_Topic(topic=name, topic_id=topic_id))
    topics[-1].partitions.append(data)
