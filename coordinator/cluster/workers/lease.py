"""Until when a worker may answer for its shards, by its own clock.

The engine fences what a worker writes after another has taken its shards. It does not see reads, such as OffsetFetch, or a
heartbeat that writes nothing. So a worker answers only while its last beat is so recent that the engine cannot have declared it
dead: the lease begins when the beat was sent, and ends before the engine's time-out does. A worker that was stopped (SIGSTOP)
notices it with the first request.
"""

from collections.abc import Callable

from coordinator.runtime.shard import Operation, R, S, Shard, ShardRequest


class Lease:
    """The lease of this worker. It begins when the first beat is acknowledged."""

    def __init__(self, now_ms: Callable[[], int], length_ms: int) -> None:
        self._now_ms = now_ms
        self._length_ms = length_ms
        self._until_ms = 0
        self.on_over: Callable[[], None] = lambda: None
        """Called when a request finds that the lease is over."""

    def renew(self, began_ms: int) -> None:
        """The engine has acknowledged a beat that was sent at this time."""
        self._until_ms = max(self._until_ms, began_ms + self._length_ms)

    @property
    def is_over(self) -> bool:
        """Whether others may have this worker's shards."""
        return self._now_ms() >= self._until_ms


class LeasedShard(Shard[S]):
    """A shard that answers only while the worker's lease lasts."""

    lease: Lease
    """Must be set before the first request."""

    def submit(self, operation: Operation[S, R], request: ShardRequest[R]) -> None:
        if self.lease.is_over:
            self.lease.on_over()
        super().submit(operation, request)
