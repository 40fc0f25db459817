"""OffsetCommit (key 8) for topics that exist; `OffsetMetadataManager.commitOffset` in Kafka.

A commit is checked in three places, in Kafka's order: partitions are refused before the group is asked, if they
do not exist or the client may not read their topic
(topic_existence.py); then the group lets the committer pass, or refuses every partition with the same error (fencing.py);
then each partition is validated by itself (validate_partitions.py).

An accepted commit of a member also extends its session. Every offset is accepted, negative ones too: only the client knows
what its numbers mean.
"""

from collections.abc import Sequence

from coordinator.groups.commit_events import commit_facts, refused_commit_facts
from coordinator.groups.fencing import fence_commit
from coordinator.groups.offsets.partial_commit import PartialCommit, RefusedPartition
from coordinator.groups.offsets.rewound import rewound_facts
from coordinator.groups.offsets.validate_partitions import Answers, Validated, validate_partitions
from coordinator.groups.state import Groups
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import OffsetCommitRequest, OffsetCommitResponse
from coordinator.runtime.result import Fact, RequestContext, Result

ANSWERS = Answers(
    OffsetCommitResponse,
    OffsetCommitResponse.OffsetCommitResponseTopic,
    OffsetCommitResponse.OffsetCommitResponsePartition,
)
_NONE = ErrorCode.NONE

TIMESTAMP_MAX = (1 << 63) - 1
"""The last time that a record can hold (ms): an offset that expires then never does."""
BROKER_RETENTION = -1
"""RetentionTimeMs of a client that leaves the retention to the broker; the only value after version 4."""


def commit(
    groups: Groups,
    request: OffsetCommitRequest,
    context: RequestContext,
    now_ms: int,
    refused: Sequence[RefusedPartition] = (),
    validated: Validated | None = None,
) -> Result:
    """Commits the offsets of partitions that exist and that the client may read; every topic has both its name and its id.

    `refused`: other partitions of the same commit, which were refused before; only the event mentions them. `validated`: what
    `validate_partitions` returns, if the commit was validated before.

    Raises the errors of `fence_commit`. A partition may be refused by itself with OFFSET_METADATA_TOO_LARGE.
    """
    try:
        origin, timers = fence_commit(groups, request, context)
    except KafkaError as error:
        error.facts = refused_commit_facts(groups, request, context, error.code, refused)
        raise
    answer, records, is_partly_refused = validated or validate_partitions(
        request, ANSWERS, groups.config.offset_metadata_max_bytes, now_ms, expire_timestamp_ms(request, now_ms)
    )
    groups.counters.offsets += len(records)
    facts: tuple[Fact, ...] = ()
    if groups.emits_accepted or is_partly_refused or refused:
        facts = commit_facts(
            groups, request, context, _NONE, origin=origin, partly_refused=is_partly_refused, refused=refused
        )
    return Result(answer, records, timers, (), facts + rewound_facts(groups, request, records, context))


def expire_timestamp_ms(request: OffsetCommitRequest, now_ms: int) -> int | None:
    """When the offsets expire, if the client says it."""
    retention_ms = request.retention_time_ms
    return None if retention_ms == BROKER_RETENTION else min(now_ms + retention_ms, TIMESTAMP_MAX)


def commit_rest(
    groups: Groups, partial: PartialCommit, context: RequestContext, now_ms: int, validated: Validated | None = None
) -> Result:
    """Commits what is left of a request, and answers all of it. Raises the errors of `fence_commit`."""
    result = commit(groups, partial.rest, context, now_ms, partial.refused, validated)
    result.reply = partial.answer(result.reply)
    return result
