"""One request and the way back to its asker.

An exchange is made when a frame is decoded and holds its place in the connection's reply queue: answers leave in the order
of the requests, whenever they are given. To the core it is the opaque `Call`; to a shard it is who waits for a reply.
"""

from collections.abc import Callable, Mapping
from struct import Struct
from time import perf_counter_ns
from typing import Any, NamedTuple, Protocol

from coordinator.api.declaration import Api
from coordinator.protocol import messages
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.form import ReadForm
from coordinator.protocol.messages import Message
from coordinator.runtime.memory import COUNTED_BYTES

_SIZE_BYTES = 4
MEASURED_FIRST = 1_000
"""Answers of a route that are all timed; after them one in sixteen is."""
_ONE_IN_SIXTEEN = 15
_PLAIN_HEADER = Struct(">ii")
_FLEXIBLE_HEADER = Struct(">iix")


class Parts(NamedTuple):
    """An answer too large to be copied into one piece: it is written part after part."""

    size_bytes: int
    parts: list[bytes]


class Route:
    """How one version of one API is decoded, handled and answered on one listener.

    Two readings of the clock and a histogram cost 0.4 us, a tenth of a heartbeat; so routes that are used a lot are
    sampled (0.06 us per request), and rare ones (joins, admin) are timed in full.
    """

    __slots__ = (
        "answered", "api", "decode", "duration_ns", "durations", "encode", "encode_parts", "errors", "handle",
        "has_error_code", "head", "head_bytes", "repeats", "skipped", "spoken", "version",
    )  # fmt: skip

    def __init__(
        self,
        api: Api,
        version: int,
        decode: Callable[[bytes, int], tuple[Any, int]],
        encode: Callable[[Any], bytes],
        encode_parts: Callable[[Any], list[bytes]],
        *,
        flexible_answer: bool,
        spoken: dict[int, Api],
    ) -> None:
        self.api = api
        self.version = version
        self.handle = api.handle
        self.decode = decode
        self.encode = encode
        self.encode_parts = encode_parts
        header = _FLEXIBLE_HEADER if flexible_answer else _PLAIN_HEADER
        self.head = header.pack
        """What stands before an answer's body, by its size field and the correlation id."""
        self.head_bytes = header.size - _SIZE_BYTES
        self.repeats = api.repeats
        self.has_error_code = hasattr(getattr(messages, f"{api.name}Response"), "error_code")
        """Whether the answer as a whole has one; many APIs have one per topic or group instead."""
        self.spoken = spoken
        """All APIs of this listener by key, each with the versions of its dialect."""
        self.answered = 0
        self.errors: dict[int, int] = {}
        """Answers by error code other than NONE: the top-level one, or that of a refusal as a whole."""
        self.durations = [0] * 65
        """Of the answers timed: how many took at least 2^(i-1) and less than 2^i ns from request to answer."""
        self.duration_ns = 0
        """Their sum."""
        self.skipped = 0
        """An exchange is timed if `answered` has none of these bits."""

    def timed(self, duration_ns: int) -> None:
        """Counts how long an answer took."""
        self.durations[duration_ns.bit_length()] += 1
        self.duration_ns += duration_ns
        if self.answered > MEASURED_FIRST:
            self.skipped = _ONE_IN_SIXTEEN


class Repeated(NamedTuple):
    """The last request of a connection of those that clients repeat: `head` and `rest` are its frame but for the correlation
    id, the others what they came to."""

    head: bytes
    rest: bytes
    route: Route
    client_id: str | None
    request: Any


class RequestForm(ReadForm):
    """What a connection's requests have in common that come with other numbers, and what they are."""

    __slots__ = ("client_id", "content", "route", "served")

    def __init__(
        self, sample: bytes, other: bytes, codes: Mapping[int, str], route: Route, client_id: str | None, content: Any
    ) -> None:
        super().__init__(sample, other, codes)
        self.route = route
        self.client_id = client_id
        self.content = content
        self.served = 0
        """How many requests were like it."""


class ReplyQueue(Protocol):
    """The asker's connection (network/connection.py)."""

    repeated: Repeated
    form: RequestForm
    unlike: int
    """Requests of which there could be a form, and that were not like the one there is."""
    advertised: tuple[str, int]
    client_host: str

    def expect(self, exchange: "Exchange") -> None: ...
    def hold(self, exchange: "Exchange") -> None: ...
    def count(self, answer_bytes: int) -> None: ...
    def ready(self) -> None: ...
    def refuse(self, reason: str) -> None: ...


