"""One connection to a broker: requests travel one behind the other without waiting, and a broker answers them in order.

A connection that fails is closed, and everything that waits on it fails with it.
"""

import asyncio
import ssl
from collections import deque
from typing import Any, NamedTuple

from coordinator.engine.engine import EngineRefused, EngineUnavailable
from coordinator.engine.kafka.address import ClusterAddress
from coordinator.login.sasl import SecurityFailed
from coordinator.protocol.codec import Codec, DecodeError, Decoder
from coordinator.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    Message,
)

VERSIONS = {
    "ApiVersions": 3,
    "CreateTopics": 4,
    "DeleteRecords": 1,
    "DescribeConfigs": 2,
    "Fetch": 11,
    "FindCoordinator": 2,
    "InitProducerId": 1,
    "ListOffsets": 5,
    "Metadata": 8,
    "Produce": 8,
    "SaslAuthenticate": 1,
    "SaslHandshake": 1,
}
"""Versions that Apache Kafka has had since 2.4 (2019), and other brokers have too."""
APACHE_FEATURE = "metadata.version"
"""A finalized feature of Apache Kafka's brokers with KRaft, and of what descends from them."""
CLIENT_ID = b"coordinator-engine"
RESPONSE_BYTES_MAX = 256 << 20


class _Waiting(NamedTuple):
    """A request that was sent."""

    answer: asyncio.Future[Any]
    decode: Decoder
    begin: int
    """Where the body of the response begins."""


class BrokerLink:
    """A connection that is open. `connect` makes one."""

    def __init__(self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.name = name
        self.is_apache = False
        """Whether the broker is Apache Kafka's."""
        self._reader = reader
        self._writer = writer
        self._waiting: deque[_Waiting] = deque()
        self._correlation_id = 0
        self._is_closed = False
        self._reading = asyncio.get_running_loop().create_task(self._read())

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def send(self, request: Message) -> asyncio.Future[Any]:
        """Sends a request; its response comes with the future. Raises: EngineUnavailable, also by the future."""
        if self._is_closed:
            raise EngineUnavailable(f"{self.name}: the connection is closed")
        name = request.NAME.removesuffix("Request")
        version = VERSIONS[name]
        codec = Codec.of()
        self._correlation_id += 1
        head = b"%b%b%b%b%b" % (
            request.API_KEY.to_bytes(2),  # type: ignore[union-attr]  # a request has one
            version.to_bytes(2),
            self._correlation_id.to_bytes(4),
            len(CLIENT_ID).to_bytes(2),
            CLIENT_ID,
        )
        head += b"\0" if codec.is_flexible(request.NAME, version) else b""
        body = codec.encoder(request.NAME, version)(request)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        # The responses of all versions here have a header of four bytes.
        self._waiting.append(_Waiting(answer, codec.decoder(f"{name}Response", version), 4))
        self._writer.writelines(((len(head) + len(body)).to_bytes(4), head, body))
        return answer

    async def _read(self) -> None:
        text = "the connection was lost"
        try:
            while True:
                size = int.from_bytes(await self._reader.readexactly(4))
                if not 4 <= size <= RESPONSE_BYTES_MAX:
                    text = "the other side does not speak Kafka's protocol"
                    return
                frame = await self._reader.readexactly(size)
                waiting = self._waiting.popleft()
                message, _ = waiting.decode(frame, waiting.begin)
                if not waiting.answer.done():
                    waiting.answer.set_result(message)
        except (OSError, EOFError, DecodeError, IndexError) as error:
            text = str(error) or text
        finally:
            self.close(text)

    def close(self, text: str = "the connection was closed") -> None:
        """Closes it; what waits fails."""
        if self._is_closed:
            return
        self._is_closed = True
        self._reading.cancel()
        self._writer.transport.abort()
        for waiting in self._waiting:
            if not waiting.answer.done():
                waiting.answer.set_exception(EngineUnavailable(f"{self.name}: {text}"))
                waiting.answer.exception()  # whoever asked may be gone
        self._waiting.clear()


async def connect(host: str, port: int, address: ClusterAddress, limit_s: float) -> BrokerLink:
    """A connection whose versions are checked and whose user is known to the broker.

    Raises: EngineRefused: the broker does not accept the user, or lacks a version; EngineUnavailable.
    """
    name = f"{host}:{port}"
    link: BrokerLink | None = None
    try:
        async with asyncio.timeout(limit_s):
            streams = await asyncio.open_connection(host, port, ssl=address.tls, limit=1 << 20)
            link = BrokerLink(name, *streams)
            link.is_apache = _check(name, await link.send(ApiVersionsRequest("coordinator", "1")))
            await _authenticate(link, address)
    except ssl.SSLCertVerificationError as error:
        raise EngineRefused(f"{name}: the certificate is not trusted: {error.verify_message}") from None
    except (OSError, TimeoutError) as error:
        _close(link)
        raise EngineUnavailable(f"{name}: {str(error) or 'no answer in time'}") from None
    except BaseException:
        _close(link)
        raise
    return link


def _close(link: BrokerLink | None) -> None:
    if link is not None:
        link.close()


def _check(name: str, answer: ApiVersionsResponse) -> bool:
    """Returns whether the broker is Apache Kafka's. Raises: EngineRefused."""
    ranges = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    for api, version in VERSIONS.items():
        low, high = ranges.get(_api_key(api), (0, -1))
        is_for_sasl = api.startswith("Sasl")
        if not low <= version <= high and not is_for_sasl:
            raise EngineRefused(
                f"{name} does not know {api} in version {version}; a broker of Kafka 2.4 or newer is needed"
            )
    return any(feature.name == APACHE_FEATURE for feature in answer.finalized_features)


def _api_key(api: str) -> int:
    key = Codec.of().definition(f"{api}Request").api_key
    assert key is not None
    return key


async def _authenticate(link: BrokerLink, address: ClusterAddress) -> None:
    if address.sasl is not None:
        try:
            await address.sasl.authenticate_async(link.send)
        except SecurityFailed as error:
            raise EngineRefused(f"{link.name}: {error}") from None
