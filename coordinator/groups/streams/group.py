"""A streams group (KIP-1071): the state that its operations work on.

A streams group is to a Kafka Streams application what a consumer group is to consumers, and goes the same way: a group epoch
that moves on when something changes, a target made by an assignor for that epoch, and members that each walk to the target
in their own time (groups/modern.py). What it shares out are not partitions but *tasks*:

    topology       what the application does: its subtopologies, with the topics each reads and keeps its state in
    subtopology    is cut into as many tasks as its largest source topic has partitions
    task           (subtopology id, number). Active: it processes. Standby: it keeps a copy of the state. Warm-up: it makes one

An active task is of one member at a time, as a partition is. A standby or warm-up task may be of many, but one *process*
(several members: its threads; they share a state directory) has a task only once, whatever it is to it. So whether a
task is free depends on who has it, and in which process they live: `active`, `standby` and `warmup` below say who. A task
that a member must give up is still its own.

The topology is the members': each sends it when it joins, the first one's is kept (record type 23), and all must be equal.
It can only be assigned when its topics are there as they must be. `configured` is the topology as the topics allow it at
the moment; what is wrong is told to the members in every answer, and the group is NotReady until it is right. That it
was right when the group's epoch last moved on is in the log (`validated_topology_epoch`).

    member epoch <= target assignment epoch <= group epoch

Everything above `Not in the log` is, and `replay.py` is the only code that changes it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator.groups.consumer.group import ConsumerMember
from coordinator.groups.kinds import Kind
from coordinator.groups.modern import JOINING_EPOCH, ModernGroup
from coordinator.groups.settings import StreamsSettings
from coordinator.groups.state import Groups
from coordinator.runtime.result import Result, TimerKey

if TYPE_CHECKING:
    from coordinator.groups.streams.configure import Configured
    from coordinator.groups.streams.topology import Topology

_KIND = Kind.STREAMS

NO_TOPOLOGY_EPOCH = -1

Tasks = Mapping[str, frozenset[int]]
"""Subtopology id -> numbers of tasks. No subtopology is empty."""
TaskEpochs = Mapping[str, Mapping[int, int]]
"""Subtopology id -> number of a task -> the epoch at which the member was given it (KIP-1251). None is empty."""

_Holders = dict[str, dict[int, set[str]]]
"""Subtopology id -> number -> ids of the members that have a copy."""

_NONE: Tasks = {}
_NO_EPOCHS: TaskEpochs = {}
_NOBODY: frozenset[str] = frozenset()


class StatusCode(IntEnum):
    """What members are told of their group beside errors; Kafka's numbers."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


class Status(NamedTuple):
    """One thing that members are told of their group."""

    code: StatusCode
    detail: str


class MemberState(IntEnum):
    """How far a member is on its way to the target; Kafka's numbers, as in its records."""

    STABLE = 1
    """It holds its part of the target of its epoch."""
    UNREVOKED_TASKS = 2
    """It must give up tasks before it may go on, and still has the epoch in which it had them."""
    UNRELEASED_TASKS = 3
    """It has reached the target's epoch; some of its tasks are still held by others."""
    UNKNOWN = 127
    """Written by a newer Kafka."""


class State(StrEnum):
    """What a streams group is doing; follows from its topology and epochs."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    """The topics that the topology needs are not all there, or not as they must be."""
    ASSIGNING = "Assigning"
    """The target is older than the group."""
    RECONCILING = "Reconciling"
    """Some member has not reached the target."""
    STABLE = "Stable"
    DEAD = "Dead"
    """Said of a group that is not there."""


@dataclass(frozen=True, slots=True)
class TasksTuple:
    """Tasks of one member, as in the target, or as the member says that it owns them."""

    active: Tasks = field(default_factory=lambda: _NONE)
    standby: Tasks = field(default_factory=lambda: _NONE)
    warmup: Tasks = field(default_factory=lambda: _NONE)

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)


@dataclass(frozen=True, slots=True)
class HeldTasks:
    """Tasks that one member holds: the active ones with their assignment epochs."""

    active: TaskEpochs = field(default_factory=lambda: _NO_EPOCHS)
    standby: Tasks = field(default_factory=lambda: _NONE)
    warmup: Tasks = field(default_factory=lambda: _NONE)

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)


NO_TASKS = TasksTuple()
NO_HELD_TASKS = HeldTasks()


class Endpoint(NamedTuple):
    """Where a process answers Interactive Queries."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class TaskOffsets:
    """How far a member has got with the changelogs of its tasks, summed up by task, as it said last."""

    offsets: Mapping[str, Mapping[int, int]]
    """Subtopology id -> number of a task -> offset."""
    end_offsets: Mapping[str, Mapping[int, int]]


