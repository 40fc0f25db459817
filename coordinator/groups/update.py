"""The collector of one operation on a group: the records, timers, events and replies that make up its `Result`.

An operation decides step by step. A join may form a generation, which answers everybody else's join, restarts their sessions
and arms a timer. The steps collect all of this in a `GroupUpdate`, in the order in which it comes about. Groups of all kinds
use it; kinds with epochs extend it with what the group will be like once the records are replayed (epochs/update.py).
"""

from typing import Any

from coordinator.groups.events import event_only, group_converted
from coordinator.groups.group import Group
from coordinator.groups.kinds import Kind
from coordinator.groups.state import Groups
from coordinator.protocol.messages import Message
from coordinator.runtime.result import Event, Fact, Record, RequestContext, Result, Timer, TimerKey


class GroupUpdate:
    """The records, timers, facts and replies of one operation on one group."""

    __slots__ = ("facts", "group_id", "records", "replies", "timers")

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.records: list[Record] = []
        self.timers: list[Timer] = []
        self.facts: list[Fact] = []
        self.replies: list[tuple[RequestContext, Message]] = []
        """Replies to earlier requests that were parked."""

    def arm(self, key: TimerKey, delay_ms: int) -> None:
        """Starts the timer, or starts it again."""
        self.timers.append(Timer(key, delay_ms))

    def disarm(self, key: TimerKey) -> None:
        self.timers.append(Timer(key, None))

    def answer(self, context: RequestContext | None, message: Message) -> None:
        """Replies to a parked request, if there is one."""
        if context is not None:
            self.replies.append((context, message))

    def emit(self, name: str, event: Event | None = None, /, **fields: Any) -> None:
        """Adds a fact about the group: a log line, a metric and, with an `event`, an entry of the event log."""
        self.facts.append(Fact(name, {"group_id": self.group_id, **fields}, event))

    def replace(self, groups: Groups, empty: Group, kind: Kind, epoch: int, member_id: str) -> None:
        """Ends a group without members, in whose place a group of this kind comes; its offsets stay.

        `epoch`: the new group's; `member_id`: the member that joins it, if known.
        """
        tombstones, disarmed = groups.end(empty)
        self.records += tombstones
        self.timers += disarmed
        if empty.durable is not None:
            self.facts.append(event_only(group_converted(self.group_id, empty.kind, kind, epoch, member_id, 0)))

    def result(self, reply: Message | None) -> Result:
        return Result(reply, self.records, self.timers, self.replies, self.facts)
