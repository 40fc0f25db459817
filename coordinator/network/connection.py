"""One client connection: bytes in, whole frames to the dispatcher, answers out in the order of the requests.

Everything that arrived in one read is handled in the same call. Answers leave at the end of the turn of the loop in which
they were given, all of a connection in one write: first everything is read, then everything is written. To write each
answer at once would cost more, because each write wakes its reader, which then has one answer to handle and sleeps again
(measured: half of the server's CPU at 100 connections was in the writes, a quarter when they come together). A large answer
leaves at once and from where it lies: a megabyte read from a log is not copied again, and the next one gets its memory.

Kafka reads one request of a connection at a time. Here later requests may be handled while earlier ones wait for the disk,
so that commits share a write, but never more than `requests_in_flight_max`: then reading stops until answers have left. What
comes behind a request that its group answers later (a parked join or sync) is not looked at before, as in Kafka: it would be
judged in another state of the group.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from coordinator.api.dispatch import NO_CACHED_REQUEST, Dispatcher, RefusedFrame
from coordinator.api.exchange import NO_TEMPLATE, Exchange, Parts, RequestTemplate
from coordinator.network.log_once import LogOncePerClient
from coordinator.protocol.frame import FrameError, FrameSplitter
from coordinator.runtime.memory import COUNTED_BYTES, Memory


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What one connection may take. Sizes in bytes, times in milliseconds."""

    frame_bytes_max: int
    produce_bytes_max: int
    """The same of a Produce, which alone may be larger."""
    requests_in_flight_max: int
    write_buffer_bytes_max: int
    idle_ms_max: int
    frame_ms_max: int
    """A frame once begun must be whole within this time (slow loris)."""
    drain_ms_max: int
    """A full write buffer must have drained within this time (a reader that does not read)."""


class Closed(StrEnum):
    """Why a connection ended, for the metrics: few words, none of them a client's."""

    PEER = "peer"
    """The client closed it, or the network did."""
    FRAME = "frame too large or malformed"
    REQUEST = "request refused"
    """One that has no answer: an unknown API, a version out of range, a malformed body."""
    STALLED = "frame not whole in time"
    UNREAD = "answers not read in time"
    IDLE = "idle"
    STOPPING = "stopping"


class Turn:
    """The connections to write at the end of this turn of the loop."""

    __slots__ = ("_call_soon", "ready")

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self.ready: list[Connection] = []
        """Who adds the first calls `begin`."""

    def begin(self) -> None:
        self._call_soon(self.flush)

    def flush(self) -> None:
        ready, self.ready = self.ready, []
        for connection in ready:
            connection.write_ready()


