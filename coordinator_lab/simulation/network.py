"""An in-memory network that behaves like TCP over an unreliable line.

A connection has two ends, each an asyncio transport with a protocol. Bytes arrive in order, after delays drawn from the seed,
and in other pieces than they were written. Failures on demand:

- `cut`: both ends learn that the connection was reset; bytes in flight are lost.
- `half_open`: the line is dead and neither end learns of it.
- `stall`: nothing arrives in one or both directions for a while; then everything does.
- `abandon`: the client closes the connection, but the bytes that it sent still travel. The server handles them late, after
  requests that were sent later on another connection. This is how requests overtake each other above TCP.

Hosts can be cut off from others for a while (`Wall`): what they send each other arrives when the wall is gone, and who connects
waits.

When a process dies, its operating system closes its connections; after a power cut nobody does (`process_died`).

Each end calls its protocol in the context of its process, so that a paused process receives nothing until it resumes.
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

from coordinator_lab.simulation.loop import Process, SimulatedLoop, current_process

WINDOW_BYTES = 64 * 1024
"""Bytes that the two operating systems buffer; only the excess counts as the writer's buffer."""
FIRST_FREE_PORT = 40_000


@dataclass(slots=True)
class NetworkConditions:
    """The current delays of the network."""

    delay_s: float
    """Mean delay of a piece, in seconds."""
    split: float
    """Probability that arrived bytes are delivered in two parts."""


@dataclass(frozen=True, slots=True)
class Wall:
    """Nothing passes between a host and those for which `others` holds."""

    host: str
    others: Callable[[str], bool]
    until_s: float

    def parts(self, one: str, other: str) -> bool:
        """Whether it is between these two hosts."""
        return (one == self.host and self.others(other)) or (other == self.host and self.others(one))


class _Socket:
    """The part of a socket that users of a listener need."""

    def __init__(self, host: str, port: int) -> None:
        self._name = (host, port)

    def getsockname(self) -> tuple[str, int]:
        return self._name


class Listener:
    """An address on which a process accepts connections; the simulated twin of asyncio.Server."""

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
        self.is_serving = False
        self._network = network

    async def start_serving(self) -> None:
        self.is_serving = True

    def close(self) -> None:
        self._network.remove_listener(self)


class End(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, network: "SimulatedNetwork", number: int, context: Context, peername: tuple[str, int]) -> None:
        super().__init__(extra={"peername": peername})
        self.number = number
        self.context = context
        self.process: Process | None = None
        self.host = ""
        self.protocol: Any = None
        self.peer: End
        self.closed = False
        self.is_wired = True
        """False if the line is dead: bytes written here are lost, without an error."""
        self._network = network
        self._inbox: deque[tuple[float, bytes | None]] = deque()
        """Bytes in flight to this end: the time when they are due, and the bytes, or None for the end of the stream."""
        self.inbox_bytes = 0
        self.is_full = False
        """Whether the bytes written here exceed the write buffer's limit, so that the protocol has paused writing."""
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
        """Also after the run: a stream that is left over then has nothing to close, and nothing to warn of."""
        return self.closed or self._network.is_over

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

    # --- delivery -------------------------------------------------------------------------------------------

    def enqueue(self, data: bytes | None) -> None:
        """Puts bytes, or the end of the stream (None), in flight to this end."""
        due = self._network.now_s() + self._network.delay_s()
        if self._inbox:
            due = max(due, self._inbox[-1][0])
        self._inbox.append((due, data))
        self.inbox_bytes += len(data or b"")
        self._schedule_delivery()

    def stall(self, seconds: float) -> None:
        """Delays all deliveries to this end for some seconds."""
        self._stalled_until = max(self._stalled_until, self._network.now_s() + seconds)

    def reset(self) -> None:
        """Resets this end: its protocol gets ConnectionResetError."""
        if not self.closed:
            self._close(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))

    def close_silently(self) -> None:
        """Closes this end because its process died; its protocol is not notified."""
        self.closed = True
        self.drop_inbox()

    def drop_inbox(self) -> None:
        """Loses all bytes in flight to this end."""
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
            self._timer = self._network.loop.call_at_world(due, self._deliver, context=self.context)

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
            self._notify_writer()
        self._schedule_delivery()

    def _take_due(self, now_s: float) -> tuple[bytes, bool]:
        """Takes the bytes that are due from the inbox. Returns them, and whether the end of the stream follows."""
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

    def _notify_writer(self) -> None:
        peer = self.peer
        if peer.is_full and not peer.closed and peer.get_write_buffer_size() <= peer.low_bytes:
            self._network.loop.call_soon(peer.resume_writer, context=peer.context)

    def resume_writer(self) -> None:
        """Notifies the protocol that its buffer has drained; like a real transport, once after each `pause_writing`."""
        if self.is_full:
            self.is_full = False
            self.protocol.resume_writing()


