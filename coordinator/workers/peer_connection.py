"""A connection from one worker to another, at the listener that is for workers (`inter.broker.listener.name`)."""

import asyncio
import ssl
from collections.abc import Callable
from typing import NamedTuple

from coordinator.engine.engine import Worker
from coordinator.login.sasl import Sasl, SecurityFailed
from coordinator.protocol.codec import Codec, DecodeError
from coordinator.protocol.messages import Message

ANSWER_S = 2.0
_CLIENT_ID = b"coordinator-worker"
_SASL_VERSIONS = {"SaslHandshakeRequest": 1, "SaslAuthenticateRequest": 2}


class PeerFailed(Exception):
    """The other worker did not answer, or one of the two does not trust the other."""


class PeerAccess(NamedTuple):
    """How a worker connects to others, and who it is there."""

    tls: Callable[[], ssl.SSLContext] | None = None
    """Makes the context of a connection, from files that may have changed; None: without TLS."""
    sasl: Sasl | None = None


UNPROTECTED = PeerAccess()


class PeerConnection:
    """A connection to one worker, which is opened by the first request."""

    def __init__(self, worker: Worker, access: PeerAccess) -> None:
        self._worker = worker
        self._access = access
        self._turn = asyncio.Lock()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._correlation_id = 0
        self._failure = ""
        self._limit: asyncio.Timeout | None = None
        """Of the request under way."""

    async def ask(self, request: Message, version: int) -> Message:
        """The response. Raises PeerFailed; then the connection must not be used any more.

        What waits for its turn fails with the request before it: many that wait for a stopped worker would take very long.
        """
        async with self._turn:
            if self._failure:
                raise PeerFailed(self._failure)
            try:
                async with asyncio.timeout(ANSWER_S) as self._limit:
                    if self._streams is None:
                        await self._open()
                    return await self._ask(request, version)
            except (OSError, TimeoutError, asyncio.IncompleteReadError, DecodeError, SecurityFailed) as error:
                self.close()
                self._failure = self._failure or f"{type(error).__name__}: {error}"
                raise PeerFailed(self._failure) from error
            finally:
                self._limit = None

    def give_up(self, reason: str) -> None:
        """Fails the request under way, and those that wait behind it, at once."""
        self._failure = reason
        if self._limit is None:
            self.close()
        else:
            self._limit.reschedule(asyncio.get_running_loop().time())

    async def _open(self) -> None:
        host, tls = self._worker.host, self._access.tls
        context = None if tls is None else tls()
        self._streams = await asyncio.open_connection(host, self._worker.port, ssl=context)
        if self._access.sasl is not None:
            await self._access.sasl.authenticate_async(lambda request: self._ask(request, _SASL_VERSIONS[request.NAME]))

    async def _ask(self, request: Message, version: int) -> Message:
        assert self._streams is not None
        reader, writer = self._streams
        self._correlation_id += 1
        writer.write(_frame(request, version, self._correlation_id))
        size = int.from_bytes(await reader.readexactly(4))
        answer = await reader.readexactly(size)
        name = request.NAME.removesuffix("Request")
        codec = Codec.of()
        header_bytes = 5 if codec.is_flexible(f"{name}Response", version) else 4
        message, _ = codec.decoder(f"{name}Response", version)(answer, header_bytes)
        return message

    def close(self) -> None:
        """Closes it; requests under way fail."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def _frame(request: Message, version: int, correlation_id: int) -> bytes:
    codec = Codec.of()
    assert request.API_KEY is not None
    head = request.API_KEY.to_bytes(2) + version.to_bytes(2) + correlation_id.to_bytes(4)
    head += len(_CLIENT_ID).to_bytes(2) + _CLIENT_ID
    head += b"\0" if codec.is_flexible(request.NAME, version) else b""
    body = codec.encoder(request.NAME, version)(request)
    return (len(head) + len(body)).to_bytes(4) + head + body
