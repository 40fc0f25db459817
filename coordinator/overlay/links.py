"""Connections to brokers: bytes of requests out, whole responses in, in the order of the requests.

A connection may be protected by TLS, and authenticate with SASL when it is opened (KIP-43, KIP-152), with the one account that
this server has. Responses arrive in pieces and are never joined here: a large one travels on as it came.
"""

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from coordinator.config.overlay import SASL, TLS, OverlayConfig
from coordinator.login.sasl import Sasl, SecurityFailed
from coordinator.protocol.codec import Codec, DecodeError, EncodeError
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    Message,
)

_log = logging.getLogger(__name__)

Address = tuple[str, int]
Response = list[bytes]
"""A response in pieces, with its size field."""

OPEN_S = 10.0
"""How long a connection may take until it is authenticated."""
ANSWER_S = 10.0
"""How long a request of this server may take."""
WRITE_BUFFER_BYTES = 1 << 20
ELEMENTS_MAX = 1 << 30
"""Brokers are trusted: their lists of topics may be as long as they are."""
_CLIENT_ID = b"coordinator-overlay"
_SASL_VERSIONS = {"SaslHandshakeRequest": 1, "SaslAuthenticateRequest": 0}


class LinkFailed(Exception):
    """A broker cannot be reached, refuses this server, or did not answer. The text is one line."""


class LinkRefused(LinkFailed):
    """The broker refuses this server's credentials, or its certificate is not trusted: another attempt is useless."""


def nobody() -> None:
    """For a connection that nobody watches."""


class Link(asyncio.Protocol):
    """One connection to a broker."""

    def __init__(self) -> None:
        self.on_response: Callable[[Response], None] = lambda _response: None
        self.on_large: Callable[[int], None] = lambda _size: None
        """Called with the size of a response when it begins to arrive, if it is more than `large_bytes`."""
        self.large_bytes = 1 << 62
        self.on_lost: Callable[[], None] = nobody
        self.on_full: Callable[[], None] = nobody
        self.on_drained: Callable[[], None] = nobody
        self.is_full = False
        """Whether the broker does not take what was written."""
        self.is_lost = False
        self._transport: asyncio.Transport | None = None
        self._head = b""
        self._parts: Response = []
        self._left = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self.is_lost = True
        self.on_lost()

    def pause_writing(self) -> None:
        self.is_full = True
        self.on_full()

    def resume_writing(self) -> None:
        self.is_full = False
        self.on_drained()

    def data_received(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        while data:
            if not self._left:
                if len(data) < 4:
                    self._head = data
                    return
                self._left = 4 + int.from_bytes(data[:4], signed=True)
                if self._left < 8:  # a size and a correlation id
                    self.close()
                    return
                if self._left > self.large_bytes:
                    self.on_large(self._left)
            if len(data) < self._left:
                self._parts.append(data)
                self._left -= len(data)
                return
            part, data = (data, b"") if len(data) == self._left else (data[: self._left], data[self._left :])
            response, self._parts, self._left = [*self._parts, part], [], 0
            self.on_response(response)

    def send(self, *parts: bytes) -> None:
        if self._transport is not None and not self.is_lost:
            self._transport.writelines(parts)

    def pause(self) -> None:
        if self._transport is not None and not self.is_lost:
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and not self.is_lost:
            self._transport.resume_reading()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class BrokerClient:
    """Requests of this server itself to one broker. Several may be under way."""

    def __init__(self, link: Link) -> None:
        self.versions: dict[int, tuple[int, int]] = {}
        self.api_versions = ApiVersionsResponse()
        self._link = link
        self._correlation_id = 0
        self._waiting: deque[tuple[str, int, asyncio.Future[Any]]] = deque()
        link.on_response = self._answered
        link.on_lost = self._lost

    @property
    def is_lost(self) -> bool:
        return self._link.is_lost

    def release(self) -> Link:
        """The connection, for somebody else."""
        self._link.on_response, self._link.on_lost = (lambda _response: None), nobody
        return self._link

    def close(self) -> None:
        self._link.close()

    def supports(self, request: type[Message], version: int) -> bool:
        """Whether the broker has this version of the API."""
        low, high = self.versions.get(request.API_KEY or 0, (0, -1))
        return low <= version <= high

    async def ask(self, request: Message, *, version_max: int | None = None, within_s: float = ANSWER_S) -> Any:
        """Sends a request in the newest version that both sides have, and returns the response. Raises LinkFailed."""
        assert request.API_KEY is not None
        low, high = self.versions.get(request.API_KEY, (0, -1))
        newest = min(high, request.VERSIONS[1] if version_max is None else version_max)
        if newest < max(low, request.VERSIONS[0]):
            raise LinkFailed(f"the broker supports no version of {request.NAME} that this server supports")
        return await self.ask_in(request, newest, within_s)

    async def ask_in(self, request: Message, version: int, within_s: float = ANSWER_S) -> Any:
        """Sends a request in a version, and returns the response. Raises LinkFailed; then the connection is closed."""
        if self._link.is_lost:
            raise LinkFailed("the connection is closed")
        self._correlation_id += 1
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((request.NAME.removesuffix("Request"), version, answer))
        try:
            self._link.send(request_frame(request, version, self._correlation_id))
            async with asyncio.timeout(within_s):
                return await answer
        except (TimeoutError, EncodeError) as error:
            self.close()
            raise LinkFailed(f"{request.NAME}: {type(error).__name__} {error}".strip()) from error

    def _answered(self, response: Response) -> None:
        if not self._waiting:
            self.close()
            return
        name, version, answer = self._waiting.popleft()
        if answer.done():
            return
        try:
            answer.set_result(read_response(name, version, b"".join(response)))
        except DecodeError as error:
            answer.set_exception(LinkFailed(f"not a response to {name}: {error}"))
            self.close()

    def _lost(self) -> None:
        while self._waiting:
            answer = self._waiting.popleft()[2]
            if not answer.done():
                answer.set_exception(LinkFailed("the broker closed the connection"))


class Links:
    """Opens connections to the brokers of one cluster."""

    def __init__(self, config: OverlayConfig) -> None:
        """Raises LinkFailed if the files of TLS are not usable."""
        self._sasl = _account(config) if config.data_security_protocol in SASL else None
        self._tls = _tls_context(config) if config.data_security_protocol in TLS else None

    async def open(self, address: Address) -> Link:
        """A connection that is ready for requests of clients. Raises LinkFailed."""
        return (await self.client(address, asks_versions=self._sasl is not None)).release()

    async def client(self, address: Address, *, asks_versions: bool = True) -> BrokerClient:
        """A connection for requests of this server. Raises LinkFailed."""
        host, port = address
        try:
            async with asyncio.timeout(OPEN_S):
                _, link = await asyncio.get_running_loop().create_connection(
                    Link, host, port, ssl=self._tls, server_hostname=host if self._tls is not None else None
                )
                client = BrokerClient(link)
                try:
                    if asks_versions:
                        await _ask_versions(client)
                    if self._sasl is not None:
                        await _authenticate(client, self._sasl)
                except BaseException:
                    client.close()
                    raise
        except (LinkRefused, ssl.SSLCertVerificationError) as error:
            raise LinkRefused(f"{host}:{port}: {error}") from error
        except (OSError, TimeoutError, LinkFailed) as error:
            reason = str(error) or type(error).__name__
            raise LinkFailed(f"{host}:{port}: {reason}") from error
        return client


def _account(config: OverlayConfig) -> Sasl:
    password = str.__str__(config.data_sasl_password)
    return Sasl(mechanism=config.data_sasl_mechanism, user=config.data_sasl_username, password=password)


def _tls_context(config: OverlayConfig) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=config.data_ssl_truststore_location or None)
        if config.data_ssl_keystore_location:
            password = str.__str__(config.data_ssl_key_password) or None
            context.load_cert_chain(config.data_ssl_keystore_location, password=password)
    except (OSError, ValueError) as error:
        raise LinkFailed(f"data.ssl: {error}") from error
    return context


