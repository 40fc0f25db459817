"""The sans-I/O core: a command is a generator that yields requests and pauses, and returns the result.

A shell performs each step and sends the answer in: `blocking.py` with a thread that waits, `asynchronous.py` on an event loop.
So paths, bodies, retries and waiting have one implementation for both clients.
"""

import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict, TypeVar

import msgspec

from coordinator_testing.control.errors import ControlOff, ControlRefused, ControlUnreachable, NotReached

T = TypeVar("T")
View = dict[str, Any]
"""A JSON object whose fields depend on the kind of group or event (docs/control.md)."""

ANSWERED_WITHIN_S = 10.0
"""How long a request may take beyond the time that it asks the server to wait, unless the user says otherwise."""
LONG_POLL_MS = 5_000
"""The longest wait in one request: below the server's own limit. Longer waits take several."""
WITHIN_S = 10.0
"""The default of every time limit."""
RETRY_S = 0.02
SEEN_CHARS_MAX = 2_000
"""How much of the last state a failed wait shows."""
UNAVAILABLE = 503
NOT_FOUND = 404
OFF = 403


class RequestOptions(TypedDict):
    """Arguments of `request` of both clients of httpx."""

    params: Mapping[str, str | int]
    content: bytes | None
    headers: Mapping[str, str]
    timeout: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request for the shell to send."""

    method: str
    path: str
    query: Mapping[str, str | int] = field(default_factory=dict)
    body: bytes | None = None
    waits_ms: int = 0
    """How long the server may keep the answer."""

    def options(self, answered_within_s: float) -> RequestOptions:
        """How to send it. `answered_within_s`: how long the server may take beyond the time that it is asked to wait.

        A browser would not send a body declared like this to another site's server.
        """
        return RequestOptions(
            params=self.query,
            content=self.body,
            headers={} if self.body is None else {"Content-Type": "application/json"},
            timeout=answered_within_s + self.waits_ms / 1000,
        )


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause for the shell to make."""

    seconds: float


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What the server answered."""

    status: int
    body: bytes


Steps = Generator[HttpRequest | Pause, HttpAnswer | None, T]


def get(path: str, query: Mapping[str, str | int | None] | None = None, *, waits_ms: int = 0) -> HttpRequest:
    """A request to read."""
    return HttpRequest(method="GET", path=path, query=_given(query or {}), waits_ms=waits_ms)


def post(path: str, body: Any) -> HttpRequest:
    """A command with a body: a Struct, or a dict whose None values are left out."""
    content = _given(body) if isinstance(body, Mapping) else body
    return HttpRequest(method="POST", path=path, body=msgspec.json.encode(content))


def delete(path: str, query: Mapping[str, str | int | None] | None = None) -> HttpRequest:
    """A request to remove."""
    return HttpRequest(method="DELETE", path=path, query=_given(query or {}))


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def ask(request: HttpRequest, answer: type[T]) -> Steps[T]:
    """The decoded answer. Raises ControlRefused, ControlOff, ControlUnreachable."""
    received = yield request
    assert received is not None
    if received.status >= 300:
        raise refusal(received)
    return decoded(received.body, answer)


def ask_until_available(request: HttpRequest, answer: type[T], timeout_s: float) -> Steps[T]:
    """Like `ask`; retries while the group's coordinator is not available (503), such as during a reload."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return (yield from ask(request, answer))
        except ControlRefused as refused:
            if refused.status != UNAVAILABLE or time.monotonic() > deadline:
                raise
        yield Pause(RETRY_S)


def ask_for_pages(key: str) -> Steps[list[View]]:
    """The rows of all pages of a list."""
    rows: list[View] = []
    after: str | None = None
    while True:
        page: View = yield from ask(get(f"/v1/{key}", {"after": after}), View)
        rows += page[key]
        after = page.get("next")
        if after is None:
            return rows


def wait(
    request: Callable[[int], HttpRequest],
    answer: type[T],
    reached: Callable[[T], bool],
    what: str,
    timeout_s: float,
    retried: tuple[int, ...] = (),
) -> Steps[T]:
    """Asks again until the answer is as it should be. `request` makes a request that waits for this number of milliseconds.

    Refusals with a status in `retried` count as not yet. Raises NotReached when the time is over.
    """
    deadline = time.monotonic() + timeout_s
    seen = "nothing"
    while True:
        left_ms = max(0, round((deadline - time.monotonic()) * 1000))
        try:
            found = yield from ask(request(min(left_ms, LONG_POLL_MS)), answer)
            if reached(found):
                return found
            seen = msgspec.json.encode(found).decode()[:SEEN_CHARS_MAX]
        except ControlRefused as refused:
            if refused.status not in retried:
                raise
            seen = str(refused)
        if not left_ms:
            raise NotReached(f"{what} was not reached in {timeout_s:g} s; last seen: {seen}")
        yield Pause(RETRY_S)


def decoded(body: bytes, answer: type[T]) -> T:
    """The body as this type. Raises ControlUnreachable if it is something else."""
    try:
        return msgspec.json.decode(body, type=answer)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ControlUnreachable(f"the answer does not come from this server: {error}") from None


def refusal(answer: HttpAnswer) -> ControlRefused | ControlUnreachable:
    """The error that a refusal stands for."""
    try:
        refused = msgspec.json.decode(answer.body, type=_Refusal)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ControlUnreachable(f"it is not the admin address of this server: HTTP status {answer.status}")
    kind = ControlOff if answer.status == OFF else ControlRefused
    return kind(answer.status, refused.detail or refused.error, tuple(map(str, refused.allowed)))


class _Refusal(msgspec.Struct):
    detail: str = ""
    error: str = ""
    """What older servers send instead of `detail`."""
    allowed: list[Any] = []

    def __post_init__(self) -> None:
        if not self.detail and not self.error:
            raise ValueError("a refusal has a reason")
