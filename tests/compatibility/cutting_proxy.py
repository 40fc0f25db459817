"""A TCP proxy that loses one response: the server has executed the request, and the client cannot know."""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator


class CuttingProxy:
    """Listens on `port` and passes frames to `target`. `lose_next(api_key)` closes the connection instead of passing
    the next response.
    """

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.target: tuple[str, int] = ("127.0.0.1", 0)
        self.lost = threading.Event()
        self._lose: int | None = None
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_next(self, api_key: int) -> None:
        self.lost.clear()
        self._lose = api_key

    def close(self) -> None:
        for each in [self._server, *self._open]:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                upstream = socket.create_connection(self.target)
                self._open += [client, upstream]
                asked: dict[int, int] = {}
                for work in (self._requests, self._answers):
                    threading.Thread(target=work, args=(client, upstream, asked), daemon=True).start()

    def _requests(self, client: socket.socket, upstream: socket.socket, asked: dict[int, int]) -> None:
        for frame in frames(client):
            api_key, _, correlation_id = struct.unpack_from(">hhi", frame, 4)
            asked[correlation_id] = api_key
            with contextlib.suppress(OSError):
                upstream.sendall(frame)
        hang_up(client, upstream)

    def _answers(self, client: socket.socket, upstream: socket.socket, asked: dict[int, int]) -> None:
        for frame in frames(upstream):
            (correlation_id,) = struct.unpack_from(">i", frame, 4)
            if self._lose is not None and asked.get(correlation_id) == self._lose:
                self._lose = None
                self.lost.set()
                break
            with contextlib.suppress(OSError):
                client.sendall(frame)
        hang_up(client, upstream)


def frames(source: socket.socket) -> Iterator[bytes]:
    """Yields whole frames with their length until the source ends."""
    held = b""
    while True:
        while len(held) >= 4 and len(held) >= 4 + (size := struct.unpack_from(">i", held)[0]):
            yield held[: 4 + size]
            held = held[4 + size :]
        try:
            piece = source.recv(1 << 16)
        except OSError:
            return
        if not piece:
            return
        held += piece


def hang_up(*sockets: socket.socket) -> None:
    for each in sockets:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
