"""A listening socket and its connections: accepts within limits, closes idle and stalled ones, drains them on a stop."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple, TypedDict

from coordinator.network.connection import Closed, Connection, ConnectionLimits
from coordinator.network.dispatch import Dispatcher
from coordinator.network.log_once import LogOncePerClient
from coordinator.network.sasl_gate import SaslGate
from coordinator.network.turn import Turn
from coordinator.runtime.memory import Memory
from coordinator.security.authenticator import API_VERSIONS, Authenticator, MechanismSetup
from coordinator.security.tls import TlsContext
from coordinator.security.tls_accept import TlsAcceptor
from coordinator.world.clock import Clock

_log = logging.getLogger(__name__)

BACKLOG = 4096
"""Kafka's 50 would reset a burst of thousands of clients. The operating system may cap it (net.core.somaxconn)."""
SWEEP_MS = 1_000


class SaslSetup(NamedTuple):
    """What the connections of a listener with SASL have in common."""

    mechanisms: Mapping[str, MechanismSetup]
    clock: Clock
    frame_bytes_max: int
    """The largest request before the client is authenticated."""
    failure_delay_ms: int


class Protection(TypedDict, total=False):
    """How a listener is protected; what is absent, it does not have."""

    tls: TlsContext | None
    sasl: SaslSetup | None


