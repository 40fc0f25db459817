"""What the event log keeps of a group: who came and went, why the group rebalanced, who was given what; and who committed
(commit_events.py).

The groups' log says what came of the decisions, and only of some: an offset record names no member and no epoch, and
a commit that was refused leaves nothing at all. So the operations tell their decisions as facts with an event; the
shell writes them beside the groups' log (runtime/event_log.py), or does not (`coordinator.events`). docs/events.md
says what a reader may conclude from each.

An event is a value. It holds what was true when it was told, in objects that nobody changes afterwards, and becomes a
record at the end of the turn, when the requests of the turn have their answers.
"""

import struct
from collections.abc import Mapping
from struct import Struct
from typing import TYPE_CHECKING, Any, Protocol

from coordinator.groups.consumer.group import ConsumerGroup, ConsumerMember
from coordinator.groups.consumer.reconcile import Owned
from coordinator.groups.kinds import Kind
from coordinator.groups.modern import Epochs
from coordinator.protocol.codec import Codec
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    AssignmentAcknowledgedKey,
    AssignmentAcknowledgedValue,
    AssignmentDeliveredKey,
    AssignmentDeliveredValue,
    GroupConvertedKey,
    GroupConvertedValue,
    HeartbeatRequest,
    JoinGroupRequest,
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
    SyncGroupRequest,
)
from coordinator.protocol.subscription import parse_assignment
from coordinator.protocol.wire import COMPACT, NULLABLE_COMPACT, PLAIN, SHORT, DecodeError, size_prefix
from coordinator.runtime.result import Event, Fact, MessageEvent, Record, RequestContext

if TYPE_CHECKING:
    from coordinator.groups.state import Catalog, Groups

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
NO_FIELDS: dict[str, Any] = {}


def event_only(event: Event) -> Fact:
    """A fact for the event log alone."""
    return Fact("", NO_FIELDS, event)


HEAD = Struct(">hqqb").pack
STATE_END = Struct(">BBBq").pack
_TOOK = Struct(">iq").pack
_WAIT = Struct(">qB").pack
_ASSIGNMENT = Struct(">hi").unpack_from
_ASSIGNMENT_BYTES = 6
_VERSION = b"\0\0"


def count_bytes(count: int) -> bytes:
    """Of a compact array."""
    return SHORT[count] if count < len(SHORT) else size_prefix(count)


def key_bytes(number: int | None, group_id: str) -> bytes:
    """The key of an event of a group."""
    assert number is not None
    key: bytes = number.to_bytes(2) + PLAIN[group_id]
    return key


# --- members ----------------------------------------------------------------------------------------------------------


class Joined:
    """A new member. Where a thousand start at once there is one for each, so its bytes are put together here, as a commit's."""

    __slots__ = ("client_host", "client_id", "epoch", "group_id", "instance_id", "kind", "member_id")

    def __init__(
        self, group_id: str, kind: Kind, member_id: str, instance_id: str | None, context: RequestContext, epoch: int
    ) -> None:
        self.group_id = group_id
        self.kind = kind
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = context.client_id
        self.client_host = context.client_host
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
            HEAD(0, state_offset, time_ms, self.kind),
            COMPACT[self.member_id],
            NULLABLE_COMPACT[self.instance_id],
            NULLABLE_COMPACT[self.client_id],
            COMPACT[self.client_host],
            self.epoch.to_bytes(4, signed=True),
            b"\0" if state_end < 0 else STATE_END(1, 0, 8, state_end),
        )
        return key_bytes(MemberJoinedKey.API_KEY, self.group_id), b"".join(parts)


def member_joined(
    group_id: str, kind: Kind, member_id: str, instance_id: str | None, context: RequestContext, epoch: int
) -> Fact:
    """`epoch`: the generation it is to be in, or its first member epoch."""
    return event_only(Joined(group_id, kind, member_id, instance_id, context, epoch))


def member_left(
    group_id: str, kind: Kind, member_id: str, instance_id: str | None, epoch: int, reason: str | None
) -> Fact:
    """`epoch`: its last; -2 for a static member that will be back."""
    value = MemberLeftValue(
        group_kind=kind, member_id=member_id, group_instance_id=instance_id, epoch=epoch, reason=reason
    )
    return event_only(MessageEvent(MemberLeftKey(group_id), value))


