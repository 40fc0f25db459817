"""A commit of which some partitions are refused before the group is asked.

They do not exist, or the client may not read their topic: that holds whoever commits them (topic_existence.py;
`KafkaApis.handleOffsetCommitRequest` in Kafka). The group then decides about the rest, and one answer is composed of both:
refused partitions first, and a topic that is in both parts once.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from coordinator.groups.offsets.validate_partitions import Answers
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import Message


class RefusedPartition(NamedTuple):
    """A committed partition that the group does not see.

    `error`: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID or TOPIC_AUTHORIZATION_FAILED.
    """

    topic: str
    topic_id: bytes
    partition: int
    offset: int
    error: ErrorCode


class PartialCommit(NamedTuple):
    """What is left of a request (OffsetCommit or TxnOffsetCommit), and what was refused."""

    rest: Any
    """The request without the refused partitions; every topic has both its name and its id."""
    answers: Answers
    refused: Sequence[RefusedPartition] = ()
    refused_topics: Sequence[Any] = ()
    """The beginning of the answer: the topics with refused partitions, with the errors of these."""

    def answer(self, to_rest: Any = None) -> Message:
        """The whole answer. `to_rest`: the answer to the rest; None if nothing is left."""
        if to_rest is not None and not self.refused_topics:
            return cast(Message, to_rest)
        topics = list(self.refused_topics)
        positions = {(topic.name, topic.topic_id): position for position, topic in enumerate(topics)}
        for topic in () if to_rest is None else to_rest.topics:
            position = positions.get((topic.name, topic.topic_id))
            if position is None:
                positions[topic.name, topic.topic_id] = len(topics)
                topics.append(topic)
            else:
                partitions = [*topics[position].partitions, *topic.partitions]
                topics[position] = self.answers.topic(topic.name, topic.topic_id, partitions)
        answer: Message = self.answers.response(topics=topics)
        return answer
