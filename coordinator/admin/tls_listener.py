"""The TLS side of admin HTTP: handshakes count as connections, and certificates are read again when their files change."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from coordinator.admin.connections import Connections
from coordinator.security.principal import ANONYMOUS
from coordinator.security.tls import TlsContext
from coordinator.security.tls_accept import TlsAcceptor

RELOAD_S = 2.0
"""How often the files are looked at."""
_BACKLOG = 128


class TlsListener:
    """A listening socket with TLS."""

    def __init__(
        self, tls: TlsContext, connections: Connections, make_connection: Callable[[], asyncio.Protocol]
    ) -> None:
        """`make_connection` makes the protocol of a connection whose handshake is done."""
        self.connections = connections
        self.make_connection = make_connection
        self._tls = tls
        self._acceptor: TlsAcceptor | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self, host: str, port: int, handshake_ms: int) -> int:
        """Listens; returns the port. Raises OSError."""
        self._acceptor = TlsAcceptor(self._tls, lambda: _Handshake(self), handshake_ms, _Handshake.failed)
        self._reload_later()
        bound = self._acceptor.start(host, port, _BACKLOG)
        self._acceptor.open()
        return bound

    def stop(self) -> None:
        """Accepts nothing more, and ends handshakes."""
        if self._timer is not None:
            self._timer.cancel()
        if self._acceptor is not None:
            self._acceptor.stop()

    def cancel(self, handshake: "_Handshake") -> None:
        """Ends a handshake."""
        if self._acceptor is not None:
            self._acceptor.cancel(handshake)

    def _reload_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(RELOAD_S, self._reload)

    def _reload(self) -> None:
        """Reads the certificate and the authorities again if their files have changed."""
        self._reload_later()
        self._tls.refresh("admin_tls")


class _Handshake(asyncio.Protocol):
    """A connection during its TLS handshake. It has a place among the connections, which it leaves to the real protocol."""

    def __init__(self, listener: TlsListener) -> None:
        self._listener = listener
        self.principal = ANONYMOUS
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def admit(self, _peer: Any) -> int | None:
        """None if there is a place for it; else it is closed at once."""
        return None if self._listener.connections.admit(self) else 0

    def connection_made(self, transport: Any) -> None:
        self._leave()
        protocol = self._listener.make_connection()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)

    def failed(self, _reason: str) -> None:
        """The handshake is over, and there is no connection."""
        self._leave()

    def abandon(self) -> None:
        self._listener.cancel(self)

    def abort(self, _reason: str) -> None:
        self.abandon()

    def stop(self) -> Iterable[asyncio.Task[Any]]:
        self.abandon()
        return ()

    def _leave(self) -> None:
        self._listener.connections.forget(self)
        if not self.closed.done():
            self.closed.set_result(None)
