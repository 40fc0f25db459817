"""The admin HTTP server: it listens from the start, and imports the rest when the first connection comes.

Starlette, uvicorn and msgspec cost more memory and start-up time than all groups of a small server. So the modules of the
endpoints are imported by the first connection, in a thread; connections that come meanwhile wait.

uvicorn's own server is not used, only its HTTP/1.1 protocol (connection.py): the process has signal handlers, a loop and a way
to stop already.
"""

import asyncio
import importlib
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from coordinator.admin.connections import Connections
from coordinator.admin.server_view import RunsInThread
from coordinator.config.settings import AdminConfig

if TYPE_CHECKING:
    from coordinator.admin.tls_listener import TlsListener
    from coordinator.security.tls import TlsContext

_log = logging.getLogger(__name__)

ProtocolFactory = Callable[[Any, AdminConfig, Connections, str], Callable[[], asyncio.Protocol]]
"""Its first argument is the `server` of `AdminServer`."""
CLOSED_WITHIN_S = 1.0
"""A stop waits this long for clients to read the last bytes."""
_EARLY_BYTES = 64 * 1024
"""How much of a request is read before the import is over."""
_BUSY = (
    b'{"title": "Service Unavailable", "status": 503, "detail": "admin.connections are open and all of them are used"}'
)
BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(_BUSY), _BUSY)
)
"""The response where there is no place for a connection; written out, because msgspec may not be imported yet."""


def import_application() -> ProtocolFactory:
    """Imports the framework and all endpoints."""
    factory: ProtocolFactory = importlib.import_module("coordinator.admin.application").protocol_factory
    return factory


class AdminServer:
    """HTTP for one server, on one address."""

    def __init__(
        self,
        server: RunsInThread,
        config: AdminConfig,
        token: str = "",
        tls: "TlsContext | None" = None,
        load: Callable[[], ProtocolFactory] = import_application,
    ) -> None:
        """`token` is empty if there is none. `load` runs in a thread and returns what makes the protocols of connections."""
        self._view = server
        self._config = config
        self._token = token
        self._load = load
        self.connections = Connections(config.admin_connections)
        self._make_protocol: Callable[[], asyncio.Protocol] | None = None
        self._is_loading = False
        self._is_stopped = False
        self._server: asyncio.Server | None = None
        self._tls = tls
        self._tls_listener: TlsListener | None = None

    async def start(self) -> int:
        """Listens on the configured address. Returns the port."""
        loop = asyncio.get_running_loop()
        host, port = self._config.behind or (self._config.host, self._config.port)
        if self._tls is None:
            self._server = await loop.create_server(self.make_connection, host, port)
            return int(self._server.sockets[0].getsockname()[1])
        from coordinator.admin.tls_listener import TlsListener  # noqa: PLC0415 - most servers need no TLS

        self._tls_listener = TlsListener(self._tls, self.connections, self.make_connection)
        return self._tls_listener.start(host, port, self._config.admin_request_time_ms)

    async def stop(self) -> None:
        """Stops listening, ends long polls and streams, and closes all connections."""
        self._is_stopped = True
        if self._server is not None:
            self._server.close()
        if self._tls_listener is not None:
            self._tls_listener.stop()
        connections = list(self.connections.open)
        tasks = [task for connection in connections for task in connection.stop()]
        await asyncio.gather(*tasks, return_exceptions=True)
        closed = [connection.closed for connection in connections]
        if closed:
            await asyncio.wait(closed, timeout=CLOSED_WITHIN_S)
        for connection in list(self.connections.open):
            connection.abandon()

    def make_connection(self) -> asyncio.Protocol:
        """The protocol of a new connection."""
        return _EarlyConnection(self) if self._make_protocol is None else self._make_protocol()

    def admitted(self, connection: "_EarlyConnection") -> None:
        """Imports the application in a thread, unless that has begun or is done: then the connection is handed over."""
        if self._make_protocol is not None:
            connection.hand_over(self._make_protocol())
        elif not self._is_loading:
            self._is_loading = True
            self._view.run_in_thread(self._load, self._loaded)

    def _loaded(self, factory: Any) -> None:
        if isinstance(factory, BaseException):
            _log.error("event=admin_not_loaded", exc_info=factory)
            self._is_loading = False
            for connection in list(self.connections.open):
                connection.abandon()
            return
        if self._is_stopped:
            return
        self._make_protocol = factory(self._view, self._config, self.connections, self._token)
        for connection in list(self.connections.open):
            if isinstance(connection, _EarlyConnection):
                connection.hand_over(self._make_protocol())


class _EarlyConnection(asyncio.Protocol):
    """A connection that came before the application was imported. It keeps what it reads for the real protocol."""

    def __init__(self, server: AdminServer) -> None:
        self._server = server
        self._transport: Any = None
        self._data = b""
        self._is_at_end = False
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        if self._server.connections.admit(self):
            self._server.admitted(self)
        else:
            self._transport.write(BUSY)
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        self._data += data
        if len(self._data) > _EARLY_BYTES:
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """Keeps the connection half-open, which TLS cannot: the request may be complete."""
        self._is_at_end = True
        return bool(self._transport.get_extra_info("sslcontext") is None)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio calls it
        self._server.connections.forget(self)
        if not self.closed.done():
            self.closed.set_result(None)

    def hand_over(self, protocol: asyncio.Protocol) -> None:
        """Gives the connection, and what was read from it, to the real protocol."""
        transport = self._transport
        self._server.connections.forget(self)
        if transport.is_closing():
            return
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        transport.resume_reading()
        if self._data:
            protocol.data_received(self._data)
        if self._is_at_end and not protocol.eof_received():
            transport.close()

    def abandon(self) -> None:
        self._transport.abort()

    def stop(self) -> Iterable[asyncio.Task[Any]]:
        self.abandon()
        return ()
