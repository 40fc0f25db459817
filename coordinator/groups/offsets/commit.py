"""OffsetCommit (key 8), once its topics are known to exist.

What a commit may do wrong is asked in three places, in Kafka's order: unknown topics and partitions are refused before
the group is asked (`requests/offset_commit.py`); then the group's fence lets the caller pass or fails every partition
at once; then each partition is looked at (`accept.py`).

An accepted commit of a member also keeps its session alive. Any offset goes, negative ones too: it is the client's
number.
"""

from typing import TYPE_CHECKING

from coordinator.groups.commit_events import commit_decided
from coordinator.groups.fencing import fence_commit
from coordinator.groups.offsets.validate_partitions import Answers, accept
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import OffsetCommitRequest, OffsetCommitResponse
from coordinator.runtime.result import Fact, RequestContext, Result

if TYPE_CHECKING:
    from coordinator.groups.state import Groups

ANSWERS = Answers(
    OffsetCommitResponse,
    OffsetCommitResponse.OffsetCommitResponseTopic,
    OffsetCommitResponse.OffsetCommitResponsePartition,
)
_NONE = ErrorCode.NONE

BROKER_RETENTION = -1
"""RetentionTimeMs of a client that leaves the retention to the broker; the only value after v4."""


def commit(groups: "Groups", request: OffsetCommitRequest, context: RequestContext, now_ms: int) -> Result:
    """Every topic of the request has its name *and* its id, and every partition exists."""
    try:
        timers = fence_commit(groups, request, context.api_version)
    except KafkaError as error:
        error.facts = commit_decided(groups, request, context, error.code, partly_refused=False)
        raise
    retention_ms = request.retention_time_ms
    expire_timestamp_ms = None if retention_ms == BROKER_RETENTION else now_ms + retention_ms
    answer, records, is_partly_refused = accept(
        request, ANSWERS, groups.config.offset_metadata_max_bytes, now_ms, expire_timestamp_ms
    )
    groups.counters.offsets += len(records)
    facts: tuple[Fact, ...] = ()
    if groups.emits_accepted or is_partly_refused:
        facts = commit_decided(groups, request, context, _NONE, partly_refused=is_partly_refused)
    return Result(answer, records, timers, (), facts)
