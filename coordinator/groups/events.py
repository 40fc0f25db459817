"""What the event log keeps of a group: who committed what and by which right, who came and went, why the group
rebalanced.

The groups' log says what came of the decisions, and only of some: an offset record names no member and no epoch, and
a commit that was refused leaves nothing at all. So the operations tell their decisions as facts with an event; the
shell writes them beside the groups' log (runtime/event_log.py), or does not (`coordinator.events`). docs/events.md
says what a reader may conclude from each.

An event is a value. It holds what was true when it was told, in objects that nobody changes afterwards, and becomes a
record at the end of the turn, when the requests of the turn have their answers. What a policy would have said of a
commit is asked then too, and of the same function that the fence asks (fencing.py).
"""

import struct
from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import lru_cache, partial
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator.groups.consumer.group import ConsumerGroup, ConsumerMember, Epochs
from coordinator.groups.consumer.reconcile import Owned
from coordinator.groups.fencing import verdicts
from coordinator.groups.offsets.metadata import is_too_large
from coordinator.groups.settings import ConsumerSettings
from coordinator.protocol.codec import Codec
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    AssignmentAcknowledgedKey,
    AssignmentAcknowledgedValue,
    AssignmentDeliveredKey,
    AssignmentDeliveredValue,
    CommitDecidedKey,
    CommitDecidedValue,
    GroupConvertedKey,
    GroupConvertedValue,
    MemberExpiredKey,
    MemberExpiredValue,
    MemberFencedKey,
    MemberFencedValue,
    MemberJoinedKey,
    MemberJoinedValue,
    MemberLeftKey,
    MemberLeftValue,
    Message,
    RebalanceCompletedKey,
    RebalanceCompletedValue,
    RebalanceStartedKey,
    RebalanceStartedValue,
    TxnOffsetCommitRequest,
)
from coordinator.protocol.subscription import parse_assignment
from coordinator.protocol.wire import SHORT, DecodeError, size_prefix, text_prefix
from coordinator.runtime.result import Call, Event, Fact, Record, Told

if TYPE_CHECKING:
    from coordinator.groups.groups import Catalog, Groups

FENCES = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_MEMBER_EPOCH,
    }
)
"""How somebody is told that it is not, or not any more, who it says it is."""

NO_TOPIC_ID = bytes(16)
NOBODYS = -1
"""The assignment epoch of a partition that is not the member's."""
NO_MEMBER = -1
NO_FIELDS: dict[str, Any] = {}


class Kind(IntEnum):
    """Of a group, as the events say it."""

    CLASSIC = 0
    CONSUMER = 1


class Verdict(IntEnum):
    """Of a policy on a commit. A group that has no policy cannot say."""

    CANNOT_SAY = 0
    ACCEPTS = 1
    REFUSES = 2


NO_VERDICTS = (Verdict.CANNOT_SAY,) * 3
ALL_ACCEPT = (Verdict.ACCEPTS,) * 3
ALL_REFUSE = (Verdict.REFUSES,) * 3


def quiet(event: Event) -> Fact:
    """A fact for the event log alone."""
    return Fact("", NO_FIELDS, event)


# --- commits ----------------------------------------------------------------------------------------------------------


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
        settings: ConsumerSettings | None,
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
        about = _about(
            request.member_id, request.group_instance_id, request.generation_id_or_member_epoch, error, policy, verdicts,
            member_epoch, revocation_epoch, producer_id, producer_epoch, transactional_id, self.client_id,
            len(request.topics) + len(self.refused),
        )  # fmt: skip
        parts = [_HEAD(0, state_offset, time_ms, self.kind), about]
        for topic in request.topics:
            topic_id, partitions = topic.topic_id, topic.partitions
            if member is not None:
                held, leaving = _held(member, topic_id)
            parts.append(_topic_head(topic.name, topic_id, len(partitions)))
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
                _topic_head(refused.topic, topic_id, 1),
                _PARTITION(index, refused.offset, refused.error, since, 0),
                b"\0",
            )
        parts.append(b"\0" if state_end < 0 else _STATE_END(1, 0, 8, state_end))
        return _key(CommitDecidedKey.API_KEY, request.group_id), b"".join(parts)

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


