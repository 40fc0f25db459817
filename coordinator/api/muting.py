"""A muted connection: its client has its answer, and what it sends next waits (KIP-219)."""

from typing import Any, cast

from coordinator.api.exchange import Exchange, ReplyQueue
from coordinator.world.schedule import Schedule


def mute(queue: ReplyQueue, schedule: Schedule, duration_ms: int) -> None:
    """Lets the requests of a connection wait that are not in progress yet, also for what mutes it already."""
    muted = _Mute(queue)
    muted.before = queue.hold(cast(Exchange[Any], muted))
    schedule(duration_ms, muted.end)


class _Mute:
    """Holds a connection as an unanswered request would."""

    __slots__ = ("_is_over", "_queue", "before")

    def __init__(self, queue: ReplyQueue) -> None:
        self._queue = queue
        self._is_over = False
        self.before: Exchange[Any] | None = None

    @property
    def payload(self) -> bytes | None:
        """None while the connection is muted."""
        if self.before is not None and self.before.payload is not None:
            self.before = None
        return b"" if self._is_over and self.before is None else None

    def end(self) -> None:
        self._is_over = True
        self._queue.ready()
