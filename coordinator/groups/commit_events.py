"""The CommitDecided event: who committed which offsets, whether it was accepted, and what each fencing policy says of it.

There is one for every commit (OffsetCommit or TxnOffsetCommit), so it refers to the objects that the commit was decided by; the
record is made at the end of the turn. The verdicts of the policies are computed then too, by the same function that the
fence asks (fencing.py). All other events are in events.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Any

from coordinator.groups.committer import NO_REVOCATION_EPOCH, Committer, FencingPolicies, Origin
from coordinator.groups.events import FENCES, NO_FIELDS
from coordinator.groups.fencing import LOSS_UNKNOWN, NO_EPOCH, committed_partitions, origin_of, verdicts
from coordinator.groups.kinds import Kind
from coordinator.groups.offsets.metadata import is_too_large
from coordinator.groups.offsets.partial_commit import RefusedPartition
from coordinator.groups.state import Groups
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import CommitDecidedKey, CommitDecidedValue, TxnOffsetCommitRequest
from coordinator.runtime.result import Fact, Record, RequestContext

NOT_OWNED = -1
"""The assignment epoch of a partition that the member does not own."""

_TopicOffsets = CommitDecidedValue.TopicOffsets
_PartitionOffset = CommitDecidedValue.PartitionOffset
_NO_EPOCHS: Mapping[int, int] = {}
_new_fact = partial(tuple.__new__, Fact)
"""Creates a fact without calling its constructor."""


class Verdict(IntEnum):
    """What a policy says of a commit. CANNOT_SAY: the group has no policies, or the log lacks what this policy needs.

    While it cannot say, a policy that is in force refuses.
    """

    CANNOT_SAY = 0
    ACCEPTS = 1
    REFUSES = 2


NO_VERDICTS = (Verdict.CANNOT_SAY,) * 3
ALL_ACCEPT = (Verdict.ACCEPTS,) * 3
ALL_REFUSE = (Verdict.REFUSES,) * 3


@dataclass(slots=True, eq=False)
class CommitDecision:
    """A commit that was accepted (`error` NONE) or refused.

    `committer`: the member that the commit named, None if there is none. `policies`: None if the kind of group has none.
    `refused`: partitions that were refused before the group was asked (RefusedPartition). They come last in the event.
    """

    request: Any
    client_id: str | None
    error: ErrorCode
    metadata_max: int
    kind: Kind
    committer: Committer | None
    policies: FencingPolicies | None
    refused: Sequence[RefusedPartition] = ()

    def record(self, state_offset: int, time_ms: int) -> Record:
        request, committer, policies, error = self.request, self.committer, self.policies, self.error
        metadata_max = self.metadata_max
        topics = []
        for topic in request.topics:
            held, pending = epochs_of_topic(committer, topic.topic_id)
            partitions = []
            for each in topic.partitions:
                code, metadata = error, each.committed_metadata
                if not code and metadata and is_too_large(metadata, metadata_max):
                    code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                index = each.partition_index
                since = held.get(index, NOT_OWNED)
                if since == NOT_OWNED:
                    since = pending.get(index, NOT_OWNED)
                partitions.append(_PartitionOffset(index, each.committed_offset, code, since))
            topics.append(_TopicOffsets(topic.name, topic.topic_id, partitions))
        for refused in self.refused:
            held, pending = epochs_of_topic(committer, refused.topic_id)
            since = held.get(refused.partition, pending.get(refused.partition, NOT_OWNED))
            partition = _PartitionOffset(refused.partition, refused.offset, refused.error, since)
            topics.append(_TopicOffsets(refused.topic, refused.topic_id, [partition]))
        strict, revocation, assignment = self.verdicts()
        value = CommitDecidedValue(
            state_offset=state_offset,
            time_ms=time_ms,
            group_kind=self.kind,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            generation_id_or_member_epoch=request.generation_id_or_member_epoch,
            error_code=error,
            policy="" if policies is None else policies.fencing_policy,
            strict_verdict=strict,
            revocation_epoch_verdict=revocation,
            assignment_epoch_verdict=assignment,
            member_epoch=NO_EPOCH if committer is None else committer.member_epoch,
            revocation_epoch=NO_REVOCATION_EPOCH if committer is None else committer.revocation_epoch,
            client_id=self.client_id,
            topics=topics,
        )
        if type(request) is TxnOffsetCommitRequest:
            value.transactional_id = request.transactional_id
            value.producer_id = request.producer_id
            value.producer_epoch = request.producer_epoch
        return Record(CommitDecidedKey(request.group_id), value, 0)

    def verdicts(self) -> tuple[int, int, int]:
        """The verdicts of `strict`, `revocation-epoch` and `assignment-epoch`."""
        policies, committer = self.policies, self.committer
        if policies is None or self.error is ErrorCode.UNSUPPORTED_VERSION:
            return NO_VERDICTS
        if committer is None:
            # Policies are about the epochs of a member: without one, every policy accepts or refuses alike.
            return ALL_REFUSE if self.error in FENCES else ALL_ACCEPT
        epoch = self.request.generation_id_or_member_epoch
        if epoch == committer.member_epoch and not policies.require_ownership:
            # Policies accept the current epoch; what refused it is the fence of a resync, about which they say nothing.
            return NO_VERDICTS if self.error in FENCES else ALL_ACCEPT
        reasons = verdicts(committer, epoch, committed_partitions(self.request, self.metadata_max), policies)
        strict, revocation, assignment = map(_verdict, reasons)
        return strict, revocation, assignment


def _verdict(reason: str | None) -> Verdict:
    if reason is None:
        return Verdict.ACCEPTS
    return Verdict.CANNOT_SAY if reason == LOSS_UNKNOWN else Verdict.REFUSES


def epochs_of_topic(committer: Committer | None, topic_id: bytes) -> tuple[Mapping[int, int], Mapping[int, int]]:
    """Partition -> assignment epoch, of the topic's partitions that the member has, and of those that it must give up."""
    if committer is None:
        return _NO_EPOCHS, _NO_EPOCHS
    return committer.assigned.get(topic_id, _NO_EPOCHS), committer.pending_revocation.get(topic_id, _NO_EPOCHS)


