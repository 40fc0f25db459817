"""Accepts connections of a listener with TLS: first the limits, then the handshake, then the connection begins.

The loop's own servers shake hands before anybody can count the connection. Here it counts from the moment it is accepted, so
handshakes that never end are within the limits, too; and each handshake has the certificates of its moment.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, cast

from coordinator.security.principal import NoRuleApplies, Principal
from coordinator.security.tls import TlsContext

_log = logging.getLogger(__name__)

PAUSE_S = 0.1
"""How long to wait after an accept has failed, for lack of file descriptors for example."""


class AcceptedConnection(Protocol):
    """A connection of a listener: a protocol of asyncio that counts from the moment when it is accepted."""

    principal: Principal

    def admit(self, peer: Any) -> int | None:
        """None if the connection is within the limits, and counts now; else the time after which to close it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake is done."""

    def abort(self, reason: str) -> None:
        """Closes the connection at once."""


class TlsAcceptor:
    """A listening socket."""

    def __init__(
        self,
        tls: TlsContext,
        make_connection: Callable[[], Any],
        handshake_ms: int,
        on_failure: Callable[[Any, str], None],
    ) -> None:
        """`make_connection` makes an AcceptedConnection.

        `on_failure` is called with a connection and the reason if its handshake fails.
        """
        self._tls = tls
        self._make_connection = make_connection
        self._handshake_ms = handshake_ms
        self._on_failure = on_failure
        self._tasks: set[asyncio.Task[None]] = set()
        self._handshakes: dict[AcceptedConnection, asyncio.Task[None]] = {}
        self._listening: list[socket.socket] = []

    def start(self, host: str, port: int, backlog: int, *, reuse_port: bool = False) -> int:
        """Takes a port, of possibly several; returns it. Clients wait until `open`. Raises OSError."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=backlog, reuse_port=reuse_port)
        self._listening.append(listening)
        listening.setblocking(False)
        bound: int = listening.getsockname()[1]
        return bound

    def open(self) -> None:
        """Accepts connections from now on, at all ports."""
        for listening in self._listening:
            self._run(self._accept(listening))

    def stop(self) -> None:
        """Accepts nothing more, and ends handshakes."""
        for task in self._tasks:
            task.cancel()
        for listening in self._listening:
            listening.close()

    def cancel(self, connection: AcceptedConnection) -> None:
        """Ends the handshake of a connection."""
        task = self._handshakes.get(connection)
        if task is not None:
            task.cancel()

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError as error:
                _log.warning("event=accept_failed reason=%s", error)
                await asyncio.sleep(PAUSE_S)
                continue
            connection: AcceptedConnection = self._make_connection()
            closes_after_ms = connection.admit(address)
            if closes_after_ms is None:
                self._handshakes[connection] = self._run(self._begin(connection, accepted))
            else:
                loop.call_later(closes_after_ms / 1000, accepted.close)

    async def _begin(self, connection: AcceptedConnection, accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.connect_accepted_socket(
                lambda: _Identified(connection, self._tls),
                accepted,
                ssl=self._tls.context,
                ssl_handshake_timeout=self._handshake_ms / 1000,
            )
        except (OSError, ssl.SSLError) as error:
            accepted.close()
            self._on_failure(connection, f"TLS handshake: {_reason(error)}")
        except asyncio.CancelledError:
            accepted.close()
            self._on_failure(connection, "the server ends it")
            raise
        finally:
            self._handshakes.pop(connection, None)


class _Identified(asyncio.Protocol):
    """Notes whom the client's certificate names, and makes way for the connection."""

    def __init__(self, connection: AcceptedConnection, tls: TlsContext) -> None:
        self._connection = connection
        self._tls = tls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        connection = self._connection
        certificate = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        transport.set_protocol(cast(asyncio.BaseProtocol, connection))
        try:
            connection.principal = self._tls.principal(certificate)
        except NoRuleApplies as error:
            connection.connection_made(transport)
            connection.abort(str(error))
            return
        connection.connection_made(transport)


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or str(error)
    return str(error) or type(error).__name__
