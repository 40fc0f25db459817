"""OffsetCommit (key 8), once its topics are known to exist.

What a commit may do wrong is asked in two places, in Kafka's order: unknown topics and partitions are refused before
the group is asked (`requests/offset_commit.py`); then the group's fence lets the caller pass or fails every partition
at once; what is left to go wrong with a single partition is too much metadata.

An accepted commit of a member also keeps its session alive. Any offset goes, negative ones too: it is the client's
number. This is the busiest write of a coordinator, so the loop makes the objects that the log and the answer need, and
no others.
"""

from typing import TYPE_CHECKING

from coordinator.groups.events import commit_decided
from coordinator.groups.fencing import fence_commit
from coordinator.groups.offsets.metadata import is_too_large
from coordinator.groups.offsets.records import offset_commit
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import OffsetCommitRequest, OffsetCommitResponse
from coordinator.runtime.result import Call, Fact, Record, Result

if TYPE_CHECKING:
    from coordinator.groups.groups import Groups

_Topic = OffsetCommitResponse.OffsetCommitResponseTopic
_Partition = OffsetCommitResponse.OffsetCommitResponsePartition

_NONE = ErrorCode.NONE
_ACCEPTED = tuple(_Partition(index, ErrorCode.NONE) for index in range(1024))
"""Nobody changes an answer, so those that nearly all commits get are made once."""

BROKER_RETENTION = -1
"""RetentionTimeMs of a client that leaves the retention to the broker; the only value after v4."""


def commit(groups: "Groups", request: OffsetCommitRequest, call: Call, now_ms: int) -> Result:
    """Every topic of the request has its name *and* its id, and every partition exists."""
    try:
        timers = fence_commit(groups, request, call.api_version)
    except KafkaError as error:
        error.facts = commit_decided(groups, request, call, error.code, partly_refused=False)
        raise
    group_id = request.group_id
    retention_ms = request.retention_time_ms
    expire_timestamp_ms = None if retention_ms == BROKER_RETENTION else now_ms + retention_ms
    metadata_max = groups.config.offset_metadata_max_bytes
    records: list[Record] = []
    topics: list[_Topic] = []
    is_partly_refused = False
    for topic in request.topics:
        name, topic_id = topic.name, topic.topic_id
        answers: list[_Partition] = []
        for partition in topic.partitions:
            metadata = partition.committed_metadata
            if metadata and is_too_large(metadata, metadata_max):
                answers.append(_Partition(partition.partition_index, ErrorCode.OFFSET_METADATA_TOO_LARGE))
                is_partly_refused = True
                continue
            index = partition.partition_index
            answers.append(_ACCEPTED[index] if index < 1024 else _Partition(index, ErrorCode.NONE))
            records.append(offset_commit(group_id, name, topic_id, partition, now_ms, expire_timestamp_ms))
        topics.append(_Topic(name, topic_id, answers))
    groups.offsets.commits += len(records)
    facts: tuple[Fact, ...] = ()
    if groups.tells_accepted or is_partly_refused:
        facts = commit_decided(groups, request, call, _NONE, partly_refused=is_partly_refused)
    return Result(OffsetCommitResponse(0, topics), records, timers, (), facts)


def fail(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    """The answer that fails every partition of the request."""
    return OffsetCommitResponse(
        topics=[
            _Topic(topic.name, topic.topic_id, [_Partition(each.partition_index, code) for each in topic.partitions])
            for topic in request.topics
        ]
    )
