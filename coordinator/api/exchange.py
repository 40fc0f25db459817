"""One request and the way back to its client.

The dispatcher makes an `Exchange` for every request frame. It holds the request's place in the connection's reply queue:
responses leave in the order of the requests, whenever they are given. An API file sees the typed request and the methods
that answer it; a shard sees a `ShardRequest`; the core sees an opaque `RequestContext`.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar, cast

from coordinator.api.permits import Permits
from coordinator.api.sliced_work import Pieces, SharedTurn, SlicedWork
from coordinator.protocol.codec import EncodeError
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import Message
from coordinator.protocol.releases import Behaviours
from coordinator.protocol.spliced_array import SplicedArray
from coordinator.runtime.encoded_replies import EncodedReplies
from coordinator.runtime.memory import COUNTED_BYTES
from coordinator.runtime.result import Link
from coordinator.security.access import DESCRIBE_TOPIC
from coordinator.security.principal import Principal

if TYPE_CHECKING:
    from coordinator.api.recognition import CachedRequest, RequestTemplate
    from coordinator.api.route import Route

_log = logging.getLogger(__name__)

Q = TypeVar("Q")
R = TypeVar("R")


class Parts(NamedTuple):
    """A response too large to be joined into one piece: its parts are written one after the other."""

    size_bytes: int
    parts: list[bytes]


class SaslSession(Protocol):
    """The authentication of a connection (network/sasl_gate.py)."""

    def handshake(self, exchange: "Exchange[Any]") -> None: ...
    def authenticate(self, exchange: "Exchange[Any]") -> None: ...


class ReplyQueue(Protocol):
    """The client's connection (network/connection.py)."""

    cached_request: "CachedRequest"
    template: "RequestTemplate"
    template_misses: int
    """Requests that `learn` has seen since it last made a template, or tried to."""
    frame_bytes: int
    """The size of the last frame that was decoded."""
    exchanges: "deque[Exchange[Any]]"
    """The requests in progress: their responses leave in this order."""
    client_id: str | None
    """Of the last request."""
    on_lost: Callable[[], None] | None
    """Called when the connection is gone."""
    advertised: tuple[str, int]
    client_host: str
    link: Link
    principal: Principal
    sasl: SaslSession | None
    """None: the connection need not or must not authenticate now."""

    @property
    def turn(self) -> SharedTurn: ...
    def hold(self, exchange: "Exchange[Any]") -> "Exchange[Any] | None": ...
    def count(self, response_bytes: int) -> None: ...
    def ready(self) -> None: ...
    def refuse(self, reason: str) -> None: ...
    def warn(self, reason: str) -> None: ...
    def authenticated(self, principal: Principal, dispatch: Callable[[bytes, "ReplyQueue"], None]) -> None: ...
    def cut(self, behind: "Exchange[Any] | None" = None) -> None: ...


