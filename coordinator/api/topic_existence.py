"""What OffsetCommit and TxnOffsetCommit ask before they ask the group: do the topics and partitions exist?

A partition that does not exist is refused whoever commits it, and if nothing else is left the group never hears of the
request. Refused partitions lead the answer. Nearly all requests name existing partitions only; they pass through as they are.
"""

from collections.abc import Sequence
from typing import Any

from coordinator.groups.commit_events import CommitDecision, RefusedOffset, commit_decided
from coordinator.groups.offsets.validate_partitions import Answers
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import Message
from coordinator.runtime.result import Fact, RequestContext

NO_TOPIC_ID = bytes(16)


class Judged:
    """A request of which some partitions are refused already: what is left of it, and the beginning of the answer."""

    __slots__ = ("_answers", "_by_id", "_topics", "left", "refused")

    def __init__(
        self, left: Any, topics: Sequence[Any], refused: Sequence[RefusedOffset], answers: Answers, *, by_id: bool
    ) -> None:
        self.left = left
        self.refused = refused
        self._topics = topics
        self._answers = answers
        self._by_id = by_id

    @property
    def answer(self) -> Message:
        """The whole answer if nothing is left."""
        return self._answer(self._topics)

    def completed(self, rest: Any) -> Message:
        """The whole answer; a topic that is in both parts is answered once. May be asked again, for another rest."""
        topics = list(self._topics)
        positions = {self._identity(topic): position for position, topic in enumerate(topics)}
        for topic in rest.topics:
            position = positions.get(self._identity(topic))
            if position is None:
                positions[self._identity(topic)] = len(topics)
                topics.append(topic)
            else:
                partitions = [*topics[position].partitions, *topic.partitions]
                topics[position] = self._answers.topic(topic.name, topic.topic_id, partitions)
        return self._answer(topics)

    def told(self, groups: Any, context: RequestContext, error: ErrorCode) -> Sequence[Fact]:
        """What is told of the commit: `error` is that of what was left (NONE: as far as it was asked, it was taken)."""
        facts = commit_decided(groups, self.left, context, error, partly_refused=bool(self.refused))
        self.complete(facts)
        return facts

    def complete(self, facts: Sequence[Fact]) -> None:
        """Adds the partitions that the group was not asked about."""
        for fact in facts:
            if isinstance(fact.event, CommitDecision):
                fact.event.refused = self.refused

    def _answer(self, topics: Sequence[Any]) -> Message:
        answer: Message = self._answers.response(topics=list(topics))
        return answer

    def _identity(self, topic: Any) -> str | bytes:
        identity: str | bytes = topic.topic_id if self._by_id else topic.name
        return identity


def all_exist(request: Any, catalog: Any, *, by_id: bool) -> bool:
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


def judge(request: Any, catalog: Any, answers: Answers, *, by_id: bool) -> Judged:
    """Splits a request whose topics have been looked up."""
    left: list[Any] = []
    answer: dict[str | bytes, Any] = {}
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
            left.append(type(topic)(topic.name, topic.topic_id, exists))
        if missing or count is None:
            unknown_id = by_id and count is None
            code = ErrorCode.UNKNOWN_TOPIC_ID if unknown_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            identity = topic.topic_id if by_id else topic.name
            refused = answer.setdefault(identity, answers.topic(topic.name, topic.topic_id, []))
            refused.partitions += [answers.partition(partition.partition_index, code) for partition in missing]
            told += [
                RefusedOffset(topic.name, topic.topic_id, each.partition_index, each.committed_offset, code)
                for each in missing
            ]
    request.topics = left
    return Judged(request, list(answer.values()), told, answers, by_id=by_id)
