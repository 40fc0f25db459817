"""Keeps one producer id ready for operations that cannot wait for one.

Ids are reserved in blocks in the metadata log, so getting the next one may take a disk write. An operation of the transaction
coordinator runs to its end in one call. So one id is always kept ready, and a request that may need it is passed on only
when it is there. If none can be had (the disk fails), the operation answers COORDINATOR_LOAD_IN_PROGRESS, as Kafka does
while it waits for its controller, and the client retries.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from coordinator.protocol.errors import ErrorCode


class Source(Protocol):
    """Gives out ids (topics/engine.py)."""

    def next_producer_id(self, done: Callable[[ErrorCode, int], None]) -> None: ...


class ProducerIdPool:
    """A pool of one id, which is replaced as soon as it is taken."""

    __slots__ = ("_ready_id", "_requested", "_source", "_waiting")

    def __init__(self, source: Source) -> None:
        self._source = source
        self._ready_id: int | None = None
        self._requested = False
        self._waiting: deque[Callable[[], None]] = deque()

    def ready(self, then: Callable[[], None]) -> None:
        """Calls `then` once an id is ready, or the source has failed to give one."""
        if self._ready_id is not None:
            then()
            return
        self._waiting.append(then)
        self._request()

    def take(self) -> int | None:
        """Returns the id, or None if none is ready, and requests the next one."""
        taken, self._ready_id = self._ready_id, None
        self._request()
        return taken

    def _request(self) -> None:
        if self._requested or self._ready_id is not None:
            return
        self._requested = True
        self._source.next_producer_id(self._on_id)

    def _on_id(self, error: ErrorCode, producer_id: int) -> None:
        self._requested = False
        self._ready_id = producer_id if error is ErrorCode.NONE else None
        waiting = self._waiting
        while waiting and (self._ready_id is not None or error is not ErrorCode.NONE):
            waiting.popleft()()
