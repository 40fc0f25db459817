"""The part of a commit that concerns single partitions, after the group has let the committer pass.

Only metadata that is too large can still refuse a partition. This is the loop of a coordinator's most frequent write
(the loop of `OffsetMetadataManager.commitOffset` in Kafka), so it creates nothing but the objects that
the state and the answer keep.

A commit takes effect at once, but what a large one asks for is validated in pieces before the group is asked.
"""

from collections.abc import Generator
from copy import copy
from typing import Any

from coordinator.groups.offsets.metadata import is_too_large
from coordinator.groups.offsets.records import OffsetCommits
from coordinator.groups.offsets.value import NO_LEADER_EPOCH, StoredOffset, encode, tail, with_tail
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import Message, OffsetCommitValue

_NONE = ErrorCode.NONE
_INDEXES_CACHED = 1024
PIECE_PARTITIONS = 1_000
"""Partitions that are validated in about a millisecond."""

Validated = tuple[Any, OffsetCommits, bool]
"""The answer, the records of the accepted partitions, and whether some partition was refused."""


class _Accepted(dict[int, Any]):
    """Partition index -> the answer to an accepted partition. Answers are never changed, so most are created once."""

    __slots__ = ("_partition",)

    def __init__(self, partition: type[Any]) -> None:
        self._partition = partition

    def __missing__(self, index: int) -> Any:
        answer = self._partition(index, _NONE)
        if index < _INDEXES_CACHED:
            self[index] = answer
        return answer


class Answers:
    """The message classes of an API's answer. OffsetCommit and TxnOffsetCommit have the same fields."""

    __slots__ = ("accepted", "partition", "response", "topic")

    def __init__(self, response: type[Any], topic: type[Any], partition: type[Any]) -> None:
        self.response = response
        self.topic = topic
        self.partition = partition
        self.accepted = _Accepted(partition)


def validate_partitions(
    request: Any, answers: Answers, metadata_max: int, now_ms: int, expire_timestamp_ms: int | None
) -> Validated:
    """What becomes of the commit if the group lets the committer pass.

    Every topic of the request has both its name and its id. A partition whose metadata has more than `metadata_max` UTF-16
    units is answered with OFFSET_METADATA_TOO_LARGE. `expire_timestamp_ms`: if the client sets its own retention, else None.
    """
    accepted, answer = answers.accepted, answers.partition
    records = OffsetCommits(request.group_id, with_expiry=expire_timestamp_ms is not None)
    topics: list[Any] = []
    is_partly_refused = False
    for topic in request.topics:
        end = tail(now_ms, topic.topic_id)
        values: list[tuple[int, StoredOffset]] = []
        partitions: list[Any] = []
        for committed in topic.partitions:
            index, metadata = committed.partition_index, committed.committed_metadata
            if metadata and is_too_large(metadata, metadata_max):
                partitions.append(answer(index, ErrorCode.OFFSET_METADATA_TOO_LARGE))
                is_partly_refused = True
                continue
            partitions.append(accepted[index])
            offset = committed.committed_offset
            if expire_timestamp_ms is None:
                stored = with_tail(offset, committed.committed_leader_epoch, metadata, end)
            else:
                text = metadata or ""
                stored = encode(OffsetCommitValue(offset, NO_LEADER_EPOCH, text, now_ms, expire_timestamp_ms))
            values.append((index, stored))
        topics.append(answers.topic(topic.name, topic.topic_id, partitions))
        if values:
            records.add(topic.name, values)
    return answers.response(0, topics), records, is_partly_refused


def validate_in_pieces(
    request: Any, answers: Answers, metadata_max: int, now_ms: int, expire_timestamp_ms: int | None
) -> Generator[None, None, Validated]:
    """What `validate_partitions` returns, a piece in each step."""
    topics: list[Any] = []
    records = OffsetCommits(request.group_id, with_expiry=expire_timestamp_ms is not None)
    is_partly_refused = False
    part, done = copy(request), 0
    for topic in request.topics:
        answered = answers.topic(topic.name, topic.topic_id, [])
        topics.append(answered)
        for first in range(0, len(topic.partitions), PIECE_PARTITIONS):
            partitions = topic.partitions[first : first + PIECE_PARTITIONS]
            part.topics = [type(topic)(topic.name, topic.topic_id, partitions)]
            answer, committed, is_refused = validate_partitions(
                part, answers, metadata_max, now_ms, expire_timestamp_ms
            )
            answered.partitions += answer.topics[0].partitions
            records.add_ahead(committed)
            is_partly_refused = is_partly_refused or is_refused
            done += len(partitions)
            if done >= PIECE_PARTITIONS:
                done = 0
                yield
    return answers.response(0, topics), records, is_partly_refused


def fail(request: Any, answers: Answers, code: ErrorCode) -> Message:
    """The answer that refuses every partition of the request with the same error."""
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