async def _ask_versions(client: BrokerClient) -> None:
    """Asks for the versions of the broker, and its features. Raises LinkFailed."""
    request = ApiVersionsRequest(client_software_name="coordinator", client_software_version="overlay")
    response: ApiVersionsResponse = await client.ask_in(request, 3)
    if response.error_code:
        raise LinkFailed(f"ApiVersions: {ErrorCode(response.error_code).name}")
    client.api_versions = response
    client.versions = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}


async def _authenticate(client: BrokerClient, sasl: Sasl) -> None:
    """Proves who this server is. Raises LinkFailed."""
    try:
        await sasl.authenticate_async(lambda request: client.ask_in(request, _SASL_VERSIONS[request.NAME]))
    except SecurityFailed as error:
        raise LinkRefused(str(error)) from error


def request_frame(request: Message, version: int, correlation_id: int) -> bytes:
    """The bytes of a request of this server. Raises EncodeError."""
    codec = Codec.of()
    assert request.API_KEY is not None
    head = request.API_KEY.to_bytes(2) + version.to_bytes(2) + correlation_id.to_bytes(4)
    head += len(_CLIENT_ID).to_bytes(2) + _CLIENT_ID
    head += b"\0" if codec.is_flexible(request.NAME, version) else b""
    body = codec.encoder(request.NAME, version)(request)
    return (len(head) + len(body)).to_bytes(4) + head + body


def read_response(name: str, version: int, frame: bytes) -> Any:
    """The message of a whole response. Raises DecodeError."""
    codec = Codec.of(None, ELEMENTS_MAX)
    is_flexible = name != "ApiVersions" and codec.is_flexible(f"{name}Response", version)
    return codec.decoder(f"{name}Response", version)(frame, 9 if is_flexible else 8)[0]