def commit_decided(
    groups: "Groups", request: Any, call: Call, error: ErrorCode, *, partly_refused: bool
) -> tuple[Fact, ...]:
    """Tells that a commit (OffsetCommit or TxnOffsetCommit) was accepted (NONE) or refused as a whole.

    To be asked before anything of the commit is replayed. Every topic of the request has its name and its id. Nothing
    is told where the event log does not want it.
    """
    if not (groups.tells_refused if error or partly_refused else groups.tells_accepted):
        return ()
    group_id, member_id = request.group_id, request.member_id
    kind, generation, member, settings = Kind.CLASSIC, NO_MEMBER, None, None
    classic = groups.classic.get(group_id)
    if classic is not None:
        if member_id in classic.members:
            generation = classic.generation
    else:
        consumer = groups.consumer.get(group_id)
        if consumer is not None:
            kind = Kind.CONSUMER
            member = consumer.members.get(member_id)
            settings = groups.settings.consumer(group_id)
    metadata_max = groups.config.offset_metadata_max_bytes
    decision = CommitDecision(request, call.client_id, error, metadata_max, kind, generation, member, settings)
    return (_new_fact(("", NO_FIELDS, decision)),)


_new_fact = partial(tuple.__new__, Fact)
"""Without the call of its constructor."""
_TopicOffsets = CommitDecidedValue.TopicOffsets
_PartitionOffset = CommitDecidedValue.PartitionOffset
NO_PRODUCER = (-1, -1, None)
_NOTHING_HELD: Mapping[int, int] = {}
_HEAD = Struct(">hqqb").pack
_ASKED = Struct(">ih").pack
_JUDGED = Struct(">bbbiiqh").pack
_PARTITION = Struct(">iqhiB").pack
_STATE_END = Struct(">BBBq").pack
_TOOK = Struct(">iq").pack
_WAIT = Struct(">qB").pack
_ASSIGNMENT = Struct(">hi").unpack_from
_ASSIGNMENT_BYTES = 6
_VERSION = b"\0\0"
_NAMES_REMEMBERED = 4_096


@lru_cache(_NAMES_REMEMBERED)
def _text(text: str) -> bytes:
    """A compact string. The same few thousand names are in nearly all events."""
    encoded = text.encode()
    return (SHORT[len(encoded)] if len(encoded) < len(SHORT) else text_prefix(len(encoded))) + encoded


def _nullable_text(text: str | None) -> bytes:
    return b"\0" if text is None else _text(text)


def _count(count: int) -> bytes:
    """Of a compact array."""
    return SHORT[count] if count < len(SHORT) else size_prefix(count)


@lru_cache(_NAMES_REMEMBERED)
def _about(
    member_id: str,
    instance_id: str | None,
    epoch: int,
    error: int,
    policy: str,
    verdicts: tuple[int, int, int],
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
            _text(member_id),
            _nullable_text(instance_id),
            _ASKED(epoch, error),
            _text(policy),
            _JUDGED(*verdicts, member_epoch, revocation_epoch, producer_id, producer_epoch),
            _nullable_text(transactional_id),
            _nullable_text(client_id),
            _count(topic_count),
        )
    )


@lru_cache(_NAMES_REMEMBERED)
def _topic_head(name: str, topic_id: bytes, partition_count: int) -> bytes:
    return _text(name) + topic_id + _count(partition_count)


@lru_cache(_NAMES_REMEMBERED)
def _key(number: int | None, group_id: str) -> bytes:
    assert number is not None
    encoded = group_id.encode()
    text_prefix(len(encoded))  # refuses what is too long
    return number.to_bytes(2) + len(encoded).to_bytes(2) + encoded


def _held(member: ConsumerMember | None, topic_id: bytes) -> tuple[Mapping[int, int], Mapping[int, int]]:
    if member is None:
        return _NOTHING_HELD, _NOTHING_HELD
    return member.assigned.get(topic_id, _NOTHING_HELD), member.pending_revocation.get(topic_id, _NOTHING_HELD)


# --- members ----------------------------------------------------------------------------------------------------------


