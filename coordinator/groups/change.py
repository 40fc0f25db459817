"""What the operations on groups with epochs have in common: what they want done, and how they tell of rebalances.

An operation may not change a group of these kinds; its records do, when they are replayed (consumer/change.py). Until then it
collects them here. A rebalance begins when the group's epoch is raised and is over when every member has reached the target of
that epoch, or of a later one; it is remembered in the group, and told.
"""

from collections import deque
from typing import Any

from coordinator.groups.events import Completed, event_only, rebalance_started
from coordinator.groups.kinds import Kind
from coordinator.groups.modern import Rebalance
from coordinator.runtime.result import Event, Fact, Record, Timer, TimerKey


class GroupChange:
    """What an operation wants done to one group."""

    __slots__ = ("facts", "group_epoch", "group_id", "kind", "now_ms", "rebalances", "records", "timers")

    def __init__(self, kind: Kind, group_id: str, group_epoch: int, rebalances: deque[Rebalance], now_ms: int) -> None:
        self.kind = kind
        self.group_id = group_id
        self.group_epoch = group_epoch
        """As it will be."""
        self.rebalances = rebalances
        """The group's; what is remembered of them is not in the log."""
        self.now_ms = now_ms
        self.records: list[Record] = []
        self.timers: list[Timer] = []
        self.facts: list[Fact] = []

    def arm(self, key: TimerKey, delay_ms: int) -> None:
        self.timers.append(Timer(key, delay_ms))

    def disarm(self, key: TimerKey) -> None:
        self.timers.append(Timer(key, None))

    def emit(self, name: str, event: Event | None = None, /, **fields: Any) -> None:
        self.facts.append(Fact(name, {"group_id": self.group_id, **fields}, event))

    # --- rebalances ---------------------------------------------------------------------------------------------------

    def begin_rebalance(self, cause: str, member_id: str) -> None:
        """The group's epoch was raised; the cause is remembered and told."""
        epoch, kind = self.group_epoch, self.kind
        self.rebalances.append(Rebalance(epoch=epoch, cause=cause, member_id=member_id, started_ms=self.now_ms))
        event = rebalance_started(self.group_id, kind, epoch, cause, member_id, None)
        self.emit("rebalance_started", event, kind=kind.name.lower(), epoch=epoch, cause=cause, member_id=member_id)

    def target_made(self, assignor: str, members: int, members_changed: int) -> None:
        """There is a target for the group's epoch."""
        for rebalance in self.rebalances:
            if rebalance.assigned_ms is None:
                rebalance.assigned_ms = self.now_ms
        self.emit(
            "target_assigned",
            epoch=self.group_epoch,
            assignor=assignor,
            members=members,
            members_changed=members_changed,
        )

    def reached(self, member_id: str) -> None:
        """The member has reached the target of the group's epoch."""
        for rebalance in self.rebalances:
            if rebalance.ended_ms is None:
                rebalance.waits[member_id] = self.now_ms - rebalance.started_ms

    def end_rebalances(self, epoch: int, last_reconciled: str, members: int) -> None:
        """Every member has reached the epoch, or there is none any more. What was overtaken on the way ends with it."""
        ended = [rebalance for rebalance in self.rebalances if rebalance.ended_ms is None]
        for rebalance in ended:
            rebalance.ended_ms = self.now_ms
            rebalance.last_reconciled = last_reconciled
            event = Completed(
                self.group_id,
                self.kind,
                rebalance.epoch,
                duration_ms=self.now_ms - rebalance.started_ms,
                cause=rebalance.cause,
                member_id=rebalance.member_id,
                members=members,
                waits=rebalance.waits,
            )
            self.facts.append(event_only(event))
        if ended:
            self.emit(
                "rebalance_ended",
                kind=self.kind.name.lower(),
                epoch=epoch,
                waited_ms=self.now_ms - ended[0].started_ms,
                last_reconciled=last_reconciled,
                members=members,
            )
