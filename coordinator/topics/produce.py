"""Produce: one batch per partition, validated, given its offset and appended (Kafka's ReplicaManager.handleProduceAppend).

A batch is written as it came: `compression.type` is reported but has no effect, batches are never recompressed.

A batch of a transaction is appended only when the transaction's coordinator confirms that the partition is part of the
transaction (KIP-890). From version 12 on clients do not announce their partitions, and the coordinator adds the partition
instead (transaction.version 2).
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ProduceRequest, ProduceResponse
from coordinator.runtime.result import Producer
from coordinator.topics import names
from coordinator.topics.allowed import IsAllowed, everything
from coordinator.topics.append import Entry, append, needs_walk, walk
from coordinator.topics.batch_validation import Batch, Refused, is_transactional, read_batch
from coordinator.topics.partition import Partition, nobody_waits
from coordinator.topics.producer_state import VerificationGuard
from coordinator.topics.topics import Topics

_ADDS_PARTITIONS_SINCE = 12
_ABORTABLE_SINCE = 11
_IDS_SINCE = 13
_ALL = -1
_ACKS = frozenset({_ALL, 0, 1})
_PIECE_RECORDS = 3_000
"""Records that are checked in about a millisecond. The first batch of a partition makes files, which takes longer."""
_APPEND_RECORDS = 150
"""An append takes as long as checking so many records."""
_COORDINATOR_UNAVAILABLE = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)

_PartitionResponse = ProduceResponse.PartitionProduceResponse


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
        """Calls `done` with the refused partitions, possibly before this returns."""


def produce(
    topics: Topics,
    request: ProduceRequest,
    api_version: int,
    verify: Verify,
    reply: Callable[[ProduceResponse, bool], None],
    run: Callable[[Iterator[None]], None],
    wait: Callable[[], None],
    is_allowed: IsAllowed = everything,
) -> None:
    """Appends every batch, and calls `reply(response, any_error)` when all of them are durable. acks=0 does not wait for that.

    `run` does the appends in pieces. `wait` is called if batches are still to be appended after this returns: later requests
    of the connection must not overtake them. The records of large and compressed batches are checked outside the loop before.
    `is_allowed`: whether the client may write to this topic.
    The response has the errors of single partitions (append.py), and before those of `append`:

        UNKNOWN_TOPIC_ID, TOPIC_AUTHORIZATION_FAILED
        UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION (an internal topic)
        INVALID_REQUIRED_ACKS
        NOT_ENOUGH_REPLICAS           fewer replicas are in sync than acks=all needs, or the transaction's coordinator cannot
                                      answer now: the producer retries
        the errors of transactions/verification.py

    Raises KafkaError for an error of the whole request:

        TRANSACTIONAL_ID_AUTHORIZATION_FAILED   a transactional batch without a transactional id
        INVALID_PRODUCER_ID_MAPPING             batches of several transactional producers
    """
    if request.transactional_id is None and has_transactional_batches(request):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    answer = _Answer(reply)
    plain, transactional = _entries(topics, request, api_version, is_allowed, answer)
    now_ms = topics.clock.wall_ms()
    if transactional and len({entry.producer for entry in transactional}) > 1:
        message = "Transactional records contained more than one producer ID"
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, message)
    acked = request.acks != 0

    def append_all(walked: Mapping[int, Refused | None]) -> Iterator[None]:
        """`walked`: the batches whose records have been looked into, by the id of their entry."""
        good = [entry for entry in plain if not _refused(entry, walked)]
        left_of_piece = _PIECE_RECORDS
        for entry in good:
            opens = entry.partition.log is None
            was_walked = id(entry) in walked
            left_of_piece -= _APPEND_RECORDS + (0 if was_walked else entry.batch.header.record_count)
            _append_plain(entry, now_ms, acked=acked, walked=was_walked)
            if opens or left_of_piece <= 0:
                left_of_piece = _PIECE_RECORDS
                yield
        good = [entry for entry in transactional if not _refused(entry, walked)]
        if good:
            batches = _TransactionalBatches(
                request.transactional_id or "", good, api_version, verify, now_ms, acked=acked, known_good=walked.keys()
            )
            batches.begin()
            if not batches.finished:
                wait()
        answer.release()

    long = [entry for entry in (*plain, *transactional) if needs_walk(entry)]
    if long:
        wait()
        _walk_all(topics, long, now_ms, lambda walked: run(append_all(walked)))
    else:
        run(append_all({}))


class _Answer:
    """The response, which is sent when its last partition has its outcome and all appends have been asked for."""

    __slots__ = ("_has_errors", "_left", "_reply", "response")

    def __init__(self, reply: Callable[[ProduceResponse, bool], None]) -> None:
        self.response = ProduceResponse()
        self._reply = reply
        self._left = 1
        self._has_errors = False

    def expect(self, partition_response: _PartitionResponse) -> Callable[[ErrorCode], None]:
        """Returns the function that is called with the partition's outcome."""
        self._left += 1
        return partial(self._done, partition_response)

    def _done(self, partition_response: _PartitionResponse, error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            self._has_errors = True
            partition_response.error_code = error
            partition_response.base_offset, partition_response.log_append_time_ms = -1, -1
        self.release()

    def release(self) -> None:
        self._left -= 1
        if not self._left:
            self._reply(self.response, self._has_errors)


def _entries(
    topics: Topics, request: ProduceRequest, api_version: int, is_allowed: IsAllowed, answer: _Answer
) -> tuple[list[Entry], list[Entry]]:
    """The batches to append: those of no transaction, and those of transactions. The others are refused in the answer."""
    plain: list[Entry] = []
    transactional: list[Entry] = []
    for (topic_name, topic_id), partitions in _last_records(request).items():
        topic_response = ProduceResponse.TopicProduceResponse(name=topic_name, topic_id=topic_id)
        name = topic_name if api_version < _IDS_SINCE else topics.topic_name(topic_id)
        denied = name is not None and not is_allowed(name)
        for index, records in partitions.items():
            partition_response = _PartitionResponse(index=index, base_offset=-1)
            topic_response.partition_responses.append(partition_response)
            done = answer.expect(partition_response)
            if name in names.INTERNAL and not denied:
                done(topics.append_internal(name, index, records))
                continue
            try:
                partition = _partition(topics, name, index, denied=denied)
                if topics.may_move and request.acks == _ALL and topics.lacks_replicas(name or "", index):
                    raise Refused(ErrorCode.NOT_ENOUGH_REPLICAS)  # noqa: TRY301 - as the other refusals
                batch = _batch(records, api_version, request.acks)
            except Refused as refusal:
                refusal.describe(partition_response)
                done(refusal.code)
            else:
                entry = Entry(name or "", partition, batch, partition_response, done)
                (transactional if batch.needs_verification else plain).append(entry)
        if topic_response.partition_responses:
            answer.response.responses.append(topic_response)
    return plain, transactional


def _walk_all(
    topics: Topics, entries: Sequence[Entry], now_ms: int, done: Callable[[dict[int, Refused | None]], None]
) -> None:
    """Looks into the records of each batch outside the loop; `done` gets the refusals by the id of the entry."""
    walked: dict[int, Refused | None] = {}

    def on_walked(entry: Entry, refusal: Refused | BaseException | None) -> None:
        if isinstance(refusal, BaseException) and not isinstance(refusal, Refused):
            refusal = Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
        walked[id(entry)] = refusal
        if len(walked) == len(entries):
            done(walked)

    for entry in entries:
        topics.record_walks.submit(partial(walk, entry, now_ms), partial(on_walked, entry))


def _refused(entry: Entry, walked: Mapping[int, Refused | None]) -> bool:
    refusal = walked.get(id(entry))
    if refusal is not None:
        entry.refuse(refusal)
    return refusal is not None


def refusal(request: ProduceRequest, error: KafkaError) -> ProduceResponse:
    """A response with the same error for every partition."""
    return ProduceResponse(
        responses=[
            ProduceResponse.TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    _PartitionResponse(
                        index=data.index, error_code=error.code, base_offset=-1, error_message=error.message
                    )
                    for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def has_transactional_batches(request: ProduceRequest) -> bool:
    """Whether a partition's first batch is transactional (`RequestUtils.hasTransactionalRecords`)."""
    return any(is_transactional(data.records) for topic in request.topic_data for data in topic.partition_data)


def _last_records(request: ProduceRequest) -> dict[tuple[str, bytes], dict[int, bytes | None]]:
    """Topic name and id -> partition -> records. The last entry counts for a partition that is named twice."""
    topics: dict[tuple[str, bytes], dict[int, bytes | None]] = {}
    for topic in request.topic_data:
        partitions = topics.setdefault((topic.name, topic.topic_id), {})
        partitions.update({data.index: data.records for data in topic.partition_data})
    return topics


def _partition(topics: Topics, name: str | None, index: int, *, denied: bool) -> Partition:
    if name is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_ID)
    if denied:
        raise Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    partition = topics.user_partition(name, index)
    if partition is None:
        raise Refused(topics.why_absent(name, index))
    return partition


def _batch(records: bytes | None, api_version: int, acks: int) -> Batch:
    batch = read_batch(records, api_version)
    if acks not in _ACKS:
        raise Refused(ErrorCode.INVALID_REQUIRED_ACKS)
    return batch


def _append_plain(entry: Entry, now_ms: int, *, acked: bool, walked: bool) -> None:
    partition = entry.partition
    if partition.producers_loaded:
        append(entry, now_ms, None, acked=acked, walked=walked)
    elif entry.batch.header.producer_id >= 0:
        # The sequence numbers of an idempotent producer cannot be checked before.
        partition.load_producers(now_ms, partial(append, entry, now_ms, None, acked=acked, walked=walked))
    else:
        partition.load_producers(now_ms, nobody_waits)
        append(entry, now_ms, None, acked=acked, walked=walked)


class _TransactionalBatches:
    """The transactional batches of one request: appended when the transaction's coordinator has confirmed their partitions.

    A partition in which the transaction is open already need not be asked about, but waits for the others' answer, as in
    Kafka.
    """

    def __init__(
        self,
        transactional_id: str,
        entries: Sequence[Entry],
        api_version: int,
        verify: Verify,
        now_ms: int,
        *,
        acked: bool,
        known_good: Collection[int],
    ) -> None:
        """`known_good`: the ids of the entries whose records have been looked into."""
        self._transactional_id = transactional_id
        self._entries = entries
        self._verify = verify
        self._adds = api_version >= _ADDS_PARTITIONS_SINCE
        self._abortable = api_version >= _ABORTABLE_SINCE
        self._now_ms = now_ms
        self._acked = acked
        self._known_good = known_good
        self._not_loaded = len(entries)
        self.finished = False
        """Whether every batch has been appended or refused."""

    def begin(self) -> None:
        """Starts the verification as soon as the producers of all partitions are loaded."""
        for entry in self._entries:
            entry.partition.load_producers(self._now_ms, self._on_loaded)

    def _on_loaded(self) -> None:
        self._not_loaded -= 1
        if not self._not_loaded:
            self._ask()

    def _ask(self) -> None:
        guards: dict[tuple[str, int], VerificationGuard] = {}
        refused: dict[tuple[str, int], ErrorCode] = {}
        asked: dict[str, list[int]] = {}
        for entry in self._entries:
            place = entry.topic, entry.partition.index
            header = entry.batch.header
            try:
                guard = entry.partition.producers.begin_verification(
                    header.producer_id, header.producer_epoch, header.base_sequence, self._now_ms, adds=self._adds
                )
            except KafkaError as error:
                refused[place] = error.code
                continue
            if guard is not None:
                guards[place] = guard
                asked.setdefault(entry.topic, []).append(entry.partition.index)

        def on_verified(errors: dict[tuple[str, int], ErrorCode]) -> None:
            self.finished = True
            for entry in self._entries:
                place = entry.topic, entry.partition.index
                error = errors.get(place, refused.get(place))
                if error is None:
                    append(
                        entry, self._now_ms, guards.get(place), acked=self._acked, walked=id(entry) in self._known_good
                    )
                else:
                    entry.refuse(self._refusal(error))

        if asked:
            self._verify(
                self._transactional_id,
                self._entries[0].producer,
                asked,
                self._adds,
                on_verified,
                abortable=self._abortable,
            )
        else:
            on_verified({})

    def _refusal(self, error: ErrorCode) -> Refused:
        """Translates errors of a coordinator that producers do not expect from Produce into one that they retry."""
        if error in _COORDINATOR_UNAVAILABLE or (error is ErrorCode.CONCURRENT_TRANSACTIONS and not self._adds):
            return Refused(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"Unable to verify the partition has been added to the transaction. Underlying error: {error.name}",
            )
        if error is ErrorCode.INVALID_TXN_STATE:
            return Refused(error, "Partition was not added to the transaction")
        return Refused(error)
