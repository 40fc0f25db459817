"""One operation on a group with epochs while it is decided: its records, and the group once they are replayed.

An operation may not change the group; its records do, when they are replayed. But its later steps depend on its earlier ones:
the target is computed for the epoch that was just raised, and for members of which one has just changed. So an operation
collects its records in an update, and asks the update what the group *will* be.

A rebalance begins when the group's epoch is raised. It is over when every member has reached the target of that epoch or of a
later one. Rebalances are remembered in the group's soft state and emitted as facts.

What differs between the kinds is in a few class attributes and in the abstract methods. consumer/update.py and
streams/update.py add the steps of their heartbeats.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

from coordinator.groups.catalog import with_deletions
from coordinator.groups.epochs.group import ModernGroup
from coordinator.groups.epochs.member import LEAVING_FOR_A_WHILE_EPOCH, ModernMember
from coordinator.groups.epochs.soft_state import Rebalance
from coordinator.groups.events import Completed, event_only, member_joined, rebalance_started
from coordinator.groups.group import waited_longest_for
from coordinator.groups.kinds import Kind
from coordinator.groups.rebalance_interval import arm_interval
from coordinator.groups.state import Groups
from coordinator.groups.update import GroupUpdate
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import Message
from coordinator.runtime.result import Record, RequestContext, Result, TimerKey

MEMBERS_NAMED_MAX = 10
"""Members that the fact `members_left` lists."""

Group = TypeVar("Group", bound=ModernGroup[Any, Any, Any])
Member = TypeVar("Member", bound=ModernMember)
Part = TypeVar("Part")


class RecordTypes(Protocol):
    """The record builders that every kind has (consumer/records.py, streams/records.py)."""

    def member_metadata(self, group_id: str, member: Any, /) -> Record: ...
    def current_assignment(self, group_id: str, member: Any, /) -> Record: ...
    def target_epoch(self, group_id: str, epoch: int, timestamp_ms: int, /) -> Record: ...
    def target_of_member(self, group_id: str, member_id: str, part: Any, /) -> Record: ...
    def member_tombstones(self, group_id: str, member_id: str, /) -> list[Record]: ...


class MemberTimers(NamedTuple):
    """The keys of a member's timers, by group id and member id."""

    session: Callable[[str, str], TimerKey]
    rebalance: Callable[[str, str], TimerKey]
    others: tuple[Callable[[str, str], TimerKey], ...] = ()