class Exchange:
    """A decoded request; `reply` answers it, once. The hot path makes one per request, so it holds only what differs."""

    __slots__ = (
        "_began_ns",
        "_queue",
        "client_id",
        "correlation_id",
        "fresh_id",
        "on_close",
        "payload",
        "request",
        "route",
    )

    def __init__(
        self, route: Route, queue: ReplyQueue, request: Any, correlation_id: int, client_id: str | None
    ) -> None:
        self.route = route
        self.request = request
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.payload: bytes | Parts | None = None
        """The answer, once it is given."""
        self.on_close: Callable[[], None] | None = None
        """Called when the connection closes before the answer (a long poll drops its waiter)."""
        self.fresh_id = ""
        self._queue = queue
        self._began_ns = 0 if route.answered & route.skipped else perf_counter_ns()

    @property
    def api_version(self) -> int:
        return self.route.version

    @property
    def spoken(self) -> dict[int, Api]:
        """The APIs of the asker's listener, by key."""
        return self.route.spoken

    @property
    def writes(self) -> bool:
        return self.route.api.writes

    @property
    def client_host(self) -> str:
        return self._queue.client_host

    @property
    def advertised(self) -> tuple[str, int]:
        """Host and port by which this asker reaches the server."""
        return self._queue.advertised

    def encode(self, message: Any) -> bytes:
        """The whole answer frame; also counts it. `message`: or its bytes (runtime/result.py)."""
        route = self.route
        if type(message) is bytes:
            route.answered += 1
            return route.head(len(message) + route.head_bytes, self.correlation_id) + message
        body = route.encode(message)
        size = len(body)
        route.answered += 1
        if size > COUNTED_BYTES or (route.has_error_code and message.error_code):
            self._count(message, size)
        return route.head(size + route.head_bytes, self.correlation_id) + body

    def _count(self, message: Any, size: int) -> None:
        """An answer that has an error, or is large."""
        route = self.route
        if route.has_error_code and message.error_code:
            error = message.error_code
            route.errors[error] = route.errors.get(error, 0) + 1
        if size > COUNTED_BYTES:
            self._queue.count(size)

    def send(self, payload: bytes | Parts) -> None:
        """Gives the encoded answer; it leaves when every earlier request of the connection has been answered."""
        if self.payload is None:
            self.payload = payload
            if self._began_ns:
                self.route.timed(perf_counter_ns() - self._began_ns)
            self._queue.ready()

    def wait(self) -> None:
        """The group answers later; until then nothing behind this request on its connection is looked at, as in Kafka."""
        self._queue.hold(self)

    def abandon(self) -> None:
        """The connection is gone: an answer would have no way to go."""
        if self.payload is None:
            self.payload = b""
            if self.on_close is not None:
                self.on_close()

    def reply(self, message: Message) -> None:
        self.send(self.encode(message))

    def reply_in_parts(self, message: Message) -> None:
        """Answers with a message that may hold a lot: if it does, that is written from where it lies."""
        route = self.route
        parts = route.encode_parts(message)
        size = sum(map(len, parts))
        route.answered += 1
        self._count(message, size)
        parts.insert(0, route.head(size + route.head_bytes, self.correlation_id))
        self.send(b"".join(parts) if size <= COUNTED_BYTES else Parts(size, parts))

    def no_reply(self) -> None:
        """The asker expects no answer (Produce with acks=0)."""
        self.send(b"")

    def close(self, reason: str) -> None:
        """Closes the connection instead of answering: all that a request without an answer can be told."""
        self._queue.refuse(reason)

    def refusal(self, error: KafkaError) -> Message:
        """The API's own answer for this error, in the shape of the request's version."""
        message = self.route.api.refuse(self.request, error, self.api_version)
        if not self.route.has_error_code:  # else `encode` counts it
            errors = self.route.errors
            errors[error.code] = errors.get(error.code, 0) + 1
        return message

    def refuse(self, code: ErrorCode) -> None:
        self.reply(self.refusal(KafkaError(code)))
