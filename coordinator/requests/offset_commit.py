"""OffsetCommit (key 8). A consumer, or an administrator for it, says how far it has read.

v5 leaves the retention to the broker; v6 adds leader epochs (KIP-320); v7 the instance id (KIP-345); v9 is for consumer
groups, too (KIP-848), and answers GROUP_ID_NOT_FOUND; v10 names topics by id.

Topics are judged here, before the group is asked: a partition that does not exist is refused whoever commits it, and if
nothing else is left the group never hears of the request. Refused partitions lead the answer. Nearly all requests name
existing partitions only; they pass through as they are.
"""

from collections.abc import Sequence
from typing import Any

from coordinator.groups.events import CommitDecision, RefusedOffset, commit_decided
from coordinator.groups.offsets.commit import commit, fail
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import Message, OffsetCommitRequest, OffsetCommitResponse
from coordinator.requests.api import Access, Api, Operation, Resource
from coordinator.runtime.result import Call, Fact, Result

TOPIC_IDS_SINCE = 10
NO_TOPIC_ID = bytes(16)

_AskedTopic = OffsetCommitRequest.OffsetCommitRequestTopic
_Topic = OffsetCommitResponse.OffsetCommitResponseTopic
_Partition = OffsetCommitResponse.OffsetCommitResponsePartition


class Judged:
    """A request of which some partitions are refused already: what is left of it, and the beginning of the answer."""

    __slots__ = ("_by_id", "answer", "left", "refused")

    def __init__(
        self,
        left: OffsetCommitRequest,
        answer: OffsetCommitResponse,
        refused: Sequence[RefusedOffset],
        *,
        by_id: bool,
    ) -> None:
        self.left = left
        self.answer = answer
        self.refused = refused
        self._by_id = by_id

    def completed(self, rest: Message) -> OffsetCommitResponse:
        """The whole answer; a topic that is in both parts is answered once. May be asked again, for another rest."""
        assert isinstance(rest, OffsetCommitResponse)
        topics = list(self.answer.topics)
        positions = {self._identity(topic): position for position, topic in enumerate(topics)}
        for topic in rest.topics:
            position = positions.get(self._identity(topic))
            if position is None:
                positions[self._identity(topic)] = len(topics)
                topics.append(topic)
            else:
                begun = topics[position]
                topics[position] = _Topic(topic.name, topic.topic_id, [*begun.partitions, *topic.partitions])
        return OffsetCommitResponse(topics=topics)

    def _identity(self, topic: _Topic) -> str | bytes:
        return topic.topic_id if self._by_id else topic.name


def handle(server: Any, exchange: Any) -> None:
    request: OffsetCommitRequest = exchange.request
    by_id = exchange.api_version >= TOPIC_IDS_SINCE
    if _all_exist(request, server.topics, by_id=by_id):
        server.groups.submit(request.group_id, commit, exchange)
        return
    judged = _judge(request, server.topics, by_id=by_id)
    if not judged.left.topics:
        if judged.refused:
            server.groups.tell(
                request.group_id,
                lambda state, _: Result(facts=_told(state, judged, exchange)),
            )
        exchange.reply(judged.answer)
        return
    exchange.request = judged
    server.groups.submit(request.group_id, _commit_rest, exchange)


def refuse(request: OffsetCommitRequest | Judged, error: KafkaError, api_version: int) -> Message:
    if isinstance(request, Judged):
        return request.completed(fail(request.left, error.code))
    return fail(request, error.code)


def _commit_rest(state: Any, judged: Judged, call: Call, now_ms: int) -> Result:
    try:
        result = commit(state, judged.left, call, now_ms)
    except KafkaError as error:
        _complete(error.facts, judged)
        raise
    assert result.reply is not None
    result.reply = judged.completed(result.reply)
    result.facts = _told(state, judged, call)
    return result


def _told(state: Any, judged: Judged, call: Call) -> Sequence[Fact]:
    """What is told of a commit that the group took, as far as it was asked."""
    facts = commit_decided(state, judged.left, call, ErrorCode.NONE, partly_refused=True)
    _complete(facts, judged)
    return facts


def _complete(facts: Sequence[Fact], judged: Judged) -> None:
    """Adds the partitions that the group was not asked about."""
    for fact in facts:
        if isinstance(fact.event, CommitDecision):
            fact.event.refused = judged.refused


def _all_exist(request: OffsetCommitRequest, catalog: Any, *, by_id: bool) -> bool:
    """Gives each topic that exists the half of its identity that the version does not carry: id or name."""
    sound = bool(request.topics)
    for topic in request.topics:
        if by_id:
            topic.name = catalog.topic_name(topic.topic_id) or ""
        else:
            topic.topic_id = catalog.topic_id(topic.name) or NO_TOPIC_ID
        count = catalog.partition_count(topic.name) or 0
        if not topic.partitions:
            sound = False
        for partition in topic.partitions:
            if not 0 <= partition.partition_index < count:
                sound = False
    return sound


def _judge(request: OffsetCommitRequest, catalog: Any, *, by_id: bool) -> Judged:
    """Splits a request whose topics have been looked up."""
    left: list[_AskedTopic] = []
    answer: dict[str | bytes, _Topic] = {}
    told: list[RefusedOffset] = []
    for topic in request.topics:
        count = catalog.partition_count(topic.name)
        exists, missing = [], []
        for partition in topic.partitions:
            if count is not None and 0 <= partition.partition_index < count:
                exists.append(partition)
            else:
                missing.append(partition)
        if exists:
            left.append(_AskedTopic(topic.name, topic.topic_id, exists))
        if missing or count is None:
            unknown_id = by_id and count is None
            code = ErrorCode.UNKNOWN_TOPIC_ID if unknown_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            refused = answer.setdefault(topic.topic_id if by_id else topic.name, _Topic(topic.name, topic.topic_id, []))
            refused.partitions += [_Partition(partition.partition_index, code) for partition in missing]
            told += [
                RefusedOffset(topic.name, topic.topic_id, each.partition_index, each.committed_offset, code)
                for each in missing
            ]
    request.topics = left
    return Judged(request, OffsetCommitResponse(topics=list(answer.values())), told, by_id=by_id)


API = Api(
    key=8,
    name="OffsetCommit",
    versions=(2, 10),
    access=Access(Operation.READ, Resource.GROUP),
    handle=handle,
    refuse=refuse,
)
