"""A muted connection: its client has its answer, and what it sends next waits (KIP-219)."""

from typing import Any, cast

from coordinator.api.exchange import Exchange, ReplyQueue
from coordinator.world.schedule import Schedule


def mute(queue: ReplyQueue, schedule: Schedule, duration_ms: int) -> None:
    """Lets the requests of a connection wait that are not in progress yet."""
    muted = _Mute(queue)
    queue.hold(cast(Exchange[Any], muted))
    schedule(duration_ms, muted.end)


class _Mute:
    """Holds a connection as an unanswered request would."""

    __slots__ = ("_queue", "payload")

    def __init__(self, queue: ReplyQueue) -> None:
        self._queue = queue
        self.payload: bytes | None = None

    def end(self) -> None:
        self.payload = b""
        self._queue.ready()