class SimulatedNetwork:
    """All listeners and connections. `conditions` may be changed at any time."""

    def __init__(self, loop: SimulatedLoop, random: Random, conditions: NetworkConditions) -> None:
        self.loop = loop
        self.conditions = conditions
        self.trace = hashlib.sha256()
        """Digest of every delivery: time, receiving end and bytes."""
        self.connections = 0
        self._random = random
        self._listeners: dict[tuple[str, int], Listener] = {}
        self._clients: dict[int, End] = {}
        """Connection number -> the client's end."""
        self._walls: list[Wall] = []

    # --- opening ------------------------------------------------------------------------------------------------------

    def listen(self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, context: Context) -> Listener:
        """Takes an address; port 0 picks a free one. Raises OSError if the address is in use."""
        while not port or (host, port) in self._listeners:
            if port:
                raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
            port = FIRST_FREE_PORT + len(self._listeners)
        listener = Listener(self, factory, host, port, context)
        self._listeners[host, port] = listener
        return listener

    def remove_listener(self, listener: Listener) -> None:
        """Stops accepting on the listener's address."""
        name = listener.sockets[0].getsockname()
        if self._listeners.get(name) is listener:
            del self._listeners[name]

    async def connect(self, factory: Callable[[], Any], host: str, port: int, client_host: str) -> tuple[End, Any]:
        """Opens a connection from a client. Raises ConnectionRefusedError if nobody listens on the address."""
        await asyncio.sleep(self.delay_s())
        while (walled_s := self._walled_until(client_host, host)) > self.now_s():  # noqa: ASYNC110 - nobody says it
            await asyncio.sleep(walled_s - self.now_s())
        listener = self._listeners.get((host, port))
        if listener is None or not listener.is_serving:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        self.connections += 1
        number = self.connections
        client = End(self, 2 * number, copy_context(), (host, port))
        server = End(self, 2 * number + 1, listener.context, (client_host, FIRST_FREE_PORT + number))
        client.peer, server.peer = server, client
        client.process, server.process = current_process(), listener.process
        client.host, server.host = client_host, host
        client.protocol = factory()

        def accept() -> None:
            server.protocol = listener.factory()
            server.protocol.connection_made(server)

        self.loop.call_soon(accept, context=listener.context)
        client.protocol.connection_made(client)
        self._clients[number] = client
        return client, client.protocol

    def open_connections(self) -> list[End]:
        """The client's ends of the connections that the client considers open and the line carries, oldest first."""
        for number in [number for number, end in self._clients.items() if end.closed and end.peer.closed]:
            del self._clients[number]
        return [end for end in self._clients.values() if end.is_wired and not end.closed]

    # --- failures -------------------------------------------------------------------------------------------------------

    def cut(self, client: End) -> None:
        """Resets a connection: each end learns of it after a delay of its own."""
        for end in (client, client.peer):
            end.is_wired = False
            end.drop_inbox()
            self.after_delay(end.reset, end.context)

    @property
    def is_over(self) -> bool:
        """Whether the loop has ended."""
        return self.loop.is_closed()

    def cut_all(self) -> None:
        """Resets every connection, including half-open and abandoned ones."""
        for client in self._clients.values():
            self.cut(client)

    def half_open(self, client: End) -> None:
        """Kills the line without notifying either end."""
        for end in (client, client.peer):
            end.is_wired = False
            end.drop_inbox()

    def abandon(self, client: End, seconds: float) -> None:
        """Closes the client's end; the bytes that it sent still arrive, `seconds` later."""
        client.peer.stall(seconds)
        client.close()

    def process_died(self, process: Process, *, silently: bool) -> None:
        """Ends the connections of a process: closed by the operating system, or `silently` after a power cut."""
        for listener in [each for each in self._listeners.values() if each.process is process]:
            self.remove_listener(listener)
        for client in list(self._clients.values()):
            for end in (client.peer, client):
                if end.process is process and not end.closed:
                    self._end_of_dead(end, silently=silently)

    def _end_of_dead(self, end: End, *, silently: bool) -> None:
        end.close_silently()
        peer = end.peer
        if silently:
            peer.is_wired = False
        elif self._random.random() < 0.5:
            peer.enqueue(None)
        else:
            peer.drop_inbox()
            self.after_delay(peer.reset, peer.context)

    def raise_wall(self, wall: Wall) -> None:
        """Cuts a host off: open connections stand still until the wall is gone."""
        self._walls.append(wall)
        for client in self._clients.values():
            if wall.parts(client.host, client.peer.host):
                for end in (client, client.peer):
                    end.stall(wall.until_s - self.now_s())

    def tear_down_walls(self) -> None:
        """Lets hosts connect again. What is under way arrives when it would have."""
        self._walls.clear()

    def is_walled(self, host: str) -> bool:
        """Whether a host is cut off from others."""
        return any(wall.host == host and wall.until_s > self.now_s() for wall in self._walls)

    def _walled_until(self, one: str, other: str) -> float:
        return max((wall.until_s for wall in self._walls if wall.parts(one, other)), default=0.0)

    def on_write_to_dead_line(self, end: End) -> None:
        """Bytes were sent to a machine that lost power. Once it is back, it resets the unknown connection."""
        if end.peer.closed and end.peer.process is not None and self._listeners:
            self.after_delay(end.reset, end.context)

    # --- randomness -------------------------------------------------------------------------------------------------------

    def now_s(self) -> float:
        return self.loop.world_s()

    def delay_s(self) -> float:
        """A random delay for a piece, in seconds."""
        return self._random.expovariate(1 / self.conditions.delay_s)

    def split(self, size: int) -> int:
        """How many of `size` bytes to deliver now."""
        if size < 2 or self._random.random() >= self.conditions.split:
            return size
        return 1 if self._random.random() < 0.2 else self._random.randrange(1, size)

    def after_delay(self, callback: Callable[[], None], context: Context) -> None:
        """Calls the callback after a random delay."""
        self.loop.call_later(self.delay_s(), callback, context=context)

    def trace_delivery(self, number: int, data: bytes) -> None:
        """Adds a delivery to the trace."""
        self.trace.update(b"%d %.9f " % (number, self.loop.world_s()) + data)
