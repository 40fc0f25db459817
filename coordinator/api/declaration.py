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

ApiVersions, the dispatcher, the README's table and the list of metrics are derived from these declarations; so is what
surrounds an API: quotas, fault rules and recordings, and a cluster behind the server. A fact about one API is in its file.
A module of `requests/` that has an `API` is a supported API; there is no other list.
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, StrEnum
from types import ModuleType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from coordinator.api.exchange import Exchange
from coordinator.api.permits import Permits
from coordinator.api.server import Server
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import Message, message_class
from coordinator.protocol.releases import AS_NEWEST, Behaviours, Release
from coordinator.security.access import Access

R = TypeVar("R")


# --- where errors are -------------------------------------------------------------------------------------------------

IsHit = Callable[[str | None, str | None, int], bool]
"""`is_hit(group, topic, partition)`: whether a partition gets the error. A group or topic that is None is not known."""


class Patched(NamedTuple):
    """How an error gets into the response that the API gives to a request."""

    request: Any
    """The request that the API has in place of the client's."""
    patch: Callable[[Any], object]
    """Puts the error into the response."""


@dataclass(frozen=True, slots=True)
class ErrorPlaces:
    """Where a response has an error, of an API with errors on several levels. Fault rules need it."""

    of_whole: frozenset[ErrorCode] = frozenset()
    """Errors that only the top of the response has."""
    of_elements: frozenset[ErrorCode] | None = None
    """The errors that an element has; all others are those of what is around it. None: elements have all but `of_whole`."""
    shape: Callable[[Any, KafkaError, int], Message | None] | None = None
    """`shape(request, error, version)`: the response, where that of `refuse` is another; None where it is not."""
    patch: "Callable[[Seen, IsHit, ErrorCode], Patched | None] | None" = None
    """`patch(seen, is_hit, error)`: for an API whose response knows the partitions, which does nothing to those that are hit.

    None if none is hit.
    """

    def is_of_element(self, code: ErrorCode) -> bool:
        return code not in self.of_whole if self.of_elements is None else code in self.of_elements


# --- what a recording shows -------------------------------------------------------------------------------------------

Fields = dict[str, Any]


class Seen(Protocol):
    """A request as rules and recordings see it (rules/matching.py)."""

    request: Any
    server: Server

    @property
    def explicit(self) -> Any:
        """The request, after `Api.explicit`."""

    def fields(self, message: Message) -> Fields:
        """The fields of any request or response in the route's version, by name."""

    def topic(self, holder: Any) -> str | None:
        """The name of a topic, by name or id."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """How recordings show messages of an API, where that is not `Seen.fields`."""

    request: Callable[[Seen, Any], Fields]
    """`request(seen, request)`"""
    response: Callable[[Seen, Any], Fields]
    """`response(seen, response)`"""


# --- quotas -----------------------------------------------------------------------------------------------------------


class QuotaType(StrEnum):
    """What a quota limits. The values are labels of metrics."""

    PRODUCE = "produce"
    FETCH = "fetch"
    REQUEST = "request"
    CONTROLLER_MUTATION = "controller_mutation"
    CONNECTION = "connection"


# --- in front of a cluster --------------------------------------------------------------------------------------------


class Overlay(Enum):
    """Who answers an API on a server that stands in front of a cluster."""

    HERE = "this server"
    HIDDEN = "nobody: clients do not learn of it"


HERE = Overlay.HERE


@dataclass(frozen=True, slots=True)
class Forwarded:
    """A broker answers the API."""

    last: int | None = None
    """The last version that is forwarded, of an API whose messages are read here; None: the broker's last."""
    is_ours: Callable[[Any], bool | None] | None = None
    """Whether this server answers the request nevertheless; None for one that is for both."""
    is_ours_on_main: bool = False
    """Whether this server answers it on its main listener."""
    changes_topics: bool = False
    """Whether the topics are looked up again at once afterwards."""


# --- the declaration --------------------------------------------------------------------------------------------------


class Coordinator(Enum):
    """The coordinator that requests of an API go to. The values are names of `Match` fields (rules/model.py)."""

    GROUP = "group"
    TRANSACTION = "transactional_id"
    FOUND = "either"
    """The API finds coordinators."""


@dataclass(frozen=True, slots=True, eq=False)
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
    refuse: Callable[[R, KafkaError, int], Message] | None = None
    """`refuse(request, error, version)`: the response that says the error. None: it says it at its top."""
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
    errors: frozenset[ErrorCode] = frozenset()
    """The errors that its clients meet (api/error_families.py), beside those of every API. A fault rule that wants another one
    must say `force`."""
    places: ErrorPlaces = ErrorPlaces()
    elements: tuple[str, ...] = ()
    """The ways to arrays whose elements are answered one by one, such as "topics.partitions"; of two, a version has one."""
    mentions: tuple[str, ...] = ()
    """The ways to arrays of topics that are named and not answered one by one."""
    looked_up: Callable[[R], Iterable[tuple[str | None, str]]] | None = None
    """What each element names where its field does not say: the field of `Named` (rules/elements.py), and the name."""
    explicit: Callable[[R, int, Server], R] | None = None
    """`explicit(request, version, server)`: the request that names everything that it is about."""
    coordinator: Coordinator | None = None
    quotas: frozenset[QuotaType] = frozenset({QuotaType.REQUEST})
    """What is counted for the quotas of the client. Nothing: of the APIs that Kafka answers before quotas."""
    behaviours: Behaviours = AS_NEWEST
    release: Release | None = None
    """Of a listener that emulates a release, which has these behaviours; no file of requests/ sets them."""
    mutations_strict_since: int = 0
    """The version from which a client beyond its quota of changes is refused; before, it is served and waits (KIP-599)."""
    overlay: Overlay | Forwarded = Forwarded()
    recorded: Recorded | None = None

    def refusal(self, request: R, error: KafkaError, api_version: int) -> Message:
        """The response in the shape of a version that refuses a request."""
        if self.refuse is not None:
            return self.refuse(request, error, api_version)
        response: Any = message_class(f"{self.name}Response")()
        response.error_code = error.code
        if hasattr(response, "error_message"):
            response.error_message = error.message
        return response  # type: ignore[no-any-return]


def supported_apis(package: ModuleType) -> dict[int, Api[Any]]:
    """API key -> Api, for every module of the package that declares one."""
    apis: dict[int, Api[Any]] = {}
    for info in pkgutil.iter_modules(package.__path__):
        module: ModuleType = importlib.import_module(f"{package.__name__}.{info.name}")
        api = getattr(module, "API", None)
        if isinstance(api, Api):
            assert api.key not in apis, f"two files declare API {api.key}"
            apis[api.key] = api
    return dict(sorted(apis.items()))
