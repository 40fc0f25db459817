"""A classic group: the state that the classic protocol's operations work on (mirrors `ClassicGroup`).

A classic group (Kafka's first group protocol, which most clients still speak) agrees on a *generation*: a numbered list of
members, one of which leads. All members join; when all have, or time is up, the generation is formed, and the leader receives
the member list with each member's `metadata` (opaque to the coordinator). The leader returns one `assignment` per member
(opaque too), the generation is written to the log, and the members receive their assignments.

A JoinGroup response names the generation before it is assigned, so the generation is durable by then, too, in a record of our
own that Kafka skips. So a group has two halves, which must not be mixed up:

    stored      what the log says. It survives a crash, and only replay.py sets it, live and at a load by the same lines:
                `stored`, the last generation that was assigned or that became empty, and `forming`, the later one whose
                assignment its leader has yet to send. `forced` is the demand for another generation that came from outside.
                Each is the record itself.
    the round   everything else (round.py): soft state, which operations change in place and a crash loses.
"""

from typing import Any

from coordinator.groups.classic.member import ClassicMember
from coordinator.groups.classic.round import Round
from coordinator.groups.classic.states import State
from coordinator.groups.fence import NO_FENCE, Fence
from coordinator.groups.held_bytes import STORED_MEMBER_BYTES
from coordinator.groups.state import Groups
from coordinator.protocol.messages import (
    ClassicGroupForcedRebalanceValue,
    ClassicGroupGenerationValue,
    GroupMetadataValue,
)

_NO_TIME = -1


class ClassicGroup(Round):
    """One classic group, or a simple one: the offsets of consumers that use no groups."""

    __slots__ = ("_forming_bytes", "_stored_bytes", "forced", "forming", "stored")

    def __init__(self, group_id: str, now_ms: int | None, fence: Fence) -> None:
        super().__init__(group_id, now_ms, fence)
        self.stored: GroupMetadataValue | None = None
        """The group's record in the log; None if there is none."""
        self.forming: ClassicGroupGenerationValue | None = None
        """The record of a later generation, which members know and which is not assigned; None if there is none."""
        self.forced: ClassicGroupForcedRebalanceValue | None = None
        """The record of a rebalance that was started from outside (administration.py) and goes on; None if there is none."""
        self._stored_bytes = self._forming_bytes = 0
        """The sizes of these records (held_bytes.py)."""

    @property
    def durable(self) -> Any:
        return None if self.stored is None else (self.stored, self.forming, self.forced, self.fence)

    @property
    def assigned_generation(self) -> int:
        """The last generation whose members received assignments; 0 before the first."""
        return 0 if self.stored is None else self.stored.generation

    @property
    def is_simple(self) -> bool:
        return self.stored is None and self.state is State.EMPTY

    @property
    def is_forgettable(self) -> bool:
        return self.is_simple and not self.pending_joins

    def without_round(self) -> "ClassicGroup":
        """A group with the same stored half, whose round has not started."""
        group = ClassicGroup(self.group_id, None, self.fence)
        group.set_stored(self.stored, self.fence)
        group.set_forming(self.forming)
        group.forced = self.forced
        return group

    def set_stored(self, stored: GroupMetadataValue | None, fence: Fence) -> None:
        """Sets the last generation; a later one that was forming, and what was said about the one before, end with it."""
        self.set_forming(None)
        stored_bytes = _record_bytes(stored)
        self.hold_derived(stored_bytes - self._stored_bytes)
        self._stored_bytes = stored_bytes
        self.stored = stored
        self.forced = None
        self.set_fence(fence)

    def set_forming(self, forming: ClassicGroupGenerationValue | None) -> None:
        forming_bytes = _record_bytes(forming)
        self.hold_derived(forming_bytes - self._forming_bytes)
        self._forming_bytes = forming_bytes
        self.forming = forming

    def resume(self) -> None:
        """Starts the round from the stored half, when a shard has been loaded: where there is a forming generation, from it."""
        assert self.stored is not None
        assert not self.members
        current = self.stored if self.forming is None else self.forming
        self.generation = current.generation
        self.protocol_type = current.protocol_type or None
        self.protocol_name = current.protocol
        timestamp_ms = current.current_state_timestamp
        self.state_timestamp_ms = None if timestamp_ms == _NO_TIME else timestamp_ms
        # In a forming generation a member still holds what the last one assigned to it.
        held = {each.member_id: each.assignment for each in self.stored.members}
        for each in current.members:
            rebalance_timeout_ms = (
                each.rebalance_timeout if each.rebalance_timeout != _NO_TIME else each.session_timeout
            )
            # The log only holds the chosen one of the protocols that a member offers.
            member = ClassicMember(
                self.group_id, each.member_id, each.group_instance_id, each.client_id, each.client_host,
                ((current.protocol or "", each.subscription),), held.get(each.member_id, b""),
                each.session_timeout, rebalance_timeout_ms,
            )  # fmt: skip
            self.add(member, current.protocol_type)
        if current.leader in self.members:
            self.leader_id = current.leader
        if not self.members:
            self.state = State.EMPTY
        elif self.forming is None:
            self.state = State.STABLE
        else:
            self.state = State.COMPLETING_REBALANCE
            self.pending_syncs = dict.fromkeys(self.members)
            self.is_resumed = True


def _record_bytes(generation: GroupMetadataValue | ClassicGroupGenerationValue | None) -> int:
    """The size of a generation's record in memory. It shares texts and metadata with members that are still there."""
    if generation is None:
        return 0
    members = generation.members
    size = STORED_MEMBER_BYTES * len(members)
    for each in members:
        size += len(each.member_id) + len(each.client_id) + len(each.subscription)
    if isinstance(generation, GroupMetadataValue):
        size += sum([len(each.assignment) for each in generation.members])
    return size


def find_classic_group(groups: Groups, group_id: str) -> ClassicGroup | None:
    """The classic group of this id; None if there is no group, or one of another kind."""
    return groups.find(group_id, ClassicGroup)


def classic_group_or_new(groups: Groups, group_id: str) -> ClassicGroup:
    """For replay: the classic group of this id; created if there is none, in the place of a group of another kind."""
    group = find_classic_group(groups, group_id)
    if group is None:
        group = ClassicGroup(group_id, None, NO_FENCE)
        groups.put(group)
    return group
