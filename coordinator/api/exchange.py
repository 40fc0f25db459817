"""One request and the way back to its client.

The dispatcher makes an `Exchange` for every request frame. It holds the request's place in the connection's reply queue:
responses leave in the order of the requests, whenever they are given. An API file sees the typed request and the methods
that answer it; a shard sees a `ShardRequest`; the core sees an opaque `RequestContext`.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from struct import Struct
from time import perf_counter_ns
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast

from coordinator.api.permits import Permits
from coordinator.api.server import Server
from coordinator.api.sliced_work import Pieces, SharedTurn, SlicedWork
from coordinator.api.spliced_array import SplicedArray
from coordinator.protocol import messages
from coordinator.protocol.codec import EncodeError
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import Message
from coordinator.runtime.memory import COUNTED_BYTES
from coordinator.security.access import DESCRIBE_TOPIC, Access
from coordinator.security.authorizer import Authorizer
from coordinator.security.principal import Principal

_log = logging.getLogger(__name__)

Q = TypeVar("Q")
R = TypeVar("R")
_SIZE_BYTES = 4
ENCODED_AT_ONCE = 4
"""Elements of a response's array that are not worth slices."""
MEASURED_FIRST = 1_000
"""A route times its first 1,000 responses in full, and one in sixteen after them."""
_ONE_IN_SIXTEEN = 15
_PLAIN_HEADER = Struct(">ii")
_FLEXIBLE_HEADER = Struct(">iix")


class Parts(NamedTuple):
    """A response too large to be joined into one piece: its parts are written one after the other."""

    size_bytes: int
    parts: list[bytes]


class Route:
    """How one version of one API is decoded, handled and answered on one listener, and how often and how fast it was.

    Two readings of the clock and a histogram cost 0.4 us, a tenth of a heartbeat. So a route that is used a lot is sampled
    (0.06 us per request), and a rare one (joins, admin requests) is timed in full.
    """

    __slots__ = (
        "_interceptor", "_metering", "access", "answered", "authorizer", "decode", "dialect", "duration_ns", "durations",
        "encode", "encode_parts", "errors", "exchange", "handle", "has_error_code", "head", "head_bytes", "is_cacheable",
        "is_flexible", "learn", "name", "own_decode", "own_handle", "own_learn", "refuse",
        "skipped", "supported", "version", "writes",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        version: int,
        handle: Callable[[Server, "Exchange[Any]"], None],
        refuse: Callable[[Any, KafkaError, int], Message],
        decode: Callable[[bytes, int], tuple[Any, int]],
        encode: Callable[[Any], bytes],
        encode_parts: Callable[[Any], list[bytes]],
        *,
        supported: Mapping[int, tuple[int, int]],
        flexible_response: bool,
        dialect: str | None = None,
        is_cacheable: bool = False,
        learn: "LearnTemplate | None" = None,
        writes: bool = True,
        access: tuple[Access, ...] = (),
        authorizer: Authorizer | None = None,
    ) -> None:
        self.name = name
        """The API's name."""
        self.version = version
        self.handle = self.own_handle = handle
        """Called with each request: the API's own function, unless the route is intercepted or metered."""
        self.exchange: type[Exchange[Any]] = Exchange
        self.refuse = refuse
        self.decode = self.own_decode = decode
        self.encode = encode
        self.encode_parts = encode_parts
        header = _FLEXIBLE_HEADER if flexible_response else _PLAIN_HEADER
        self.head = header.pack
        """The bytes before a response's body, from its size field and the correlation id."""
        self.head_bytes = header.size - _SIZE_BYTES
        self.is_flexible = flexible_response
        """Whether the response has compact sizes and tags."""
        self.dialect = dialect
        """That of the listener; None: Kafka's own protocol."""
        self.is_cacheable = is_cacheable
        self.learn = self.own_learn = learn
        """What may make a template of such a request; None if there are no templates of this API."""
        self.writes = writes
        self.access = access
        """What the API may ask the authorizer about."""
        self.authorizer = authorizer
        self.has_error_code = hasattr(getattr(messages, f"{name}Response", None), "error_code")
        """Whether the response has a top-level error code; many APIs have one per topic or group instead."""
        self.supported = supported
        """The first and last version of every API of this listener, by key."""
        self.answered = 0
        self.errors: dict[int, int] = {}
        """Responses by error code other than NONE: the top-level code, or that of a refusal as a whole."""
        self.durations = [0] * 65
        """A histogram of the responses timed: entry i counts those that took from 2^(i-1) to less than 2^i ns."""
        self.duration_ns = 0
        """The sum of these durations."""
        self.skipped = 0
        """A bit mask: an exchange is timed if `answered` has none of these bits set."""
        self._interceptor: Interceptor | None = None
        self._metering: Metering | None = None

    def intercept(self, interceptor: "Interceptor | None") -> None:
        """Lets the interceptor have every request, or the API again."""
        self._interceptor = interceptor
        self._install()

    def meter(self, metering: "Metering | None") -> None:
        """Lets quotas count every request, or none."""
        self._metering = metering
        self._install()

    def _install(self) -> None:
        """No templates are made of requests that are intercepted, or that count towards a quota."""
        interceptor, metering = self._interceptor, self._metering
        self.decode, self.learn = self.own_decode, self.own_learn if interceptor is None else None
        self.handle, self.exchange = self.own_handle, Exchange
        if interceptor is not None:
            self.handle, self.exchange = interceptor.handle, interceptor.exchange
        if metering is not None:
            self.handle, self.exchange = metering.handle(self.handle), metering.exchange(self.exchange)
            self.decode = metering.decode(self.own_decode)
            self.learn = metering.learn(self.learn) if self.learn is not None else None

    def timed(self, duration_ns: int) -> None:
        """Counts how long a response took."""
        self.durations[duration_ns.bit_length()] += 1
        self.duration_ns += duration_ns
        if self.answered > MEASURED_FIRST:
            self.skipped = _ONE_IN_SIXTEEN