class Joined:
    """A new member. Where a thousand start at once there is one for each, so its bytes are put together here, as a commit's."""

    __slots__ = ("client_host", "client_id", "epoch", "group_id", "instance_id", "kind", "member_id")

    def __init__(
        self, group_id: str, kind: Kind, member_id: str, instance_id: str | None, call: Call, epoch: int
    ) -> None:
        self.group_id = group_id
        self.kind = kind
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = call.client_id
        self.client_host = call.client_host
        self.epoch = epoch

    def record(self, state_offset: int, time_ms: int) -> Record:
        value = MemberJoinedValue(
            state_offset,
            time_ms,
            self.kind,
            self.member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.epoch,
        )
        return Record(MemberJoinedKey(self.group_id), value, 0)

    def encoded(self, state_offset: int, time_ms: int, state_end: int) -> tuple[bytes, bytes]:
        parts = (
            _HEAD(0, state_offset, time_ms, self.kind),
            _text(self.member_id),
            _nullable_text(self.instance_id),
            _nullable_text(self.client_id),
            _text(self.client_host),
            self.epoch.to_bytes(4, signed=True),
            b"\0" if state_end < 0 else _STATE_END(1, 0, 8, state_end),
        )
        return _key(MemberJoinedKey.API_KEY, self.group_id), b"".join(parts)


def member_joined(group_id: str, kind: Kind, member_id: str, instance_id: str | None, call: Call, epoch: int) -> Fact:
    """`epoch`: the generation it is to be in, or its first member epoch."""
    return quiet(Joined(group_id, kind, member_id, instance_id, call, epoch))


def member_left(
    group_id: str, kind: Kind, member_id: str, instance_id: str | None, epoch: int, reason: str | None
) -> Fact:
    """`epoch`: its last; -2 for a static member that will be back."""
    value = MemberLeftValue(
        group_kind=kind, member_id=member_id, group_instance_id=instance_id, epoch=epoch, reason=reason
    )
    return quiet(Told(MemberLeftKey(group_id), value))


def member_expired(
    group_id: str, kind: Kind, member_id: str, instance_id: str | None, epoch: int, timeout: str
) -> Event:
    value = MemberExpiredValue(
        group_kind=kind, member_id=member_id, group_instance_id=instance_id, epoch=epoch, timeout=timeout
    )
    return Told(MemberExpiredKey(group_id), value)


def member_fenced(
    group_id: str, kind: Kind, member_id: str, instance_id: str | None, epoch: int, error: ErrorCode, api: str
) -> Event:
    """`api`: whose request was refused, or took its place."""
    value = MemberFencedValue(
        group_kind=kind, member_id=member_id, group_instance_id=instance_id, epoch=epoch, error_code=error, api=api
    )
    return Told(MemberFencedKey(group_id), value)


def fenced(
    groups: "Groups", group_id: str, member_id: str, instance_id: str | None, epoch: int, error: int, api: str
) -> tuple[Fact, ...]:
    """Tells that somebody was refused as not being who it said, if it was: nothing for other errors, or without a name."""
    if not groups.tells_refused or error not in FENCES or not (member_id or instance_id):
        return ()
    kind = Kind.CONSUMER if group_id in groups.consumer else Kind.CLASSIC
    return (quiet(member_fenced(group_id, kind, member_id, instance_id, epoch, ErrorCode(error), api)),)


# --- rebalances -------------------------------------------------------------------------------------------------------


def rebalance_started(group_id: str, kind: Kind, epoch: int, cause: str, member_id: str, reason: str | None) -> Event:
    """`epoch`: to which it leads."""
    value = RebalanceStartedValue(group_kind=kind, epoch=epoch, cause=cause, member_id=member_id or None, reason=reason)
    return Told(RebalanceStartedKey(group_id), value)


