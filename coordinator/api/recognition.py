"""What a connection recognizes without decoding it: its last cacheable request, and what fits its template."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from coordinator.api.server import Server

if TYPE_CHECKING:
    from coordinator.api.declaration import Api
    from coordinator.api.exchange import Exchange, ReplyQueue
    from coordinator.api.route import Route

CACHED_REQUEST_BYTES_MAX = 512
"""A larger request is not cached, because every connection may hold one."""


class CachedRequest(NamedTuple):
    """The last cacheable request of a connection, decoded."""

    head: bytes
    """The frame before the correlation id."""
    rest: bytes
    """The frame after the correlation id."""
    route: "Route"
    client_id: str | None
    request: Any
    permitted: int | None = None
    """The version of the ACLs that permit it (`Api.is_guarded_whole`)."""


NO_CACHED_REQUEST = CachedRequest(b"nothing", b"", cast("Route", None), None, None)
"""For a connection that has sent no cacheable request. Its head is longer than four bytes, so that no frame matches it, not
even an empty one."""


class RequestTemplate(Protocol):
    """Recognizes frames of one connection that differ from an earlier one only in some integers (plugged in: fastpath/)."""

    @property
    def size_bytes(self) -> int:
        """Only frames of this size can match."""

    @property
    def route(self) -> "Route": ...
    @property
    def client_id(self) -> str | None: ...

    def match(self, frame: bytes) -> Any:
        """The request in a frame, or None if the frame does not match. `request.values[0]` is the correlation id."""

    def handle(self, server: Server, exchange: "Exchange[Any]") -> None:
        """Takes the place of the API's `handle` for a request that `match` has returned."""


class NoTemplate:
    """Matches no frame, because no frame has its size."""

    __slots__ = ("client_id", "route")
    size_bytes = -1
    client_id: str | None
    route: "Route"

    def match(self, frame: bytes) -> None: ...

    def handle(self, server: Server, exchange: "Exchange[Any]") -> None: ...


NO_TEMPLATE = NoTemplate()
"""For a connection from whose requests nothing has been learned."""


def forget_templates(queues: Iterable["ReplyQueue"], concerns: Callable[["Api[Any]"], bool]) -> None:
    """Drops the templates of APIs that a layer concerns now: a template answers without it. Others may be learned later."""
    for queue in queues:
        if not isinstance(queue.template, NoTemplate) and concerns(queue.template.route.api):
            queue.template = NO_TEMPLATE


LearnTemplate = Callable[["ReplyQueue", bytes, int, "Route", str | None], None]
"""`learn(queue, frame, position, route, client_id)` may set `queue.template`. The request's body begins at `position`."""