def member_expired(
    group_id: str, kind: Kind, member_id: str, instance_id: str | None, epoch: int, timeout: str
) -> Event:
    value = MemberExpiredValue(
        group_kind=kind, member_id=member_id, group_instance_id=instance_id, epoch=epoch, timeout=timeout
    )
    return MessageEvent(MemberExpiredKey(group_id), value)


def member_fenced(
    group_id: str, kind: Kind, member_id: str, instance_id: str | None, epoch: int, error: ErrorCode, api: str
) -> Event:
    """`api`: whose request was refused, or took its place."""
    value = MemberFencedValue(
        group_kind=kind, member_id=member_id, group_instance_id=instance_id, epoch=epoch, error_code=error, api=api
    )
    return MessageEvent(MemberFencedKey(group_id), value)


def fenced(
    groups: "Groups", group_id: str, member_id: str, instance_id: str | None, epoch: int, error: int, api: str
) -> tuple[Fact, ...]:
    """Tells that somebody was refused as not being who it said, if it was: nothing for other errors, or without a name."""
    if not groups.emits_refused or error not in FENCES or not (member_id or instance_id):
        return ()
    group = groups.by_id.get(group_id)
    kind = Kind.CLASSIC if group is None else group.kind
    return (event_only(member_fenced(group_id, kind, member_id, instance_id, epoch, ErrorCode(error), api)),)


def fenced_classic(
    groups: "Groups", request: JoinGroupRequest | SyncGroupRequest | HeartbeatRequest, error: int
) -> tuple[Fact, ...]:
    """The same of a request of the classic protocol."""
    return fenced(
        groups,
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id,
        error,
        request.NAME.removesuffix("Request"),
    )


# --- rebalances -------------------------------------------------------------------------------------------------------


def rebalance_started(group_id: str, kind: Kind, epoch: int, cause: str, member_id: str, reason: str | None) -> Event:
    """`epoch`: to which it leads."""
    value = RebalanceStartedValue(group_kind=kind, epoch=epoch, cause=cause, member_id=member_id or None, reason=reason)
    return MessageEvent(RebalanceStartedKey(group_id), value)


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
            HEAD(0, state_offset, time_ms, self.kind),
            _TOOK(self.epoch, self.duration_ms),
            COMPACT[self.cause],
            NULLABLE_COMPACT[self.member_id],
            self.members.to_bytes(4),
            count_bytes(len(self.waits)),
        ]
        for member_id, waited_ms in self.waits.items():
            parts += (COMPACT[member_id], _WAIT(waited_ms, 0))
        parts.append(b"\0" if state_end < 0 else STATE_END(1, 0, 8, state_end))
        return key_bytes(RebalanceCompletedKey.API_KEY, self.group_id), b"".join(parts)


