"""A TCP proxy whose connections a test can cut, as a network does."""

import socket
import threading
from contextlib import suppress
from typing import Self


class CuttableProxy:
    """Listens on a free port of the loopback address and passes bytes to `target` ("host:port") and back."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.cut()
        for thread in self._threads:
            thread.join()

    def cut(self) -> None:
        """Breaks all connections. Later ones are accepted."""
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._open.clear()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                upstream = socket.create_connection(self._target)
                self._open += [client, upstream]
                for pair in ((client, upstream), (upstream, client)):
                    thread = threading.Thread(target=self._pass, args=pair)
                    self._threads.append(thread)
                    thread.start()

    @staticmethod
    def _pass(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while content := source.recv(65_536):
                sink.sendall(content)
            sink.shutdown(socket.SHUT_WR)
