"""What the event log keeps of a commit: who committed what, by which right, and what each policy says of it.

There is one with every commit, so it is a value that refers to what the commit was decided by, and its bytes are put together
here and not by the codec, which `record` goes through: a test says that they are the same. What the commits of a member in one
generation have in common is put together once. What a policy would have said is asked then, too, of the function that the
fence asks (fencing.py). See events.py for all other events.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator.groups.classic.group import find_classic_group
from coordinator.groups.consumer.group import ConsumerMember, find_consumer_group
from coordinator.groups.events import FENCES, HEAD, NO_FIELDS, STATE_END, count_bytes, key_bytes
from coordinator.groups.fencing import Policies, policies_of, reader_of, verdicts
from coordinator.groups.kinds import Kind
from coordinator.groups.offsets.metadata import is_too_large
from coordinator.groups.streams.group import find_streams_group
from coordinator.protocol.bounded_cache import BoundedCache
from coordinator.protocol.codec import Codec
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.form import WriteForm
from coordinator.protocol.messages import CommitDecidedKey, CommitDecidedValue, TxnOffsetCommitRequest
from coordinator.protocol.wire import COMPACT, NULLABLE_COMPACT
from coordinator.runtime.result import Fact, Record, RequestContext

if TYPE_CHECKING:
    from coordinator.groups.state import Groups

NOBODYS = -1
"""The assignment epoch of a partition that is not the member's."""
NO_MEMBER = -1

NO_END = -1
Committer = tuple[Kind, int, ConsumerMember | None, Policies | None]
"""Who commits, as far as an event says: what a `CommitDecision` ends with."""

# Looking a name up in an enum is noticed with every commit.
_CLASSIC, _CONSUMER, _STREAMS = Kind.CLASSIC, Kind.CONSUMER, Kind.STREAMS
_TopicOffsets = CommitDecidedValue.TopicOffsets
_PartitionOffset = CommitDecidedValue.PartitionOffset
NO_PRODUCER = (-1, -1, None)
_NOTHING_HELD: Mapping[int, int] = {}
_ASKED = Struct(">ih").pack
_JUDGED = Struct(">bbbiiqh").pack
_PARTITION = Struct(">iqhiB").pack
_ABOUT_BYTES_MAX = 512
_VERSION_BYTES = 2
_BLANKS = {8: "q", 16: "qq"}
"""An offset; the state's offset and a time."""
_OFFSETS = slice(4, None, 2)
"""Where they are among the parts."""
_new_fact = partial(tuple.__new__, Fact)
"""Without the call of its constructor."""


class Verdict(IntEnum):
    """Of a policy on a commit. A group that has no policy cannot say."""

    CANNOT_SAY = 0
    ACCEPTS = 1
    REFUSES = 2


NO_VERDICTS = (Verdict.CANNOT_SAY,) * 3
ALL_ACCEPT = (Verdict.ACCEPTS,) * 3
ALL_REFUSE = (Verdict.REFUSES,) * 3


class RefusedOffset(NamedTuple):
    """A partition of a commit that was refused before the group was asked: there is no such topic or partition."""

    topic: str
    topic_id: bytes
    partition: int
    offset: int
    error: ErrorCode


