"""A member of a streams group (Kafka: `StreamsGroupMember`): its metadata, and the tasks it holds."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple

from coordinator.groups.committer import NO_REVOCATION_EPOCH
from coordinator.groups.epochs.member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    LEAVING_FOR_A_WHILE_EPOCH,
    ModernMember,
    unassigned,
)
from coordinator.groups.held_bytes import names_bytes, text_bytes

NO_TOPOLOGY_EPOCH = -1

Tasks = Mapping[str, frozenset[int]]
"""Subtopology id -> numbers of tasks. No subtopology is empty."""
TaskEpochs = Mapping[str, Mapping[int, int]]
"""Subtopology id -> number of a task -> the epoch at which the member was given it (KIP-1251). None is empty."""

_NONE: Tasks = {}
_NO_EPOCHS: TaskEpochs = {}
_NO_NUMBERS: Mapping[int, int] = {}


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
    """Tasks that one member holds: the active ones with their assignment epochs (Kafka: `TasksTupleWithEpochs`)."""

    active: TaskEpochs = field(default_factory=lambda: _NO_EPOCHS)
    standby: Tasks = field(default_factory=lambda: _NONE)
    warmup: Tasks = field(default_factory=lambda: _NONE)

    @property
    def without_epochs(self) -> TasksTuple:
        active = {subtopology_id: frozenset(numbers) for subtopology_id, numbers in self.active.items()}
        return TasksTuple(active, self.standby, self.warmup)

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)


NO_TASKS = TasksTuple()
NO_HELD_TASKS = HeldTasks()


class Endpoint(NamedTuple):
    """Where a process answers Interactive Queries."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMember(ModernMember):
    """A member: first its metadata (record type 19), then its tasks (type 22)."""

    topology_epoch: int = NO_TOPOLOGY_EPOCH
    process_id: str = ""
    """The id of its process. The threads of one application instance are several members with one process id."""
    user_endpoint: Endpoint | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)

    previous_member_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: HeldTasks = NO_HELD_TASKS
    pending_revocation: HeldTasks = NO_HELD_TASKS
    """Tasks that it must give up and still holds: it has not confirmed their revocation yet."""

    def _metadata_bytes(self) -> int:
        host = "" if self.user_endpoint is None else self.user_endpoint.host
        tags = self.client_tags
        return text_bytes(self.process_id) + text_bytes(host) + names_bytes(tags) + names_bytes(tags.values())

    @property
    def is_stable(self) -> bool:
        return self.state is MemberState.STABLE

    @property
    def has_revocation_deadline(self) -> bool:
        return self.state is MemberState.UNREVOKED_TASKS

    def away(self) -> "StreamsMember":
        gives_up = self.pending_revocation.active
        return replace(
            self,
            member_epoch=LEAVING_FOR_A_WHILE_EPOCH,
            state=MemberState.STABLE,
            pending_revocation=NO_HELD_TASKS,
            revocation_epoch=max(self.revocation_epoch, self.member_epoch) if gives_up else self.revocation_epoch,
        )

    def successor(self, member_id: str) -> "StreamsMember":
        """Nothing is pending revocation, since nobody takes the place of a member that has not left for a while."""
        held = self.assigned
        if member_id != self.member_id:
            held = HeldTasks(unassigned(held.active), held.standby, held.warmup)
        return replace(self, member_id=member_id, member_epoch=JOINING_EPOCH, previous_member_epoch=0, assigned=held)

    def removed(self) -> "StreamsMember":
        return replace(
            self,
            member_epoch=LEAVING_EPOCH,
            previous_member_epoch=LEAVING_EPOCH,
            state=MemberState.STABLE,
            assigned=NO_HELD_TASKS,
            pending_revocation=NO_HELD_TASKS,
            revocation_epoch=NO_REVOCATION_EPOCH,
        )

    def assignment_epoch(self, subtopology_id: str, number: int) -> int | None:
        """The epoch at which it was given the active task, which it may have to give up; None if it does not hold it."""
        epoch = self.assigned.active.get(subtopology_id, _NO_NUMBERS).get(number)
        return self.pending_revocation.active.get(subtopology_id, _NO_NUMBERS).get(number) if epoch is None else epoch