class CachedRequest(NamedTuple):
    """The last cacheable request of a connection, decoded."""

    head: bytes
    """The frame before the correlation id."""
    rest: bytes
    """The frame behind the correlation id."""
    route: Route
    client_id: str | None
    request: Any
    permitted: int | None = None
    """The version of the ACLs that permit it (`Api.is_guarded_whole`)."""


class RequestTemplate(Protocol):
    """Recognizes frames of one connection that differ from an earlier one only in some integers (plugged in: fastpath/)."""

    @property
    def size_bytes(self) -> int:
        """Only frames of this size can match."""
        ...

    @property
    def route(self) -> Route: ...
    @property
    def client_id(self) -> str | None: ...

    def match(self, frame: bytes) -> Any:
        """The request in a frame, or None if the frame does not match. `request.values[0]` is the correlation id."""
        ...

    def handle(self, server: Server, exchange: "Exchange[Any]") -> None:
        """Takes the place of the API's `handle` for a request that `match` has returned."""
        ...


class NoTemplate:
    """Matches no frame, because no frame has its size."""

    __slots__ = ("client_id", "route")
    size_bytes = -1
    client_id: str | None
    route: Route

    def match(self, frame: bytes) -> None: ...

    def handle(self, server: Server, exchange: "Exchange[Any]") -> None: ...


NO_TEMPLATE = NoTemplate()
"""For a connection from whose requests nothing has been learned."""


class SaslSession(Protocol):
    """The authentication of a connection (network/sasl_gate.py)."""

    def handshake(self, exchange: "Exchange[Any]") -> None: ...
    def authenticate(self, exchange: "Exchange[Any]") -> None: ...


class ReplyQueue(Protocol):
    """The client's connection (network/connection.py)."""

    cached_request: CachedRequest
    template: RequestTemplate
    template_misses: int
    """Requests that `learn` has seen since it last made a template, or tried to."""
    advertised: tuple[str, int]
    client_host: str
    principal: Principal
    sasl: SaslSession | None
    """None: the connection need not or must not authenticate now."""

    @property
    def turn(self) -> SharedTurn: ...
    def expect(self, exchange: "Exchange[Any]") -> None: ...
    def hold(self, exchange: "Exchange[Any]") -> "Exchange[Any] | None": ...
    def count(self, response_bytes: int) -> None: ...
    def ready(self) -> None: ...
    def refuse(self, reason: str) -> None: ...
    def warn(self, reason: str) -> None: ...
    def authenticated(self, principal: Principal, dispatch: Callable[[bytes, "ReplyQueue"], None]) -> None: ...
    def cut(self, behind: "Exchange[Any] | None" = None) -> None: ...


class Interceptor(Protocol):
    """Gets the requests of some APIs before they do: fault rules and recordings (rules/)."""

    @property
    def exchange(self) -> type["Exchange[Any]"]:
        """The class of the exchanges of intercepted routes."""
        ...

    def handle(self, server: Server, exchange: "Exchange[Any]") -> None:
        """Takes the place of the API's `handle`, which is `exchange.route.own_handle`."""
        ...


