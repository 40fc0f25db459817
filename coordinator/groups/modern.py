"""What consumer groups (KIP-848) and streams groups (KIP-1071) have in common; Kafka calls both modern groups.

Nobody stops here to agree on anything. The coordinator keeps three things and lets each member walk from one to the next
in its own time:

    the group epoch        moves on when the group's metadata change: members, what they ask for, topics
    the target assignment  who should have what; computed by an assignor for a group epoch, and then bears its number
    the members            what each has now, and the *member epoch* it has reached on the way to the target

    member epoch <= target assignment epoch <= group epoch
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, Self, TypeVar

from coordinator.groups.group import REBALANCES_KEPT, Group

EPOCH_AT_FIRST = 1
"""Group epoch and target assignment epoch of a group that has just come into being, with an empty target."""
JOINING_EPOCH = 0
LEAVING_EPOCH = -1
LEAVING_FOR_A_WHILE_EPOCH = -2

Epochs = Mapping[bytes, Mapping[int, int]]
"""Topic id -> partition -> the epoch at which the member was given it (KIP-1251). No topic is empty."""


@dataclass(slots=True, kw_only=True)
class Rebalance:
    """Why a group's epoch moved on, and how far the group has come since. Wall clock; None until reached."""

    epoch: int
    cause: str
    member_id: str
    started_ms: int
    assigned_ms: int | None = None
    """A target for this epoch, or a later one, was computed."""
    last_reconciled: str = ""
    """The member that was the last to reach the target: the one the others waited for."""
    ended_ms: int | None = None
    """Every member has reached it."""
    waits: dict[str, int] = field(default_factory=dict)
    """Member id -> how long after the start it reached the target."""


class _Walker(Protocol):
    """A member, as far as it matters here."""

    @property
    def member_id(self) -> str: ...
    @property
    def instance_id(self) -> str | None: ...
    @property
    def member_epoch(self) -> int: ...
    def is_reconciled_to(self, target_epoch: int) -> bool: ...


Member = TypeVar("Member", bound=_Walker)
Part = TypeVar("Part")


class ModernGroup(Group, Generic[Member, Part]):
    """A group of such members; `Part` is what one of them should have. Only replay.py of each kind calls what changes it."""

    __slots__ = (
        "acknowledged",
        "delivered",
        "departed",
        "group_epoch",
        "group_id",
        "members",
        "metadata_hash",
        "rebalances",
        "static_members",
        "target",
        "target_epoch",
        "target_timestamp_ms",
        "unreconciled",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = EPOCH_AT_FIRST
        self.metadata_hash = 0
        """Of the topics that matter as they were when the group epoch last moved on."""
        self.target_epoch = EPOCH_AT_FIRST
        self.target_timestamp_ms = 0
        """When the target was computed; 0: the log does not say."""
        self.target: dict[str, Part] = {}
        """Member id -> what it should hold."""
        self.members: dict[str, Member] = {}

        # Follows from the members, kept as they change.
        self.static_members: dict[str, str] = {}
        """Instance id -> member id."""
        self.unreconciled: set[str] = set()
        """Members that have not reached the target."""
        self.departed: set[str] = set()
        """Ids of members that had reached the target's epoch and are gone. Should one come back, it must not get this epoch
        again: a commit that it made before it left would pass for one made after."""

        # Not in the log.
        self.delivered: dict[str, tuple[int, Epochs]] = {}
        """Member id -> epoch and partitions that it was told last; and those that it said it has (events.py)."""
        self.acknowledged: dict[str, tuple[int, Epochs]] = {}
        self.rebalances: deque[Rebalance] = deque(maxlen=REBALANCES_KEPT)

    @property
    def epoch(self) -> int:
        return self.group_epoch

    def target_stands(self, interval_ms: int, now_ms: int) -> bool:
        """Whether the target was computed so short a time ago that there is no other yet. A wall clock that was set back says
        nothing about that, and is not waited for."""
        return self.target_timestamp_ms > 0 and 0 <= now_ms - self.target_timestamp_ms < interval_ms

    def _walked(self, member: Member) -> None:
        """The member has another value: is it at the target?"""
        if member.is_reconciled_to(self.target_epoch):
            self.unreconciled.discard(member.member_id)
        else:
            self.unreconciled.add(member.member_id)

    def _gone(self, member: Member) -> None:
        """The member is in the group no more."""
        self._depart(member)
        self._release(member)
        self.unreconciled.discard(member.member_id)
        self.delivered.pop(member.member_id, None)
        self.acknowledged.pop(member.member_id, None)

    def _depart(self, member: Member) -> None:
        if member.member_epoch >= self.target_epoch:
            self.departed.add(member.member_id)

    def _release(self, member: Member) -> None:
        instance_id = member.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]

    def _retarget(self, epoch: int, timestamp_ms: int) -> None:
        """There is a target for this epoch; who has reached it already must be looked at."""
        self.departed.clear()
        self.target_epoch = epoch
        self.target_timestamp_ms = timestamp_ms

    def _look_who_is_there(self) -> None:
        self.unreconciled = {
            member_id for member_id, member in self.members.items() if not member.is_reconciled_to(self.target_epoch)
        }

    def inherit_soft_state(self, uncommitted: Self) -> None:
        self.rebalances = uncommitted.rebalances
        self.delivered = uncommitted.delivered
        self.acknowledged = uncommitted.acknowledged
