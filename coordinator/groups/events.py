"""The events of groups: members that join and leave, the causes of rebalances, assignments; commits are in commit_events.py.

The groups' log holds the results of decisions, and only of some: an offset record names no member and no epoch, and a refused
commit leaves no record. So operations emit their decisions as facts that carry an event. The shell writes these beside the
groups' log (runtime/event_log.py) unless `coordinator.events` turns them off. docs/events.md says what a reader may conclude
from each.

An event is a value: it refers to objects that nobody changes afterwards, and becomes a record at the end of the turn, when the
requests of that turn have been answered. `record()` defines what an event means; the event log encodes it by the codec.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from coordinator.groups.catalog import Catalog
from coordinator.groups.epochs.member import Held, Owned
from coordinator.groups.epochs.soft_state import SoftState
from coordinator.groups.group import Group
from coordinator.groups.kinds import Kind
from coordinator.groups.state import Groups
from coordinator.protocol.errors import ErrorCode, KafkaError
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
    RebalanceCompletedKey,
    RebalanceCompletedValue,
    RebalanceOvertakenKey,
    RebalanceOvertakenValue,
    RebalanceStartedKey,
    RebalanceStartedValue,
    RequestRefusedKey,
    RequestRefusedValue,
    SyncGroupRequest,
)
from coordinator.protocol.subscription import parse_assignment
from coordinator.protocol.wire import DecodeError
from coordinator.runtime.result import NO_LINK, Event, Fact, MessageEvent, Record, RequestContext

FENCES = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_MEMBER_EPOCH,
    }
)
"""The errors from which a client learns that it is not, or no longer, the member that it claims to be."""

REFUSALS = frozenset(
    {
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        ErrorCode.STREAMS_INVALID_TOPOLOGY,
    }
)
"""The other errors that a client does not get past by trying again."""
REQUEST_REFUSED = "request_refused"
OFFSETS_REWOUND, OFFSETS_RESET = "offsets_rewound", "offsets_reset"

NO_TOPIC_ID = bytes(16)
NO_FIELDS: dict[str, Any] = {}


def event_only(event: Event) -> Fact:
    """A fact that produces no log line and no metric, only an event."""
    return Fact("", NO_FIELDS, event)


# --- members ----------------------------------------------------------------------------------------------------------


class Joined:
    """MemberJoined: a new member. `epoch`: the generation that it will be in, or its first member epoch."""

    __slots__ = ("client_host", "client_id", "epoch", "group_id", "instance_id", "kind", "member_id", "port")

    def __init__(
        self, group_id: str, kind: Kind, member_id: str, instance_id: str | None, context: RequestContext, epoch: int
    ) -> None:
        self.group_id = group_id
        self.kind = kind
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = context.client_id
        self.client_host = context.client_host
        self.port = context.link.port
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
            client_port=self.port,
        )
        return Record(MemberJoinedKey(self.group_id), value, 0)


def member_joined(
    group_id: str, kind: Kind, member_id: str, instance_id: str | None, context: RequestContext, epoch: int
) -> Fact:
    """A member joined. `epoch`: the generation that it will be in, or its first member epoch."""
    return event_only(Joined(group_id, kind, member_id, instance_id, context, epoch))


def member_left(
    group_id: str, kind: Kind, member_id: str, instance_id: str | None, epoch: int, reason: str | None
) -> Fact:
    """A member left by itself or was removed. `epoch`: its last one; -2 for a static member that will come back."""
    value = MemberLeftValue(
        group_kind=kind, member_id=member_id, group_instance_id=instance_id, epoch=epoch, reason=reason
    )
    return event_only(MessageEvent(MemberLeftKey(group_id), value))


def member_expired(
    group: Group, member_id: str, instance_id: str | None, epoch: int, timeout: str, timeout_ms: int
) -> Event:
    """A timeout removed a member. `timeout`: which one, such as "session" or "rebalance"; `timeout_ms`: its length."""
    link = group.links.get(member_id, NO_LINK)
    value = MemberExpiredValue(
        group_kind=group.kind,
        member_id=member_id,
        group_instance_id=instance_id,
        epoch=epoch,
        timeout=timeout,
        timeout_ms=timeout_ms,
        client_port=link.port,
        connection_end=link.end,
        connection_closed_ms=link.closed_ms,
    )
    return MessageEvent(MemberExpiredKey(group.group_id), value)


def member_fenced(
    group_id: str, kind: Kind, member_id: str, instance_id: str | None, epoch: int, error: ErrorCode, api: str
) -> Event:
    """A member was refused, or replaced. `api`: the API whose request was refused or took its place."""
    value = MemberFencedValue(
        group_kind=kind, member_id=member_id, group_instance_id=instance_id, epoch=epoch, error_code=error, api=api
    )
    return MessageEvent(MemberFencedKey(group_id), value)


def refused(
    groups: Groups, group_id: str, member_id: str, instance_id: str | None, epoch: int, error: KafkaError, api: str
) -> tuple[Fact, ...]:
    """The facts of a refused request: MemberFenced for FENCES if it names a member, RequestRefused for REFUSALS."""
    group = groups.by_id.get(group_id)
    kind = Kind.CLASSIC if group is None else group.kind
    if error.code in FENCES and groups.emits_refused and (member_id or instance_id):
        return (event_only(member_fenced(group_id, kind, member_id, instance_id, epoch, error.code, api)),)
    if error.code not in REFUSALS:
        return ()
    fields = {
        "group": group_id,
        "member": member_id,
        "instance": instance_id,
        "api": api,
        "error": error.code.name,
        "message": error.message,
    }
    value = RequestRefusedValue(
        group_kind=kind,
        member_id=member_id,
        group_instance_id=instance_id,
        epoch=epoch,
        error_code=error.code,
        error_message=error.message,
        api=api,
    )
    event = MessageEvent(RequestRefusedKey(group_id), value) if groups.emits_refused else None
    return (Fact(REQUEST_REFUSED, fields, event),)


def refused_classic(
    groups: Groups, request: JoinGroupRequest | SyncGroupRequest | HeartbeatRequest, error: KafkaError
) -> tuple[Fact, ...]:
    """`refused` for a request of the classic protocol."""
    return refused(
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
    """A rebalance began. `epoch`: the epoch, or generation, that it leads to."""
    value = RebalanceStartedValue(group_kind=kind, epoch=epoch, cause=cause, member_id=member_id or None, reason=reason)
    return MessageEvent(RebalanceStartedKey(group_id), value)


class Completed:
    """RebalanceCompleted or RebalanceOvertaken: how long a rebalance took, and how long it waited for each member."""

    __slots__ = (
        "cause", "delay_ms", "duration_ms", "epoch", "group_id", "is_overtaken", "kind", "member_id", "members", "waits",
    )  # fmt: skip

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
        delay_ms: int = 0,
        is_overtaken: bool = False,
    ) -> None:
        """`waits`: member id -> milliseconds that it was waited for, after `delay_ms`. They no longer change."""
        self.group_id = group_id
        self.kind = kind
        self.epoch = epoch
        self.duration_ms = duration_ms
        self.cause = cause
        self.member_id = member_id or None
        self.members = members
        self.waits = waits
        self.delay_ms = delay_ms
        self.is_overtaken = is_overtaken

    def record(self, state_offset: int, time_ms: int) -> Record:
        key: Any = RebalanceCompletedKey
        message: Any = RebalanceCompletedValue
        if self.is_overtaken:
            key, message = RebalanceOvertakenKey, RebalanceOvertakenValue
        value = message(
            state_offset=state_offset,
            time_ms=time_ms,
            group_kind=self.kind,
            epoch=self.epoch,
            duration_ms=self.duration_ms,
            cause=self.cause,
            member_id=self.member_id,
            members=self.members,
            waited_for=[message.Wait(each, waited_ms) for each, waited_ms in self.waits.items()],
            delay_ms=self.delay_ms,
        )
        return Record(key(self.group_id), value, 0)


def group_converted(group_id: str, was: Kind, to: Kind, epoch: int, member_id: str, members: int) -> Event:
    """The group changed its kind. `epoch`: the group's afterwards."""
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
    """AssignmentDelivered: the bytes that SyncGroup gave to a member of a classic group, parsed when the record is made."""

    __slots__ = ("assignment", "catalog", "generation", "group_id", "member_id")

    def __init__(self, group_id: str, member_id: str, generation: int, assignment: bytes, catalog: Catalog) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.generation = generation
        self.assignment = assignment
        self.catalog = catalog

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


