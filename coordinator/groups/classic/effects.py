"""What an operation on a classic group wants done, collected while it runs.

A join may form a generation, which answers everybody else's join, re-arms everybody's session and starts a timer for the
syncs. These effects are spread over the steps of an operation; they are collected here in the order in which they come about
and handed over as one Result. Records are few: an operation writes at most one, the group's.
"""

from collections.abc import Sequence
from typing import Any

from coordinator.protocol.messages import Message
from coordinator.runtime.result import Event, Fact, Record, RequestContext, Result, Timer, TimerKey


class Effects:
    """Replies, timers, facts and the record of one operation."""

    __slots__ = ("facts", "record", "replaces", "replies", "timers")

    def __init__(self) -> None:
        self.replaces: Sequence[Record] = ()
        """The end of a group of another kind, whose place this one takes; written first."""
        self.record: Record | None = None
        self.timers: list[Timer] = []
        self.replies: list[tuple[RequestContext, Message]] = []
        self.facts: list[Fact] = []

    def write(self, record: Record) -> None:
        assert self.record is None, "one operation writes one group record"
        self.record = record

    def answer(self, context: RequestContext | None, message: Message) -> None:
        """Answers a parked call, if there is one."""
        if context is not None:
            self.replies.append((context, message))

    def arm(self, key: TimerKey, delay_ms: int) -> None:
        self.timers.append(Timer(key, delay_ms))

    def disarm(self, key: TimerKey) -> None:
        self.timers.append(Timer(key, None))

    def emit(self, name: str, event: Event | None = None, /, **fields: Any) -> None:
        self.facts.append(Fact(name, fields, event))

    def result(self, reply: Message | None = None) -> Result:
        records = (*self.replaces, self.record) if self.record is not None else tuple(self.replaces)
        return Result(reply, records, self.timers, self.replies, self.facts)
