"""A commit of which some partitions do not exist.

A partition that does not exist is refused whoever commits it, so that is decided before the group is asked
(api/topic_existence.py; `KafkaApis.handleOffsetCommitRequest` in Kafka). The group then decides about the rest, and one answer
is composed of both: refused partitions first, and a topic that is in both parts once.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from coordinator.groups.offsets.validate_partitions import Answers
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import Message


class MissingPartition(NamedTuple):
    """A committed partition that does not exist. `error`: UNKNOWN_TOPIC_OR_PARTITION or UNKNOWN_TOPIC_ID."""

    topic: str
    topic_id: bytes
    partition: int
    offset: int
    error: ErrorCode


class PartialCommit(NamedTuple):
    """What is left of a request (OffsetCommit or TxnOffsetCommit), and what was refused."""

    existing: Any
    """The request without the partitions that do not exist; every topic has both its name and its id."""
    answers: Answers
    missing: Sequence[MissingPartition] = ()
    refused_topics: Sequence[Any] = ()
    """The beginning of the answer: the topics with missing partitions, with the errors of these."""

    def answer(self, rest: Any = None) -> Message:
        """The whole answer. `rest`: the answer to what exists; None if nothing does."""
        topics = list(self.refused_topics)
        positions = {(topic.name, topic.topic_id): position for position, topic in enumerate(topics)}
        for topic in () if rest is None else rest.topics:
            position = positions.get((topic.name, topic.topic_id))
            if position is None:
                positions[topic.name, topic.topic_id] = len(topics)
                topics.append(topic)
            else:
                partitions = [*topics[position].partitions, *topic.partitions]
                topics[position] = self.answers.topic(topic.name, topic.topic_id, partitions)
        answer: Message = self.answers.response(topics=topics)
        return answer
