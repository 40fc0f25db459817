"""The way of one version of one API on one listener: what its requests and responses pass.

From the connection to the API, a request passes these, and its answer the same ones on the way back. It is the only list.

    recognition   a frame like an earlier one of its connection is not decoded: the same request (a cached heartbeat), or one
                  that differs in some integers (a template of a commit, fastpath/)             recognition.py
    decoding      the frame becomes a message
    quotas        counts the requests of clients with a limit, and makes them wait             quotas/metering.py
    rules         fault rules and recordings                                                   rules/interceptor.py
    permits       the API's guard                                                              guards.py
    the API       `Api.handle`; work that grows with the request is done in slices             sliced_work.py

Quotas, rules and permits are layers (`LAYERS`). A route has those that are in use and concern its API: where there is no quota,
rule or authorizer, it calls `Api.handle`. A layer may join an exchange, and so have its answer (`LayeredExchange.join`). A
template answers without the layers, so a layer says of which clients it needs no request.
"""

from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, Protocol

from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange, LayeredExchange, ReplyQueue
from coordinator.api.recognition import LearnTemplate
from coordinator.api.server import Server
from coordinator.protocol import messages
from coordinator.protocol.codec import Codec
from coordinator.security.authorizer import Authorizer

MEASURED_FIRST = 1_000
"""A route times its first 1,000 responses in full, and one in sixteen after them."""
_ONE_IN_SIXTEEN = 15
_SIZE_BYTES = 4
_PLAIN_HEADER = Struct(">ii")
_FLEXIBLE_HEADER = Struct(">iix")
_API_VERSIONS = 18

Handle = Callable[[Server, Exchange[Any]], None]

QUOTAS, RULES, PERMITS = "quotas", "rules", "permits"
LAYERS = (QUOTAS, RULES, PERMITS)
"""From the outside in."""


class Layer(Protocol):
    """What stands before the APIs that it concerns."""

    @property
    def has_answers(self) -> bool:
        """Whether the layer may join exchanges."""

    def concerns(self, api: Api[Any]) -> bool:
        """Whether the layer has anything to do with requests of this API at the moment."""

    def around(self, api: Api[Any], handle: Handle) -> Handle:
        """A function that does its part and calls `handle`, at once, later or never."""

    def needs_all(self, queue: ReplyQueue, client_id: str | None) -> bool:
        """Whether the layer needs every request of this client, so that no template may answer it."""


class Routes(Protocol):
    """The routes of a listener (network/dispatch.py)."""

    def put(self, place: str, layer: Layer) -> None:
        """Puts a layer into its place in `LAYERS`, or asks it again which APIs it concerns."""


class Route:
    """How one version of one API is decoded, handled and answered on one listener, and how often and how fast it was.

    Two readings of the clock and a histogram cost 0.4 us, a tenth of a heartbeat. So a route that is used a lot is sampled
    (0.06 us per request), and a rare one (joins, admin requests) is timed in full.
    """

    __slots__ = (
        "answered", "api", "authorizer", "decode", "dialect", "duration_ns", "durations", "encode", "encode_parts", "errors",
        "exchange", "handle", "has_error_code", "head", "head_bytes", "is_cacheable", "is_flexible", "layers", "learn",
        "name", "skipped", "supported", "version",
    )  # fmt: skip

    def __init__(
        self,
        api: Api[Any],
        version: int,
        codec: Codec | None,
        *,
        supported: Mapping[int, tuple[int, int]],
        learn: LearnTemplate | None = None,
        authorizer: Authorizer | None = None,
    ) -> None:
        """`codec`: None if requests and responses only pass."""
        self.api = api
        self.name = api.name
        self.version = version
        self.handle: Handle = api.handle
        """Called with each request: the outermost layer, or the API."""
        self.layers: list[Layer] = []
        self.exchange: type[Exchange[Any]] = Exchange
        request, response = f"{api.name}Request", f"{api.name}Response"
        self.decode: Callable[[bytes, int], tuple[Any, int]] = _never
        self.encode: Callable[[Any], bytes] = _never
        self.encode_parts: Callable[[Any], list[bytes]] = _never
        self.is_flexible = False
        """Whether the response has compact sizes and tags after its header."""
        self.dialect: str | None = None
        """The dialect of the listener; None: Kafka's own protocol."""
        if codec is not None:
            self.decode = codec.decoder(request, version)
            self.encode = codec.encoder(response, version)
            self.encode_parts = codec.parts_encoder(response, version)
            # A client that does not know the server's versions yet must be able to read the header.
            self.is_flexible = api.key != _API_VERSIONS and codec.is_flexible(response, version)
            self.dialect = codec.schemas.dialect
        header = _FLEXIBLE_HEADER if self.is_flexible else _PLAIN_HEADER
        self.head = header.pack
        """The bytes before a response's body, from its size field and the correlation id."""
        self.head_bytes = header.size - _SIZE_BYTES
        self.is_cacheable = api.is_cacheable
        self.learn = learn
        """What may make a template of such a request; None if there are no templates of this API."""
        self.authorizer = authorizer
        self.has_error_code = hasattr(getattr(messages, response, None), "error_code")
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

    def compose(self, layers: Mapping[str, Layer]) -> None:
        """Puts those layers around the API that are in use and concern it."""
        self.layers = [layer for name in LAYERS if (layer := layers.get(name)) is not None and layer.concerns(self.api)]
        self.handle = self.api.handle
        for layer in reversed(self.layers):
            self.handle = layer.around(self.api, self.handle)
        self.exchange = LayeredExchange if any(layer.has_answers for layer in self.layers) else Exchange

    def needs_all(self, queue: ReplyQueue, client_id: str | None) -> bool:
        """Whether some layer needs every request of this client."""
        return any(layer.needs_all(queue, client_id) for layer in self.layers)

    def timed(self, duration_ns: int) -> None:
        """Counts how long a response took."""
        self.durations[duration_ns.bit_length()] += 1
        self.duration_ns += duration_ns
        if self.answered > MEASURED_FIRST:
            self.skipped = _ONE_IN_SIXTEEN


def _never(*_arguments: Any) -> Any:
    """In place of the functions of a route whose requests only pass."""
    raise AssertionError
