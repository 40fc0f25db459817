"""The client's end of a connection: encodes requests and decodes responses.

It splits the stream with code of its own, not with the server's, and checks that each response belongs to the oldest request
without one (I14), and that it can be decoded completely (I15). Once everything is healed, each request is answered within the
client's patience, or its connection closes (I32).
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from coordinator.faults.history import OnBroken
from coordinator.faults.network import End, SimulatedNetwork
from coordinator.protocol.codec import Codec, DecodeError
from coordinator.protocol.messages import Message

API_VERSIONS_KEY = 18
ADMIN_PORT = 9644


class NoResponse(Exception):
    """No response came; it is unknown whether the request took effect."""


class _Pending(NamedTuple):
    correlation_id: int
    name: str
    version: int
    answer: "asyncio.Future[Any]"


class ClientProtocol(asyncio.Protocol):
    """Sends requests, and completes the future of each with the response or with NoResponse."""

    def __init__(self, client_id: str, broken: OnBroken) -> None:
        self._client_id = client_id.encode()
        self._broken = broken
        self._pending: deque[_Pending] = deque()
        self._buffer = b""
        self._sent = 0
        self._transport: Any = None
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def send(self, request: Message, version: int) -> "asyncio.Future[Any]":
        """Sends the request. The future gets the decoded response."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.lost:
            answer.set_exception(NoResponse())
            return answer
        self._sent += 1
        name = request.NAME
        self._pending.append(_Pending(self._sent, name.removesuffix("Request"), version, answer))
        self._transport.write(frame(request, version, self._sent, self._client_id))
        return answer

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= 4:
            end = 4 + int.from_bytes(self._buffer[:4], "big")
            if len(self._buffer) < end:
                return
            body, self._buffer = self._buffer[4:end], self._buffer[end:]
            self._answered(body)

    def _answered(self, body: bytes) -> None:
        correlation_id = int.from_bytes(body[:4], "big")
        if not self._pending or self._pending[0].correlation_id != correlation_id:
            awaited = self._pending[0].correlation_id if self._pending else None
            self._broken("I14 answered once, in order", f"response {correlation_id} came, {awaited} was expected")
            return
        pending = self._pending.popleft()
        codec, response = Codec.of(), f"{pending.name}Response"
        start = 5 if codec.is_flexible(response, pending.version) and pending.name != "ApiVersions" else 4
        try:
            message, end = codec.decoder(response, pending.version)(body, start)
        except DecodeError as error:
            self._broken("I15 replies are decodable", f"{response} v{pending.version}: {error}")
            return
        if end != len(body):
            self._broken("I15 replies are decodable", f"{response} v{pending.version}: {len(body) - end} extra bytes")
        if not pending.answer.done():
            pending.answer.set_result(message)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self.lost = True
        for pending in self._pending:
            if not pending.answer.done():
                pending.answer.set_exception(NoResponse())
                pending.answer.exception()  # nobody may be waiting for it any more
        self._pending.clear()


def frame(request: Message, version: int, correlation_id: int, client_id: bytes) -> bytes:
    """An encoded request with its header and length prefix."""
    key = type(request).API_KEY
    assert key is not None
    codec, name = Codec.of(), request.NAME
    header = key.to_bytes(2, "big") + version.to_bytes(2, "big") + correlation_id.to_bytes(4, "big")
    header += len(client_id).to_bytes(2, "big") + client_id
    if codec.is_flexible(name, version):
        header += b"\0"
    body = header + codec.encoder(name, version)(request)
    return len(body).to_bytes(4, "big") + body


class Access(Protocol):
    """A client's way to the servers: `Caller` for one, `routing.RoutingCaller` for several."""

    client_id: str

    async def send(self, request: Message, version: int) -> "asyncio.Future[Any]": ...
    async def answer(self, answer: "asyncio.Future[Any]", within_s: float) -> Any: ...
    async def call(self, request: Message, version: int, within_s: float) -> Any: ...
    def give_up(self) -> None: ...
    async def connect_admin(self, factory: Callable[[], Any]) -> tuple[End, Any]: ...
    async def open_raw(self) -> End: ...


class Caller:
    """A client's access to the server: connects on demand, and gives a connection up after a timeout."""

    def __init__(
        self,
        network: SimulatedNetwork,
        client_id: str,
        address: tuple[str, int],
        broken: OnBroken,
        linger_s: Callable[[], float],
        healthy_server: Callable[[], object | None],
    ) -> None:
        """`linger_s()`: how late the bytes sent on an abandoned connection arrive; 0 means never.

        `healthy_server()`: the server that runs now, if nothing may fail any more, else None.
        """
        self.client_id = client_id
        self._network = network
        self._address = address
        self._broken = broken
        self._linger_s = linger_s
        self._healthy_server = healthy_server
        self._end: End | None = None
        self._protocol: ClientProtocol | None = None

    async def send(self, request: Message, version: int) -> "asyncio.Future[Any]":
        """Sends a request; wait for the response with `answer`. Raises NoResponse if the server does not listen."""
        if self._protocol is None or self._protocol.lost:
            try:
                self._end, self._protocol = await self._network.connect(
                    lambda: ClientProtocol(self.client_id, self._broken), *self._address, "10.0.0.1"
                )
            except ConnectionRefusedError:
                raise NoResponse from None
        assert self._protocol is not None
        return self._protocol.send(request, version)

    async def answer(self, answer: "asyncio.Future[Any]", within_s: float) -> Any:
        """Waits for the response. On a timeout gives the connection up and raises NoResponse."""
        try:
            return await asyncio.wait_for(answer, within_s)
        except TimeoutError:
            self.give_up()
            raise NoResponse from None

    async def call(self, request: Message, version: int, within_s: float) -> Any:
        """Sends a request and waits for the response. Raises NoResponse after `within_s` seconds."""
        server = self._healthy_server()
        answer = await self.send(request, version)
        try:
            return await self.answer(answer, within_s)
        except NoResponse:
            if answer.cancelled() and server is not None and server is self._healthy_server():
                detail = f"{self.client_id}: {request.NAME} v{version} waited for {within_s} s"
                self._broken("I32 answered or closed", detail)
            raise

    def give_up(self) -> None:
        """Abandons the connection; bytes in flight may still arrive."""
        if self._end is not None and not self._end.closed:
            linger_s = self._linger_s()
            if linger_s:
                self._network.abandon(self._end, linger_s)
            else:
                self._end.abort()
        if self._protocol is not None:
            self._protocol.lost = True

    async def connect_admin(self, factory: Callable[[], Any]) -> tuple[End, Any]:
        """A connection to the server's admin HTTP. Raises NoResponse."""
        try:
            return await self._network.connect(factory, self._address[0], ADMIN_PORT, "10.0.0.1")
        except ConnectionRefusedError:
            raise NoResponse from None

    async def open_raw(self) -> End:
        """A separate connection for raw bytes, whose responses are ignored. Raises NoResponse."""
        try:
            return (await self._network.connect(asyncio.Protocol, *self._address, "10.0.0.66"))[0]
        except ConnectionRefusedError:
            raise NoResponse from None
