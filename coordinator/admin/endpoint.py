"""How an admin endpoint is declared: its path, what it takes, what it returns, and how it may refuse.

A module of `admin/` exports `ENDPOINTS`; routes.py lists those modules. From a declaration come the routing, the validation of
query and body, the list at `/`, and the OpenAPI document (openapi.py), so that none of them can say something else.

    class Command(Struct, forbid_unknown_fields=True):
        reason: str

    ENDPOINTS = (Endpoint("POST", "/v1/groups/{group_id}/rebalance", "rebalance a group", rebalance, body=Command,
                          returns=Rebalanced, refusals=(404, 409)),)

A handler is `handle(server, request)`, a function or a coroutine function. It runs on the event loop, which serves the groups
too: it finishes quickly, or awaits. `in_thread` runs what takes long outside the loop.
"""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from types import MappingProxyType
from typing import Annotated, Any

from msgspec import Meta, Struct

from coordinator.admin.server_view import RunsInThread

TIMEOUT_MS_MAX = 600_000
TimeoutMs = Annotated[
    int, Meta(ge=0, le=TIMEOUT_MS_MAX, description="How long to wait for it, in milliseconds; 0 answers at once.")
]
"""The type of the query field `timeout_ms`."""
WAIT_MS = 30_000
"""How long a request waits for the condition in its query field `until` if it does not say."""
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


PROBLEM_JSON = "application/problem+json"


class Problem(Struct, omit_defaults=True):
    """Why a request was refused: the problem details of RFC 9457. Without `type`, the status says which problem it is."""

    title: str
    """The status in words."""
    status: Annotated[int, Meta(ge=400, le=599)]
    detail: str
    """The reason, for people."""
    allowed: list[str] | None = None
    """What would be accepted, where that is a list."""


class RefusedRequest(Exception):
    """The request gets a response with this status and text, and with a list of what is allowed."""

    def __init__(
        self, status: int, text: str, allowed: list[str] | None = None, *, headers: Mapping[str, str] = NO_HEADERS
    ) -> None:
        super().__init__(text)
        self.status = status
        self.allowed = allowed
        self.headers = headers

    @property
    def problem(self) -> Problem:
        """The body of the response."""
        return Problem(HTTPStatus(self.status).phrase, self.status, str(self), self.allowed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A complete and valid request."""

    method: str = "GET"
    path: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """The values of the path's segments in braces."""
    query: Any = None
    """An instance of the endpoint's `query`."""
    body: Any = None
    """An instance of the endpoint's `body`."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """By name in small letters."""
    asked_by: str = ""
    """Where it comes from, for people."""
    endpoints: "Sequence[Endpoint]" = ()
    """All endpoints of the application."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response that is not a value as JSON with the endpoint's status."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A response that goes on. It has no time limit as long as the client reads it.

    When the client has gone or the server stops, the generator is closed.
    """

    chunks: AsyncGenerator[bytes, None]
    content_type: str
    last: Callable[[str], bytes]
    """The last chunk of a stream that the server ends, with the reason."""


Answer = Struct | dict[str, Any] | Response | Stream
Handler = Callable[[Any, Request], Answer | Awaitable[Answer]]
"""Gets the server (server_view.py), or the workers that are asked instead (workers/)."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A method of a path."""

    method: str
    path: str
    """A segment in braces matches any one segment; its unquoted value is in `request.parameters`."""
    about: str
    """One line for people."""
    handle: Handler
    query: type[Struct] | None = None
    body: type[Struct] | None = None
    """None: the endpoint takes no body, or an empty object."""
    returns: Any = None
    """The type of the JSON that it returns; None if that is of another content type."""
    name: str = ""
    """Its operation id in the OpenAPI document, from which generators make the name of a function: listGroups."""
    creates: str = ""
    """The path of what it creates, whose `{id}` is that of the value that it returns: the status is 201, with Location."""
    refusals: tuple[int, ...] = ()
    """The statuses of its own refusals, beside those that every endpoint has (openapi.py)."""
    control: bool = False
    """Whether it needs `admin.control.enable`; 403 without it."""
    shows_records: bool = False
    """Whether it shows what clients wrote into topics: `admin.anonymous=read` is not enough for it."""
    is_open: bool = False
    """Whether everybody may use it who reaches the server, without credentials (credentials.py)."""
    content_types: tuple[str, ...] = ("application/json",)
    """What the body of a successful response can be."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers that it reads -> what they are for."""
    others: Mapping[int, Any] = field(default_factory=dict)
    """The types of answers that are no refusals, by statuses that refusals have as well."""
    description: str = ""
    """What the OpenAPI document says about it: the first line of its first handler's docstring."""

    def __post_init__(self) -> None:
        if not self.description:  # `replace` keeps it, whatever the other handler is
            object.__setattr__(self, "description", (inspect.getdoc(self.handle) or "").partition("\n")[0])

    @property
    def status(self) -> int:
        """The status of success."""
        return 201 if self.creates else 200


def wait_ms(query: Any) -> int:
    """How long a request may wait; above 0 it is a long poll, and `admin.request.time.ms` begins when that time is over."""
    timeout_ms: int | None = getattr(query, "timeout_ms", None)
    if timeout_ms is None:
        return WAIT_MS if getattr(query, "until", None) is not None else 0
    return timeout_ms


async def in_thread(server: RunsInThread, function: Callable[[], Any]) -> Any:
    """Runs a function outside the loop, and returns or raises what it does."""
    outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def done(result: Any) -> None:
        if not outcome.done():  # the client may have gone
            outcome.set_result(result)

    server.run_in_thread(function, done)
    result = await outcome
    if isinstance(result, BaseException):
        raise result
    return result
