"""A TxnOffsetCommit to a harness of groups that is decided and leaves nothing behind but its events."""

from typing import Any

from coordinator.groups.offsets.commit_in_transaction import ANSWERS, VerifiedCommit, commit_in_transaction
from coordinator.groups.offsets.partial_commit import PartialCommit
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import TxnOffsetCommitRequest
from coordinator.runtime.result import Result

_Topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
_Partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition


def stage(h: Any, member_id: str, epoch: int, *partitions: tuple[str, int], version: int = 6) -> ErrorCode:
    """The error of the request."""
    topics = [_Topic(name, h.catalog.topic_id(name), [_Partition(index, 1, -1, "")]) for name, index in partitions]
    request = TxnOffsetCommitRequest("tx", "g", 7, 0, epoch, member_id, None, topics)

    def facts_only(groups: Any, request: Any, context: Any, now_ms: int) -> Result:
        verified = VerifiedCommit(PartialCommit(request, ANSWERS), None)
        return Result(facts=commit_in_transaction(groups, verified, context, now_ms).facts)

    try:
        h.call(facts_only, request, version)
    except KafkaError as error:
        h._apply(Result(facts=error.facts))
        return error.code
    return ErrorCode.NONE
