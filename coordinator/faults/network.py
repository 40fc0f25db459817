"""A network in memory that does to a connection what TCP over a bad line does.

A connection has two ends, each a transport with a protocol. Bytes arrive in order, after a delay drawn from the seed,
in pieces that have nothing to do with the pieces they were written in. On top of that, on demand:

- `cut`: both ends learn that the connection is reset; what was on its way is lost.
- `half_open`: the line is dead and nobody is told.
- `stall`: nothing arrives on one direction or both for a while; then everything does.
- `abandon`: the client gives the connection up (and will open another), but what it sent still travels. The server
  handles it late, after requests that were sent later: this is how requests overtake each other above TCP.

When a process dies its operating system closes its connections; when the power goes, nobody does (`process_died`).

Each end calls its protocol in the context of the process it belongs to: a paused process hears nothing until it goes
on.
"""

import asyncio
import errno
import hashlib
import os
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from dataclasses import dataclass
from random import Random
from typing import Any

from coordinator.faults.loop import Process, SimulatedLoop, current_process

WINDOW_BYTES = 64 * 1024
"""What the two operating systems buffer; only more counts as the writer's buffer."""
FIRST_FREE_PORT = 40_000


@dataclass(slots=True)
class NetworkConditions:
    """How the network is just now."""

    delay_s: float
    """Mean of the delay of a piece."""
    split: float
    """Chance that what has arrived is handed over in two parts."""


class _Socket:
    """As much of a socket as a listener is asked for."""

    def __init__(self, host: str, port: int) -> None:
        self._name = (host, port)

    def getsockname(self) -> tuple[str, int]:
        return self._name


class Listener:
    """An address on which a process accepts; the twin of asyncio.Server."""

    def __init__(
        self,
        network: "SimulatedNetwork",
        factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        context: Context,
    ) -> None:
        self.sockets = [_Socket(host, port)]
        self.factory = factory
        self.context = context
        self.process = current_process()
        self._network = network

    def close(self) -> None:
        self._network.remove_listener(self)


