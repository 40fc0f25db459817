"""Ports that stay reserved while the server that uses them is dead.

When a server is killed the system may give its port to the next client that connects from this machine, and the restart
finds its address in use. Therefore a socket of the test is always bound to the port without listening: connections are
refused as by a dead server, a server may bind beside it (both set SO_REUSEADDR), and the system gives the port to
nobody else.
"""

import socket


class HeldPort:
    """A free port on loopback, or the given one, until `release`."""

    def __init__(self, port: int = 0):
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind(("127.0.0.1", port))
        except OSError:
            self._socket.close()
            raise
        self.port: int = self._socket.getsockname()[1]

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def release(self) -> None:
        self._socket.close()