class CommitDecision:
    """A commit that was accepted or refused. `member`, `generation`: of the member it named, if there was one.

    There is one with every commit, so its bytes are put together here and not by the codec, which `record` goes through: a test
    says that they are the same.
    """

    __slots__ = (
        "client_id", "error", "generation", "kind", "member", "metadata_max", "refused", "request",
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
    ) -> None:
        self.request = request
        self.client_id = client_id
        self.error = error
        self.metadata_max = metadata_max
        self.kind = kind
        self.generation = generation
        self.member = member
        self.settings = settings
        self.refused: Sequence[RefusedOffset] = ()

    def record(self, state_offset: int, time_ms: int) -> Record:
        request, member, settings, error = self.request, self.member, self.settings, self.error
        metadata_max = self.metadata_max
        topics = []
        for topic in request.topics:
            held, pending = _held(member, topic.topic_id)
            partitions = []
            for each in topic.partitions:
                code, metadata = error, each.committed_metadata
                if not code and metadata and is_too_large(metadata, metadata_max):
                    code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                index = each.partition_index
                since = held.get(index, NOBODYS)
                if since == NOBODYS:
                    since = pending.get(index, NOBODYS)
                partitions.append(_PartitionOffset(index, each.committed_offset, code, since))
            topics.append(_TopicOffsets(topic.name, topic.topic_id, partitions))
        for refused in self.refused:
            held, pending = _held(member, refused.topic_id)
            since = held.get(refused.partition, pending.get(refused.partition, NOBODYS))
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

    def encoded(self, state_offset: int, time_ms: int, state_end: int) -> tuple[bytes, bytes]:
        """Key and value of the record, with the state's end as the tagged field that the last event of a batch has."""
        request, member, settings, error = self.request, self.member, self.settings, self.error
        metadata_max, held, leaving = self.metadata_max, _NOTHING_HELD, _NOTHING_HELD
        member_epoch, revocation_epoch = self.generation, -1
        if member is not None:
            member_epoch, revocation_epoch = member.member_epoch, member.revocation_epoch
        producer_id, producer_epoch, transactional_id = NO_PRODUCER
        if type(request) is TxnOffsetCommitRequest:
            producer_id, producer_epoch = request.producer_id, request.producer_epoch
            transactional_id = request.transactional_id
        policy, verdicts = ("", NO_VERDICTS) if settings is None else (settings.fencing_policy, self.verdicts())
        about = _ABOUT[
            request.member_id, request.group_instance_id, request.generation_id_or_member_epoch, error, policy, verdicts,
            member_epoch, revocation_epoch, producer_id, producer_epoch, transactional_id, self.client_id,
            len(request.topics) + len(self.refused),
        ]  # fmt: skip
        parts = [HEAD(0, state_offset, time_ms, self.kind), about]
        for topic in request.topics:
            topic_id, partitions = topic.topic_id, topic.partitions
            if member is not None:
                held, leaving = _held(member, topic_id)
            parts.append(_TOPIC_HEAD[topic.name, topic_id, len(partitions)])
            for each in partitions:
                index, metadata, code, since = each.partition_index, each.committed_metadata, error, NOBODYS
                if metadata and not code and is_too_large(metadata, metadata_max):
                    code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                if held:
                    since = held.get(index, NOBODYS)
                if leaving and since == NOBODYS:
                    since = leaving.get(index, NOBODYS)
                parts.append(_PARTITION(index, each.committed_offset, code, since, 0))
            parts.append(b"\0")
        for refused in self.refused:
            topic_id, index = refused.topic_id, refused.partition
            held, leaving = _held(member, topic_id)
            since = held.get(index, leaving.get(index, NOBODYS))
            parts += (
                _TOPIC_HEAD[refused.topic, topic_id, 1],
                _PARTITION(index, refused.offset, refused.error, since, 0),
                b"\0",
            )
        parts.append(b"\0" if state_end < 0 else STATE_END(1, 0, 8, state_end))
        return _KEY[request.group_id], b"".join(parts)

    def verdicts(self) -> tuple[int, int, int]:
        """What strict, revocation-epoch and assignment-epoch say."""
        settings, member = self.settings, self.member
        if settings is None or self.error is ErrorCode.UNSUPPORTED_VERSION:
            return NO_VERDICTS
        if member is None:
            # There is no epoch to have a policy about: under each, whoever names no member is let through or is not.
            return ALL_REFUSE if self.error in FENCES else ALL_ACCEPT
        epoch = self.request.generation_id_or_member_epoch
        if epoch == member.member_epoch and not settings.require_ownership:
            return ALL_ACCEPT
        said = verdicts(member, epoch, committed_partitions(self.request, self.metadata_max), settings)
        strict, revocation, assignment = (Verdict.REFUSES if why_not else Verdict.ACCEPTS for why_not in said)
        return strict, revocation, assignment