class Listener:
    """Serves one address. `turn` is common to all listeners of a server.

    `advertised`: the host and port that clients get; port 0 stands for the port that was bound.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        limits: ConnectionLimits,
        memory: Memory,
        turn: Turn,
        *,
        advertised: tuple[str, int],
        connections_max: int,
        connections_per_ip_max: int,
        connections_per_second_max: int,
        now_ms: Callable[[], int],
        wall_ms: Callable[[], int],
        tls: TlsContext | None = None,
        sasl: SaslSetup | None = None,
    ) -> None:
        """`tls`, `sasl`: None if the listener has no TLS or no SASL."""
        self.dispatcher = dispatcher
        self.advertised = advertised
        self.bound = ("", 0)
        """The host and port of the socket, once it listens."""
        self.connections: dict[Connection, None] = {}
        self.refused_count = 0
        self.throttle_ms: Callable[[str], int] | None = None
        """For how long an address has to wait that opens a connection now. None: no address has a quota."""
        self.closed = dict.fromkeys(Closed, 0)
        """Lost connections by reason."""
        self._limits = limits
        self._memory = memory
        self.connections_max = connections_max
        self.connections_per_ip_max = connections_per_ip_max
        self.connections_per_second_max = connections_per_second_max
        self._second = (0, 0)
        """The second of the clock in which the last connection was accepted, and how many were accepted in it."""
        self._now_ms = now_ms
        self._wall_ms = wall_ms
        self._once = LogOncePerClient(_log, now_ms)
        self._per_ip: dict[str, int] = {}
        self._listening: list[Callable[[], None]] = []
        """What ends the listening at each port."""
        self._servers: list[asyncio.Server] = []
        """Those of the ports without TLS."""
        self._acceptor: TlsAcceptor | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._turn = turn
        self._tls = tls
        self._sasl = sasl
        self.authentications_failed = 0
        """By SASL; failed handshakes of TLS are closed connections."""
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self, host: str, port: int, shared_port: int | None = None) -> int:
        """Takes the port, and returns it. `open` begins to accept.

        At a `shared_port` other processes listen, too, and the kernel spreads the clients. Raises OSError.
        """
        self._loop = asyncio.get_running_loop()
        bound = await self._bind(host, port, is_shared=shared_port is not None)
        if shared_port is not None:
            await self._bind(host, shared_port, is_shared=True)
        self.bound = (host, bound)
        self.advertised = (self.advertised[0], self.advertised[1] or bound)
        self._sweeper = self._loop.call_later(SWEEP_MS / 1000, self._sweep_again)
        return bound

    async def open(self) -> None:
        """Accepts connections from now on."""
        for server in self._servers:
            await server.start_serving()
        if self._acceptor is not None:
            self._acceptor.open()

    async def _bind(self, host: str, port: int, *, is_shared: bool) -> int:
        reuse_port = True if is_shared else None  # None: also where the kernel does not have it
        if self._tls is None:
            loop = asyncio.get_running_loop()
            server = await loop.create_server(
                self._accept, host, port, backlog=BACKLOG, reuse_port=reuse_port, start_serving=False
            )
            self._servers.append(server)
            self._listening.append(server.close)
            bound: int = server.sockets[0].getsockname()[1]
            return bound
        if self._acceptor is None:
            self._acceptor = TlsAcceptor(self._tls, self._accept, self._limits.frame_ms_max, self._handshake_failed)
            self._listening.append(self._acceptor.stop)
        return self._acceptor.start(host, port, BACKLOG, reuse_port=is_shared)

    async def stop(self, drain_ms: int) -> None:
        """Accepts nothing more, lets responses leave for up to `drain_ms`, then closes every connection."""
        if not self._listening:
            return
        for close in self._listening:
            close()
        if self._sweeper is not None:
            self._sweeper.cancel()
        drained = asyncio.gather(*(connection.drained() for connection in self.connections))
        with suppress(TimeoutError):
            await asyncio.wait_for(drained, drain_ms / 1000)
        self.close_all()
        await asyncio.sleep(0)

    def close_all(self) -> int:
        """Closes every connection, and returns their number."""
        connections = list(self.connections)
        for connection in connections:
            connection.close(Closed.STOPPING)
        return len(connections)

    def _accept(self) -> Connection:
        connection = Connection(
            self.dispatcher,
            self._limits,
            self._turn,
            self._once,
            self._memory,
            self.advertised,
            self._now_ms,
            self._admit,
            self._lost,
        )
        if self._sasl is not None:
            connection.must_authenticate(self._gate(self._sasl), self._sasl.frame_bytes_max)
        return connection

    def _gate(self, setup: SaslSetup) -> SaslGate:
        return SaslGate(
            self.dispatcher.dispatch,
            Authenticator(setup.mechanisms, setup.clock),
            self._schedule,
            setup.failure_delay_ms,
            self.dispatcher.versions(API_VERSIONS)[1],
            self._count_failed,
        )

    def _schedule(self, delay_ms: int, callback: Callable[[], None]) -> asyncio.TimerHandle:
        assert self._loop is not None
        return self._loop.call_later(delay_ms / 1000, callback)

    def _count_failed(self) -> None:
        self.authentications_failed += 1

    def _handshake_failed(self, connection: Connection, reason: str) -> None:
        connection.refuse(reason, Closed.HANDSHAKE)
        connection.closed_by = Closed.HANDSHAKE
        self._lost(connection)

    def _admit(self, connection: Connection) -> int | None:
        """Counts a connection that is within the limits and returns None; any other is to be closed after so long."""
        if connection in self.connections:  # since its handshake of TLS
            return None
        host = connection.client_host
        held = self._per_ip.get(host, 0)
        second = self._now_ms() // 1_000
        before = self._second[1] if self._second[0] == second else 0
        limit = (
            "connections" if len(self.connections) >= self.connections_max
            else "connections per address" if held >= self.connections_per_ip_max
            else "connections per second" if before >= self.connections_per_second_max
            else ""
        )  # fmt: skip
        if limit:
            self.refused_count += 1
            self._once.warn((host, limit), "event=connection_refused host=%s limit=%s", host, limit)
            return 0
        throttle_ms = 0 if self.throttle_ms is None else self.throttle_ms(host.removeprefix("/"))
        if throttle_ms:
            self.refused_count += 1
            _log.debug("event=connection_throttled host=%s throttle_ms=%d", host, throttle_ms)
            return throttle_ms
        self.connections[connection] = None
        self._per_ip[host] = held + 1
        self._second = (second, before + 1)
        return None

    def _lost(self, connection: Connection) -> None:
        connection.link.closed_ms = self._wall_ms()
        if connection not in self.connections:
            return
        del self.connections[connection]
        self.closed[connection.closed_by] += 1
        host = connection.client_host
        self._per_ip[host] -= 1
        if not self._per_ip[host]:
            del self._per_ip[host]

    def sweep(self) -> None:
        """Closes connections that are idle, stall within a frame, or do not read their responses."""
        now = self._now_ms()
        limits = self._limits
        for connection in list(self.connections):
            quiet_ms, frame_begun = connection.quiet_ms(now)
            if connection.full_since_ms is not None and now - connection.full_since_ms > limits.drain_ms_max:
                connection.abort(f"responses were not read for {limits.drain_ms_max} ms", Closed.UNREAD)
            elif frame_begun and quiet_ms > limits.frame_ms_max:
                connection.refuse(f"a frame was incomplete after {limits.frame_ms_max} ms", Closed.STALLED)
            elif not connection.waiting and quiet_ms > limits.idle_ms_max:
                connection.close(Closed.IDLE)

    def _sweep_again(self) -> None:
        self.sweep()
        if self._tls is not None:
            self._tls.refresh("tls", " address={}:{}".format(*self.bound))
        self._sweeper = asyncio.get_running_loop().call_later(SWEEP_MS / 1000, self._sweep_again)
