"""A TCP proxy whose connections a test can cut, as a network does, or leave open without passing anything."""

import socket
import threading
from contextlib import suppress
from typing import Self

from tests.support.background import Background


class CuttableProxy:
    """Listens on a free port of the loopback address and passes bytes to `target` ("host:port") and back.

    A target that does not listen refuses.
    """

    def __init__(self, target: str) -> None:
        self.target = target
        self._server = socket.create_server(("127.0.0.1", 0))
        self._fillers: list[socket.socket] = []
        self._speaks = threading.Event()
        self._speaks.set()
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self._open: list[socket.socket] = []
        self._threads = [Background(self._accept)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends it, with all connections."""
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self.speak()
        self._server.close()
        self.cut()
        for thread in self._threads:
            thread.finish()

    def cut(self) -> None:
        """Breaks all connections. Later ones are accepted."""
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._open.clear()

    def fall_silent(self) -> None:
        """Loses everything from now on: open connections pass nothing, and new ones get no answer, for the queue is full."""
        self._speaks.clear()
        self._server.listen(0)
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(self._server.getsockname())
            self._fillers.append(filler)

    def speak(self) -> None:
        """Passes everything again, also what was sent meanwhile."""
        if not self._speaks.is_set():
            self._server.listen()
        self._speaks.set()
        for filler in self._fillers:
            filler.close()
        self._fillers.clear()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                self._speaks.wait()
                self._open.append(client)
                host, _, port = self.target.rpartition(":")
                try:
                    upstream = socket.create_connection((host, int(port)))
                except ConnectionRefusedError:
                    client.close()
                    continue
                self._open.append(upstream)
                for pair in ((client, upstream), (upstream, client)):
                    self._threads.append(Background(self._pass, *pair))

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while content := source.recv(65_536):
                self._speaks.wait()
                sink.sendall(content)
            sink.shutdown(socket.SHUT_WR)