def group_converted(group_id: str, was: Kind, to: Kind, epoch: int, member_id: str, members: int) -> Event:
    """`epoch`: the group's when it is done."""
    value = GroupConvertedValue(
        from_kind=was,
        to_kind=to,
        epoch=epoch,
        member_id=member_id or None,
        members=members,
    )
    return MessageEvent(GroupConvertedKey(group_id), value)


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
            return key_bytes(AssignmentDeliveredKey.API_KEY, self.group_id), _VERSION + Codec.of().encoder(
                value.NAME, 0
            )(value)
        parts = (
            HEAD(0, state_offset, time_ms, Kind.CLASSIC),
            COMPACT[self.member_id],
            self.generation.to_bytes(4, signed=True),
            *topics,
            b"\0\0" if state_end < 0 else b"\0" + STATE_END(1, 0, 8, state_end),
        )
        return key_bytes(AssignmentDeliveredKey.API_KEY, self.group_id), b"".join(parts)

    def _topics(self) -> list[bytes] | None:
        """The field Topics; None where the assignment is not as clients write it, and must be looked at more closely."""
        data = self.assignment
        topic_id, seen = self.catalog.topic_id, set()
        try:
            version, count = _ASSIGNMENT(data)
            if not 0 <= version <= 3 or not 0 <= count <= len(data):
                return None
            at = _ASSIGNMENT_BYTES
            parts = [count_bytes(count)]
            for _ in range(count):
                size = int.from_bytes(data[at : at + 2], signed=True)
                at += 2 + size
                encoded = data[at - size : at]
                name, many = encoded.decode(), int.from_bytes(data[at : at + 4], signed=True)
                at += 4 + 4 * many
                if size < 0 or many < 0 or at > len(data) or name in seen:
                    return None
                seen.add(name)
                parts += (
                    COMPACT[name],
                    topic_id(name) or NO_TOPIC_ID,
                    count_bytes(many),
                    data[at - 4 * many : at],
                    b"\0",
                )
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
    """What a member of a group with epochs was told that it holds, or said that it does. `value`: the event's class."""

    __slots__ = ("catalog", "epoch", "group_id", "held", "key", "kind", "member_id", "value")

    def __init__(
        self,
        key: type[Message],
        value: Any,
        kind: Kind,
        group_id: str,
        catalog: "Catalog",
        member_id: str,
        epoch: int,
        held: Epochs,
    ) -> None:
        self.key: Any = key
        self.value = value
        self.kind = kind
        self.group_id = group_id
        self.catalog = catalog
        self.member_id = member_id
        self.epoch = epoch
        self.held = held

    def encoded(self, state_offset: int, time_ms: int, state_end: int) -> tuple[bytes, bytes]:
        topic_name = self.catalog.topic_name
        parts = [
            HEAD(0, state_offset, time_ms, self.kind),
            COMPACT[self.member_id],
            self.epoch.to_bytes(4, signed=True),
            count_bytes(len(self.held)),
        ]
        for topic_id, which in self.held.items():
            partitions = struct.pack(f">{len(which)}i", *sorted(which))
            parts += (COMPACT[topic_name(topic_id) or ""], topic_id, count_bytes(len(which)), partitions, b"\0")
        if self.value is AssignmentDeliveredValue:
            parts.append(b"\0")
        parts.append(b"\0" if state_end < 0 else STATE_END(1, 0, 8, state_end))
        return key_bytes(self.key.API_KEY, self.group_id), b"".join(parts)

    def record(self, state_offset: int, time_ms: int) -> Record:
        topic_name, entry = self.catalog.topic_name, self.value.TopicPartitions
        topics = [entry(topic_name(each) or "", each, sorted(which)) for each, which in self.held.items()]
        value = self.value(state_offset, time_ms, self.kind, self.member_id, self.epoch, topics)
        return Record(self.key(self.group_id), value, 0)


class WithEpochs(Protocol):
    """A group with epochs, as far as it matters here."""

    group_id: str
    delivered: dict[str, tuple[int, Epochs]]
    acknowledged: dict[str, tuple[int, Epochs]]


def delivered(
    groups: "Groups", group: WithEpochs, member: ConsumerMember, kind: Kind = Kind.CONSUMER
) -> tuple[Fact, ...]:
    """A member is told what it is assigned; nothing if that is what it was told last."""
    now = (member.member_epoch, member.assigned)
    if group.delivered.get(member.member_id) == now:
        return ()
    group.delivered[member.member_id] = now
    key, value = AssignmentDeliveredKey, AssignmentDeliveredValue
    return (event_only(Holding(key, value, kind, group.group_id, groups.catalog, member.member_id, *now)),)


def acknowledged(groups: "Groups", group: ConsumerGroup, member: ConsumerMember, owned: Owned) -> tuple[Fact, ...]:
    """A member of a consumer group says what it owns; told if that is all that it was assigned, and news."""
    if owned is None or group.acknowledged.get(member.member_id) == (member.member_epoch, member.assigned):
        return ()
    said = {topic_id: set(partitions) for topic_id, partitions in owned}
    if said != {topic_id: set(partitions) for topic_id, partitions in member.assigned.items()}:
        return ()
    return owns_all(groups, group, member, Kind.CONSUMER)


def owns_all(groups: "Groups", group: WithEpochs, member: ConsumerMember, kind: Kind) -> tuple[Fact, ...]:
    """A member said that it owns all that it was assigned; nothing if that is no news."""
    now = (member.member_epoch, member.assigned)
    if group.acknowledged.get(member.member_id) == now:
        return ()
    group.acknowledged[member.member_id] = now
    key, value = AssignmentAcknowledgedKey, AssignmentAcknowledgedValue
    return (event_only(Holding(key, value, kind, group.group_id, groups.catalog, member.member_id, *now)),)


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
