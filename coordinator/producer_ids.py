"""Producer ids for an operation that cannot wait for one.

Ids are reserved by blocks in the metadata log, so the next one may take a write to the disk. An operation of the
transactions' core runs to its end in one call; so one id is always kept at hand, and a request that may need it is handed
on when it is there. Where none is at hand after all (the disk fails), the core answers COORDINATOR_LOAD_IN_PROGRESS, as Kafka
does while it waits for its controller, and the client asks again.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from coordinator.protocol.errors import ErrorCode


class Source(Protocol):
    """Where ids come from (topics/engine.py)."""

    def next_producer_id(self, done: Callable[[ErrorCode, int], None]) -> None: ...


class ProducerIds:
    """One id at hand, replaced when it is taken."""

    __slots__ = ("_asking", "_at_hand", "_source", "_waiting")

    def __init__(self, source: Source) -> None:
        self._source = source
        self._at_hand: int | None = None
        self._asking = False
        self._waiting: deque[Callable[[], None]] = deque()

    def ready(self, then: Callable[[], None]) -> None:
        """Calls `then` once an id is at hand, or cannot be had."""
        if self._at_hand is not None:
            then()
            return
        self._waiting.append(then)
        self._ask()

    def take(self) -> int | None:
        taken, self._at_hand = self._at_hand, None
        self._ask()
        return taken

    def _ask(self) -> None:
        if self._asking or self._at_hand is not None:
            return
        self._asking = True
        self._source.next_producer_id(self._given)

    def _given(self, error: ErrorCode, producer_id: int) -> None:
        self._asking = False
        self._at_hand = producer_id if error is ErrorCode.NONE else None
        waiting = self._waiting
        while waiting and (self._at_hand is not None or error is not ErrorCode.NONE):
            waiting.popleft()()