class End(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, network: "SimulatedNetwork", number: int, context: Context, peername: tuple[str, int]) -> None:
        super().__init__(extra={"peername": peername})
        self.number = number
        self.context = context
        self.process: Process | None = None
        self.protocol: Any = None
        self.peer: End
        self.closed = False
        self.is_wired = True
        """False: nothing written here arrives, and nobody is told."""
        self._network = network
        self._inbox: deque[tuple[float, bytes | None]] = deque()
        """What is on its way to here: when it is due, and the bytes or None for the end of them."""
        self.inbox_bytes = 0
        self.is_full = False
        """Whether what was written here exceeds the writer's buffer."""
        self.low_bytes = 16 * 1024
        self._timer: asyncio.TimerHandle | None = None
        self._stalled_until = 0.0
        self._reading = True
        self._high = 64 * 1024

    # --- asyncio.Transport --------------------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        process = self.process
        if self.closed or (process is not None and not process.alive):
            return
        if not self.is_wired:
            self._network.on_write_to_dead_line(self)
            return
        peer = self.peer
        if peer.closed:
            self._network.after_delay(self.reset, self.context)
            return
        peer.enqueue(bytes(data))
        if not self.is_full and peer.inbox_bytes > WINDOW_BYTES + self._high:
            self.is_full = True
            self.protocol.pause_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 64 * 1024 if high is None else high
        self.low_bytes = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return max(0, self.peer.inbox_bytes - WINDOW_BYTES)

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._schedule_delivery()

    def is_reading(self) -> bool:
        return self._reading

    def can_write_eof(self) -> bool:
        return False

    def is_closing(self) -> bool:
        return self.closed

    def get_protocol(self) -> Any:
        return self.protocol

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def close(self) -> None:
        if not self.closed:
            self._close(None)
            if self.is_wired and not self.peer.closed:
                self.peer.enqueue(None)

    def abort(self) -> None:
        if not self.closed:
            self._close(None)
            if self.is_wired and not self.peer.closed:
                self.peer.drop_inbox()
                self._network.after_delay(self.peer.reset, self.peer.context)

    # --- what happens to it -------------------------------------------------------------------------------------------

    def enqueue(self, data: bytes | None) -> None:
        """Bytes, or the end of them, set out for this end."""
        due = self._network.now_s() + self._network.delay_s()
        if self._inbox:
            due = max(due, self._inbox[-1][0])
        self._inbox.append((due, data))
        self.inbox_bytes += len(data or b"")
        self._schedule_delivery()

    def stall(self, seconds: float) -> None:
        """Nothing arrives here for so long."""
        self._stalled_until = max(self._stalled_until, self._network.now_s() + seconds)

    def reset(self) -> None:
        """The connection is reset, and this end learns of it."""
        if not self.closed:
            self._close(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))

    def close_silently(self) -> None:
        """The process that had this end is no more; nobody is told."""
        self.closed = True
        self.drop_inbox()

    def drop_inbox(self) -> None:
        """What was on its way to here is lost."""
        self._inbox.clear()
        self.inbox_bytes = 0

    def _close(self, error: Exception | None) -> None:
        self.closed = True
        self.drop_inbox()
        if self.protocol is not None:
            self._network.loop.call_soon(self.protocol.connection_lost, error, context=self.context)

    def _schedule_delivery(self) -> None:
        if self._timer is None and self._inbox and self._reading and not self.closed:
            due = max(self._inbox[0][0], self._stalled_until)
            self._timer = self._network.loop.call_at(due, self._deliver, context=self.context)

    def _deliver(self) -> None:
        self._timer = None
        now_s = self._network.now_s()
        if self.closed or not self._reading:
            return
        if now_s >= self._stalled_until:
            data, is_over = self._take_due(now_s)
            if data:
                self._network.trace_delivery(self.number, data)
                self.protocol.data_received(data)
            if is_over and not self.closed and not self.protocol.eof_received():
                self.close()
            self._resume_writer()
        self._schedule_delivery()

    def _take_due(self, now_s: float) -> tuple[bytes, bool]:
        """What is due, joined, and whether nothing will follow it."""
        inbox, pieces, is_over = self._inbox, [], False
        while inbox and inbox[0][0] <= now_s:
            piece = inbox.popleft()[1]
            if piece is None:
                is_over = True
                break
            pieces.append(piece)
        data = b"".join(pieces)
        kept = self._network.split(len(data))
        if kept < len(data):
            if is_over:
                inbox.appendleft((now_s, None))
            inbox.appendleft((now_s + self._network.delay_s(), data[kept:]))
            data, is_over = data[:kept], False
        self.inbox_bytes -= len(data)
        return data, is_over

    def _resume_writer(self) -> None:
        peer = self.peer
        if peer.is_full and not peer.closed and peer.get_write_buffer_size() <= peer.low_bytes:
            self._network.loop.call_soon(peer.resume_writer, context=peer.context)

    def resume_writer(self) -> None:
        """Tells the protocol that its buffer has drained; like a real transport, once after each `pause_writing`."""
        if self.is_full:
            self.is_full = False
            self.protocol.resume_writing()


