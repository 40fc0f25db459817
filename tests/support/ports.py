"""Ports that stay ours while the server that uses them is dead.

A port that a killed server leaves is anybody's: the system hands it to the next client that connects from this machine, and
the restart finds its address in use. So a socket of the test is bound to it all the time, one that does not listen: who
connects is refused as by a dead server, a server may bind beside it (both allow it, SO_REUSEADDR), and nobody is given it.
"""

import socket


class HeldPort:
    """A free port of loopback, or the one named, until `release`."""

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
