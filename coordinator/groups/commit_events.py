"""The CommitDecided event: who committed which offsets, whether it was accepted, and what each fencing policy says of it.

There is one for every commit (OffsetCommit or TxnOffsetCommit), so it refers to the objects that the commit was decided by; the
record is made at the end of the turn. The verdicts of the policies are computed then too, by the same function that the
fence asks (fencing.py). All other events are in events.py.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from coordinator.groups.classic.group import find_classic_group
from coordinator.groups.consumer.group import find_consumer_group
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.events import FENCES, NO_FIELDS
from coordinator.groups.fencing import Policies, policies_of, reader_of, verdicts
from coordinator.groups.kinds import Kind
from coordinator.groups.offsets.metadata import is_too_large
from coordinator.groups.offsets.partial_commit import MissingPartition
from coordinator.groups.streams.group import find_streams_group
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import CommitDecidedKey, CommitDecidedValue, TxnOffsetCommitRequest
from coordinator.runtime.result import Fact, Record, RequestContext

if TYPE_CHECKING:
    from coordinator.groups.state import Groups

NOT_OWNED = -1
"""The assignment epoch of a partition that the member does not own."""
NO_GENERATION = -1

CommitterFacts = tuple[Kind, int, ConsumerMember | None, Policies | None]
"""What an event says of a committer: the last four arguments of a `CommitDecision`."""

# Looking a name up in an enum costs time on every commit.
_CLASSIC = Kind.CLASSIC
_TopicOffsets = CommitDecidedValue.TopicOffsets
_PartitionOffset = CommitDecidedValue.PartitionOffset
_NO_EPOCHS: Mapping[int, int] = {}
_new_fact = partial(tuple.__new__, Fact)
"""Creates a fact without calling its constructor."""


class Verdict(IntEnum):
    """What a policy says of a commit. CANNOT_SAY: the group is of a kind that has no policies."""

    CANNOT_SAY = 0
    ACCEPTS = 1
    REFUSES = 2


NO_VERDICTS = (Verdict.CANNOT_SAY,) * 3
ALL_ACCEPT = (Verdict.ACCEPTS,) * 3
ALL_REFUSE = (Verdict.REFUSES,) * 3


class CommitDecision:
    """A commit that was accepted (`error` NONE) or refused.

    `generation`: of the member of a classic group; `member`, `settings`: of a group with epochs. `missing`: the partitions that
    do not exist, which were refused before the group was asked. They come last in the event.
    """

    __slots__ = (
        "client_id", "error", "generation", "kind", "member", "metadata_max", "missing", "request",
        "settings",
    )  # fmt: skip

    def __init__(
        self,
        request: Any,
        client_id: str | None,
        error: ErrorCode,
        metadata_max: int,
        kind: Kind,
        generation: int,
        member: ConsumerMember | None,
        settings: Policies | None,
        missing: Sequence[MissingPartition] = (),
    ) -> None:
        self.request = request
        self.client_id = client_id
        self.error = error
        self.metadata_max = metadata_max
        self.kind = kind
        self.generation = generation
        self.member = member
        self.settings = settings
        self.missing = missing

    def record(self, state_offset: int, time_ms: int) -> Record:
        request, member, settings, error = self.request, self.member, self.settings, self.error
        metadata_max = self.metadata_max
        topics = []
        for topic in request.topics:
            held, pending = epochs_of_topic(member, topic.topic_id)
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
        for missing in self.missing:
            held, pending = epochs_of_topic(member, missing.topic_id)
            since = held.get(missing.partition, pending.get(missing.partition, NOT_OWNED))
            partition = _PartitionOffset(missing.partition, missing.offset, missing.error, since)
            topics.append(_TopicOffsets(missing.topic, missing.topic_id, [partition]))
        strict, revocation, assignment = self.verdicts()
        value = CommitDecidedValue(
            state_offset=state_offset,
            time_ms=time_ms,
            group_kind=self.kind,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            generation_id_or_member_epoch=request.generation_id_or_member_epoch,
            error_code=error,
            policy="" if settings is None else settings.fencing_policy,
            strict_verdict=strict,
            revocation_epoch_verdict=revocation,
            assignment_epoch_verdict=assignment,
            member_epoch=self.generation if member is None else member.member_epoch,
            revocation_epoch=-1 if member is None else member.revocation_epoch,
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
        settings, member = self.settings, self.member
        if settings is None or self.error is ErrorCode.UNSUPPORTED_VERSION:
            return NO_VERDICTS
        if member is None:
            # Policies are about the epochs of a member: without one, every policy accepts or refuses alike.
            return ALL_REFUSE if self.error in FENCES else ALL_ACCEPT
        epoch = self.request.generation_id_or_member_epoch
        if epoch == member.member_epoch and not settings.require_ownership:
            return ALL_ACCEPT
        reasons = verdicts(member, epoch, committed_partitions(self.request, self.metadata_max), settings)
        strict, revocation, assignment = (Verdict.REFUSES if reason else Verdict.ACCEPTS for reason in reasons)
        return strict, revocation, assignment


def committed_partitions(request: Any, metadata_max: int) -> list[tuple[bytes, int]]:
    """Topic id and index of the partitions of a commit, without those that are refused for their metadata."""
    return [
        (topic.topic_id, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
        if not is_too_large(partition.committed_metadata or "", metadata_max)
    ]


def epochs_of_topic(member: ConsumerMember | None, topic_id: bytes) -> tuple[Mapping[int, int], Mapping[int, int]]:
    """Partition -> assignment epoch, of the topic's partitions that the member has, and of those that it must give up."""
    if member is None:
        return _NO_EPOCHS, _NO_EPOCHS
    return member.assigned.get(topic_id, _NO_EPOCHS), member.pending_revocation.get(topic_id, _NO_EPOCHS)


def commit_facts(
    groups: "Groups",
    request: Any,
    context: RequestContext,
    error: ErrorCode,
    *,
    partly_refused: bool = False,
    missing: Sequence[MissingPartition] = (),
) -> tuple[Fact, ...]:
    """The event of a commit that was accepted (NONE), at least in part, or refused as a whole.

    Must be called before the commit is replayed, because it refers to the group as it was. Every topic of the request has both
    its name and its id. Returns nothing if `coordinator.events` excludes the event.
    """
    if not (groups.emits_refused if error or partly_refused or missing else groups.emits_accepted):
        return ()
    committer = committer_facts(groups, request.group_id, request.member_id)
    metadata_max = groups.config.offset_metadata_max_bytes
    decision = CommitDecision(request, context.client_id, error, metadata_max, *committer, missing)
    return (_new_fact(("", NO_FIELDS, decision)),)


def committer_facts(groups: "Groups", group_id: str, member_id: str) -> CommitterFacts:
    """The kind of the group, the generation or the member that the commit named, and the group's settings."""
    classic = find_classic_group(groups, group_id)
    if classic is not None:
        return _CLASSIC, classic.generation if member_id in classic.members else NO_GENERATION, None, None
    modern = find_consumer_group(groups, group_id) or find_streams_group(groups, group_id)
    if modern is None:
        return _CLASSIC, NO_GENERATION, None, None
    return modern.kind, NO_GENERATION, reader_of(groups, modern, member_id), policies_of(groups, modern)
