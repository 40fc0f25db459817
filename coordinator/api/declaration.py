"""How a file of `requests/` declares its Kafka API.

    API = Api(
        key=12, name="Heartbeat", versions=(0, 4), access=(READ_GROUP,),
        handle=handle, refuse=refuse,
    )

`handle(server, exchange)` answers once, at once or later, by `exchange.reply(message)`. A coordinator API hands the
exchange to its group's shard instead: `server.groups.submit(group_id, operation, exchange)`. A `KafkaError` that escapes
from either becomes `refuse(request, error, api_version)`, the API's response in the shape of that version.

Where an authorizer is configured, `guard(server, exchange, permits)` runs in place of `handle`. It refuses the request by a
KafkaError, or takes out of it what the client may not touch, and calls `handle`. An answer that shows only what the client
may see asks `exchange.permits`. So a server without an authorizer pays nothing.

ApiVersions, the dispatcher, the README's table and the list of metrics are derived from these declarations.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from coordinator.api.exchange import Exchange
from coordinator.api.permits import Permits
from coordinator.api.server import Server
from coordinator.protocol.errors import KafkaError
from coordinator.protocol.messages import Message
from coordinator.security.access import Access

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Api(Generic[R]):
    """One Kafka API, by the type of its request."""

    key: int
    name: str
    """Kafka's name; the messages are `<name>Request` and `<name>Response`."""
    versions: tuple[int, int]
    """The first and the last version served."""
    access: tuple[Access, ...]
    """Every permission that Kafka asks its authorizer about for this API (KafkaApis.scala and ControllerApis.scala), in the
    order in which it asks. Which of them a request needs, and for which names, depends on the request. No other may be asked
    for."""
    handle: Callable[[Server, Exchange[R]], None]
    refuse: Callable[[R, KafkaError, int], Message]
    guard: Callable[[Server, Exchange[R], Permits], None] | None = None
    """Takes the place of `handle` where there is an authorizer; None: the answer alone depends on permissions, or nothing."""
    is_guarded_whole: bool = False
    """Whether `guard` either refuses a request or hands it to `handle` as it is, and the request and the permits alone decide.
    Then a connection asks about its cached request again only after a change of the ACLs."""
    is_cacheable: bool = False
    """Whether clients send the same bytes over and over, so that a connection keeps its last request decoded. The handler
    and the operation must not modify such a request."""
    writes: bool = True
    """Whether the API may change durable state. A shard whose disk is full still serves those that do not."""