NO_TASK_OFFSETS = TaskOffsets({}, {})


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMember:
    """A member: first what it said about itself (record type 19), then what it holds (type 22)."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topology_epoch: int = NO_TOPOLOGY_EPOCH
    process_id: str = ""
    """Of the process; the threads of one application instance are several members with one process id."""
    user_endpoint: Endpoint | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)

    member_epoch: int = JOINING_EPOCH
    previous_member_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: HeldTasks = NO_HELD_TASKS
    pending_revocation: HeldTasks = NO_HELD_TASKS
    """It has been told to give these up and has not said that it did."""

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch

    def assignment_epoch(self, subtopology_id: str, number: int) -> int | None:
        """Since when it has the task as an active one, also if it must give it up; None if it has it not."""
        epoch = self.assigned.active.get(subtopology_id, _NO_NUMBERS).get(number)
        return self.pending_revocation.active.get(subtopology_id, _NO_NUMBERS).get(number) if epoch is None else epoch


_NO_NUMBERS: Mapping[int, int] = {}


class Steady(NamedTuple):
    """The answer to a member that had nothing to say and nothing to hear, and all that it depends on (heartbeat.py)."""

    result: Result
    member: StreamsMember
    settings: StreamsSettings
    api_version: int


class StreamsGroup(ModernGroup[StreamsMember, TasksTuple]):
    """One streams group. Only replay.py calls what is under "replay"."""

    kind = _KIND
    protocol_type = _KIND.label

    __slots__ = (
        "active",
        "assignment_configs",
        "configured",
        "configured_version",
        "endpoint_epoch",
        "failed_description_epoch",
        "is_delayed",
        "readers",
        "shutdown_by",
        "standby",
        "steady",
        "stored_description_epoch",
        "task_offsets",
        "topology",
        "validated_topology_epoch",
        "warmup",
    )

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.validated_topology_epoch = NO_TOPOLOGY_EPOCH
        """The epoch of the topology whose topics were found to be right."""
        self.assignment_configs: Mapping[str, str] = {}
        """The settings by which the target was made: another value makes another target."""
        self.stored_description_epoch = NO_TOPOLOGY_EPOCH
        """Written by a Kafka that keeps descriptions of topologies (KIP-1331), and kept for it; and the next one, too."""
        self.failed_description_epoch = NO_TOPOLOGY_EPOCH
        self.topology: Topology | None = None

        # Follows from the members, kept as they change.
        self.active: dict[str, dict[int, str]] = {}
        """Subtopology id -> number -> the member that has the active task."""
        self.standby: _Holders = {}
        """Who has standby tasks, and who has warm-up tasks."""
        self.warmup: _Holders = {}

        # Not in the log.
        self.configured: Configured | None = None
        """The topology as the topics allow it, as they were in version `configured_version` of their catalog."""
        self.configured_version: int | None = None
        self.task_offsets: dict[str, TaskOffsets] = {}
        """By member id."""
        self.shutdown_by: str | None = None
        """The member that wants the whole application to stop; forgotten with the last member."""
        self.endpoint_epoch = 0
        """Grows when the tasks of a member with an endpoint change; members are told who is where when theirs is another."""
        self.is_delayed = False
        """The first target is not made yet, so that it is made for all who come at the same time."""
        self.readers: dict[str, tuple[StreamsMember, int, ConsumerMember]] = {}
        """Members as readers of partitions, with what that was made of (partitions.py)."""
        self.steady: dict[str, Steady] = {}
        """By member id."""

    # --- questions ----------------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        if not self.members:
            return State.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return State.NOT_READY
        if self.group_epoch > self.target_epoch:
            return State.ASSIGNING
        return State.RECONCILING if self.unreconciled else State.STABLE

    @property
    def durable(self) -> dict[str, Any]:
        """What the log must be able to bring back."""
        return {
            "group_epoch": self.group_epoch,
            "metadata_hash": self.metadata_hash,
            "validated_topology_epoch": self.validated_topology_epoch,
            "assignment_configs": self.assignment_configs,
            "topology": self.topology,
            "target_epoch": self.target_epoch,
            "target_timestamp_ms": self.target_timestamp_ms,
            "target": self.target,
            "members": self.members,
            "active": self.active,
            "standby": self.standby,
            "warmup": self.warmup,
        }

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a subtopology of a group with members reads the topic."""
        return bool(self.members) and self.topology is not None and topic in self.topology.readers

    def owner(self, subtopology_id: str, number: int) -> str | None:
        """The member that has the active task, also if it must give it up."""
        return self.active.get(subtopology_id, _NO_OWNERS).get(number)

    def runs_in(self, subtopology_id: str, number: int, process_id: str) -> bool:
        """Whether a member in this process has the active task."""
        owner = self.owner(subtopology_id, number)
        return owner is not None and self.members[owner].process_id == process_id

    def has_standby(self, subtopology_id: str, number: int, process_id: str) -> bool:
        """Whether a member in this process has a standby task of it."""
        return self._has_copy(self.standby, subtopology_id, number, process_id)

    def has_warmup(self, subtopology_id: str, number: int, process_id: str) -> bool:
        """Whether a member in this process has a warm-up task of it."""
        return self._has_copy(self.warmup, subtopology_id, number, process_id)

    def _has_copy(self, holders: "_Holders", subtopology_id: str, number: int, process_id: str) -> bool:
        return any(
            self.members[member_id].process_id == process_id
            for member_id in holders.get(subtopology_id, _NO_HOLDERS).get(number, _NOBODY)
        )

    # --- replay -------------------------------------------------------------------------------------------------------

    def put(self, member: StreamsMember) -> None:
        """Puts a member in, or another value in the place of one."""
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if old is not None and member.member_epoch < 0 <= old.member_epoch:
            self._depart(old)
        self._hold(old, member)
        if old is not None and old.instance_id != member.instance_id:
            self._release(old)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self._walked(member)

    def drop(self, member_id: str) -> None:
        """Takes a member out; nothing if it is not in."""
        old = self.members.pop(member_id, None)
        if old is None:
            return
        self._gone(old)
        self._hold(old, None)
        self.task_offsets.pop(member_id, None)
        self.readers.pop(member_id, None)
        self.steady.pop(member_id, None)
        if not self.members:
            self.shutdown_by = None

    def inherit_soft_state(self, uncommitted: "StreamsGroup") -> None:
        super().inherit_soft_state(uncommitted)
        self.configured = uncommitted.configured
        self.configured_version = uncommitted.configured_version
        self.task_offsets = uncommitted.task_offsets
        self.shutdown_by = uncommitted.shutdown_by
        self.is_delayed = uncommitted.is_delayed

    def set_target_epoch(self, epoch: int, timestamp_ms: int) -> None:
        self._retarget(epoch, timestamp_ms)
        self._look_who_is_there()

    def set_topology(self, topology: "Topology | None") -> None:
        if self.topology is not None and topology != self.topology:
            # That of a first topology was made by the operation that wrote it.
            self.configured = None
            self.configured_version = None
        self.topology = topology
        self.readers.clear()

    def _hold(self, old: StreamsMember | None, new: StreamsMember | None) -> None:
        """Whoever took an active task last has it: while a log is read, the record by which it was given up may be gone."""
        if old is not None:
            for held in (old.assigned, old.pending_revocation):
                for subtopology_id, numbers in held.active.items():
                    self._disown(subtopology_id, numbers, old.member_id)
                _remove(self.standby, held.standby, old.member_id)
                _remove(self.warmup, held.warmup, old.member_id)
        if new is not None:
            for held in (new.assigned, new.pending_revocation):
                for subtopology_id, numbers in held.active.items():
                    self.active.setdefault(subtopology_id, {}).update(dict.fromkeys(numbers, new.member_id))
                _add(self.standby, held.standby, new.member_id)
                _add(self.warmup, held.warmup, new.member_id)

    def _disown(self, subtopology_id: str, numbers: Mapping[int, int], member_id: str) -> None:
        owners = self.active.get(subtopology_id)
        if owners is None:
            return
        for number in numbers:
            if owners.get(number) == member_id:
                del owners[number]
        if not owners:
            del self.active[subtopology_id]