class Connection(asyncio.Protocol):
    """The server's end of one connection."""

    __slots__ = (
        "_admit",
        "_backlog",
        "_backlog_bytes",
        "_closed",
        "_counted_bytes",
        "_dispatch",
        "_drained",
        "_handling",
        "_held",
        "_in_flight_max",
        "_limits",
        "_listed",
        "_lost",
        "_memory",
        "_now_ms",
        "_once",
        "_queue",
        "_reading",
        "_reserved_bytes",
        "_seen",
        "_splitter",
        "_starved",
        "_transport",
        "_turn",
        "_writable",
        "advertised",
        "cached_request",
        "client_host",
        "client_id",
        "closed_by",
        "full_since_ms",
        "requests",
        "template",
        "template_misses",
    )  # fmt: skip

    def __init__(
        self,
        dispatcher: Dispatcher,
        limits: ConnectionLimits,
        turn: Turn,
        once: LogOncePerClient,
        memory: Memory,
        advertised: tuple[str, int],
        now_ms: Callable[[], int],
        admit: Callable[["Connection"], bool],
        lost: Callable[["Connection"], None],
    ) -> None:
        self.advertised = advertised
        self.client_host = ""
        self.client_id: str | None = None
        self.closed_by = Closed.PEER
        self.cached_request = NO_CACHED_REQUEST
        self.template: RequestTemplate = NO_TEMPLATE
        self.template_misses = 0
        self.requests = 0
        """Whole frames received so far."""
        self._seen = (now_ms(), 0, False)
        """The last sweep that saw something new: when it was (ms), the whole frames so far, whether another had begun."""
        self.full_since_ms: int | None = None
        """Since when the write buffer has been full, or what it holds has been all that is left to do."""
        self._dispatch = dispatcher.dispatch
        self._limits = limits
        self._in_flight_max = limits.requests_in_flight_max
        self._turn = turn
        self._once = once
        self._memory = memory
        self._now_ms = now_ms
        self._admit = admit
        self._lost = lost
        self._splitter = FrameSplitter(limits.frame_bytes_max, limits.produce_bytes_max)
        self._backlog: deque[bytes] = deque()
        """Whole frames that wait for earlier answers to leave."""
        self._queue: deque[Exchange[Any]] = deque()
        self._transport: asyncio.Transport | None = None
        self._handling = False
        self._held: Exchange[Any] | None = None
        """A request that its group answers later: what came behind it waits."""
        self._listed = False
        self._reading = True
        self._writable = True
        self._closed = False
        self._drained: asyncio.Event | None = None
        self._reserved_bytes = 0
        """Memory taken for the large frame that is arriving."""
        self._backlog_bytes = 0
        """The same for those that have arrived and wait in the backlog."""
        self._counted_bytes = 0
        """The same for large answers that have not left."""
        self._starved = False
        """Whether a large frame waits for memory, unread."""

    @property
    def waiting(self) -> int:
        """Requests not answered yet."""
        return len(self._queue)

    # --- asyncio.Protocol ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by descent
        self._transport.set_write_buffer_limits(high=self._limits.write_buffer_bytes_max)
        peer = transport.get_extra_info("peername")
        self.client_host = f"/{peer[0]}" if isinstance(peer, tuple) else "/unknown"
        if not self._admit(self):
            self._closed = True
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        splitter = self._splitter
        try:
            frames = splitter.feed(data)
        except FrameError as error:
            self.refuse(str(error), Closed.FRAME)
            return
        self.requests += len(frames)
        if self._backlog or not self._reading:
            self._backlog.extend(frames)
        else:
            self._handle(frames)
        if splitter.rest or self._reserved_bytes:
            self._weigh(arrived=bool(frames))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._closed = True
        for exchange in self._queue:
            exchange.abandon()
        self._queue.clear()
        self._backlog.clear()
        self._memory.forget(self._fed)
        self._memory.give_back(self._reserved_bytes + self._backlog_bytes + self._counted_bytes)
        self._reserved_bytes = self._backlog_bytes = self._counted_bytes = 0
        self._lost(self)
        if self._drained is not None:
            self._drained.set()

    def pause_writing(self) -> None:
        self._writable = False
        self.full_since_ms = self._now_ms()
        self._balance()

    def resume_writing(self) -> None:
        self._writable = True
        if not self._closed:
            self.full_since_ms = None
        self._recount()
        self._go_on()

    # --- requests in, answers out -------------------------------------------------------------------------------------

    def expect(self, exchange: Exchange[Any]) -> None:
        """A request begins: its answer leaves after those of the requests before it (called by the dispatcher)."""
        self.client_id = exchange.client_id
        self._queue.append(exchange)

    def hold(self, exchange: Exchange[Any]) -> None:
        """The requests behind this one wait until it is answered (called by the exchange)."""
        self._held = exchange

    def count(self, answer_bytes: int) -> None:
        """A large answer was made (called by its exchange)."""
        if not self._closed:
            self._counted_bytes += answer_bytes
            self._memory.take(answer_bytes)

    def ready(self) -> None:
        """An answer of this connection has been given (called by its exchange)."""
        if self._counted_bytes:
            self._write()
        if not self._listed and not self._closed:
            self._listed = True
            ready = self._turn.ready
            if not ready:
                self._turn.begin()
            ready.append(self)

    def write_ready(self) -> None:
        """Writes the answers at the head of the queue, then goes on with frames that had to wait for that."""
        self._listed = False
        if self._closed:
            return
        self._write()
        if self._backlog or not self._reading:
            self._go_on()

    async def drained(self) -> None:
        """Returns when every request that arrived has been answered, or the connection is gone."""
        if self._queue:
            self._drained = asyncio.Event()
            await self._drained.wait()

    def close(self, by: Closed) -> None:
        """Closes once the answers given so far are sent; a sweep ends it if its peer does not read them."""
        self._write()
        if self._transport is not None and not self._closed:
            self._closed = True
            self.closed_by = by
            if self.full_since_ms is None:
                self.full_since_ms = self._now_ms()
            self._transport.close()

    def abort(self, reason: str, by: Closed) -> None:
        """Closes at once: a transport that only closes would wait for its peer, and hold the answers as long."""
        self.refuse(reason, by)
        if self._transport is not None:
            self._transport.abort()

    def refuse(self, reason: str, by: Closed = Closed.REQUEST) -> None:
        """Closes, and tells the log why, once per client and reason."""
        who = self.client_id or "unknown"
        self._once.warn(
            (self.client_host, who, reason),
            'event=connection_closed client=%s host=%s reason="%s"', who, self.client_host, reason,
        )  # fmt: skip
        self.close(by)

    def quiet_ms(self, now_ms: int) -> tuple[int, bool]:
        """For how long no frame has ended or begun, and whether one has begun. To be asked by a sweep now and then: the hot
        path reads no clock, so the time counts from the first sweep that sees the change."""
        since_ms, requests, was_begun = self._seen
        is_begun = bool(self._splitter.rest)
        if requests != self.requests or was_begun is not is_begun:
            since_ms = now_ms
            self._seen = (now_ms, self.requests, is_begun)
        return now_ms - since_ms, is_begun

    def _handle(self, frames: list[bytes]) -> None:
        """Handles frames in order; those beyond what may be in flight wait in the backlog."""
        if self._closed:
            return
        queue, dispatch, in_flight_max = self._queue, self._dispatch, self._in_flight_max
        self._handling = True
        try:
            coming = iter(frames)
            for frame in coming:
                if len(queue) >= in_flight_max or self._held is not None or self._counted_bytes:
                    self._write()
                    if len(queue) >= in_flight_max or self._is_held() or not self._writable:
                        self._backlog.append(frame)
                        self._backlog.extend(coming)
                        break
                dispatch(frame, self)
        except RefusedFrame as error:
            self.refuse(str(error))
        finally:
            self._handling = False
        if self._backlog or len(queue) >= in_flight_max:
            self._balance()

    def _go_on(self) -> None:
        """Handles what had to wait, now that answers have left, and not only to the buffer of a reader that does not read."""
        if self._backlog and not self._handling and self._writable:
            frames = list(self._backlog)
            self._backlog.clear()
            self._handle(frames)
        if self._backlog_bytes and not self._backlog:
            self._memory.give_back(self._backlog_bytes)
            self._backlog_bytes = 0
        self._balance()

    def _is_held(self) -> bool:
        if self._held is not None and self._held.payload is not None:
            self._held = None
        return self._held is not None

    def _write(self) -> None:
        queue = self._queue
        if self._transport is None or self._closed:
            return
        out: list[bytes] = []
        while queue and (payload := queue[0].payload) is not None:
            queue.popleft()
            if isinstance(payload, bytes):
                out.append(payload)
            else:
                out += payload.parts
        if not out:
            return
        if self._counted_bytes:
            # Joining would copy what is large.
            self._transport.writelines(out)
            self._recount()
        else:
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))
        if self._drained is not None and not queue:
            self._drained.set()

    def _weigh(self, *, arrived: bool) -> None:
        """Takes memory for a large frame that begins, or stops reading until there is some. `arrived`: one is whole."""
        if arrived and self._reserved_bytes:
            if self._backlog:
                self._backlog_bytes += self._reserved_bytes
            else:
                self._memory.give_back(self._reserved_bytes)
            self._reserved_bytes = 0
        if self._reserved_bytes or self._starved or self._closed:
            return
        size = self._splitter.announced_bytes
        if size <= COUNTED_BYTES:
            return
        if self._memory.has_room():
            self._memory.take(size)
            self._reserved_bytes = size
        else:
            self._starved = True
            self._memory.wait(self._fed)
            self._balance()

    def _fed(self) -> None:
        """There is memory again; the frame has as long to arrive as if it began now."""
        self._starved = False
        self._seen = (self._now_ms(), self.requests, True)
        self._weigh(arrived=False)
        self._balance()

    def _recount(self) -> None:
        """Gives back what large answers took, but for those that wait in the queue or that the peer has not read."""
        if self._writable and self._counted_bytes:
            sizes = [
                payload.size_bytes if isinstance(payload, Parts) else len(payload)
                for payload in (each.payload for each in self._queue)
                if payload is not None
            ]
            left = sum(size for size in sizes if size > COUNTED_BYTES)
            self._memory.give_back(self._counted_bytes - left)
            self._counted_bytes = left

    def _balance(self) -> None:
        wanted = self._writable and not self._backlog and not self._starved and len(self._queue) < self._in_flight_max
        if wanted is self._reading or self._transport is None or self._closed:
            return
        self._reading = wanted
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()