class Metering(Protocol):
    """Counts the requests of clients that have quotas (metering.py)."""

    def concerns(self, api: str) -> bool: ...
    def handle(
        self, handle: Callable[[Server, "Exchange[Any]"], None]
    ) -> Callable[[Server, "Exchange[Any]"], None]: ...
    def decode(self, decode: Callable[[bytes, int], tuple[Any, int]]) -> Callable[[bytes, int], tuple[Any, int]]: ...
    def exchange(self, base: type["Exchange[Any]"]) -> type["Exchange[Any]"]: ...
    def learn(self, learn: "LearnTemplate") -> "LearnTemplate": ...


LearnTemplate = Callable[[ReplyQueue, bytes, int, Route, str | None], None]
"""`learn(queue, frame, position, route, client_id)` may set `queue.template`. The request's body begins at `position`."""


class Exchange(Generic[R]):
    """A decoded request; `reply` answers it, once. The hot path makes one per request, so it holds only what differs."""

    __slots__ = (
        "_began_ns",
        "api_version",
        "client_id",
        "correlation_id",
        "fresh_id",
        "meter",
        "on_close",
        "payload",
        "queue",
        "request",
        "route",
    )

    meter: Any
    """Set by quotas, for the requests of clients that have a limit (metering.py)."""

    def __init__(self, route: Route, queue: ReplyQueue, request: R, correlation_id: int, client_id: str | None) -> None:
        self.route = route
        self.api_version = route.version
        self.request = request
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.payload: bytes | Parts | None = None
        """The encoded response, once it is given."""
        self.on_close: Callable[[], None] | None = None
        """Called if the connection closes before the response is given (a long poll cancels its wait)."""
        self.fresh_id = ""
        self.queue = queue
        self._began_ns = 0 if route.answered & route.skipped else perf_counter_ns()

    @property
    def supported(self) -> Mapping[int, tuple[int, int]]:
        """The first and last version of every API of the client's listener, by key."""
        return self.route.supported

    @property
    def writes(self) -> bool:
        return self.route.writes

    @property
    def client_host(self) -> str:
        return self.queue.client_host

    @property
    def principal(self) -> Principal:
        """Who the client is."""
        return self.queue.principal

    @property
    def permits(self) -> Permits:
        """What the client may do."""
        route, queue = self.route, self.queue
        return Permits(route.authorizer, queue.principal, queue.client_host[1:], route.access, route.name)

    @property
    def may_describe(self) -> Callable[[str], bool]:
        """Whether the client may describe the topic of a name."""
        return partial(self.permits.allows, DESCRIBE_TOPIC, quiet=True)

    @property
    def sasl(self) -> SaslSession | None:
        """The authentication in progress."""
        return self.queue.sasl

    @property
    def dialect(self) -> str | None:
        return self.route.dialect

    @property
    def advertised(self) -> tuple[str, int]:
        """Host and port by which this client reaches the server."""
        return self.queue.advertised

    @property
    def is_over(self) -> bool:
        """Whether the request has its response, or its connection is gone."""
        return self.payload is not None

    def run_in_slices(self, pieces: Pieces, *, even_if_lost: bool = False) -> None:
        """Does the work of this request, which replies in the end, in this turn of the loop or in several.

        `even_if_lost`: it is finished even if the connection is gone.
        """
        SlicedWork(self, pieces, self.queue.turn, even_if_lost=even_if_lost).begin()

    def with_request(self, request: Q) -> "Exchange[Q]":
        """Puts another request in place, for the operation that follows; the API's `refuse` must accept it too."""
        exchange = cast(Exchange[Q], self)
        exchange.request = request
        return exchange

    def encode(self, message: Any) -> bytes:
        """Encodes the whole response frame, and counts it. `message` may be an encoded body (runtime/result.py).

        Always returns: a response that cannot be encoded (a string that the server composed is too long) becomes
        UNKNOWN_SERVER_ERROR, and if that cannot be encoded either, the connection closes.
        """
        route = self.route
        if type(message) is bytes:
            route.answered += 1
            return route.head(len(message) + route.head_bytes, self.correlation_id) + message
        try:
            body = route.encode(message)
        except EncodeError as error:
            return self._encode_refusal(error)
        size = len(body)
        route.answered += 1
        if size > COUNTED_BYTES or (route.has_error_code and message.error_code):
            self._count(message, size)
        return route.head(size + route.head_bytes, self.correlation_id) + body

    def _encode_refusal(self, error: EncodeError) -> bytes:
        """The frame that takes the place of a response that cannot be encoded; none if the connection must close."""
        route = self.route
        reason = f"the response cannot be encoded: {error}"
        _log.error("event=response_not_encoded api=%s version=%d reason=%s", route.name, route.version, error)
        message = self.refusal(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
        try:
            body = route.encode(message)
        except EncodeError:
            self.close(reason)
            return b""
        route.answered += 1
        self._count(message, len(body))
        return route.head(len(body) + route.head_bytes, self.correlation_id) + body

    def _count(self, message: Any, size: int) -> None:
        """Counts a response that carries an error or is large."""
        route = self.route
        if route.has_error_code and message.error_code:
            error = message.error_code
            route.errors[error] = route.errors.get(error, 0) + 1
        if size > COUNTED_BYTES:
            self.queue.count(size)

    def send(self, payload: bytes | Parts) -> None:
        """Gives the encoded response; it leaves when every earlier request of the connection has been answered."""
        if self.payload is None:
            self.payload = payload
            if self._began_ns:
                self.route.timed(perf_counter_ns() - self._began_ns)
            self.queue.ready()

    def wait(self) -> None:
        """Parks the request; until it is answered the requests behind it on its connection are not handled, as in Kafka."""
        if self.payload is None:  # else the connection may be muted
            self.queue.hold(self)

    def abandon(self) -> None:
        """Drops the exchange, because its connection is gone."""
        if self.payload is None:
            self.payload = b""
            if self.on_close is not None:
                self.on_close()

    def reply(self, message: Message) -> None:
        self.send(self.encode(message))

    def reply_in_slices(self, message: Message) -> None:
        """Answers with a message that ends with an array, which may be large and is then encoded in slices.

        There is nothing but tags behind the array: it is the last field of the message.
        """
        name: str = vars(type(message))["__slots__"][-1]
        if len(getattr(message, name)) > ENCODED_AT_ONCE:
            self.run_in_slices(self._encode_in_pieces(message, name))
        else:
            self.reply(message)

    def _encode_in_pieces(self, message: Message, name: str) -> Pieces:
        route = self.route
        try:
            parts = yield from SplicedArray(route.encode, route.is_flexible, int(route.is_flexible)).in_pieces(
                message, name
            )
        except EncodeError as error:
            self.send(self._encode_refusal(error))
            return
        self.reply_encoded(message, parts)

    def reply_in_parts(self, message: Message) -> None:
        """Answers with a message that may hold large blobs; a large response is written without copying them."""
        route = self.route
        try:
            parts = route.encode_parts(message)
        except EncodeError as error:
            self.send(self._encode_refusal(error))
            return
        self.reply_encoded(message, parts)

    def reply_encoded(self, message: Message, parts: list[bytes]) -> None:
        """Answers with an encoded body in parts. `message`: what the response says beside large arrays, to count it."""
        route = self.route
        size = sum(map(len, parts))
        route.answered += 1
        self._count(message, size)
        parts = [route.head(size + route.head_bytes, self.correlation_id), *parts]
        self.send(b"".join(parts) if size <= COUNTED_BYTES else Parts(size, parts))

    @property
    def admits(self) -> Callable[[Message], bool] | None:
        """Whether a Fetch may have this response, or must be empty; None: it may. Quotas decide (metering.py)."""
        return None

    def count_mutation(self, partitions: int) -> None:
        """Counts partitions that the request creates or deletes. Raises THROTTLING_QUOTA_EXCEEDED."""

    def allows_mutation(self, partitions: int) -> bool:  # noqa: ARG002 - quotas count them
        """Counts partitions that are created on the way, unless a quota does not allow it. The client need not wait."""
        return True

    def authenticated(self, principal: Principal, dispatch: Callable[[bytes, ReplyQueue], None]) -> None:
        """Notes who the client is; `dispatch` handles its next requests."""
        self.queue.authenticated(principal, dispatch)

    def no_reply(self) -> None:
        """Completes a request that expects no response (Produce with acks=0)."""
        self.send(b"")

    def warn(self, reason: str) -> None:
        """Logs why the client is refused, once per client and reason."""
        self.queue.warn(reason)

    def close(self, reason: str) -> None:
        """Closes the connection, which is the only way to refuse a request that expects no response."""
        self.queue.refuse(reason)

    def refusal(self, error: KafkaError) -> Message:
        """Builds the API's response for this error, in the shape of the request's version."""
        message = self.route.refuse(self.request, error, self.api_version)
        if not self.route.has_error_code:  # else `encode` counts it
            errors = self.route.errors
            errors[error.code] = errors.get(error.code, 0) + 1
        return message

    def refuse(self, code: ErrorCode) -> None:
        self.reply(self.refusal(KafkaError(code)))

    def fail(self, error: Exception) -> None:
        """Answers a request whose handler has raised. A bug must not take the other connections down."""
        if isinstance(error, KafkaError):
            self.reply(self.refusal(error))
            return
        route = self.route
        _log.error("event=request_failed api=%s version=%d", route.name, route.version, exc_info=error)
        self.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
