"""How much memory all large requests and answers of all connections may take together.

Each connection has bounds of its own (requests in flight, bytes that its peer has not read), but there may be ten thousand
connections, and a Produce may be a hundred megabytes and a Fetch as much. So what is large is counted: a request from its
first bytes, by the size that it announces, until it is answered; an answer until its reader has taken it. When all that is
as much as it may be, large requests are not read on and a Fetch finds no records, until some of it is given back.
What is small is not counted, and always served: heartbeats and commits do not wait for somebody's gigabyte.

One may begin whenever less than the limit is held, however large it is itself, as in Kafka's memory pool: a request that is
larger than the rest must not wait for ever. So the limit is exceeded by one request and one turn's answers at most.
"""

from collections.abc import Callable

COUNTED_BYTES = 64 * 1024
"""A request or an answer larger than this is counted; many of the smaller are bounded by the number of connections."""


class Memory:
    """The count, and who waits for it to go down."""

    __slots__ = ("_limit_bytes", "_soon", "_waiting", "_woken", "held_bytes")

    def __init__(self, limit_bytes: int, soon: Callable[[Callable[[], None]], object]) -> None:
        self.held_bytes = 0
        self._limit_bytes = limit_bytes
        self._soon = soon
        self._waiting: dict[Callable[[], None], None] = {}
        self._woken = False

    def has_room(self) -> bool:
        """Whether one more may begin."""
        return self.held_bytes < self._limit_bytes

    @property
    def waiting(self) -> int:
        """Those that wait for room."""
        return len(self._waiting)

    def take(self, count_bytes: int) -> None:
        """Counts so many bytes in; who has a choice asks `has_room` first."""
        self.held_bytes += count_bytes

    def give_back(self, count_bytes: int) -> None:
        """Counts them out again; those that wait are called in a later turn of the loop, the longest waiting first."""
        self.held_bytes -= count_bytes
        assert self.held_bytes >= 0
        if self._waiting and not self._woken:
            self._woken = True
            self._soon(self._wake)

    def wait(self, go_on: Callable[[], None]) -> None:
        """Calls `go_on` once when there is room; asks nothing if it waits already."""
        self._waiting[go_on] = None

    def forget(self, go_on: Callable[[], None]) -> None:
        """It need not be called any more."""
        self._waiting.pop(go_on, None)

    def _wake(self) -> None:
        self._woken = False
        while self._waiting and self.has_room():
            go_on = next(iter(self._waiting))
            del self._waiting[go_on]
            go_on()
