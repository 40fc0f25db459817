"""One client connection: bytes in, whole frames to the dispatcher, responses out in the order of the requests.

The frames that arrive in one read are handled in the same call, up to a slice of the turn (turn.py): a client that sends more
at once takes turns with the others. The responses leave at the end of the turn of the event loop, all of a connection in one
write: first everything is read, then everything is written. Writing each response at once
would cost more, because every write wakes the client, which then handles one response and sleeps again (measured: at 100
connections writes took half of the server's CPU, and a quarter once they were joined). A large response leaves at once and
without being copied: a megabyte read from a log is written from where it lies, and the next response reuses its memory.

Kafka handles one request of a connection at a time. Here later requests may be handled while earlier ones wait for the disk,
so that commits share a write, but never more than `requests_in_flight_max`: then reading stops until responses have left.
Frames behind a parked request (a join or sync that its group answers later) are not handled before it is answered, as in
Kafka: the group would be in another state.

`flow_control.py` lists the states of a connection and what moves it between them.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from coordinator.api.exchange import Exchange, Parts, SaslSession
from coordinator.api.recognition import NO_CACHED_REQUEST, NO_TEMPLATE, RequestTemplate
from coordinator.network.dispatch import Dispatcher, RefusedFrame
from coordinator.network.flow_control import FlowControl, FlowEvent
from coordinator.network.log_once import LogOncePerClient
from coordinator.network.sasl_gate import Dispatch, SaslGate
from coordinator.network.turn import REQUEST_BYTES, SLICE_REQUESTS, Turn
from coordinator.protocol.frame import FrameError, FrameSplitter
from coordinator.runtime.memory import COUNTED_BYTES, Memory
from coordinator.runtime.result import Link
from coordinator.security.principal import ANONYMOUS, Principal

HEARTBEATS = frozenset(key.to_bytes(2) for key in (12, 68, 76, 88))
"""How requests begin that a session depends on: the heartbeats of classic, consumer, share and streams groups."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of one connection. Sizes are in bytes, times in milliseconds."""

    frame_bytes_max: int
    produce_bytes_max: int
    """The largest frame of a Produce request, which may be larger than others."""
    requests_in_flight_max: int
    write_buffer_bytes_max: int
    idle_ms_max: int
    frame_ms_max: int
    """A frame must arrive as a whole within this time (against slow senders)."""
    drain_ms_max: int
    """A full write buffer must drain within this time (against clients that do not read)."""


class Closed(StrEnum):
    """Why a connection ended. The values are labels of a metric, so they are a fixed set and do not change."""

    PEER = "peer"
    """The client or the network closed it."""
    FRAME = "frame too large or malformed"
    REQUEST = "request refused"
    """It has no response: an unknown API, an unsupported version, a malformed body."""
    STALLED = "frame not whole in time"
    UNREAD = "answers not read in time"
    IDLE = "idle"
    STOPPING = "stopping"
    HANDSHAKE = "TLS handshake failed"
    FAULT = "fault rule"