COMMIT_REFUSED = "commit_refused"


def refused_commit_facts(
    groups: Groups, request: Any, context: RequestContext, error: ErrorCode, refused: Sequence[RefusedPartition]
) -> tuple[Fact, ...]:
    """The facts of a commit that the group refused as a whole: its event, and a line if the client is not the member it claims.

    There is no line for an error that a client repeats until it passes, such as REBALANCE_IN_PROGRESS.
    """
    events = commit_facts(groups, request, context, error, refused=refused)
    if error not in FENCES:
        return events
    fields = {
        "group": request.group_id,
        "member": request.member_id,
        "instance": request.group_instance_id,
        "client": context.client_id,
        "host": context.client_host,
        "epoch": request.generation_id_or_member_epoch,
        "error": error.name,
    }
    return (Fact(COMMIT_REFUSED, fields), *events)


def commit_facts(
    groups: Groups,
    request: Any,
    context: RequestContext,
    error: ErrorCode,
    *,
    origin: Origin | None = None,
    partly_refused: bool = False,
    refused: Sequence[RefusedPartition] = (),
) -> tuple[Fact, ...]:
    """The event of a commit that was accepted (NONE), at least in part, or refused as a whole.

    `origin`: what the fence returned; None if it was not asked, or refused the commit. Must be called before the commit is
    replayed, because the event refers to the group as it was. Every topic of the request has both its name and its id. Returns
    nothing if `coordinator.events` excludes the event.
    """
    if not (groups.emits_refused if error or partly_refused or refused else groups.emits_accepted):
        return ()
    if origin is None:
        origin = origin_of(groups, request.group_id, request.member_id)
    metadata_max = groups.config.offset_metadata_max_bytes
    decision = CommitDecision(request, context.client_id, error, metadata_max, *origin, refused)
    return (_new_fact(("", NO_FIELDS, decision)),)