@dataclass(slots=True, eq=False)
class Holding:
    """AssignmentDelivered or AssignmentAcknowledged of a group with epochs. `key`, `value`: the classes of its messages."""

    key: Any
    value: Any
    kind: Kind
    group_id: str
    catalog: Catalog
    member_id: str
    epoch: int
    held: Held

    def record(self, state_offset: int, time_ms: int) -> Record:
        topic_name, entry = self.catalog.topic_name, self.value.TopicPartitions
        topics = [entry(topic_name(each) or "", each, sorted(which)) for each, which in self.held.items()]
        value = self.value(state_offset, time_ms, self.kind, self.member_id, self.epoch, topics)
        return Record(self.key(self.group_id), value, 0)


class AssignedMember(Protocol):
    """The parts of a member with an epoch that this module uses."""

    @property
    def member_id(self) -> str: ...
    @property
    def member_epoch(self) -> int: ...
    @property
    def assigned(self) -> Held: ...


class WithEpochs(Protocol):
    """The parts of a group with epochs that this module uses."""

    kind: ClassVar[Kind]
    group_id: str

    @property
    def soft(self) -> SoftState: ...


def delivered(groups: Groups, group: WithEpochs, member: AssignedMember) -> tuple[Fact, ...]:
    """The answer contains the member's assignment; no fact if the last one contained the same."""
    now = (member.member_epoch, member.assigned)
    if group.soft.delivered.get(member.member_id) == now:
        return ()
    group.soft.delivered[member.member_id] = now
    key, value = AssignmentDeliveredKey, AssignmentDeliveredValue
    return (event_only(Holding(key, value, group.kind, group.group_id, groups.catalog, member.member_id, *now)),)


