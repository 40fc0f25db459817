"""Connections to servers on an event loop: `Link` carries frames, and `Client` asks and gets responses.

Several requests may be under way. A connection that fails closes, and every request that waits on it fails with it.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, cast

from coordinator.client.conversation import (
    RESPONSE_BYTES_MAX,
    Conversation,
    LinkFailed,
    LinkRefused,
    NotAResponse,
    Response,
    Splitter,
    common_version,
)
from coordinator.client.login.sasl import VERSIONS as SASL_VERSIONS
from coordinator.client.login.sasl import Sasl, SecurityFailed
from coordinator.protocol.codec import EncodeError
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import Answer, ApiVersionsRequest, ApiVersionsResponse, Message, Request

OPEN_S = 10.0
"""How long a connection may take until it is authenticated."""
ANSWER_S = 10.0
"""How long a request may take."""
WRITE_BUFFER_BYTES = 1 << 20


def ignore_loss() -> None:
    """For a connection whose end needs no action."""


class Link(asyncio.Protocol):
    """One connection: bytes of requests out, whole responses in, in the order of the requests."""

    def __init__(self, response_bytes_max: int = RESPONSE_BYTES_MAX) -> None:
        self.responses = Splitter(response_bytes_max)
        self.on_response: Callable[[Response], None] = lambda _response: None
        self.on_lost: Callable[[], None] = ignore_loss
        self.on_drained: Callable[[], None] = ignore_loss
        self.is_full = False
        """Whether the server does not take what was written."""
        self.is_lost = False
        self.failure = "the connection was lost"
        """Why it was lost."""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            self.failure = str(exc) or self.failure
        self._lose()

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        self.on_drained()

    def data_received(self, data: bytes) -> None:
        try:
            for response in self.responses.split(data):
                self.on_response(response)
        except NotAResponse as error:
            self.close(f"the server {error}")

    def send(self, *parts: bytes) -> None:
        if self._transport is not None and not self.is_lost:
            self._transport.writelines(parts)

    def pause(self) -> None:
        if self._transport is not None and not self.is_lost:
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and not self.is_lost:
            self._transport.resume_reading()

    def close(self, reason: str = "the connection was closed") -> None:
        """Closes it at once; requests under way fail for this reason."""
        if not self.is_lost:
            self.failure = reason
        if self._transport is not None:
            self._transport.abort()
        self._lose()

    def _lose(self) -> None:
        if not self.is_lost:
            self.is_lost = True
            self.on_lost()


class Client:
    """Requests of this program itself to one server. `connect` makes one."""

    def __init__(self, link: Link, client_id: str, name: str) -> None:
        self.name = name
        """HOST:PORT; the text of every error begins with it."""
        self.versions: dict[int, tuple[int, int]] = {}
        self.api_versions = ApiVersionsResponse()
        self._link = link
        self._conversation: Conversation[asyncio.Future[Any]] = Conversation(client_id)
        link.on_response = self._answered
        link.on_lost = self._lost

    @property
    def is_lost(self) -> bool:
        return self._link.is_lost

    def release(self) -> Link:
        """The connection, for another user of it."""
        self._link.on_response, self._link.on_lost = (lambda _response: None), ignore_loss
        return self._link

    def close(self, reason: str = "the connection was closed") -> None:
        """Closes the connection; requests under way fail for this reason."""
        self._link.close(reason)

    def supports(self, request: type[Message], version: int) -> bool:
        """Whether the server has this version of the API."""
        low, high = self.versions.get(request.API_KEY or 0, (0, -1))
        return low <= version <= high

    async def ask(
        self, request: Request[Answer], *, version_max: int | None = None, within_s: float = ANSWER_S
    ) -> Answer:
        """Sends a request in the newest version that both sides have, and returns the response. Raises LinkFailed."""
        version = common_version(type(request), self.versions, version_max)
        if version < 0:
            raise LinkFailed(f"{self.name} supports no version of {request.NAME} that this server supports")
        return await self.ask_in(request, version, within_s)

    async def ask_in(self, request: Request[Answer], version: int, within_s: float = ANSWER_S) -> Answer:
        """Sends a request in a version, and returns the response. Raises LinkFailed; then the connection is closed."""
        answer = self.send(request, version)
        try:
            async with asyncio.timeout(within_s):
                return await answer
        except TimeoutError as error:
            self.close("no answer in time")
            raise LinkFailed(f"{self.name}: no answer to {request.NAME} in time") from error

    def send(self, request: Request[Answer], version: int) -> asyncio.Future[Answer]:
        """Sends a request; its response comes with the future. Raises LinkFailed, also by the future."""
        if self._link.is_lost:
            raise LinkFailed(f"{self.name}: {self._link.failure}")
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        try:
            self._link.send(self._conversation.request(request, version, answer))
        except EncodeError as error:
            raise LinkFailed(f"{self.name}: {request.NAME} v{version}: {error}") from error
        return answer

    def _answered(self, response: Response) -> None:
        try:
            answer = self._conversation.response(b"".join(response))
        except NotAResponse as error:
            self.close(f"the server {error}")
            return
        if not answer.waiter.done():
            answer.waiter.set_result(answer.message)

    def _lost(self) -> None:
        for answer in self._conversation.end():
            if not answer.done():
                answer.set_exception(LinkFailed(f"{self.name}: {self._link.failure}"))
                answer.exception()  # the task that asked may be gone


async def connect(
    host: str,
    port: int,
    client_id: str,
    *,
    within_s: float = OPEN_S,
    tls: ssl.SSLContext | None = None,
    sasl: Sasl | None = None,
    asks_versions: bool = True,
    response_bytes_max: int = RESPONSE_BYTES_MAX,
) -> Client:
    """Opens a connection, asks for the server's versions and authenticates. Raises LinkFailed, LinkRefused."""
    name = f"{host}:{port}"
    client: Client | None = None
    try:
        async with asyncio.timeout(within_s):
            _, link = await asyncio.get_running_loop().create_connection(
                lambda: Link(response_bytes_max), host, port, ssl=tls, server_hostname=host if tls is not None else None
            )
            client = Client(link, client_id, name)
            if asks_versions:
                await _ask_versions(client, client_id)
            if sasl is not None:
                await sasl.authenticate_async(lambda request: client.send(request, SASL_VERSIONS[request.NAME]))
    except BaseException as error:
        if client is not None:
            client.close()
        if isinstance(error, SecurityFailed):
            raise LinkRefused(f"{name}: {error}") from error
        if isinstance(error, ssl.SSLCertVerificationError):
            raise LinkRefused(f"{name}: the certificate is not trusted: {error.verify_message}") from error
        if isinstance(error, OSError):  # a timeout, too
            raise LinkFailed(f"{name}: {str(error) or 'no answer in time'}") from error
        raise
    return client


async def _ask_versions(client: Client, client_id: str) -> None:
    """Asks for the versions of the server, and its features. Raises LinkFailed."""
    request = ApiVersionsRequest(client_software_name="coordinator", client_software_version=client_id)
    response = await client.send(request, 3)
    if response.error_code:
        raise LinkFailed(f"{client.name}: ApiVersions: {ErrorCode(response.error_code).name}")
    client.api_versions = response
    client.versions = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
