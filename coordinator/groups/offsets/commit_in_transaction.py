"""TxnOffsetCommit (key 28), once its topics are known to exist and its transaction has been verified.

A producer commits the offsets of what it has read together with what it has written. They become its pending offsets
(pending.py) and the group's when the transaction commits.

It is the consumer that may have lost its partitions, and the producer that commits: so the request brings along whom the
consumer believes to be, and the group's fence is asked as for a plain commit. Then the producer: an epoch older than one
that is in the log belongs to a past owner of the transactional id, or to a transaction that has ended.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from coordinator.groups.events import commit_decided
from coordinator.groups.fencing import fence_commit_in_transaction
from coordinator.groups.offsets.metadata import is_too_large
from coordinator.groups.offsets.records import offset_commit
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from coordinator.runtime.result import Call, Producer, Record, Result

if TYPE_CHECKING:
    from coordinator.groups.groups import Groups

_Topic = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
_Partition = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition


@dataclass(frozen=True, slots=True)
class VerifiedCommit:
    """A request whose partition of the groups' log is part of the producer's transaction."""

    request: TxnOffsetCommitRequest
    """Every topic has its name *and* its id, and every partition exists."""
    guard: int | None
    """What `PendingOffsets.guard` said before the verification began; None if its transaction's marker has a higher epoch."""


def commit_in_transaction(groups: "Groups", verified: VerifiedCommit, call: Call, now_ms: int) -> Result:
    try:
        result = _commit(groups, verified, call, now_ms)
    except KafkaError as error:
        error.facts = commit_decided(groups, verified.request, call, error.code, partly_refused=False)
        raise
    asked = sum(len(topic.partitions) for topic in verified.request.topics)
    is_partly_refused = len(result.records) < asked
    result.facts = commit_decided(groups, verified.request, call, ErrorCode.NONE, partly_refused=is_partly_refused)
    return result


def _commit(groups: "Groups", verified: VerifiedCommit, call: Call, now_ms: int) -> Result:
    request = verified.request
    fence_commit_in_transaction(groups, request, call.api_version)
    group_id = request.group_id
    metadata_max = groups.config.offset_metadata_max_bytes
    records: list[Record] = []
    topics: list[_Topic] = []
    for topic in request.topics:
        answers: list[_Partition] = []
        for partition in topic.partitions:
            if is_too_large(partition.committed_metadata or "", metadata_max):
                answers.append(_Partition(partition.partition_index, ErrorCode.OFFSET_METADATA_TOO_LARGE))
                continue
            answers.append(_Partition(partition.partition_index, ErrorCode.NONE))
            records.append(offset_commit(group_id, topic.name, topic.topic_id, partition, now_ms, None))
        topics.append(_Topic(topic.name, topic.topic_id, answers))
    producer = Producer(request.producer_id, request.producer_epoch)
    if records:
        _fence_producer(groups, producer, verified.guard)
    groups.offsets.commits += len(records)
    return Result(TxnOffsetCommitResponse(0, topics), records, producer=producer)


def _fence_producer(groups: "Groups", producer: Producer, guard: int | None) -> None:
    pending = groups.offsets.pending
    known = pending.known.get(producer.id)
    if known is not None and producer.epoch < known.epoch:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
    if guard is not None and guard != pending.guard(producer.id):
        # The transaction ended while it was being verified: nothing would end what began now.
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)


def fail(request: TxnOffsetCommitRequest, code: ErrorCode) -> TxnOffsetCommitResponse:
    """The answer that fails every partition of the request."""
    return TxnOffsetCommitResponse(
        topics=[
            _Topic(topic.name, topic.topic_id, [_Partition(each.partition_index, code) for each in topic.partitions])
            for topic in request.topics
        ]
    )
