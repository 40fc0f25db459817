"""Accepts connections of a listener with TLS: first the limits, then the handshake, then the connection begins.

The loop's own servers shake hands before anybody can count the connection. Here it counts from the moment it is accepted, so
handshakes that never end are within the limits, too; and each handshake has the certificates of its moment.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable

from coordinator.network.connection import Connection
from coordinator.security.principal import NoRuleApplies
from coordinator.security.tls import TlsContext

_log = logging.getLogger(__name__)

PAUSE_S = 0.1
"""How long to wait after an accept has failed, for lack of file descriptors for example."""


class TlsAcceptor:
    """A listening socket."""

    def __init__(
        self,
        tls: TlsContext,
        make_connection: Callable[[], Connection],
        handshake_ms: int,
        on_failure: Callable[[Connection, str], None],
    ) -> None:
        """`on_failure` is called with a connection and the reason if its handshake fails."""
        self._tls = tls
        self._make_connection = make_connection
        self._handshake_ms = handshake_ms
        self._on_failure = on_failure
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening: socket.socket | None = None

    def start(self, host: str, port: int, backlog: int) -> int:
        """Listens; returns the port. Raises OSError."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = self._listening = socket.create_server((host, port), family=family, backlog=backlog)
        listening.setblocking(False)
        self._run(self._accept(listening))
        bound: int = listening.getsockname()[1]
        return bound

    def stop(self) -> None:
        """Accepts nothing more, and ends handshakes."""
        for task in self._tasks:
            task.cancel()
        if self._listening is not None:
            self._listening.close()

    def _run(self, work: "asyncio.Future[None] | object") -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError as error:
                _log.warning("event=accept_failed reason=%s", error)
                await asyncio.sleep(PAUSE_S)
                continue
            connection = self._make_connection()
            if connection.admit(address):
                self._run(self._begin(connection, accepted))
            else:
                accepted.close()

    async def _begin(self, connection: Connection, accepted: socket.socket) -> None:
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
            self._on_failure(connection, "the server stops")
            raise


class _Identified(asyncio.Protocol):
    """Notes whom the client's certificate names, and makes way for the connection."""

    def __init__(self, connection: Connection, tls: TlsContext) -> None:
        self._connection = connection
        self._tls = tls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        connection = self._connection
        certificate = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        transport.set_protocol(connection)
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
