"""TxnOffsetCommit (key 28), once its topics are known to exist and its transaction has been verified.

A producer commits the offsets of what it has read together with what it has written. They become its pending offsets
(pending.py) and the group's when the transaction commits.

It is the consumer that may have lost its partitions, and the producer that commits: so the request brings along whom the
consumer believes to be, and the group's fence is asked as for a plain commit. Then the producer: an epoch older than one
that is in the log belongs to a past owner of the transactional id, or to a transaction that has ended.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from coordinator.groups.commit_events import commit_decided
from coordinator.groups.fencing import fence_commit_in_transaction
from coordinator.groups.offsets.validate_partitions import Answers, accept
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from coordinator.runtime.result import Producer, RequestContext, Result

if TYPE_CHECKING:
    from coordinator.groups.state import Groups

ANSWERS = Answers(
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic,
    TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition,
)


@dataclass(frozen=True, slots=True)
class VerifiedCommit:
    """A request whose partition of the groups' log is part of the producer's transaction."""

    request: TxnOffsetCommitRequest
    """Every topic has its name *and* its id, and every partition exists."""
    guard: int | None
    """What `PendingOffsets.guard` said before the verification began; None if its transaction's marker has a higher epoch."""


def commit_in_transaction(groups: "Groups", verified: VerifiedCommit, context: RequestContext, now_ms: int) -> Result:
    try:
        return _commit(groups, verified, context, now_ms)
    except KafkaError as error:
        error.facts = commit_decided(groups, verified.request, context, error.code, partly_refused=False)
        raise


def _commit(groups: "Groups", verified: VerifiedCommit, context: RequestContext, now_ms: int) -> Result:
    request = verified.request
    fence_commit_in_transaction(groups, request, context.api_version)
    answer, records, is_partly_refused = accept(
        request, ANSWERS, groups.config.offset_metadata_max_bytes, now_ms, expire_timestamp_ms=None
    )
    producer = Producer(request.producer_id, request.producer_epoch)
    if len(records):
        _fence_producer(groups, producer, verified.guard)
    groups.counters.offsets += len(records)
    facts = commit_decided(groups, request, context, ErrorCode.NONE, partly_refused=is_partly_refused)
    return Result(answer, records, facts=facts, producer=producer)


def _fence_producer(groups: "Groups", producer: Producer, guard: int | None) -> None:
    pending = groups.offsets.pending
    known = pending.known.get(producer.id)
    if known is not None and producer.epoch < known.epoch:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
    if guard is not None and guard != pending.guard(producer.id):
        # The transaction ended while it was being verified: nothing would end what began now.
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)
