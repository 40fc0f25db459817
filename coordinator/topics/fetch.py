"""Fetch: batches as they lie in the log, now or when there are enough of them.

An answer is built in the order of the request: each partition may fill what the ones before it left of MaxBytes, and
the first batch found is given even if it is larger than every limit, or its reader would never get past it. Partitions that
do not exist come last, as in Kafka. Only whole batches are given.

If less than MinBytes is there the request waits, and is asked again when enough bytes arrived in its partitions or
MaxWaitMs is over. It counts what arrives instead of reading again at each append, which would be quadratic. An error in
any partition ends the wait, for its client has to act on it. While the server has no memory for more records it finds
none and does not stop waiting for them.

Who asks for what is committed (isolation level 1) gets what lies before the last stable offset, records of aborted
transactions among it, and a list of these; for such a reader bytes arrive when a marker makes them stable. After a crash
it may have to wait until it is known what is open.

In a session (fetch_sessions.py) the partitions are those of the session, and the answer holds only what is new. What was
said is noted when it is really said: a request that waits has said nothing yet.
"""

from collections.abc import Callable, Mapping

from coordinator.log.batch import read_header
from coordinator.log.log import Log, OffsetOutOfRange
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import FetchRequest, FetchResponse
from coordinator.runtime.timers import Handle
from coordinator.topics.engine import LEADER_EPOCH, InternalPartition, Topics
from coordinator.topics.fetch_sessions import FINAL, FULL, NO_SESSION, Key, Session, Wanted, next_epoch
from coordinator.topics.partition import Partition, Reader, State

IDS_SINCE = 13
_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1
_STORAGE_ERROR_IS_KNOWN_SINCE = 6

_Data = FetchResponse.PartitionData
_Topic = FetchResponse.FetchableTopicResponse


def _nothing() -> None:
    """Nobody waits."""


