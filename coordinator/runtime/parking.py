"""Replies that wait for the log.

Every reply of a shard, a read's too, waits until the log is durable up to the last record written when the reply was
computed: nobody ever sees what a crash could take back. Offsets only grow, so a queue is enough; durability releases its
head. A reply is encoded before it waits, because the state it was computed from goes on changing.
"""

from collections import deque
from typing import Any, NamedTuple, Protocol


class Asker(Protocol):
    """Who waits for a reply (requests/exchange.py)."""

    def send(self, payload: Any) -> None: ...


class ParkedReply(NamedTuple):
    offset: int
    """The reply may leave when the log is durable up to here (exclusive end offset)."""
    parked_ms: int
    asker: Asker
    payload: Any
    """An encoded answer, or one shard's part of an answer that spans shards (router.py)."""


class Parking:
    """The parked replies of one shard, in offset order."""

    __slots__ = ("_queue",)

    def __init__(self) -> None:
        self._queue: deque[ParkedReply] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def oldest_ms(self) -> int | None:
        """Monotonic time at which the head of the queue was parked."""
        return self._queue[0].parked_ms if self._queue else None

    def park(self, reply: ParkedReply) -> None:
        assert not self._queue or self._queue[-1].offset <= reply.offset
        self._queue.append(reply)

    def release(self, durable_offset: int) -> None:
        """Sends every reply whose records are durable."""
        queue = self._queue
        while queue and queue[0].offset <= durable_offset:
            reply = queue.popleft()
            reply.asker.send(reply.payload)

    def take_parked_before(self, deadline_ms: int) -> list[Asker]:
        """Takes out the replies that have waited since before `deadline_ms`."""
        overdue = []
        while self._queue and self._queue[0].parked_ms < deadline_ms:
            overdue.append(self._queue.popleft().asker)
        return overdue

    def take_all(self) -> list[Asker]:
        """Takes out everything (the shard lost what they were computed from)."""
        askers = [reply.asker for reply in self._queue]
        self._queue.clear()
        return askers