class Completed:
    """The end of a rebalance. It names every member: in a large group that is the longest event of all."""

    __slots__ = ("cause", "duration_ms", "epoch", "group_id", "kind", "member_id", "members", "waits")

    def __init__(
        self,
        group_id: str,
        kind: Kind,
        epoch: int,
        *,
        duration_ms: int,
        cause: str,
        member_id: str,
        members: int,
        waits: Mapping[str, int],
    ) -> None:
        """`waits`: member id -> how long it was waited for. It is over, and they do not change any more."""
        self.group_id = group_id
        self.kind = kind
        self.epoch = epoch
        self.duration_ms = duration_ms
        self.cause = cause
        self.member_id = member_id or None
        self.members = members
        self.waits = waits

    def record(self, state_offset: int, time_ms: int) -> Record:
        value = RebalanceCompletedValue(
            state_offset=state_offset,
            time_ms=time_ms,
            group_kind=self.kind,
            epoch=self.epoch,
            duration_ms=self.duration_ms,
            cause=self.cause,
            member_id=self.member_id,
            members=self.members,
            waited_for=[RebalanceCompletedValue.Wait(each, waited_ms) for each, waited_ms in self.waits.items()],
        )
        return Record(RebalanceCompletedKey(self.group_id), value, 0)

    def encoded(self, state_offset: int, time_ms: int, state_end: int) -> tuple[bytes, bytes]:
        parts = [
            _HEAD(0, state_offset, time_ms, self.kind),
            _TOOK(self.epoch, self.duration_ms),
            _text(self.cause),
            _nullable_text(self.member_id),
            self.members.to_bytes(4),
            _count(len(self.waits)),
        ]
        for member_id, waited_ms in self.waits.items():
            parts += (_text(member_id), _WAIT(waited_ms, 0))
        parts.append(b"\0" if state_end < 0 else _STATE_END(1, 0, 8, state_end))
        return _key(RebalanceCompletedKey.API_KEY, self.group_id), b"".join(parts)


def group_converted(group_id: str, to: Kind, epoch: int, member_id: str, members: int) -> Event:
    """`epoch`: the group's when it is done."""
    value = GroupConvertedValue(
        from_kind=Kind.CLASSIC if to is Kind.CONSUMER else Kind.CONSUMER,
        to_kind=to,
        epoch=epoch,
        member_id=member_id or None,
        members=members,
    )
    return Told(GroupConvertedKey(group_id), value)


# --- assignments ------------------------------------------------------------------------------------------------------


class ClassicDelivery:
    """The bytes that a member of a classic group got by SyncGroup; read when the record is made.

    A rebalance has one for each member, so what it says is copied from the one form into the other: the partitions are written
    alike in both. `record` makes the same of the messages.
    """

    __slots__ = ("assignment", "catalog", "generation", "group_id", "member_id")

    def __init__(self, group_id: str, member_id: str, generation: int, assignment: bytes, catalog: "Catalog") -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.generation = generation
        self.assignment = assignment
        self.catalog = catalog

    def encoded(self, state_offset: int, time_ms: int, state_end: int) -> tuple[bytes, bytes]:
        """Key and value of the record."""
        topics = self._topics()
        if topics is None:
            value: Any = self.record(state_offset, time_ms).value
            value.state_end_offset = state_end
            return _key(AssignmentDeliveredKey.API_KEY, self.group_id), _VERSION + Codec.of().encoder(value.NAME, 0)(
                value
            )
        parts = (
            _HEAD(0, state_offset, time_ms, Kind.CLASSIC),
            _text(self.member_id),
            self.generation.to_bytes(4, signed=True),
            *topics,
            b"\0\0" if state_end < 0 else b"\0" + _STATE_END(1, 0, 8, state_end),
        )
        return _key(AssignmentDeliveredKey.API_KEY, self.group_id), b"".join(parts)

    def _topics(self) -> list[bytes] | None:
        """The field Topics; None where the assignment is not as clients write it, and must be looked at more closely."""
        data = self.assignment
        topic_id, seen = self.catalog.topic_id, set()
        try:
            version, count = _ASSIGNMENT(data)
            if not 0 <= version <= 3 or not 0 <= count <= len(data):
                return None
            at = _ASSIGNMENT_BYTES
            parts = [_count(count)]
            for _ in range(count):
                size = int.from_bytes(data[at : at + 2], signed=True)
                at += 2 + size
                encoded = data[at - size : at]
                name, many = encoded.decode(), int.from_bytes(data[at : at + 4], signed=True)
                at += 4 + 4 * many
                if size < 0 or many < 0 or at > len(data) or name in seen:
                    return None
                seen.add(name)
                parts += (_text(name), topic_id(name) or NO_TOPIC_ID, _count(many), data[at - 4 * many : at], b"\0")
            user_data = int.from_bytes(data[at : at + 4], signed=True)
        except (struct.error, UnicodeDecodeError):
            return None
        return parts if len(data) == at + 4 + max(user_data, 0) and user_data >= -1 else None

    def record(self, state_offset: int, time_ms: int) -> Record:
        value = AssignmentDeliveredValue(state_offset, time_ms, Kind.CLASSIC, self.member_id, self.generation)
        try:
            partitions = parse_assignment(self.assignment).partitions
        except DecodeError:
            value.assignment = self.assignment
        else:
            topic_id = self.catalog.topic_id
            value.topics = [
                AssignmentDeliveredValue.TopicPartitions(name, topic_id(name) or NO_TOPIC_ID, list(which))
                for name, which in partitions.items()
            ]
        return Record(AssignmentDeliveredKey(self.group_id), value, 0)