def acknowledged(groups: Groups, group: WithEpochs, member: AssignedMember, owned: Owned) -> tuple[Fact, ...]:
    """A member of a consumer group reports what it owns; a fact if this is its whole assignment, for the first time."""
    if owned is None or group.soft.acknowledged.get(member.member_id) == (member.member_epoch, member.assigned):
        return ()
    reported = {topic_id: set(partitions) for topic_id, partitions in owned}
    if reported != {topic_id: set(partitions) for topic_id, partitions in member.assigned.items()}:
        return ()
    return owns_all(groups, group, member)


def owns_all(groups: Groups, group: WithEpochs, member: AssignedMember) -> tuple[Fact, ...]:
    """A member reported that it owns its whole assignment; no fact if it has done so before."""
    now = (member.member_epoch, member.assigned)
    if group.soft.acknowledged.get(member.member_id) == now:
        return ()
    group.soft.acknowledged[member.member_id] = now
    key, value = AssignmentAcknowledgedKey, AssignmentAcknowledgedValue
    return (event_only(Holding(key, value, group.kind, group.group_id, groups.catalog, member.member_id, *now)),)


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
    "AssignmentInvalidKey",
    "GroupResyncedKey",
    "AssignmentFailedKey",
    "RebalanceOvertakenKey",
    "RequestRefusedKey",
    "EventLogCoveredKey",
    "OffsetsRewoundKey",
    "AcquisitionLockExpiredKey",
    "RecordsArchivedKey",
    "RecordsReleasedKey",
    "RecordsAcquiredKey",
    "RecordsAcknowledgedKey",
    "SharePartitionsInitializedKey",
    "RecordsDeadLetteredKey",
)
"""The key messages that an event log may contain."""