def committed_partitions(request: Any, metadata_max: int) -> list[tuple[bytes, int]]:
    """Topic id and index of what a commit is about; partitions that are refused for their metadata are not."""
    return [
        (topic.topic_id, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
        if not is_too_large(partition.committed_metadata or "", metadata_max)
    ]


def _about(
    member_id: str,
    instance_id: str | None,
    epoch: int,
    error: int,
    policy: str,
    said: tuple[int, int, int],
    member_epoch: int,
    revocation_epoch: int,
    producer_id: int,
    producer_epoch: int,
    transactional_id: str | None,
    client_id: str | None,
    topic_count: int,
) -> bytes:
    """What a commit's event says of who decided it and how: the same with each commit of a member in one generation."""
    return b"".join(
        (
            COMPACT[member_id],
            NULLABLE_COMPACT[instance_id],
            _ASKED(epoch, error),
            COMPACT[policy],
            _JUDGED(*said, member_epoch, revocation_epoch, producer_id, producer_epoch),
            NULLABLE_COMPACT[transactional_id],
            NULLABLE_COMPACT[client_id],
            count_bytes(topic_count),
        )
    )


_ABOUT = BoundedCache(lambda what: _about(*what), _ABOUT_BYTES_MAX)
_TOPIC_HEAD = BoundedCache(lambda topic: COMPACT[topic[0]] + topic[1] + count_bytes(topic[2]))
"""By name, id and count of partitions."""
_KEY = BoundedCache(lambda group_id: key_bytes(CommitDecidedKey.API_KEY, group_id))


def _held(member: ConsumerMember | None, topic_id: bytes) -> tuple[Mapping[int, int], Mapping[int, int]]:
    if member is None:
        return _NOTHING_HELD, _NOTHING_HELD
    return member.assigned.get(topic_id, _NOTHING_HELD), member.pending_revocation.get(topic_id, _NOTHING_HELD)


def commit_decided(
    groups: "Groups", request: Any, context: RequestContext, error: ErrorCode, *, partly_refused: bool
) -> tuple[Fact, ...]:
    """Tells that a commit (OffsetCommit or TxnOffsetCommit) was accepted (NONE) or refused as a whole.

    To be asked before anything of the commit is replayed. Every topic of the request has its name and its id. Nothing
    is told where the event log does not want it.
    """
    if not (groups.emits_refused if error or partly_refused else groups.emits_accepted):
        return ()
    committer = _committer(groups, request.group_id, request.member_id)
    metadata_max = groups.config.offset_metadata_max_bytes
    decision = CommitDecision(request, context.client_id, error, metadata_max, *committer)
    return (_new_fact(("", NO_FIELDS, decision)),)


def _committer(groups: "Groups", group_id: str, member_id: str) -> Committer:
    """The kind of the group, the generation and the member that the commit named, and the settings of the group."""
    classic = find_classic_group(groups, group_id)
    if classic is not None:
        return _CLASSIC, classic.generation if member_id in classic.members else NO_MEMBER, None, None
    modern = find_consumer_group(groups, group_id) or find_streams_group(groups, group_id)
    if modern is None:
        return _CLASSIC, NO_MEMBER, None, None
    kind = modern.kind
    return kind, NO_MEMBER, reader_of(groups, modern, member_id), policies_of(groups, modern)


# --- of commits that are like one before ------------------------------------------------------------------------------


class AcceptedForm:
    """What accepted commits tell that differ in offsets and leader epochs only, while who commits stays what it is."""

    __slots__ = ("_committer", "_member_id", "group_id", "key", "pack", "parts")

    def __init__(self, groups: "Groups", request: Any, inverted: Any, context: RequestContext) -> None:
        """Two samples (protocol/form.py) of such commits."""
        self.group_id = request.group_id
        self._member_id = request.member_id
        self._committer = _committer(groups, self.group_id, self._member_id)
        decisions = [
            CommitDecision(each, context.client_id, ErrorCode.NONE, 0, *self._committer) for each in (request, inverted)
        ]
        self.key, sample = decisions[0].encoded(0, 0, NO_END)
        _, other = decisions[1].encoded(~0, ~0, NO_END)
        form = WriteForm(sample, other, _BLANKS)
        self.parts, self.pack = form.parts, form.pack

    def is_of(self, groups: "Groups") -> bool:
        """Whether the committer, its group and settings are the same still."""
        return self._committer == _committer(groups, self.group_id, self._member_id)

    def told(self, offsets: Sequence[int]) -> tuple[Fact, ...]:
        """Of a commit with these offsets."""
        return (_new_fact(("", NO_FIELDS, _AcceptedAgain(self, offsets))),)


class _AcceptedAgain:
    """One such commit."""

    __slots__ = ("_form", "_offsets")

    def __init__(self, form: AcceptedForm, offsets: Sequence[int]) -> None:
        self._form = form
        self._offsets = offsets

    def record(self, state_offset: int, time_ms: int) -> Record:
        _, value = self.encoded(state_offset, time_ms, NO_END)
        decoded, _ = Codec.of().decoder("CommitDecidedValue", 0)(value, _VERSION_BYTES)
        return Record(CommitDecidedKey(self._form.group_id), decoded, 0)

    def encoded(self, state_offset: int, time_ms: int, state_end: int) -> tuple[bytes, bytes]:
        """As those of a `CommitDecision`."""
        form = self._form
        parts = form.parts
        parts[1], parts[2] = state_offset, time_ms
        parts[_OFFSETS] = self._offsets
        value = form.pack(*parts)
        return form.key, value if state_end < 0 else value[:-1] + STATE_END(1, 0, 8, state_end)