_NO_OWNERS: Mapping[int, str] = {}
_NO_HOLDERS: Mapping[int, set[str]] = {}


def _add(holders: _Holders, tasks: Tasks, member_id: str) -> None:
    for subtopology_id, numbers in tasks.items():
        by_number = holders.setdefault(subtopology_id, {})
        for number in numbers:
            by_number.setdefault(number, set()).add(member_id)


def _remove(holders: _Holders, tasks: Tasks, member_id: str) -> None:
    for subtopology_id, numbers in tasks.items():
        by_number = holders.get(subtopology_id, {})
        for number in numbers:
            members = by_number.get(number)
            if members is not None:
                members.discard(member_id)
                if not members:
                    del by_number[number]
        if not by_number:
            holders.pop(subtopology_id, None)


def session_key(group_id: str, member_id: str) -> TimerKey:
    """The timer that ends a member's session."""
    return ("streams-session", group_id, member_id)


def rebalance_key(group_id: str, member_id: str) -> TimerKey:
    """The timer that gives up a member that does not give up its tasks."""
    return ("streams-rebalance", group_id, member_id)


def initial_delay_key(group_id: str) -> TimerKey:
    """The timer that makes a group's first target."""
    return ("streams-delay", group_id)


def find_streams_group(groups: Groups, group_id: str) -> StreamsGroup | None:
    """The streams group of this id; None if there is no group, or one of another kind."""
    group = groups.by_id.get(group_id)
    if group is None or group.kind is not _KIND:
        return None
    return group  # type: ignore[return-value]  # the kind says the class


def streams_group_or_new(groups: Groups, group_id: str) -> StreamsGroup:
    """For replay: the streams group of this id; created if there is none, in the place of a group of another kind."""
    group = find_streams_group(groups, group_id)
    if group is None:
        group = StreamsGroup(group_id)
        groups.put(group)
    return group
