"""Replies that wait until the log is durable.

Every reply of a shard, including those of reads, waits until the log is durable up to the last record that was written when
the reply was computed. So nobody ever sees anything that a crash could undo. A reply is encoded before it waits, because the
state that it was computed from goes on changing.

A batch becomes durable as a whole. So the replies that were given while it was collected wait as one group, and a reply costs
no more than its place in a list. The offsets of the groups only grow, so a queue is enough: durability releases its head
(Kafka's DeferredEventQueue).
"""

from collections import deque
from itertools import chain
from typing import Any, NamedTuple, Protocol


class ReplyTarget(Protocol):
    """The receiver of a reply (api/exchange.py)."""

    def send(self, payload: Any) -> None: ...


ParkedReply = tuple[ReplyTarget, Any]
"""The target and the payload: an encoded response, or one shard's part of a response that spans shards (router.py)."""


class _Group(NamedTuple):
    offset: int
    """The replies can be sent when the log is durable up to here (exclusive)."""
    since_ms: int
    replies: list[ParkedReply]


class Parking:
    """The parked replies of one shard, in the order in which they were given."""

    __slots__ = ("_groups", "collected")

    def __init__(self) -> None:
        self.collected: list[ParkedReply] = []
        """The replies since the last write; they wait for the next one."""
        self._groups: deque[_Group] = deque()

    def __len__(self) -> int:
        return len(self.collected) + sum(len(group.replies) for group in self._groups)

    @property
    def oldest_ms(self) -> int | None:
        """Monotonic time since which the oldest replies have been waiting for a write."""
        return self._groups[0].since_ms if self._groups else None

    def wait_for(self, offset: int, now_ms: int) -> None:
        """Lets the collected replies wait for this offset: their batch is about to be written."""
        if self.collected:
            self._groups.append(_Group(offset, now_ms, self.collected))
            self.collected = []

    def park(self, offset: int, now_ms: int, target: ReplyTarget, payload: Any) -> None:
        """Parks a reply of a turn that writes nothing itself, while earlier batches are being written."""
        last = self._groups[-1] if self._groups else None
        if last is None or last.offset != offset or last.since_ms != now_ms:
            assert last is None or last.offset <= offset
            last = _Group(offset, now_ms, [])
            self._groups.append(last)
        last.replies.append((target, payload))

    def release(self, durable_offset: int) -> None:
        """Sends every reply whose records are durable."""
        groups = self._groups
        while groups and groups[0].offset <= durable_offset:
            for target, payload in groups.popleft().replies:
                target.send(payload)

    def take_parked_before(self, deadline_ms: int) -> list[ReplyTarget]:
        """Removes the replies that have been waiting since before `deadline_ms`, and returns their targets."""
        overdue: list[ReplyTarget] = []
        while self._groups and self._groups[0].since_ms < deadline_ms:
            overdue += [target for target, _ in self._groups.popleft().replies]
        return overdue

    def take_all(self) -> list[ReplyTarget]:
        """Removes all replies, because the state that they were computed from is lost, and returns their targets."""
        targets = [target for target, _ in chain(*(group.replies for group in self._groups), self.collected)]
        self._groups.clear()
        self.collected = []
        return targets
