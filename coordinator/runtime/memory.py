"""Limits the memory that all large requests and responses of all connections take together.

Each connection has limits of its own (requests in flight, bytes that its peer has not read). But there may be ten thousand
connections, and a Produce may have a hundred megabytes, and a Fetch response as much. So large ones are counted: a request with
the size that it announces, from its first bytes until it is answered; a response until its reader has taken it. At the limit,
large requests are not read any further and a Fetch finds no records, until memory is given back. Small ones are not counted and
always served: heartbeats and commits do not wait for somebody's gigabyte.

A request may begin whenever less than the limit is held, however large it is itself, as in Kafka's memory pool: otherwise one
that is larger than the rest could wait for ever. So the limit is exceeded by one request and one turn's responses at most.
"""

from collections.abc import Callable

COUNTED_BYTES = 64 * 1024
"""Requests and responses larger than this are counted. Smaller ones are bounded by the number of connections."""


class Memory:
    """The number of bytes that are held, and the callbacks that wait for room."""

    __slots__ = ("_limit_bytes", "_soon", "_waiting", "_wake_scheduled", "held_bytes")

    def __init__(self, limit_bytes: int, soon: Callable[[Callable[[], None]], object]) -> None:
        self.held_bytes = 0
        self._limit_bytes = limit_bytes
        self._soon = soon
        self._waiting: dict[Callable[[], None], None] = {}
        self._wake_scheduled = False

    def has_room(self) -> bool:
        """Whether another request may begin."""
        return self.held_bytes < self._limit_bytes

    @property
    def waiting(self) -> int:
        """The number of callbacks that wait for room."""
        return len(self._waiting)

    def take(self, count_bytes: int) -> None:
        """Counts bytes as held. A caller that can wait checks `has_room` first."""
        self.held_bytes += count_bytes

    def give_back(self, count_bytes: int) -> None:
        """Counts bytes as free again. Waiting callbacks are called in a later turn of the loop, the oldest first."""
        self.held_bytes -= count_bytes
        assert self.held_bytes >= 0
        if self._waiting and not self._wake_scheduled:
            self._wake_scheduled = True
            self._soon(self._wake)

    def wait(self, resume: Callable[[], None]) -> None:
        """Calls `resume` once when there is room. Has no effect if it is waiting already."""
        self._waiting[resume] = None

    def forget(self, resume: Callable[[], None]) -> None:
        """Removes a callback that is waiting."""
        self._waiting.pop(resume, None)

    def _wake(self) -> None:
        self._wake_scheduled = False
        while self._waiting and self.has_room():
            resume = next(iter(self._waiting))
            del self._waiting[resume]
            resume()
