"""The client's side of Kafka's wire protocol without I/O: requests become bytes, and bytes become responses.

A server answers the requests of a connection in their order. `Splitter` finds the responses in what a connection receives, and
`Conversation` knows which request each of them answers. asynchronous.py and blocking.py move the bytes.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from coordinator.protocol.codec import Codec, DecodeError
from coordinator.protocol.messages import Message

T = TypeVar("T")

CORRELATION_ID_BYTES = 4
"""What every response has, but for bare SASL tokens (SaslHandshake v0)."""
RESPONSE_BYTES_MAX = 256 << 20
"""The largest response that is read unless the caller says otherwise."""
ELEMENTS_MAX = 1 << 30
"""The size of a response bounds its elements; lists of groups or topics may be long."""

Response = list[bytes]
"""A response in the pieces in which it came, with its size field."""


class LinkFailed(Exception):
    """A server cannot be reached, or did not answer. The text is one line."""


class LinkRefused(LinkFailed):
    """The server refuses this client's credentials, or its certificate is not trusted: another attempt is useless."""


class NotAResponse(Exception):
    """What came is not a response to what was asked; the connection has no use any more. The text says what the server did."""


class OutOfOrder(NotAResponse):
    """A response has another correlation id than the oldest request without one."""


class Splitter:
    """Splits what a connection receives into responses. It does not join the pieces of a large one."""

    def __init__(self, bytes_max: int = RESPONSE_BYTES_MAX, bytes_min: int = CORRELATION_ID_BYTES) -> None:
        self.on_large: Callable[[int], None] = lambda _size: None
        """Called with the size of a response when it begins to arrive, if it is more than `large_bytes`."""
        self.large_bytes = bytes_max
        self._bytes_max = bytes_max
        self._bytes_min = bytes_min
        self._head = b""
        """A size field of which bytes are missing."""
        self._parts: Response = []
        self._left = 0
        """The bytes that are missing of the response that began to arrive."""

    def split(self, data: bytes) -> Iterator[Response]:
        """Yields the responses that are complete with these bytes. Raises NotAResponse for an impossible size."""
        if self._head:
            data, self._head = self._head + data, b""
        position, length = 0, len(data)
        while position < length:
            if not self._left:
                if length - position < 4:
                    self._head = data[position:]
                    return
                self._begin(int.from_bytes(data[position : position + 4], signed=True))
            end = position + self._left
            self._parts.append(data[position:end])
            if end > length:
                self._left = end - length
                return
            response, self._parts, self._left, position = self._parts, [], 0, end
            yield response

    def _begin(self, size: int) -> None:
        if not self._bytes_min <= size <= self._bytes_max:
            raise NotAResponse(f"does not speak Kafka's protocol, or its response of {size} bytes is too large")
        self._left = 4 + size
        if self._left > self.large_bytes:
            self.on_large(self._left)


class Answer(NamedTuple, Generic[T]):
    """A response, and who waits for it."""

    waiter: T
    message: Any
    extra_bytes: int
    """Bytes behind the message. Kafka's clients ignore them."""


class _Unanswered(NamedTuple, Generic[T]):
    correlation_id: int
    api: str
    version: int
    waiter: T


class Conversation(Generic[T]):
    """The requests of one connection that have no response yet. `T`: who waits for a response, such as a future."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id.encode()
        self._sent = 0
        self._unanswered: deque[_Unanswered[T]] = deque()

    def request(self, request: Message, version: int, waiter: T) -> bytes:
        """The frame of a request. Raises EncodeError, if the message has no form in that version."""
        frame = request_frame(request, version, self._sent + 1, self._client_id)
        self._sent += 1
        self._unanswered.append(_Unanswered(self._sent, request.NAME.removesuffix("Request"), version, waiter))
        return frame

    def response(self, frame: bytes) -> Answer[T]:
        """What a whole response, with its size field, says to the oldest request. Raises NotAResponse."""
        correlation_id = int.from_bytes(frame[4:8], signed=True)
        oldest = self._unanswered[0] if self._unanswered else None
        if oldest is None or oldest.correlation_id != correlation_id:
            expected = oldest.correlation_id if oldest is not None else None
            raise OutOfOrder(f"sent response {correlation_id}, {expected} was expected")
        try:
            message, end = read_response(oldest.api, oldest.version, frame)
        except DecodeError as error:
            raise NotAResponse(f"sent a response that is not one to {oldest.api}: {error}") from error
        self._unanswered.popleft()
        return Answer(oldest.waiter, message, len(frame) - end)

    def end(self) -> list[T]:
        """Who waits for a response that will not come, because the connection is lost."""
        waiters = [each.waiter for each in self._unanswered]
        self._unanswered.clear()
        return waiters


def request_frame(request: Message, version: int, correlation_id: int, client_id: bytes) -> bytes:
    """The bytes of a request with its header and size field. Raises EncodeError."""
    codec = Codec.of()
    assert request.API_KEY is not None
    head = request.API_KEY.to_bytes(2) + version.to_bytes(2) + correlation_id.to_bytes(4)
    head += len(client_id).to_bytes(2) + client_id
    if codec.is_flexible(request.NAME, version):
        head += b"\0"  # no tagged fields in the header
    body = codec.encoder(request.NAME, version)(request)
    return (len(head) + len(body)).to_bytes(4) + head + body


def read_response(api: str, version: int, frame: bytes) -> tuple[Any, int]:
    """The message of a whole response, and where it ends. Raises DecodeError."""
    codec = Codec.of(None, ELEMENTS_MAX)
    # The header of an ApiVersions response never has tagged fields: a client that reads it knows no versions yet (KIP-511).
    has_tags = api != "ApiVersions" and codec.is_flexible(f"{api}Response", version)
    return codec.decoder(f"{api}Response", version)(frame, 9 if has_tags else 8)


def common_version(request: type[Message], versions: dict[int, tuple[int, int]], version_max: int | None = None) -> int:
    """The newest version of an API that both sides support; -1 if there is none. `versions`: the server's, by API key."""
    low, high = versions.get(request.API_KEY or 0, (0, -1))
    newest = min(high, request.VERSIONS[1] if version_max is None else version_max)
    return newest if newest >= max(low, request.VERSIONS[0]) else -1