class SimulatedNetwork:
    """All addresses and connections. `weather` may be changed at any time."""

    def __init__(self, loop: SimulatedLoop, random: Random, conditions: NetworkConditions) -> None:
        self.loop = loop
        self.conditions = conditions
        self.trace = hashlib.sha256()
        """Every byte that was delivered, with its time and its end."""
        self.connections = 0
        self._random = random
        self._listeners: dict[tuple[str, int], Listener] = {}
        self._clients: dict[int, End] = {}
        """The client's ends, by number."""

    # --- opening ------------------------------------------------------------------------------------------------------

    def listen(self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, context: Context) -> Listener:
        """OSError if another process listens there."""
        while not port or (host, port) in self._listeners:
            if port:
                raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
            port = FIRST_FREE_PORT + len(self._listeners)
        listener = Listener(self, factory, host, port, context)
        self._listeners[host, port] = listener
        return listener

    def remove_listener(self, listener: Listener) -> None:
        """Accepts no more there."""
        name = listener.sockets[0].getsockname()
        if self._listeners.get(name) is listener:
            del self._listeners[name]

    async def connect(self, factory: Callable[[], Any], host: str, port: int, client_host: str) -> tuple[End, Any]:
        """Opens a connection from a client; ConnectionRefusedError if nobody listens."""
        await asyncio.sleep(self.delay_s())
        listener = self._listeners.get((host, port))
        if listener is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        self.connections += 1
        number = self.connections
        client = End(self, 2 * number, copy_context(), (host, port))
        server = End(self, 2 * number + 1, listener.context, (client_host, FIRST_FREE_PORT + number))
        client.peer, server.peer = server, client
        server.process = listener.process
        client.protocol = factory()

        def accept() -> None:
            server.protocol = listener.factory()
            server.protocol.connection_made(server)

        self.loop.call_soon(accept, context=listener.context)
        client.protocol.connection_made(client)
        self._clients[number] = client
        return client, client.protocol

    def open_connections(self) -> list[End]:
        """The client's ends of the connections that both sides believe in, oldest first."""
        for number in [number for number, end in self._clients.items() if end.closed and end.peer.closed]:
            del self._clients[number]
        return [end for end in self._clients.values() if end.is_wired and not end.closed]

    # --- faults -------------------------------------------------------------------------------------------------------

    def cut(self, client: End) -> None:
        """A reset: both ends learn of it, each in its own time."""
        for end in (client, client.peer):
            end.is_wired = False
            end.drop_inbox()
            self.after_delay(end.reset, end.context)

    def cut_all(self) -> None:
        """Every connection, also those that are half open, or given up with something still on its way."""
        for client in self._clients.values():
            self.cut(client)

    def half_open(self, client: End) -> None:
        """The line is dead and nobody is told."""
        for end in (client, client.peer):
            end.is_wired = False
            end.drop_inbox()

    def abandon(self, client: End, seconds: float) -> None:
        """The client gives up; what it has sent arrives so much later all the same."""
        client.peer.stall(seconds)
        client.close()

    def process_died(self, process: Process, *, silently: bool) -> None:
        """Its connections end: closed by the operating system, or `silently` when that is gone as well."""
        for listener in [each for each in self._listeners.values() if each.process is process]:
            self.remove_listener(listener)
        for client in list(self._clients.values()):
            server = client.peer
            if server.process is not process or server.closed:
                continue
            server.close_silently()
            if silently:
                client.is_wired = False
            elif self._random.random() < 0.5:
                client.enqueue(None)
            else:
                client.drop_inbox()
                self.after_delay(client.reset, client.context)

    def on_write_to_dead_line(self, end: End) -> None:
        """To a machine that lost its power: once it is back it does not know the connection."""
        if end.peer.closed and end.peer.process is not None and self._listeners:
            self.after_delay(end.reset, end.context)

    # --- chance -------------------------------------------------------------------------------------------------------

    def now_s(self) -> float:
        return self.loop.time()

    def delay_s(self) -> float:
        """How long a piece travels."""
        return self._random.expovariate(1 / self.conditions.delay_s)

    def split(self, size: int) -> int:
        """How many of so many bytes are handed over now."""
        if size < 2 or self._random.random() >= self.conditions.split:
            return size
        return 1 if self._random.random() < 0.2 else self._random.randrange(1, size)

    def after_delay(self, callback: Callable[[], None], context: Context) -> None:
        self.loop.call_later(self.delay_s(), callback, context=context)

    def trace_delivery(self, number: int, data: bytes) -> None:
        self.trace.update(b"%d %.9f " % (number, self.loop.time()) + data)
