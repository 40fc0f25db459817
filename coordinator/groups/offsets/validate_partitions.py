"""What becomes of the single partitions of a commit that its group's fence let through: OffsetCommit, TxnOffsetCommit.

The one thing left to go wrong is too much metadata. This is the loop of the busiest write of a coordinator, so it makes the
objects that the state and the answer need, and no others.
"""

from typing import Any

from coordinator.groups.offsets.metadata import is_too_large
from coordinator.groups.offsets.records import NO_LEADER_EPOCH, NO_TIMESTAMP, NO_TOPIC_ID, OffsetCommits
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import Message, OffsetCommitValue

_NONE = ErrorCode.NONE
_MADE = 1024
_new = object.__new__


class _Accepted(dict[int, Any]):
    """The answer to each partition that is accepted. Nobody changes an answer, so those of most commits are made once."""

    __slots__ = ("_partition",)

    def __init__(self, partition: type[Any]) -> None:
        self._partition = partition

    def __missing__(self, index: int) -> Any:
        answer = self._partition(index, _NONE)
        if index < _MADE:
            self[index] = answer
        return answer


class Answers:
    """The classes of which an API makes its answer; both APIs' have the same fields."""

    __slots__ = ("accepted", "partition", "response", "topic")

    def __init__(self, response: type[Any], topic: type[Any], partition: type[Any]) -> None:
        self.response = response
        self.topic = topic
        self.partition = partition
        self.accepted = _Accepted(partition)


def accept(
    request: Any, answers: Answers, metadata_max: int, now_ms: int, expire_timestamp_ms: int | None
) -> tuple[Any, OffsetCommits, bool]:
    """The answer, the records, and whether some partition was refused. Every topic has its name *and* its id."""
    accepted, answer = answers.accepted, answers.partition
    records = OffsetCommits(request.group_id, now_ms, expire_timestamp_ms)
    topics: list[Any] = []
    is_partly_refused = False
    for topic in request.topics:
        topic_id = topic.topic_id
        kept_id = topic_id if expire_timestamp_ms is None else NO_TOPIC_ID
        values: list[tuple[int, OffsetCommitValue]] = []
        partitions: list[Any] = []
        for asked in topic.partitions:
            index, metadata = asked.partition_index, asked.committed_metadata
            if metadata and is_too_large(metadata, metadata_max):
                partitions.append(answer(index, ErrorCode.OFFSET_METADATA_TOO_LARGE))
                is_partly_refused = True
                continue
            partitions.append(accepted[index])
            # As the constructor would, which is a call.
            value = _new(OffsetCommitValue)
            value.offset = asked.committed_offset
            value.metadata = metadata or ""
            value.commit_timestamp = now_ms
            value.topic_id = kept_id
            if expire_timestamp_ms is None:
                value.leader_epoch = asked.committed_leader_epoch
                value.expire_timestamp = NO_TIMESTAMP
            else:
                value.leader_epoch = NO_LEADER_EPOCH
                value.expire_timestamp = expire_timestamp_ms
            values.append((index, value))
        topics.append(answers.topic(topic.name, topic_id, partitions))
        if values:
            records.add(topic.name, kept_id, values)
    return answers.response(0, topics), records, is_partly_refused


def fail(request: Any, answers: Answers, code: ErrorCode) -> Message:
    """The answer that fails every partition of the request."""
    partition = answers.partition
    answer: Message = answers.response(
        topics=[
            answers.topic(
                topic.name, topic.topic_id, [partition(each.partition_index, code) for each in topic.partitions]
            )
            for topic in request.topics
        ]
    )
    return answer
