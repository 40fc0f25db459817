"""TxnOffsetCommit (key 28) for topics that exist and a transaction that was verified.

`OffsetMetadataManager.commitTransactionalOffset` in Kafka. A producer commits the offsets of what it has consumed together
with what it has produced (KIP-98). They are pending (pending.py) until the transaction commits, and then become the group's.

The consumer may have lost its partitions, but it is the producer that commits. So the request names the consumer (KIP-447),
and the group fences that consumer as it does for a plain commit. Then the producer is fenced: an epoch older than one in the
log belongs to a former owner of the transactional id, or to a transaction that has ended.
"""

from dataclasses import dataclass

from coordinator.groups.commit_events import commit_facts, refused_commit_facts
from coordinator.groups.fencing import fence_commit_in_transaction
from coordinator.groups.offsets.partial_commit import PartialCommit
from coordinator.groups.offsets.rewound import rewound_facts
from coordinator.groups.offsets.validate_partitions import Answers, Validated, validate_partitions
from coordinator.groups.state import Groups
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import TxnOffsetCommitResponse
from coordinator.runtime.result import Producer, RequestContext, Result

ANSWERS = Answers(
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic,
    TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition,
)


@dataclass(frozen=True, slots=True)
class VerifiedCommit:
    """A commit whose partition of `__consumer_offsets` is part of the producer's transaction."""

    partial: PartialCommit
    guard: int | None
    """What `PendingOffsets.guard` returned before the verification began; None if the transaction's marker will have a higher
    epoch than the commit (KIP-890), so that no guard is needed."""
    validated: Validated | None = None
    """What `validate_partitions` returns, if the commit was validated before."""


def commit_in_transaction(groups: Groups, verified: VerifiedCommit, context: RequestContext, now_ms: int) -> Result:
    """Makes the offsets of the partitions that are left pending, and answers the whole request.

    Raises the errors of `fence_commit_in_transaction`, INVALID_PRODUCER_EPOCH for an epoch that is older than the log's, and
    INVALID_TXN_STATE if the transaction ended during the verification. A partition may be refused by itself with
    OFFSET_METADATA_TOO_LARGE.
    """
    try:
        return _commit(groups, verified, context, now_ms)
    except KafkaError as error:
        partial = verified.partial
        error.facts = refused_commit_facts(groups, partial.rest, context, error.code, partial.refused)
        raise


def _commit(groups: Groups, verified: VerifiedCommit, context: RequestContext, now_ms: int) -> Result:
    partial = verified.partial
    request, refused = partial.rest, partial.refused
    fence_commit_in_transaction(groups, request, context)
    answer, records, is_partly_refused = verified.validated or validate_partitions(
        request, ANSWERS, groups.config.offset_metadata_max_bytes, now_ms, expire_timestamp_ms=None
    )
    producer = Producer(request.producer_id, request.producer_epoch)
    if len(records):
        _fence_producer(groups, producer, verified.guard)
    groups.counters.offsets += len(records)
    facts = commit_facts(groups, request, context, ErrorCode.NONE, partly_refused=is_partly_refused, refused=refused)
    facts += rewound_facts(groups, request, records, context)
    return Result(partial.answer(answer), records, facts=facts, producer=producer)


def _fence_producer(groups: Groups, producer: Producer, guard: int | None) -> None:
    pending = groups.offsets.pending
    known = pending.known.get(producer.id)
    if known is not None and producer.epoch < known.epoch:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
    if guard is not None and guard != pending.guard(producer.id):
        # The transaction ended while it was being verified: no marker would ever end the offsets that it left now.
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)