class Exchange(EncodedReplies, Generic[R]):
    """A decoded request; `reply` answers it, once. The hot path makes one per request, so it holds only what differs."""

    __slots__ = (
        "_began_ns", "api_version", "client_id", "correlation_id", "fresh_id", "on_close", "payload", "queue",
        "request", "route",
    )  # fmt: skip

    route: "Route"
    queue: ReplyQueue

    def __init__(
        self, route: "Route", queue: ReplyQueue, request: R, correlation_id: int, client_id: str | None
    ) -> None:
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
        return self.route.api.writes

    @property
    def client_host(self) -> str:
        return self.queue.client_host

    @property
    def link(self) -> Link:
        """The client's connection, as evidence."""
        return self.queue.link

    @property
    def principal(self) -> Principal:
        """Who the client is."""
        return self.queue.principal

    @property
    def permits(self) -> Permits:
        """What the client may do."""
        route, queue = self.route, self.queue
        return Permits(route.authorizer, queue.principal, queue.client_host[1:], route.api.access, route.name)

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
    def behaviours(self) -> Behaviours:
        return self.route.api.behaviours

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

    def send(self, payload: bytes | Parts) -> None:
        """Gives the encoded response; it leaves when every earlier request of the connection has been answered."""
        if self.payload is None:
            self.payload = payload
            if self._began_ns:
                self.route.timed(perf_counter_ns() - self._began_ns)
            self.queue.ready()
            if self.on_close is not None and self.payload is not None:  # else a rule holds the answer
                # A long poll refers to its exchange: this cycle would leave large requests to the garbage collector.
                self.on_close = None

    def wait(self) -> None:
        """Parks the request; until it is answered the requests behind it on its connection are not handled, as in Kafka."""
        if self.payload is None:  # else the connection may be muted
            self.queue.hold(self)

    def abandon(self) -> None:
        """Drops the exchange, because its connection is gone."""
        if self.payload is None:
            self.payload = b""
            on_close, self.on_close = self.on_close, None
            if on_close is not None:
                on_close()

    def reply(self, message: Message) -> None:
        self.send(self.encode(message))

    def reply_in_slices(self, message: Message) -> None:
        """Answers with a message that ends with an array, which may be large and is then encoded in slices.

        There is nothing but tags behind the array: it is the last field of the message.
        """
        self.run_in_slices(self._encode_in_pieces(message))

    def _encode_in_pieces(self, message: Message) -> Pieces:
        yield  # to make the message may have taken long
        route = self.route
        name: str = vars(type(message))["__slots__"][-1]
        if len(getattr(message, name)) <= 1:
            self.reply(message)
            return
        try:
            parts = yield from SplicedArray(route.encode, route.is_flexible, int(route.is_flexible)).in_pieces(
                message, name
            )
        except EncodeError as error:
            self.send(self.encode_refusal(error))
            return
        self.reply_encoded(message, parts)

    def reply_in_parts(self, message: Message) -> None:
        """Answers with a message that may hold large blobs; a large response is written without copying them."""
        route = self.route
        try:
            parts = route.encode_parts(message)
        except EncodeError as error:
            self.send(self.encode_refusal(error))
            return
        self.reply_encoded(message, parts)

    def reply_encoded(self, message: Message, parts: list[bytes]) -> None:
        """Answers with an encoded body in parts. `message`: what the response says beside large arrays, to count it."""
        route = self.route
        size = sum(map(len, parts))
        route.answered += 1
        self.count(message, size)
        parts = [route.head(size + route.head_bytes, self.correlation_id), *parts]
        self.send(b"".join(parts) if size <= COUNTED_BYTES else Parts(size, parts))

    @property
    def admits(self) -> Callable[[Message], bool] | None:
        """Whether a Fetch may have this response, or must be empty; None: it may. Quotas decide (quotas/metering.py)."""
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
        message = self.route.api.refusal(self.request, error, self.api_version)
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


class AnswerLayer(Protocol):
    """A layer's part in one exchange (route.py)."""

    def answer(self, payload: bytes | Parts) -> None:
        """Has the encoded response, and calls `LayeredExchange.pass_on`, now, later or never."""

    def abandon(self) -> None:
        """The connection is gone."""


class Meter(Protocol):
    """What counts the work of one request for quotas (quotas/metering.py)."""

    def timed(self, pieces: Pieces) -> Pieces: ...
    def admit(self, response: Message) -> bool: ...
    def count_mutation(self, partitions: int) -> None: ...
    def allows_mutation(self, partitions: int) -> bool: ...


class LayeredExchange(Exchange[R]):
    """An exchange of a route with layers: its answer passes through those that have joined it, the innermost first."""

    __slots__ = ("_joined", "meter")

    def __init__(
        self, route: "Route", queue: ReplyQueue, request: R, correlation_id: int, client_id: str | None
    ) -> None:
        super().__init__(route, queue, request, correlation_id, client_id)
        self._joined: list[AnswerLayer] = []
        self.meter: Meter | None = None
        """Set by quotas, if the client has a limit."""

    def join(self, layer: AnswerLayer) -> None:
        """Lets a layer have the answer before the layers that have joined earlier."""
        self._joined.append(layer)

    def send(self, payload: bytes | Parts) -> None:
        if self._joined and self.payload is None:
            self._joined[-1].answer(payload)
        else:
            super().send(payload)

    def pass_on(self, payload: bytes | Parts) -> None:
        """Gives the answer of the innermost layer to the next one, or to the client."""
        self._joined.pop()
        self.send(payload)

    def abandon(self) -> None:
        super().abandon()
        joined, self._joined = self._joined, []
        for layer in joined:
            layer.abandon()

    def run_in_slices(self, pieces: Pieces, *, even_if_lost: bool = False) -> None:
        super().run_in_slices(pieces if self.meter is None else self.meter.timed(pieces), even_if_lost=even_if_lost)

    @property
    def admits(self) -> Callable[[Message], bool] | None:
        return None if self.meter is None else self.meter.admit

    def count_mutation(self, partitions: int) -> None:
        if self.meter is not None:
            self.meter.count_mutation(partitions)

    def allows_mutation(self, partitions: int) -> bool:
        return self.meter is None or self.meter.allows_mutation(partitions)
