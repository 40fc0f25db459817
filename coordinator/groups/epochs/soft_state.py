"""Soft state: the memory of a group beyond its log.

A group with epochs has two parts. What is in the log, and what follows from it, changes in replay only. Everything else is in
`group.soft`: caches, and memories of what was sent. The rules for soft state are

    operations may change it, at once, without a record; replay may invalidate it
    a crash or a reload loses it, and a new group starts without it
    no promise depends on it: losing it costs time or one more message, never a wrong assignment

An operation that creates a group fills the soft state of an uncommitted one. The group that the first record makes then
takes over what must not get lost in between (`take_over`).
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Self

from coordinator.groups.epochs.member import Held
from coordinator.groups.group import REBALANCES_KEPT


@dataclass(slots=True, kw_only=True)
class Rebalance:
    """Why a group's epoch was raised, and how far the group has come since. Wall clock; None until reached."""

    epoch: int
    cause: str
    member_id: str
    started_ms: int
    reason: str | None = None
    """The reason that an administrator gave."""
    assigned_ms: int | None = None
    """When a target for this epoch, or a later one, was computed."""
    ended_ms: int | None = None
    """When the last member reached it."""
    waits: dict[str, int] = field(default_factory=dict)
    """Member id -> milliseconds from the target until the member reached it, or was removed before that."""

    @property
    def delay_ms(self) -> int:
        """How long a setting kept the group from computing a target: the initial delay or the assignment interval."""
        return 0 if self.assigned_ms is None else self.assigned_ms - self.started_ms

    def stop_waiting_for(self, member_id: str, now_ms: int) -> None:
        """The member has reached the target, or is removed."""
        self.waits[member_id] = now_ms - (self.started_ms if self.assigned_ms is None else self.assigned_ms)


class SoftState:
    """The soft state of every group with epochs."""

    __slots__ = ("acknowledged", "cached_heartbeats", "delivered", "rebalances")

    def __init__(self) -> None:
        self.delivered: dict[str, tuple[int, Held]] = {}
        """Member id -> epoch and partitions that were last sent to the member (events.py)."""
        self.acknowledged: dict[str, tuple[int, Held]] = {}
        """Member id -> epoch and partitions that the member last confirmed to own."""
        self.rebalances: deque[Rebalance] = deque(maxlen=REBALANCES_KEPT)
        self.cached_heartbeats: dict[str, Any] = {}
        """Member id -> the answer to a heartbeat that says nothing new."""

    def take_over(self, uncommitted: Self) -> None:
        """Keeps what the operation that created the group has put into the uncommitted one."""
        self.delivered = uncommitted.delivered
        self.acknowledged = uncommitted.acknowledged
        self.rebalances = uncommitted.rebalances

    def on_member_changed(self, member_id: str) -> None:
        """Drops what was derived from the member's previous value."""
        self.cached_heartbeats.pop(member_id, None)

    def on_member_away(self, member_id: str) -> None:
        """Forgets what the member has received: it is sent again when the member comes back."""
        self.delivered.pop(member_id, None)
        self.acknowledged.pop(member_id, None)

    def on_member_removed(self, member_id: str) -> None:
        self.on_member_away(member_id)
        self.cached_heartbeats.pop(member_id, None)

    def on_epochs_changed(self) -> None:
        """The group's epoch or the target's has changed: every member may have a step to take."""
        self.cached_heartbeats.clear()
