"""Replies that wait for the log.

Every reply of a shard, a read's too, waits until the log is durable up to the last record written when the reply was
computed: nobody ever sees what a crash could take back. A reply is encoded before it waits, because the state it was
computed from goes on changing.

A batch becomes durable as a whole, so what was answered while it was being collected waits as one group, and a reply costs
no more than its place in a list. The groups' offsets only grow, so a queue of them is enough; durability releases its head.
"""

from collections import deque
from itertools import chain
from typing import Any, NamedTuple, Protocol


class ReplyTarget(Protocol):
    """Who waits for a reply (api/exchange.py)."""

    def send(self, payload: Any) -> None: ...


ParkedReply = tuple[ReplyTarget, Any]
"""The asker, and an encoded answer or one shard's part of an answer that spans shards (router.py)."""


class _Group(NamedTuple):
    offset: int
    """The replies may leave when the log is durable up to here (exclusive end offset)."""
    since_ms: int
    replies: list[ParkedReply]


class Parking:
    """The parked replies of one shard, in the order in which they were given."""

    __slots__ = ("_groups", "collected")

    def __init__(self) -> None:
        self.collected: list[ParkedReply] = []
        """Given since the last batch was written; they wait for the next one."""
        self._groups: deque[_Group] = deque()

    def __len__(self) -> int:
        return len(self.collected) + sum(len(group.replies) for group in self._groups)

    @property
    def oldest_ms(self) -> int | None:
        """Monotonic time since which the oldest replies wait for a batch that was written."""
        return self._groups[0].since_ms if self._groups else None

    def wait_for(self, offset: int, now_ms: int) -> None:
        """What was collected waits for this offset: its batch is about to be written."""
        if self.collected:
            self._groups.append(_Group(offset, now_ms, self.collected))
            self.collected = []

    def park(self, offset: int, now_ms: int, asker: ReplyTarget, payload: Any) -> None:
        """A reply of a turn that writes nothing, while earlier batches are on their way to the disk."""
        last = self._groups[-1] if self._groups else None
        if last is None or last.offset != offset or last.since_ms != now_ms:
            assert last is None or last.offset <= offset
            last = _Group(offset, now_ms, [])
            self._groups.append(last)
        last.replies.append((asker, payload))

    def release(self, durable_offset: int) -> None:
        """Sends every reply whose records are durable."""
        groups = self._groups
        while groups and groups[0].offset <= durable_offset:
            for asker, payload in groups.popleft().replies:
                asker.send(payload)

    def take_parked_before(self, deadline_ms: int) -> list[ReplyTarget]:
        """Takes out the replies that have waited since before `deadline_ms`."""
        overdue: list[ReplyTarget] = []
        while self._groups and self._groups[0].since_ms < deadline_ms:
            overdue += [asker for asker, _ in self._groups.popleft().replies]
        return overdue

    def take_all(self) -> list[ReplyTarget]:
        """Takes out everything (the shard lost what they were computed from)."""
        askers = [asker for asker, _ in chain(*(group.replies for group in self._groups), self.collected)]
        self._groups.clear()
        self.collected = []
        return askers