class Holding:
    """What a member of a consumer group was told that it holds, or said that it does. `value`: the event's class."""

    __slots__ = ("catalog", "epoch", "group_id", "held", "key", "member_id", "value")

    def __init__(
        self,
        key: type[Message],
        value: Any,
        group_id: str,
        catalog: "Catalog",
        member_id: str,
        epoch: int,
        held: Epochs,
    ) -> None:
        self.key: Any = key
        self.value = value
        self.group_id = group_id
        self.catalog = catalog
        self.member_id = member_id
        self.epoch = epoch
        self.held = held

    def encoded(self, state_offset: int, time_ms: int, state_end: int) -> tuple[bytes, bytes]:
        topic_name = self.catalog.topic_name
        parts = [
            _HEAD(0, state_offset, time_ms, Kind.CONSUMER),
            _text(self.member_id),
            self.epoch.to_bytes(4, signed=True),
            _count(len(self.held)),
        ]
        for topic_id, which in self.held.items():
            partitions = struct.pack(f">{len(which)}i", *sorted(which))
            parts += (_text(topic_name(topic_id) or ""), topic_id, _count(len(which)), partitions, b"\0")
        if self.value is AssignmentDeliveredValue:
            parts.append(b"\0")
        parts.append(b"\0" if state_end < 0 else _STATE_END(1, 0, 8, state_end))
        return _key(self.key.API_KEY, self.group_id), b"".join(parts)

    def record(self, state_offset: int, time_ms: int) -> Record:
        topic_name, entry = self.catalog.topic_name, self.value.TopicPartitions
        topics = [entry(topic_name(each) or "", each, sorted(which)) for each, which in self.held.items()]
        value = self.value(state_offset, time_ms, Kind.CONSUMER, self.member_id, self.epoch, topics)
        return Record(self.key(self.group_id), value, 0)


def delivered(groups: "Groups", group: ConsumerGroup, member: ConsumerMember) -> tuple[Fact, ...]:
    """A member of a consumer group is told what it is assigned; nothing if that is what it was told last."""
    now = (member.member_epoch, member.assigned)
    if group.delivered.get(member.member_id) == now:
        return ()
    group.delivered[member.member_id] = now
    key, value = AssignmentDeliveredKey, AssignmentDeliveredValue
    return (quiet(Holding(key, value, group.group_id, groups.catalog, member.member_id, *now)),)


def acknowledged(groups: "Groups", group: ConsumerGroup, member: ConsumerMember, owned: Owned) -> tuple[Fact, ...]:
    """A member of a consumer group says what it owns; told if that is all that it was assigned, and news."""
    now = (member.member_epoch, member.assigned)
    if owned is None or group.acknowledged.get(member.member_id) == now:
        return ()
    said = {topic_id: set(partitions) for topic_id, partitions in owned}
    if said != {topic_id: set(partitions) for topic_id, partitions in member.assigned.items()}:
        return ()
    group.acknowledged[member.member_id] = now
    key, value = AssignmentAcknowledgedKey, AssignmentAcknowledgedValue
    return (quiet(Holding(key, value, group.group_id, groups.catalog, member.member_id, *now)),)


EVENT_KEYS: tuple[str, ...] = (
    "EventLogOpenedKey",
    "EventLogClosedKey",
    "CommitDecidedKey",
    "RebalanceStartedKey",
    "RebalanceCompletedKey",
    "MemberJoinedKey",
    "MemberLeftKey",
    "MemberExpiredKey",
    "MemberFencedKey",
    "AssignmentDeliveredKey",
    "AssignmentAcknowledgedKey",
    "GroupConvertedKey",
)
"""The key messages that an event log may hold."""