class ModernUpdate(GroupUpdate, ABC, Generic[Group, Member, Part]):
    """The records, timers, facts and replies of one operation, and the group as it will be after them."""

    __slots__ = ("group", "group_epoch", "groups", "now_ms", "replaced", "successor_id")

    KIND: ClassVar[Kind]
    UNITS: ClassVar[str]
    """The name of the things that members hold: "partitions" or "tasks"."""
    NO_PART: ClassVar[Any]
    """The part of the target that gives a member nothing."""
    RECORDS: ClassVar[RecordTypes]
    """The kind's module records.py."""
    TIMERS: ClassVar[MemberTimers]

    def __init__(self, groups: Groups, group: Group, now_ms: int) -> None:
        super().__init__(group.group_id)
        self.groups = groups
        self.group = group
        self.group_epoch = group.group_epoch
        """The group's epoch once the records are replayed."""
        self.now_ms = now_ms
        self.replaced: Member | None = None
        """The former holder of the instance id, if the asking member takes its place under another member id."""
        self.successor_id = ""
        """That member id."""

    @classmethod
    def find(cls, groups: Groups, group_id: str, now_ms: int) -> Self | None:
        """An update of the group with this id; None if there is no such group of this kind."""
        group: Any = groups.by_id.get(group_id)
        return cls(groups, group, now_ms) if group is not None and group.kind is cls.KIND else None

    def fence_growth(self, old: Member, new: Member, other_bytes: int = 0) -> None:
        """Call before anything is decided about a member whose metadata change from `old` to `new`.

        `other_bytes`: what the group will hold besides. Raises GROUP_MAX_SIZE_REACHED, COORDINATOR_NOT_AVAILABLE.
        """
        if new is old and not other_bytes:
            return
        before = self.group.members.get(new.member_id) or self.replaced
        self.groups.fence_growth(
            self.group, new.held_bytes - (0 if before is None else before.held_bytes) + other_bytes
        )

    # --- members ------------------------------------------------------------------------------------------------------

    def disarm_all_of(self, member_id: str) -> None:
        """Stops all timers of a member that is removed."""
        timers = self.TIMERS
        for key in (timers.session, timers.rebalance, *timers.others):
            self.disarm(key(self.group_id, member_id))

    def emit_if_joined(self, member: Member, context: RequestContext) -> bool:
        """Emits that the member joined, or that it came back under its instance id; returns whether it did."""
        before = self.group.members.get(member.member_id)
        has_joined = before is None or before.member_epoch == LEAVING_FOR_A_WHILE_EPOCH
        if has_joined:
            fact = member_joined(
                self.group_id, self.KIND, member.member_id, member.instance_id, context, member.member_epoch
            )
            self.facts.append(fact)
        return has_joined

    def remove(self, members: Sequence[Member], cause: str, reason: str | None = None) -> None:
        """Removes members, which are all different; does nothing if there are none. `reason`: an administrator's.

        Their holdings are free from that moment, and the group's epoch is raised so that the next target includes them.
        Kafka: `GroupMetadataManager.consumerGroupFenceMembers`, `streamsGroupFenceMember`.
        """
        if not members:
            return
        named = [member.member_id for member in members[:MEMBERS_NAMED_MAX]]
        self.emit("members_left", count=len(members), members=named, cause=cause)
        for member in members:
            self.disarm_all_of(member.member_id)
            if member.member_id in self.group.unreconciled:
                self._stop_waiting_for(member.member_id)
        if self._convert_without(members):
            return
        for member in members:
            self.records += self.RECORDS.member_tombstones(self.group_id, member.member_id)
        self._raise_epoch_without(members, cause, reason)
        if len(members) == len(self.group.members):
            # There is nobody to compute a target for, and the next member need not wait for one.
            self.records.append(self.RECORDS.target_epoch(self.group_id, self.group_epoch, 0))
            self.end_rebalances(self.group_epoch, 0)

    def _convert_without(self, members: Sequence[Member]) -> bool:  # noqa: ARG002 - only some kinds convert
        """Converts the group to another kind, if that is what it becomes without these members; returns whether it did."""
        return False

    @abstractmethod
    def _raise_epoch_without(self, members: Sequence[Member], cause: str, reason: str | None = None) -> None:
        """Writes the group epoch of the group without these members, and other records that their removal needs."""

    def deletions(self, names: Container[str]) -> str | None:
        """Which of these topics were deleted since the last rebalance began, and who asked for it."""
        rebalances = self.group.soft.rebalances
        return with_deletions(None, self.groups.catalog, names, rebalances[-1].started_ms if rebalances else 0)

    def start_rebalance(self, cause: str, reason: str | None) -> None:
        """Raises the group's epoch although nothing has changed; a later heartbeat computes a target for it."""
        self._raise_epoch_without((), cause, reason)

    # --- rebalances ---------------------------------------------------------------------------------------------------

    def begin_rebalance(self, cause: str, member_id: str, reason: str | None = None) -> None:
        """The group's epoch was raised: remembers the cause and emits it."""
        epoch, kind = self.group_epoch, self.KIND
        rebalance = Rebalance(epoch=epoch, cause=cause, member_id=member_id, started_ms=self.now_ms, reason=reason)
        self.group.soft.rebalances.append(rebalance)
        event = rebalance_started(self.group_id, kind, epoch, cause, member_id, reason)
        self.emit(
            "rebalance_started", event, kind=kind.label, epoch=epoch, cause=cause, member_id=member_id, reason=reason
        )

    def _stop_waiting_for(self, member_id: str) -> None:
        for rebalance in self.group.soft.rebalances:
            if rebalance.ended_ms is None:
                rebalance.stop_waiting_for(member_id, self.now_ms)

    def end_rebalances(self, epoch: int, members: int) -> None:
        """Every member has reached the epoch, or none is left. Rebalances that were overtaken end with it."""
        if members:
            arm_interval(self.groups, self)
        ended = [rebalance for rebalance in self.group.soft.rebalances if rebalance.ended_ms is None]
        for rebalance in ended:
            rebalance.ended_ms = self.now_ms
            event = Completed(
                self.group_id,
                self.KIND,
                rebalance.epoch,
                duration_ms=self.now_ms - rebalance.started_ms,
                cause=rebalance.cause,
                member_id=rebalance.member_id,
                members=members,
                waits=rebalance.waits,
                delay_ms=rebalance.delay_ms,
            )
            self.facts.append(event_only(event))
        if ended:
            self.emit(
                "rebalance_ended",
                kind=self.KIND.label,
                epoch=epoch,
                waited_ms=self.now_ms - ended[0].started_ms,
                delay_ms=ended[0].delay_ms,
                waited_longest_for=waited_longest_for(ended[0].waits),
                members=members,
            )

    def needs_another_epoch(self, member: Member) -> bool:
        """Whether a member joins that must not get the target's epoch, and no later one is on its way.

        It gave something up in that epoch, or left in it and now replaces the member that had replaced it: nothing would
        distinguish a commit from before that from a later one.
        """
        group = self.group
        if group.target_epoch < self.group_epoch or not member.is_joining:
            return False
        is_back = self.replaced is not None and member.member_id in group.left_at_target
        return is_back or member.revocation_epoch >= group.target_epoch

    # --- the target ---------------------------------------------------------------------------------------------------

    def part_before(self, member_id: str) -> Part | None:
        """The member's part of the group's target, or that of the member that it replaces."""
        replaced = self.replaced
        part: Part | None = self.group.target.get(
            replaced.member_id if replaced is not None and member_id == self.successor_id else member_id
        )
        return part

    def must_keep_target(self, member: Member, interval_ms: int) -> bool:
        """Whether the assignment interval still forbids another target (KIP-1263).

        A member is not made to wait if it would get an epoch in which it left under its id, or gave something up.
        """
        group = self.group
        would_repeat = member.is_joining and (
            member.member_id in group.left_at_target or member.revocation_epoch >= group.target_epoch
        )
        return not would_repeat and group.target_stands(interval_ms, self.now_ms)

    def write_target(self, target: dict[str, Part], assignor: str) -> None:
        """Writes the parts of a new target that differ from the present ones, and the epoch it is for."""
        changed = 0
        for member_id, part in target.items():
            known = self.part_before(member_id)
            if known is not part and known != part:
                self.records.append(self.RECORDS.target_of_member(self.group_id, member_id, part))
                changed += 1
        self.records.append(self.RECORDS.target_epoch(self.group_id, self.group_epoch, self.now_ms))
        for rebalance in self.group.soft.rebalances:
            if rebalance.assigned_ms is None:
                rebalance.assigned_ms = self.now_ms
        self.emit(
            "target_assigned", epoch=self.group_epoch, assignor=assignor, members=len(target), members_changed=changed
        )

    # --- the member's step --------------------------------------------------------------------------------------------

    def write_step(self, before: Member, after: Member, target_epoch: int) -> None:
        """Writes the member's step towards the target, sets its rebalance timer, and ends the rebalance if it was the last."""
        self.records.append(self.RECORDS.current_assignment(self.group_id, after))
        key = self.TIMERS.rebalance(self.group_id, after.member_id)
        if after.has_revocation_deadline:
            self.arm(key, max(after.rebalance_timeout_ms, 0))
        elif before.has_revocation_deadline:
            self.disarm(key)
        if target_epoch < self.group_epoch or not after.is_reconciled_to(target_epoch):
            return
        group, member_id = self.group, after.member_id
        self._stop_waiting_for(member_id)
        waiting: AbstractSet[str] = group.unreconciled if target_epoch == group.target_epoch else group.members.keys()
        done = {member_id} if self.replaced is None else {member_id, self.replaced.member_id}
        if len(waiting) <= sum(each in waiting for each in done):
            self.end_rebalances(target_epoch, len(group.members.keys() | {member_id}))

    def unknown_state(self) -> KafkaError:
        """The refusal of a member whose state, which a newer Kafka wrote, we do not know."""
        return KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The {self.KIND.label} group member is in a unknown state. "
            f"The member must abandon all its {self.UNITS} and rejoin.",
        )

    # --- the result ---------------------------------------------------------------------------------------------------

    def result(self, reply: Message | None) -> Result:
        if self.groups.by_id.get(self.group_id) is not self.group:
            # The group is new. The group that the first record creates takes over its soft state.
            self.groups.uncommitted_groups[self.group_id] = self.group
        return super().result(reply)
