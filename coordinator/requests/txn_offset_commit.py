"""TxnOffsetCommit (key 28). The offsets that a transaction has consumed, as part of it (KIP-98).

v2 adds leader epochs (KIP-320). v3 names the member and its generation or epoch, so that a zombie is fenced (KIP-447);
before it, and where a client leaves them out, there is nothing to check. v4 understands TRANSACTION_ABORTABLE; v5 makes the
group part of the transaction by itself, where before AddOffsetsToTxn had to (both KIP-890); v6 names topics by id and
is told STALE_MEMBER_EPOCH and GROUP_ID_NOT_FOUND (KIP-1319).

Three are asked in turn, as in Kafka: the topics, whether they exist (refused partitions lead the answer); the transaction,
whether the group's partition of `__consumer_offsets` is part of it; the group (groups/offsets/commit_in_transaction.py).
"""

from collections.abc import Sequence
from typing import Any

from coordinator.groups.events import CommitDecision, RefusedOffset, commit_decided
from coordinator.groups.offsets.commit_in_transaction import VerifiedCommit, commit_in_transaction, fail
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import Message, TxnOffsetCommitRequest, TxnOffsetCommitResponse
from coordinator.requests.api import Access, Api, Operation, Resource
from coordinator.runtime.result import Call, Fact, Producer, Result

OFFSETS_TOPIC = "__consumer_offsets"
LOADING_SINCE = 2
"""Clients before Kafka 2.3 die of COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""
ABORTABLE_SINCE = 4
ADDS_ITSELF_SINCE = 5
TOPIC_IDS_SINCE = 6

_AskedTopic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
_Topic = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
_Partition = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition

_FOR_CLIENTS = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
"""What a client of the group's coordinator is told of the transaction's."""


class Judged:
    """What is left of a request when its topics have been looked up, and the beginning of its answer."""

    __slots__ = ("answer", "left", "refused")

    def __init__(self, left: TxnOffsetCommitRequest, answer: list[_Topic], refused: Sequence[RefusedOffset]) -> None:
        self.left = left
        self.answer = answer
        self.refused = refused

    def completed(self, rest: Message) -> TxnOffsetCommitResponse:
        """The whole answer; a topic that is in both parts is answered once. May be asked again, for another rest."""
        assert isinstance(rest, TxnOffsetCommitResponse)
        topics = {(topic.name, topic.topic_id): topic for topic in self.answer}
        for topic in rest.topics:
            identity = (topic.name, topic.topic_id)
            begun = topics.get(identity)
            partitions = topic.partitions if begun is None else [*begun.partitions, *topic.partitions]
            topics[identity] = _Topic(topic.name, topic.topic_id, partitions)
        return TxnOffsetCommitResponse(topics=list(topics.values()))


def handle(server: Any, exchange: Any) -> None:
    request: TxnOffsetCommitRequest = exchange.request
    api_version = exchange.api_version
    judged = exchange.request = _judge(request, server.topics, by_id=api_version >= TOPIC_IDS_SINCE)

    def told(error: ErrorCode) -> None:
        """Says what was decided without the group."""
        server.groups.tell(request.group_id, lambda state, _: Result(facts=_told(state, judged, exchange, error)))

    if not judged.left.topics:
        if judged.refused:
            told(ErrorCode.NONE)
        exchange.reply(judged.completed(TxnOffsetCommitResponse()))
        return
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    adds = api_version >= ADDS_ITSELF_SINCE
    shard = server.groups.shard_of(request.group_id)
    guard = None if adds else shard.state.offsets.pending.guard(request.producer_id)

    def verified(refused: dict[tuple[str, int], ErrorCode]) -> None:
        if refused:
            error = next(iter(refused.values()))
            error = _FOR_CLIENTS.get(error, error)
            told(error)
            exchange.refuse(error)
            return
        shard.submit(_commit(VerifiedCommit(judged.left, guard)), exchange)

    server.verification.check(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        {OFFSETS_TOPIC: [shard.index]},
        adds,
        verified,
        abortable=api_version >= ABORTABLE_SINCE,
    )


def _commit(verified: VerifiedCommit) -> Any:
    def commit(state: Any, judged: Judged, call: Call, now_ms: int) -> Result:
        try:
            result = commit_in_transaction(state, verified, call, now_ms)
        except KafkaError as error:
            _complete(error.facts, judged)
            raise
        assert result.reply is not None
        result.reply = judged.completed(result.reply)
        if judged.refused:
            result.facts = _told(state, judged, call, ErrorCode.NONE)
        return result

    return commit


def _told(state: Any, judged: Judged, call: Call, error: ErrorCode) -> Sequence[Fact]:
    facts = commit_decided(state, judged.left, call, error, partly_refused=bool(judged.refused))
    _complete(facts, judged)
    return facts


def _complete(facts: Sequence[Fact], judged: Judged) -> None:
    """Adds the partitions that the group was not asked about."""
    for fact in facts:
        if isinstance(fact.event, CommitDecision):
            fact.event.refused = judged.refused


def refuse(request: TxnOffsetCommitRequest | Judged, error: KafkaError, api_version: int) -> Message:
    code = error.code
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and api_version < LOADING_SINCE:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if isinstance(request, Judged):
        return request.completed(fail(request.left, code))
    return fail(request, code)


def _judge(request: TxnOffsetCommitRequest, catalog: Any, *, by_id: bool) -> Judged:
    """Gives each topic the half of its identity that the version does not carry, and takes out what does not exist."""
    left: list[_AskedTopic] = []
    refused: dict[str | bytes, _Topic] = {}
    told: list[RefusedOffset] = []
    for topic in request.topics:
        if by_id:
            topic.name = catalog.topic_name(topic.topic_id) or ""
        else:
            topic.topic_id = catalog.topic_id(topic.name) or bytes(16)
        count = catalog.partition_count(topic.name)
        exists = [each for each in topic.partitions if count is not None and 0 <= each.partition_index < count]
        missing = [each for each in topic.partitions if count is None or not 0 <= each.partition_index < count]
        if exists:
            left.append(_AskedTopic(topic.name, topic.topic_id, exists))
        if missing or count is None:
            unknown_id = by_id and count is None
            code = ErrorCode.UNKNOWN_TOPIC_ID if unknown_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            answer = refused.setdefault(topic.topic_id if by_id else topic.name, _Topic(topic.name, topic.topic_id, []))
            answer.partitions += [_Partition(partition.partition_index, code) for partition in missing]
            told += [
                RefusedOffset(topic.name, topic.topic_id, each.partition_index, each.committed_offset, code)
                for each in missing
            ]
    request.topics = left
    return Judged(request, list(refused.values()), told)


API = Api(
    key=28,
    name="TxnOffsetCommit",
    versions=(0, 6),
    access=Access(Operation.WRITE, Resource.TRANSACTIONAL_ID),
    handle=handle,
    refuse=refuse,
)
