"""Shares the turns of the event loop among the connections, so that nobody's requests keep the others waiting.

A turn of the loop reads every socket that has data. Most reads bring one request, which is handled in the same call. The rule
for the others is that of a fair queue with new and old flows (RFC 8290, fq_codel):

    a read with one request            handled at once while the turn has time; otherwise the connection is *new*: it comes
                                       first in the next turn, heartbeats before the others
    more requests than a slice has     the rest wait in the connection's backlog, and the connection is *waiting*: in every
                                       turn each waiting connection in order gets a slice, until the time for them is used up

So a client that sends three thousand requests at once and one that sends a heartbeat take turns, and the heartbeat is not
behind the queue of the others. The loop reads between two slices of the same connection.

A slice and a turn are bounded by the number of requests, by the bytes of large responses and by time. The clock is not read
for each request, which would cost more than deciding: `left` counts down the bytes of the requests, and at 0 `has_time` reads
the clock. In virtual time, where a turn takes no time, the two counts alone are the bounds.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from coordinator.api.sliced_work import SliceTaker

SLICE_REQUESTS = 32
"""Requests of one connection that are handled before others have their turn. Clients have five in flight."""
TURN_MS = 20
"""How long a turn may handle requests. What it has begun comes on top: one request, the writes to the log and the sockets."""
WAITING_MS = 10
"""The part of it for connections that send more than a slice."""
TURN_RESPONSE_BYTES = 4 << 20
"""The bytes of large responses after which a turn ends: the kernel has to copy them."""
LOOK_BYTES = 2_048
"""Requests of this many bytes are handled between two readings of the clock."""
REQUEST_BYTES = 128
"""What a request counts beside its own bytes, so that the smallest ones do not go without a look for long."""


class Writer(Protocol):
    """A connection with responses."""

    def write_ready(self) -> None:
        """Writes the responses that have been given."""


class Turn:
    """The present turn: the connections that have responses to write, and the work that waits.

    Work is the backlog of a connection or a large request (api/sliced_work.py).
    """

    __slots__ = (
        "_began_cpu_ns", "_began_ms", "_call_soon", "_cpu_ns", "_ends_ms", "_is_marked", "_new", "_now_ms", "_on_turn",
        "_response_bytes", "_urgent", "_waiting", "left", "ready",
    )  # fmt: skip

    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        now_ms: Callable[[], int],
        cpu_ns: Callable[[], int],
        on_turn: Callable[[int, int], None],
    ) -> None:
        """`on_turn` is called with the length (ms) and the CPU time (ns) of each turn that handled more than a few requests.

        `cpu_ns`: the CPU time of the loop's thread, which others on the machine do not lengthen.
        """
        self.ready: list[Writer] = []
        """The connections with responses. The caller that adds the first one calls `begin_writing`."""
        self.left = LOOK_BYTES
        """The bytes of requests that may be handled before `has_time` is called."""
        self._call_soon = call_soon
        self._now_ms = now_ms
        self._cpu_ns = cpu_ns
        self._on_turn = on_turn
        self._urgent: deque[SliceTaker] = deque()
        self._new: deque[SliceTaker] = deque()
        self._waiting: deque[SliceTaker] = deque()
        self._is_marked = False
        """Whether `_end` is scheduled: the turn is being measured."""
        self._began_ms = self._ends_ms = self._began_cpu_ns = 0
        self._response_bytes = 0

    def begin_writing(self) -> None:
        self._call_soon(self.flush)

    def flush(self) -> None:
        """Writes the responses given so far, all of a connection in one write."""
        ready, self.ready = self.ready, []
        for connection in ready:
            connection.write_ready()

    def has_time(self) -> bool:
        """Whether another request may be handled in this turn."""
        now_ms = self._now_ms()
        if not self._is_marked:
            self._mark(now_ms)
        elif now_ms >= self._ends_ms or self._response_bytes >= TURN_RESPONSE_BYTES:
            return False
        self.left = LOOK_BYTES
        return True

    def begin(self) -> None:
        """Measures the turn from now on, before a large request is decoded, which may take the time of a turn."""
        if not self._is_marked:
            self._mark(self._now_ms())
        self.left = 0

    def count_response(self, size_bytes: int) -> None:
        """Counts a large response, whose encoding may have taken long."""
        self._response_bytes += size_bytes
        self.left = 0

    def wait(self, taker: SliceTaker, *, is_new: bool) -> None:
        """Gives a slice of a later turn. `is_new`: the taker has had none in this one."""
        self._wait_in(self._new if is_new else self._waiting, taker)

    def wait_first(self, taker: SliceTaker) -> None:
        """Gives the first slices of the next turn: for a heartbeat, whose client has nothing else to wait for."""
        self._wait_in(self._urgent, taker)

    def _wait_in(self, queue: deque[SliceTaker], taker: SliceTaker) -> None:
        queue.append(taker)
        if not self._is_marked:
            self._mark(self._now_ms())

    def _mark(self, now_ms: int) -> None:
        self._is_marked = True
        self._began_cpu_ns = self._cpu_ns()
        self._began_ms, self._ends_ms, self._response_bytes = now_ms, now_ms + TURN_MS, 0
        self._call_soon(self._end)

    def _end(self) -> None:
        """Ends a turn and begins the next one with the connections that wait, at least one of each kind.

        The loop reads the sockets after that.
        """
        now_ms = self._now_ms()
        self._on_turn(now_ms - self._began_ms, self._cpu_ns() - self._began_cpu_ns)
        self._is_marked = False
        self.left = LOOK_BYTES
        if self._urgent or self._new or self._waiting:
            self._mark(now_ms)
            self._serve_new()
            self._serve_waiting()

    def _serve_new(self) -> None:
        # Two hundred clients with a costly request each would keep a heartbeat waiting for a whole round.
        for queue in (self._urgent, self._new):
            for _ in range(len(queue)):
                queue.popleft().take_slice()
                if not self.has_time():
                    break
        # Their responses do not wait for the slices of the others.
        self.flush()

    def _serve_waiting(self) -> None:
        ends_ms, self._ends_ms = self._ends_ms, self._began_ms + WAITING_MS
        for _ in range(len(self._waiting)):
            self._waiting.popleft().take_slice()
            if not self.has_time():
                break
        self._ends_ms = ends_ms
