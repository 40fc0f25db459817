"""A streams group (KIP-1071): the state that its operations work on.

A streams group is to a Kafka Streams application what a consumer group is to consumers, and works the same way: a group epoch
that is raised when something changes, a target that an assignor makes for that epoch, and members that each move to the
target in their own time (epochs/group.py). What it distributes are not partitions but *tasks*:

    topology       the subtopologies of the application, with the topics that each reads and keeps its state in
    subtopology    is cut into as many tasks as its largest source topic has partitions
    task           (subtopology id, number). Active: it processes. Standby: it keeps a copy of the state. Warm-up: it makes one

An active task has one member at a time, as a partition has. A standby or warm-up task may have many, but one *process*
(several members: its threads; they share a state directory) has a task only once, in whatever role. So whether a task is free
depends on who has it, and in which process they live: `active`, `standby` and `warmup` below say who. A task that a member
must give up is still its own.

The topology comes from the members: each sends it when it joins, the first one's is kept (record type 23), and all must be
equal. It can only be assigned when its topics are as they must be. `soft.configured` is the topology as the topics allow it at
the moment; every answer reports what is wrong, and the group is NotReady until it is right. That it was right when the
group's epoch was last raised is in the log (`validated_topology_epoch`).

    member epoch <= target assignment epoch <= group epoch

Kafka: `StreamsGroup`.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Self, cast

from coordinator.groups.catalog import Catalog
from coordinator.groups.epochs.group import ModernGroup
from coordinator.groups.fence import NO_FENCE
from coordinator.groups.held_bytes import NAME_BYTES, PARTITION_BYTES
from coordinator.groups.kinds import Kind
from coordinator.groups.settings import GroupSettings, StreamsSettings
from coordinator.groups.state import Groups
from coordinator.groups.streams.committer import StreamsCommitter, committer_of
from coordinator.groups.streams.member import NO_TOPOLOGY_EPOCH, StreamsMember, Tasks, TasksTuple
from coordinator.groups.streams.soft_state import NO_TASK_OFFSETS, StreamsSoftState, TaskOffsets
from coordinator.groups.streams.topology import Topology
from coordinator.runtime.result import TimerKey

_Holders = dict[str, dict[int, set[str]]]
"""Subtopology id -> number -> ids of the members that have a copy."""

_NOBODY: frozenset[str] = frozenset()
_NO_OWNERS: Mapping[int, str] = {}
_NO_HOLDERS: Mapping[int, set[str]] = {}


class State(StrEnum):
    """The state of a streams group, which follows from its topology and epochs."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    """The topics that the topology needs are not all there, or not as they must be."""
    ASSIGNING = "Assigning"
    """The target is older than the group's epoch."""
    RECONCILING = "Reconciling"
    """Some member has not reached the target."""
    STABLE = "Stable"
    DEAD = "Dead"
    """Reported for a group that does not exist."""