class Fetch:
    """One Fetch request until it is answered."""

    __slots__ = (
        "_bytes_left_max", "_bytes_min", "_bytes_short", "_committed", "_done", "_reply", "_request", "_session",
        "_timer", "_topics", "_version", "_waits_for", "_wanted",
    )  # fmt: skip

    def __init__(
        self, topics: Topics, request: FetchRequest, api_version: int, reply: Callable[[FetchResponse], None]
    ) -> None:
        """Replies now or later, once. Raises KafkaError for an error of the whole request."""
        if request.isolation_level not in {_READ_UNCOMMITTED, _READ_COMMITTED}:
            # Kafka finds no name for it and says no more than this.
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        self._topics = topics
        self._request = request
        self._committed = request.isolation_level == _READ_COMMITTED
        self._version = api_version
        self._reply = reply
        self._timer: Handle | None = None
        self._done = False
        self._session: Session | None = None
        self._waits_for: list[Wanted] = []
        self._bytes_left_max = max(0, min(request.max_bytes, topics.config.fetch_max_bytes))
        self._bytes_min = min(request.min_bytes, self._bytes_left_max)
        self._bytes_short = 0
        try:
            self._wanted: Mapping[Key, Wanted] = self._partitions()
        except KafkaError as error:
            # Not a refusal of the partitions: without the session nobody knows which these are.
            reply(FetchResponse(error_code=error.code))
            return
        self._waits_for = [wanted for wanted in self._wanted.values() if self._resolve(wanted)]
        unknown = [wanted.partition for wanted in self._waits_for if self._is_unknown(wanted.partition)]
        left, now_ms = len(unknown) + 1 if self._committed else 1, topics.clock.wall_ms()

        def known() -> None:
            nonlocal left
            left -= 1
            if not left and not self._done:
                self._begin()

        for partition in unknown:
            if partition is not None:
                partition.know_producers(now_ms, known if self._committed else _nothing)
        known()

    def _is_unknown(self, partition: Partition | InternalPartition | None) -> bool:
        """Only who asks for it looks for transactions in the groups' logs."""
        return (
            partition is not None
            and not partition.producers_known
            and (self._committed or isinstance(partition, Partition))
        )

    def _begin(self) -> None:
        request = self._request
        found, bytes_read, final = self._read()
        if final or request.max_wait_ms <= 0 or not self._waits_for or bytes_read >= self._bytes_min:
            self._done = True
            self._reply(self._response(found))
            return
        self._bytes_short = self._bytes_min - bytes_read
        for wanted in self._waits_for:
            assert wanted.partition is not None
            self._waiters(wanted.partition)[self] = None
        self._timer = self._topics.schedule(request.max_wait_ms, self._answer)

    def arrived(self, bytes_count: int) -> None:
        """A partition it waits for got more bytes, or went away (0)."""
        self._bytes_short -= bytes_count
        if (self._bytes_short <= 0 and self._topics.has_room()) or not bytes_count:
            self._answer()

    def cancel(self) -> None:
        """Nobody waits for the answer any more."""
        self._done = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for wanted in self._waits_for:
            if wanted.partition is not None:
                self._waiters(wanted.partition).pop(self, None)

    def _waiters(self, partition: Partition | InternalPartition) -> dict[Reader, None]:
        return partition.stable_readers if self._committed else partition.readers

    def _answer(self) -> None:
        if not self._done:
            self.cancel()
            self._reply(self._response(self._read()[0]))

    # --- what is wanted -----------------------------------------------------------------------------------------------

    def _partitions(self) -> Mapping[Key, Wanted]:
        """The partitions of the request, or of its session. Raises KafkaError."""
        request, by_id = self._request, self._version >= IDS_SINCE
        wanted: dict[Key, Wanted] = {}
        for topic in request.topics:
            name = self._topics.topic_name(topic.topic_id) if by_id else topic.topic
            for asked in topic.partitions:
                key = (topic.topic_id if by_id else topic.topic, asked.partition)
                wanted[key] = Wanted(key, name, topic.topic_id, asked)
        sessions = self._topics.fetch_sessions
        if request.session_epoch in {FULL, FINAL}:
            if request.session_id != NO_SESSION:
                sessions.end(request.session_id)
            return wanted
        forgotten = [
            (topic.topic_id if by_id else topic.topic, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        ]
        self._session = sessions.go_on(
            request.session_id,
            request.session_epoch,
            wanted,
            forgotten,
            uses_ids=by_id,
            now_ms=self._topics.clock.monotonic_ms(),
        )
        return self._session.partitions if self._session is not None else wanted

    def _resolve(self, wanted: Wanted) -> bool:
        """Finds the partition, if that has not been done; whether it exists."""
        partition = wanted.partition
        if partition is None or partition.state is State.REMOVED:
            if wanted.topic is None:
                wanted.topic = self._topics.topic_name(wanted.topic_id)
            elif self._version >= IDS_SINCE and self._topics.topic_id(wanted.topic) != wanted.topic_id:
                wanted.partition = None
                return False
            wanted.partition = (
                self._topics.partition(wanted.topic, wanted.asked.partition) if wanted.topic is not None else None
            )
        return wanted.partition is not None

    # --- what there is ------------------------------------------------------------------------------------------------

    def _response(self, found: list[tuple[Wanted, _Data]]) -> FetchResponse:
        """The answer; it changes what the session knows its client to have been told."""
        request, session = self._request, self._session
        response = FetchResponse()
        if session is not None:
            response.session_id = session.id
            if session.epoch != next_epoch(request.session_epoch):
                # A later request of the session came while this one waited.
                response.error_code = ErrorCode.INVALID_FETCH_SESSION_EPOCH
                return response
            found = [(wanted, data) for wanted, data in found if session.told(wanted, data)]
        elif request.session_epoch == FULL:
            for wanted, data in found:
                wanted.told(data)
            response.session_id = self._topics.fetch_sessions.begin(
                dict(self._wanted), uses_ids=self._version >= IDS_SINCE, now_ms=self._topics.clock.monotonic_ms()
            )
        for wanted, data in found:
            _add(response.responses, wanted.topic or "", wanted.topic_id, data)
        return response

    def _read(self) -> tuple[list[tuple[Wanted, _Data]], int, bool]:
        """What each partition gives now, how many bytes that is, and whether waiting would not help."""
        found: list[tuple[Wanted, _Data]] = []
        unknown: list[tuple[Wanted, _Data]] = []
        has_room = self._topics.has_room()
        left, bytes_read, final = self._bytes_left_max if has_room else 0, 0, False
        for wanted in list(self._wanted.values()):
            if wanted.partition is None:
                unknown_id = self._version >= IDS_SINCE and self._topics.topic_name(wanted.topic_id) is None
                error = ErrorCode.UNKNOWN_TOPIC_ID if unknown_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                unknown.append((wanted, refusal(wanted.asked.partition, error)))
                continue
            data = self._read_partition(wanted, wanted.partition, left, at_least_one=has_room and not bytes_read)
            assert data.records is not None
            bytes_read += len(data.records)
            left = max(0, left - len(data.records))
            final = final or bool(data.error_code) or data.diverging_epoch.epoch >= 0
            found.append((wanted, data))
        return found + unknown, bytes_read, final

    def _read_partition(
        self, wanted: Wanted, partition: Partition | InternalPartition, bytes_left: int, *, at_least_one: bool
    ) -> _Data:
        asked = wanted.asked
        index, offset = partition.index, asked.fetch_offset
        if partition.state is State.REMOVED:
            by_id = self._version >= IDS_SINCE
            return _error(index, ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if self._request.replica_id >= 0 or self._request.replica_state.replica_id >= 0:
            return _error(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if asked.current_leader_epoch > LEADER_EPOCH:
            return _error(index, ErrorCode.UNKNOWN_LEADER_EPOCH)
        if self._committed and partition.state is State.FAILED and not partition.producers_known:
            return _error(index, self._storage_error())
        start_offset, high_watermark = partition.start_offset, partition.high_watermark
        tells_stable = self._committed or partition.producers_known
        stable_offset = partition.last_stable_offset if tells_stable else high_watermark
        offset_end = stable_offset if self._committed else high_watermark
        data = _Data(
            partition_index=index,
            high_watermark=high_watermark,
            last_stable_offset=stable_offset,
            log_start_offset=start_offset,
            aborted_transactions=[] if self._committed else None,
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
        if offset >= offset_end or log is None or not (bytes_left or at_least_one):
            return data
        limit = max(0, min(asked.partition_max_bytes, bytes_left))
        try:
            data.records = log.read(offset, limit, offset_end=offset_end, at_least_one=at_least_one)
            if self._committed and data.records:
                data.aborted_transactions = self._aborted(partition, log, offset, data.records)
        except OffsetOutOfRange:
            return _error(index, ErrorCode.OFFSET_OUT_OF_RANGE)
        except (OSError, ValueError):
            return _error(index, self._storage_error())
        return data

    def _storage_error(self) -> ErrorCode:
        known = self._version >= _STORAGE_ERROR_IS_KNOWN_SINCE
        return ErrorCode.KAFKA_STORAGE_ERROR if known else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _aborted(
        self, partition: Partition | InternalPartition, log: Log, offset: int, records: bytes
    ) -> list[FetchResponse.AbortedTransaction]:
        """A few more than lie in the records do no harm: their reader passes over them."""
        # Where the offset was, compaction may have left nothing: the records can be from a later segment.
        first_offset = read_header(records).base_offset
        bound = log.upper_bound(max(offset, first_offset), len(records))
        return [
            FetchResponse.AbortedTransaction(producer_id=entry.producer_id, first_offset=entry.first_offset)
            for entry in partition.aborted_between(offset, bound)
        ]


def refusal(index: int, error: ErrorCode) -> _Data:
    """What is said of a partition that was not even looked for."""
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
    """Appends to the last topic if it is the same one."""
    if not topics or topics[-1].topic != name or topics[-1].topic_id != topic_id:
        topics.append(_Topic(topic=name, topic_id=topic_id))
    topics[-1].partitions.append(data)