class Connection(asyncio.Protocol):
    """The server's end of one connection."""

    __slots__ = (
        "_admit", "_backlog", "_backlog_bytes", "_counted_bytes", "_dispatch", "_drained", "_flow", "_held", "_in_flight_max",
        "_is_watched", "_last", "_limits", "_listed", "_lost", "_may_have_to_wait", "_memory", "_now_ms", "_once", "_queue",
        "_reserved_bytes", "_seen", "_splitter", "_transport", "_waits_for_turn", "advertised", "cached_request", "client_host",
        "client_id", "closed_by", "exchanges", "frame_bytes", "full_since_ms", "link", "on_lost", "on_read", "principal",
        "requests", "sasl", "template", "template_misses", "turn",
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
        admit: Callable[["Connection"], int | None],
        lost: Callable[["Connection"], None],
    ) -> None:
        self.advertised = advertised
        self.client_host = ""
        self.link = Link()
        self.link.principal = str(ANONYMOUS)
        self.client_id: str | None = None
        self.closed_by = Closed.PEER
        self.principal = ANONYMOUS
        self.sasl: SaslSession | None = None
        self.cached_request = NO_CACHED_REQUEST
        self.template: RequestTemplate = NO_TEMPLATE
        self.template_misses = 0
        self.frame_bytes = 0
        self.requests = 0
        """Whole frames received so far."""
        self._seen = (now_ms(), 0, False)
        """The last sweep that saw a change: its time (ms), the whole frames so far, and whether another had begun."""
        self.full_since_ms: int | None = None
        """Since when the write buffer has been full, or the connection has only waited for its buffer to be sent."""
        self.on_lost: Callable[[], None] | None = None
        """Called when the connection is gone, if something else ends with it."""
        self.on_read: Callable[[], None] | None = None
        """Called when a client reads again that did not read its responses."""
        self._dispatch: Dispatch = dispatcher.dispatch
        self._limits = limits
        self._in_flight_max = limits.requests_in_flight_max
        self.turn = turn
        self._once = once
        self._memory = memory
        self._now_ms = now_ms
        self._admit = admit
        self._lost = lost
        self._splitter = FrameSplitter(limits.frame_bytes_max, limits.produce_bytes_max)
        self._flow = FlowControl()
        self._backlog: deque[bytes] = deque()
        """Whole frames that wait for earlier responses to leave or for their turn. At most one while the connection reads."""
        self._waits_for_turn = False
        """Whether the connection gets a slice of a later turn."""
        self.exchanges: deque[Exchange[Any]] = deque()
        self._transport: asyncio.Transport | None = None
        self._held: Exchange[Any] | None = None
        """A parked request: the frames behind it wait until it is answered."""
        self._may_have_to_wait = False
        """Whether anything but the number of requests in flight may keep the next frame waiting."""
        self._listed = False
        """Whether the connection is in the turn's list."""
        self._drained: asyncio.Event | None = None
        self._last: Exchange[Any] | None = None
        """The connection closes when this response has left."""
        self._is_watched = False
        """Whether something happens when the last response has left."""
        self._reserved_bytes = 0
        """Memory taken for the large frame that is arriving."""
        self._backlog_bytes = 0
        """Memory taken for large frames in the backlog."""
        self._counted_bytes = 0
        """Memory taken for large responses that have not left."""

    @property
    def waiting(self) -> int:
        """The number of requests not answered yet."""
        return len(self.exchanges)

    @property
    def is_blocked(self) -> bool:
        """Whether the client does not read its responses, so that the write buffer is full."""
        return self._flow.is_blocked

    @property
    def in_progress(self) -> list[Exchange[Any]]:
        """The requests that are being handled."""
        return [exchange for exchange in self.exchanges if exchange.payload is None]

    # --- asyncio.Protocol ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is not a subclass
        self._transport.set_write_buffer_limits(high=self._limits.write_buffer_bytes_max)
        closes_after_ms = self.admit(transport.get_extra_info("peername"))
        if closes_after_ms is None:
            return
        self._flow.on(FlowEvent.CLOSE)
        if closes_after_ms:
            self._transport.pause_reading()
            asyncio.get_running_loop().call_later(closes_after_ms / 1000, self._transport.abort)
        else:
            self._transport.abort()

    def admit(self, peer: Any) -> int | None:
        """None if the connection is within the limits, and counts now; else the time after which to close it, unread.

        `peer`: the client's address, as sockets have it.
        """
        if isinstance(peer, tuple):
            self.client_host, self.link.port = f"/{peer[0]}", peer[1]
        else:
            self.client_host = "/unknown"
        return self._admit(self)

    def data_received(self, data: bytes) -> None:
        splitter = self._splitter
        try:
            frames = splitter.feed(data)
        except FrameError as error:
            self.refuse(str(error), Closed.FRAME)
            return
        self.requests += len(frames)
        turn = self.turn
        if self._backlog or not self._flow.is_reading:
            if frames:
                self._backlog.extend(frames)
                self._update_reading(FlowEvent.BACKLOG)
        elif len(frames) == 1 and turn.left > 0 and not self._may_have_to_wait:
            # The ordinary case needs no backlog.
            turn.left -= len(data) + REQUEST_BYTES
            try:
                self._dispatch(frames[0], self)
            except RefusedFrame as error:
                self.refuse(str(error))
            if len(self.exchanges) >= self._in_flight_max:
                self._update_reading(FlowEvent.BACKLOG)
        elif frames:
            self._backlog.extend(frames)
            self._dispatch_backlog(is_new=True, at_least_one=False)
        if splitter.rest or self._reserved_bytes:
            self._reserve_memory(frame_arrived=bool(frames))

    def connection_lost(self, exc: Exception | None) -> None:
        self._flow.on(FlowEvent.LOST)
        self.link.end = (
            self.closed_by.value if self.closed_by is not Closed.PEER else "closed" if exc is None else "reset"
        )
        for exchange in self.exchanges:
            exchange.abandon()
        self.exchanges.clear()
        self._backlog.clear()
        self._memory.forget(self._on_memory_available)
        self._memory.give_back(self._reserved_bytes + self._backlog_bytes + self._counted_bytes)
        self._reserved_bytes = self._backlog_bytes = self._counted_bytes = 0
        self._lost(self)
        if self.on_lost is not None:
            self.on_lost()
        if self._drained is not None:
            self._drained.set()

    def pause_writing(self) -> None:
        self.full_since_ms = self._now_ms()
        self._update_reading(FlowEvent.BUFFER_FULL)

    def resume_writing(self) -> None:
        if self._flow.is_open:
            self.full_since_ms = None
        self._update_reading(FlowEvent.BUFFER_DRAINED)
        self._release_sent()
        self._resume()
        if self.on_read is not None:
            self.on_read()

    # --- authentication -----------------------------------------------------------------------------------------------

    def must_authenticate(self, gate: SaslGate, frame_bytes_max: int) -> None:
        """Lets the gate handle the requests, which are small until the client is authenticated."""
        self.sasl = gate
        self._dispatch = gate.dispatch
        self._splitter = FrameSplitter(frame_bytes_max, frame_bytes_max)

    def authenticated(self, principal: Principal, dispatch: Dispatch) -> None:
        """Notes who the client is; `dispatch` handles its next requests (called by the exchange)."""
        self.principal = principal
        self.link.principal = str(principal)
        self.sasl = None
        self._dispatch = dispatch
        self._splitter.size_max = self._limits.frame_bytes_max
        self._splitter.produce_size_max = self._limits.produce_bytes_max

    # --- requests in, responses out -----------------------------------------------------------------------------------

    def hold(self, exchange: Exchange[Any]) -> Exchange[Any] | None:
        """Keeps the requests behind this one waiting until it is answered (called by the exchange).

        Returns what kept them waiting until now.
        """
        before, self._held = self._held, exchange
        self._may_have_to_wait = True
        return before

    def count(self, response_bytes: int) -> None:
        """Counts the memory of a large response (called by its exchange)."""
        if self._flow.is_open:
            self._counted_bytes += response_bytes
            self._memory.take(response_bytes)
            self._may_have_to_wait = True
            self.turn.count_response(response_bytes)

    def ready(self) -> None:
        """Notes that a response has been given (called by its exchange)."""
        if self._counted_bytes:
            self._write()
        if not self._listed and self._flow.is_open:
            self._listed = True
            ready = self.turn.ready
            if not ready:
                self.turn.begin_writing()
            ready.append(self)

    def write_ready(self) -> None:
        """Writes the responses at the head of the queue, then handles the frames that had to wait for that."""
        self._listed = False
        if self._flow.is_open:
            self._write()
            if not self._flow.is_reading:
                self._resume()

    async def drained(self) -> None:
        """Returns when every request that arrived has been answered, or the connection is lost."""
        if self.exchanges or self._backlog:
            self._drained = asyncio.Event()
            self._is_watched = True
            await self._drained.wait()

    def close(self, by: Closed) -> None:
        """Closes once the responses given so far are sent; a sweep aborts it if its client does not read them."""
        self._write()
        if self._transport is not None and self._flow.is_open:
            self._flow.on(FlowEvent.CLOSE)
            self._may_have_to_wait = True
            self.closed_by = by
            if self.full_since_ms is None:
                self.full_since_ms = self._now_ms()
            self._transport.close()

    def cut(self, behind: Exchange[Any] | None = None) -> None:
        """Closes for a fault rule: now, or when this response, which has not been given yet, has left."""
        if behind is None:
            self.close(Closed.FAULT)
        else:
            self._last, self._is_watched = behind, True

    def abort(self, reason: str, by: Closed = Closed.REQUEST) -> None:
        """Closes at once, without waiting for the client to read what is in the write buffer."""
        self.refuse(reason, by)
        if self._transport is not None:
            self._transport.abort()

    def refuse(self, reason: str, by: Closed = Closed.REQUEST) -> None:
        """Closes, and logs the reason once per client and reason."""
        self._warn("connection_closed", reason)
        self.close(by)

    def warn(self, reason: str) -> None:
        """Logs why the client is refused, once per client and reason (called by the exchange)."""
        self._warn("client_refused", reason)

    def _warn(self, event: str, reason: str) -> None:
        client = self.client_id or "unknown"
        self._once.warn(
            (self.client_host, client, reason),
            "event=%s client=%s host=%s reason=%s", event, client, self.client_host, reason,
        )  # fmt: skip

    def quiet_ms(self, now_ms: int) -> tuple[int, bool]:
        """Returns for how long no frame has ended or begun, and whether one has begun.

        Called by the listener's sweep. The hot path reads no clock, so the time counts from the first sweep that sees the
        change.
        """
        since_ms, requests, was_begun = self._seen
        is_begun = bool(self._splitter.rest)
        if requests != self.requests or was_begun is not is_begun:
            since_ms = now_ms
            self._seen = (now_ms, self.requests, is_begun)
        return now_ms - since_ms, is_begun

    def take_slice(self) -> None:
        """Handles requests of the backlog, at least one if it may be handled now (called by the turn)."""
        self._waits_for_turn = False
        self._resume(at_least_one=True)

    def _dispatch_backlog(self, *, is_new: bool, at_least_one: bool) -> None:
        """Handles a slice of the backlog, as far as flow control and the time of the turn let it.

        `is_new`: the frames have just arrived. `at_least_one`: one is handled even if no time is left.
        """
        backlog, queue, dispatch, turn = self._backlog, self.exchanges, self._dispatch, self.turn
        left = SLICE_REQUESTS
        try:
            while backlog:
                if (self._may_have_to_wait or len(queue) >= self._in_flight_max) and self._must_wait():
                    break
                has_begun = left < SLICE_REQUESTS
                if not left or (turn.left <= 0 and (has_begun or not at_least_one) and not turn.has_time()):
                    self._waits_for_turn = True
                    if is_new and len(backlog) == 1 and backlog[0][:2] in HEARTBEATS:
                        turn.wait_first(self)
                    else:
                        turn.wait(self, is_new=is_new and not has_begun)
                    break
                left -= 1
                frame = backlog.popleft()
                turn.left -= len(frame) + REQUEST_BYTES
                dispatch(frame, self)
        except RefusedFrame as error:
            self.refuse(str(error))
        if len(backlog) > (1 if self._waits_for_turn else 0) or len(queue) >= self._in_flight_max:
            self._update_reading(FlowEvent.BACKLOG)

    def _must_wait(self) -> bool:
        """Whether the next frame must wait, now that the responses given so far have been written."""
        self._write()
        held = self._held
        if held is not None and held.payload is not None:
            held = self._held = None
        flow = self._flow
        self._may_have_to_wait = held is not None or bool(self._counted_bytes) or not flow.is_open
        return len(self.exchanges) >= self._in_flight_max or held is not None or not flow.can_dispatch

    def _resume(self, *, at_least_one: bool = False) -> None:
        """Handles the backlog, unless it waits for its turn or the client does not read; reads on when there is none."""
        if self._backlog and not self._waits_for_turn and self._flow.can_dispatch:
            self._dispatch_backlog(is_new=False, at_least_one=at_least_one)
        if not self._backlog:
            if self._backlog_bytes:
                self._memory.give_back(self._backlog_bytes)
                self._backlog_bytes = 0
            if len(self.exchanges) < self._in_flight_max:
                self._update_reading(FlowEvent.CAUGHT_UP)

    def _write(self) -> None:
        """Writes the responses at the head of the queue."""
        queue = self.exchanges
        if self._transport is None or not self._flow.is_open:
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
            # Joining would copy the large ones.
            self._transport.writelines(out)
            self._release_sent()
        else:
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))
        if self._is_watched:
            self._on_written()

    def _on_written(self) -> None:
        queue = self.exchanges
        if self._last is not None and self._last not in queue:
            self._last = None
            self.close(Closed.FAULT)
        if self._drained is not None and not queue and not self._backlog:
            self._drained.set()

    # --- flow control -------------------------------------------------------------------------------------------------

    def _update_reading(self, event: FlowEvent) -> None:
        """Reports the event to flow control, and pauses or resumes the transport."""
        flow, transport = self._flow, self._transport
        was_reading = flow.is_reading
        flow.on(event)
        if flow.is_reading is not was_reading and flow.is_open and transport is not None:
            if was_reading:
                transport.pause_reading()
            else:
                transport.resume_reading()

    def _reserve_memory(self, *, frame_arrived: bool) -> None:
        """Takes memory for a large frame that has begun to arrive, or stops reading until there is some.

        `frame_arrived`: an earlier frame is whole, and its memory belongs to the backlog or is not needed any more.
        """
        if frame_arrived and self._reserved_bytes:
            if self._backlog:
                self._backlog_bytes += self._reserved_bytes
            else:
                self._memory.give_back(self._reserved_bytes)
            self._reserved_bytes = 0
        if self._reserved_bytes or self._flow.is_starved or not self._flow.is_open:
            return
        size = self._splitter.announced_bytes
        if size <= COUNTED_BYTES:
            return
        if self._memory.has_room():
            self._memory.take(size)
            self._reserved_bytes = size
        else:
            self._memory.wait(self._on_memory_available)
            self._update_reading(FlowEvent.NO_MEMORY)

    def _on_memory_available(self) -> None:
        """Reads a large frame on; it has as much time to arrive as if it began now."""
        self._seen = (self._now_ms(), self.requests, True)
        self._update_reading(FlowEvent.MEMORY_AVAILABLE)
        self._reserve_memory(frame_arrived=False)

    def _release_sent(self) -> None:
        """Gives back the memory of large responses, except of those in the queue or in a full write buffer."""
        if not self._flow.is_blocked and self._counted_bytes:
            sizes = [
                payload.size_bytes if isinstance(payload, Parts) else len(payload)
                for payload in (each.payload for each in self.exchanges)
                if payload is not None
            ]
            left = sum(size for size in sizes if size > COUNTED_BYTES)
            self._memory.give_back(self._counted_bytes - left)
            self._counted_bytes = left