class StreamsGroup(ModernGroup[StreamsMember, TasksTuple, StreamsSoftState]):
    """One streams group. Only replay.py calls what is under "replay"."""

    __slots__ = (
        "active", "assignment_configs", "failed_description_epoch", "standby", "stored_description_epoch", "topology",
        "validated_topology_epoch", "warmup",
    )  # fmt: skip

    kind = Kind.STREAMS
    protocol_type = Kind.STREAMS.label

    def __init__(self, group_id: str) -> None:
        # It comes in the place of an empty group, if any: there is nobody who could have lost something.
        super().__init__(group_id, NO_FENCE, StreamsSoftState())
        self.validated_topology_epoch = NO_TOPOLOGY_EPOCH
        """The epoch of the topology whose topics were found to be right."""
        self.assignment_configs: Mapping[str, str] = {}
        """The settings that the target was made with: another value makes another target."""
        self.stored_description_epoch = NO_TOPOLOGY_EPOCH
        """This and the next: written by a Kafka that keeps descriptions of topologies (KIP-1331), and kept for it."""
        self.failed_description_epoch = NO_TOPOLOGY_EPOCH
        self.topology: Topology | None = None

        # Follows from the members, and is kept up to date as they change.
        self.active: dict[str, dict[int, str]] = {}
        """Subtopology id -> number -> the member that has the active task."""
        self.standby: _Holders = {}
        """The members that have standby tasks."""
        self.warmup: _Holders = {}
        """The members that have warm-up tasks."""

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
        return super().durable | {
            "validated_topology_epoch": self.validated_topology_epoch,
            "assignment_configs": self.assignment_configs,
            "topology": self.topology,
            "active": self.active,
            "standby": self.standby,
            "warmup": self.warmup,
        }

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a subtopology of a group with members reads the topic."""
        return bool(self.members) and self.topology is not None and topic in self.topology.readers

    def find_committer(self, member_id: str, catalog: Catalog) -> StreamsCommitter | None:
        member = self.members.get(member_id)
        return None if member is None else committer_of(self.soft.committers, member, self.topology, catalog)

    def fencing_policies(self, settings: GroupSettings) -> StreamsSettings:
        return settings.streams(self.group_id)

    def owner(self, subtopology_id: str, number: int) -> str | None:
        """The member that has the active task, which it may have to give up."""
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

    def _has_copy(self, holders: _Holders, subtopology_id: str, number: int, process_id: str) -> bool:
        return any(
            self.members[member_id].process_id == process_id
            for member_id in holders.get(subtopology_id, _NO_HOLDERS).get(number, _NOBODY)
        )

    def _new_member(self, member_id: str) -> StreamsMember:
        return StreamsMember(member_id=member_id)

    # --- replay -------------------------------------------------------------------------------------------------------

    def set_group_epoch(
        self, epoch: int, metadata_hash: int, validated_topology_epoch: int, assignment_configs: Mapping[str, str]
    ) -> None:
        self.group_epoch = epoch
        self.metadata_hash = metadata_hash
        self.validated_topology_epoch = validated_topology_epoch
        self.assignment_configs = assignment_configs
        self.soft.on_epochs_changed()

    def set_descriptions(self, stored_epoch: int, failed_epoch: int) -> None:
        self.stored_description_epoch = stored_epoch
        self.failed_description_epoch = failed_epoch

    def set_topology(self, topology: Topology | None) -> None:
        if topology != self.topology:
            self.soft.on_topology_changed(is_first=self.topology is None)
        self.hold(_topology_bytes(topology) - _topology_bytes(self.topology))
        self.topology = topology

    def set_task_offsets(self, member_id: str, offsets: TaskOffsets) -> None:
        """Keeps how far the member has got. Soft state: operations call it."""
        known = self.soft.task_offsets
        self.hold(NAME_BYTES * (offsets.size - known.get(member_id, NO_TASK_OFFSETS).size))
        known[member_id] = offsets

    def _forget_task_offsets(self, member_id: str) -> None:
        known = self.soft.task_offsets.pop(member_id, None)
        if known is not None:
            self.hold(-NAME_BYTES * known.size)

    def inherit_soft_state(self, uncommitted: Self) -> None:
        super().inherit_soft_state(uncommitted)
        self.hold(NAME_BYTES * sum(each.size for each in self.soft.task_offsets.values()))

    def drop_soft_state(self) -> None:
        self.hold(-NAME_BYTES * sum(each.size for each in self.soft.task_offsets.values()))
        super().drop_soft_state()

    def on_member_back(self, member_id: str) -> None:
        self._forget_task_offsets(member_id)
        super().on_member_back(member_id)
        if len(self.members) == 1:
            self.soft.shutdown_by = None

    def on_member_removed(self, member: StreamsMember) -> None:
        self._forget_task_offsets(member.member_id)
        super().on_member_removed(member)
        if not self.members:
            self.soft.shutdown_by = None

    def _index(self, old: StreamsMember | None, new: StreamsMember | None) -> None:
        """The last member to take an active task has it: while a log is read, the record that gave it up may be missing."""
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
            self._hold_metadata(old, new)
            self._index_instance_id(old, new)

    def _index_target(self, member_id: str, before: TasksTuple | None, after: TasksTuple | None) -> None:  # noqa: ARG002 - consumer groups need the id
        self.hold_derived(PARTITION_BYTES * (_size(after) - _size(before)))

    def _disown(self, subtopology_id: str, numbers: Mapping[int, int], member_id: str) -> None:
        owners = self.active.get(subtopology_id)
        if owners is None:
            return
        for number in numbers:
            if owners.get(number) == member_id:
                del owners[number]
        if not owners:
            del self.active[subtopology_id]


def _size(tasks: TasksTuple | None) -> int:
    if tasks is None:
        return 0
    return sum(len(numbers) for role in (tasks.active, tasks.standby, tasks.warmup) for numbers in role.values())


def _topology_bytes(topology: Topology | None) -> int:
    return 0 if topology is None else topology.held_bytes


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


def find_streams_group(groups: Groups, group_id: str) -> StreamsGroup | None:
    """The streams group of this id; None if there is no group, or one of another kind."""
    return groups.find(group_id, StreamsGroup)


def streams_group_or_new(groups: Groups, group_id: str) -> StreamsGroup:
    """For replay: the streams group of this id; created if there is none, in the place of a group of another kind."""
    group = find_streams_group(groups, group_id)
    if group is None:
        group = StreamsGroup(group_id)
        groups.put(group)
    return group


def session_key(group_id: str, member_id: str) -> TimerKey:
    """The timer that ends a member's session."""
    return ("streams-session", group_id, member_id)


def rebalance_key(group_id: str, member_id: str) -> TimerKey:
    """The timer that removes a member that does not give up its tasks in time."""
    return ("streams-rebalance", group_id, member_id)


def initial_delay_key(group_id: str) -> TimerKey:
    """The timer that makes a group's first target."""
    return ("streams-delay", group_id)


def decided_streams_group(groups: Groups, group_id: str) -> StreamsGroup:
    """The group as the operation that just ran saw it: in the state, or uncommitted if its records are not replayed yet."""
    group = find_streams_group(groups, group_id)
    return cast(StreamsGroup, groups.uncommitted_groups[group_id]) if group is None else group
