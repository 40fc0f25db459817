"""The client's end of a connection: encodes requests and decodes responses.

It checks that each response belongs to the oldest request without one (I14), and that it can be decoded completely (I15). Once
everything is healed, each request is answered within the client's patience, or its connection closes (I32).
"""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from coordinator.client.conversation import Conversation, NotAResponse, OutOfOrder, Splitter
from coordinator.protocol.messages import Message
from coordinator_lab.simulation.history import OnBroken
from coordinator_lab.simulation.network import End, SimulatedNetwork

ADMIN_PORT = 9644


class NoResponse(Exception):
    """No response came; it is unknown whether the request took effect."""


class ClientProtocol(asyncio.Protocol):
    """Sends requests, and completes the future of each with the response or with NoResponse."""

    def __init__(self, client_id: str, broken: OnBroken) -> None:
        self._broken = broken
        self._conversation: Conversation[asyncio.Future[Any]] = Conversation(client_id)
        self._responses = Splitter()
        self._transport: Any = None
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def send(self, request: Message, version: int) -> "asyncio.Future[Any]":
        """Sends the request. The future gets the decoded response."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.lost:
            answer.set_exception(NoResponse())
        else:
            self._transport.write(self._conversation.request(request, version, answer))
        return answer

    def data_received(self, data: bytes) -> None:
        for response in self._responses.split(data):
            try:
                answer = self._conversation.response(b"".join(response))
            except OutOfOrder as error:
                self._broken("I14 answered once, in order", str(error))
                return
            except NotAResponse as error:
                self._broken("I15 replies are decodable", str(error))
                return
            if answer.extra_bytes:
                self._broken("I15 replies are decodable", f"{answer.message.NAME}: {answer.extra_bytes} extra bytes")
            if not answer.waiter.done():
                answer.waiter.set_result(answer.message)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self.lost = True
        for answer in self._conversation.end():
            if not answer.done():
                answer.set_exception(NoResponse())
                answer.exception()  # the client may have given up


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
