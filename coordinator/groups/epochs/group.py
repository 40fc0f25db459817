"""A group with epochs: the state that consumer groups (KIP-848) and streams groups (KIP-1071) share.

No member stops here to agree on anything. The coordinator keeps three things and lets each member move from one to the next
in its own time:

    the group epoch        is raised when the group's metadata change: members, their subscriptions, topics
    the target assignment  the holdings that each member should have; an assignor computes it for a group epoch
    the members            their holdings now, and the *member epoch* each has reached on the way to the target

    member epoch <= target assignment epoch <= group epoch

All of this is in the log. The methods under "replay" are the only code that changes it, and replay.py of each kind is their
only caller, live and at load. (An operation that converts a classic group calls them on a group of its own, which nobody
else sees.) What is not in the log is in `group.soft` (soft_state.py).

Kafka: `ModernGroup`, which `ConsumerGroup` extends and `StreamsGroup` repeats.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, Self, TypeVar

from coordinator.groups.epochs.member import ModernMember
from coordinator.groups.epochs.soft_state import Rebalance, SoftState
from coordinator.groups.fence import Fence
from coordinator.groups.group import Group, PastRebalance

EPOCH_AT_FIRST = 1
"""Group epoch and target assignment epoch of a new group, which has an empty target."""

Member = TypeVar("Member", bound=ModernMember)
Part = TypeVar("Part")
Soft = TypeVar("Soft", bound=SoftState)


class ModernGroup(Group, Generic[Member, Part, Soft]):
    """A group of such members. `Part` is one member's part of the target, `Soft` the kind's soft state."""

    __slots__ = (
        "epoch_reached", "group_epoch", "left_at_target", "members", "metadata_hash", "soft", "static_members",
        "target", "target_epoch", "target_timestamp_ms", "unreconciled",
    )  # fmt: skip

    def __init__(self, group_id: str, fence: Fence, soft: Soft) -> None:
        super().__init__(group_id, fence)
        self.group_epoch = EPOCH_AT_FIRST
        self.metadata_hash = 0
        """Hash of the group's topics as they were when the group epoch was last raised; 0: no topics."""
        self.target_epoch = EPOCH_AT_FIRST
        self.target_timestamp_ms = 0
        """When the target was computed, by the wall clock; 0: the log does not say."""
        self.target: dict[str, Part] = {}
        """Member id -> its part of the target."""
        self.members: dict[str, Member] = {}

        # Follows from the members, and is kept up to date as they change.
        self.static_members: dict[str, str] = {}
        """Instance id -> member id."""
        self.unreconciled: set[str] = set()
        """Members that have not reached the target."""
        self.left_at_target: set[str] = set()
        """Ids of former members that had reached the target's epoch. If one comes back it must not get this epoch again: a
        commit from before it left would pass for a later one."""
        self.epoch_reached = 0
        """The highest epoch that any member has been in."""

        self.soft = soft

    # --- questions ----------------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        return self.group_epoch

    @property
    def is_rebalancing(self) -> bool:
        return self.group_epoch > self.target_epoch or bool(self.unreconciled)

    @property
    def rebalance_ended_ms(self) -> int | None:
        rebalances = self.soft.rebalances
        return rebalances[-1].ended_ms if rebalances else None

    @property
    def last_rebalance(self) -> PastRebalance | None:
        return _past(self.soft.rebalances[-1]) if self.soft.rebalances else None

    @property
    def past_rebalances(self) -> Sequence[PastRebalance]:
        return [_past(each) for each in self.soft.rebalances]

    @property
    def durable(self) -> dict[str, Any]:
        """The state that the log must be able to restore."""
        return {
            "group_epoch": self.group_epoch,
            "metadata_hash": self.metadata_hash,
            "target_epoch": self.target_epoch,
            "target_timestamp_ms": self.target_timestamp_ms,
            "target": self.target,
            "members": self.members,
            "fence": self.fence,
        }

    def target_stands(self, interval_ms: int, now_ms: int) -> bool:
        """Whether the target is younger than the assignment interval, so that no other is due (KIP-1263).

        After the wall clock was set back the age of the target is unknown, and the interval is not waited for.
        """
        return self.target_timestamp_ms > 0 and 0 <= now_ms - self.target_timestamp_ms < interval_ms

    def member_or_new(self, member_id: str) -> Member:
        return self.members.get(member_id) or self._new_member(member_id)

    @abstractmethod
    def _new_member(self, member_id: str) -> Member:
        """A member that has said nothing yet and holds nothing."""

    # --- replay -------------------------------------------------------------------------------------------------------

    def inherit_soft_state(self, uncommitted: Self) -> None:
        self.soft.take_over(uncommitted.soft)

    def drop_soft_state(self) -> None:
        """Forgets what a restart would forget."""
        self.soft = type(self.soft)()

    def put(self, member: Member) -> None:
        """Adds a member, or replaces its value."""
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if old is not None and member.member_epoch < 0 <= old.member_epoch:
            self._remember_epoch_left(old)
            self.soft.on_member_away(member.member_id)
        elif old is not None and old.member_epoch < 0 <= member.member_epoch:
            self.on_member_back(member.member_id)
        self.epoch_reached = max(self.epoch_reached, member.member_epoch)
        self.soft.on_member_changed(member.member_id)
        self._index(old, member)
        self.update_reconciled(member)

    def drop(self, member_id: str) -> None:
        """Removes a member; does nothing if no member has this id."""
        old = self.members.pop(member_id, None)
        if old is not None:
            self.on_member_removed(old)
            self._index(old, None)

    def set_target_epoch(self, epoch: int, timestamp_ms: int) -> None:
        """Sets the group epoch that the target is for, and finds out which members have reached it already."""
        self.left_at_target.clear()
        self.target_epoch = epoch
        self.target_timestamp_ms = timestamp_ms
        self.soft.on_epochs_changed()
        self.recompute_unreconciled()

    def set_target(self, member_id: str, part: Part | None) -> None:
        """Sets the member's part of the target; None removes it."""
        before = self.target.pop(member_id, None)
        if part is not None:
            self.target[member_id] = part
        self._index_target(member_id, before, part)

    def update_reconciled(self, member: Member) -> None:
        """Notes whether the member, which has a new value, has reached the target."""
        if member.is_reconciled_to(self.target_epoch):
            self.unreconciled.discard(member.member_id)
        else:
            self.unreconciled.add(member.member_id)

    def on_member_back(self, member_id: str) -> None:
        """The process of a static member has started again: what the former one reported is out of date."""
        self.soft.on_member_removed(member_id)

    def on_member_removed(self, member: Member) -> None:
        self._remember_epoch_left(member)
        self._release_instance_id(member)
        self.hold(-member.held_bytes)
        self.unreconciled.discard(member.member_id)
        self.soft.on_member_removed(member.member_id)

    def recompute_unreconciled(self) -> None:
        epoch = self.target_epoch
        self.unreconciled = (
            set(self.members)
            if epoch > self.epoch_reached
            else {member_id for member_id, member in self.members.items() if not member.is_reconciled_to(epoch)}
        )

    @abstractmethod
    def _index(self, old: Member | None, new: Member | None) -> None:
        """Updates the state that the kind derives from its members; `old` is None for a new member, `new` for a removed one."""

    def _index_target(self, member_id: str, before: Part | None, after: Part | None) -> None:
        """Updates the state that the kind derives from the target."""

    def _hold_metadata(self, old: Member | None, new: Member) -> None:
        self.hold(new.held_bytes - (0 if old is None else old.held_bytes))

    def _index_instance_id(self, old: Member | None, new: Member) -> None:
        if old is not None and old.instance_id != new.instance_id:
            self._release_instance_id(old)
        if new.instance_id is not None:
            self.static_members[new.instance_id] = new.member_id

    def _remember_epoch_left(self, member: Member) -> None:
        if member.member_epoch >= self.target_epoch:
            self.left_at_target.add(member.member_id)

    def _release_instance_id(self, member: Member) -> None:
        instance_id = member.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]


def _past(rebalance: Rebalance) -> PastRebalance:
    return PastRebalance(rebalance.started_ms, rebalance.ended_ms, rebalance.cause, rebalance.member_id)
