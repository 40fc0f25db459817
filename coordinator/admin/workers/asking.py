"""Requests to the admin HTTP of single workers, and which worker has a shard.

A request about one group or transactional id goes to the worker that has its shard. A worker that has not the shard, or is
reading it, says so before it does anything (admin/located.py), so the request is sent again. One that may have been done is
not, unless it only reads.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx
from msgspec import json, to_builtins

from coordinator.admin.endpoint import Endpoint, Problem, RefusedRequest, Request, Response
from coordinator.admin.workers.machine import Machine

RETRY_AFTER = "retry-after"


class NotAsked(RefusedRequest):
    """The request has not reached the worker."""


class NotAnswered(RefusedRequest):
    """The worker has not answered; whether it has done what was asked is unknown."""


class Ask(NamedTuple):
    """A request to a worker."""

    method: str
    path: str
    """As it was sent, with the query."""
    body: bytes | None = None
    headers: Mapping[str, str] = {}

    @property
    def changes(self) -> bool:
        """Whether it must not be sent twice."""
        return self.method != "GET"


def ask_of(endpoint: Endpoint, request: Request, **changed: Any) -> Ask:
    """A valid request as it goes on to a worker. `changed`: fields of the query with other values."""
    fields = {} if endpoint.query is None else to_builtins(request.query) | changed
    query = {name: _text(value) for name, value in fields.items() if value is not None}
    path = f"{request.path}?{urlencode(query)}" if query else request.path
    body = None if endpoint.body is None else json.encode(request.body)
    return Ask(endpoint.method, path, body)


def _text(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


class Answer(NamedTuple):
    """What a worker answered."""

    status: int
    body: bytes
    content_type: str
    may_retry: bool
    """Whether nothing was done, and the same request may be answered later or by another worker."""

    def json(self) -> Any:
        """The body."""
        return json.decode(self.body)

    def response(self) -> Response:
        """The same as an answer of this address."""
        return Response(body=self.body, status=self.status, content_type=self.content_type)

    def refusal(self) -> RefusedRequest:
        """An answer that is no success, as the refusal of this address."""
        problem = json.decode(self.body, type=Problem)
        return RefusedRequest(self.status, problem.detail, problem.allowed)


class Workers:
    """The workers of this machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.owner_of = machine.owner_of
        self._client = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {machine.token}"},
            limits=httpx.Limits(max_keepalive_connections=0),  # no request meets a connection that is closing
            trust_env=False,
            verify=False,  # noqa: S501 - loopback, without TLS
        )
        self.answers_within_s = machine.config.admin.admin_request_time_ms / 1000 / 2
        """How long a worker may take, so that this address answers in its own time."""

    @property
    def ready(self) -> list[int]:
        """The numbers of those that serve."""
        return [worker.number for worker in self._machine.workers if worker.admin_port is not None]

    async def ask(self, number: int, ask: Ask, within_s: float | None = None) -> Answer:
        """What a worker answers. Raises NotAsked, NotAnswered."""
        port = self._machine.workers[number].admin_port
        if port is None:
            raise NotAsked(503, f"worker {number} is not ready: try again")
        headers = {"Content-Type": "application/json", **ask.headers} if ask.body is not None else ask.headers
        try:
            answer = await self._client.request(
                ask.method,
                f"http://127.0.0.1:{port}{ask.path}",
                content=ask.body,
                headers=headers,
                timeout=self.answers_within_s if within_s is None else within_s,
            )
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise NotAsked(503, f"worker {number} does not answer: try again") from error
        except httpx.TransportError as error:
            raise NotAnswered(503, f"worker {number} has not answered; it is unknown whether it was done") from error
        status = answer.status_code
        may_retry = status == 421 or (status == 503 and RETRY_AFTER in answer.headers)
        return Answer(status, answer.content, answer.headers.get("content-type", "application/json"), may_retry)


AGAIN_S = 0.05
LOOK_S = 0.2
"""How often a request that only reads looks whether its worker still has the shard: it may hang."""


async def ask_owner(
    workers: Workers, what: str, owner: Callable[[], int | None], make_ask: Callable[[], Ask], until_s: float
) -> Answer:
    """What the worker answers that has something. `until_s`: until when it is tried again, by the loop's clock.

    Raises RefusedRequest: 503 no worker has it in time, or it is unknown whether it was done.
    """
    loop = asyncio.get_running_loop()
    while True:
        number, ask = owner(), make_ask()
        reason = f"no worker has {what} at the moment: try again"
        if number is not None:
            try:
                answer = await _answer(workers, owner, number, ask, until_s - loop.time())
            except NotAsked as error:
                reason = str(error)
            except NotAnswered as error:
                if ask.changes:
                    raise
                reason = str(error)
            else:
                if not answer.may_retry:
                    return answer
                reason = str(answer.refusal())
        if loop.time() >= until_s:
            raise RefusedRequest(503, reason)
        await asyncio.sleep(AGAIN_S)


async def _answer(workers: Workers, owner: Callable[[], int | None], number: int, ask: Ask, left_s: float) -> Answer:
    """Raises NotAsked, NotAnswered; also if there is another owner while this one does not answer."""
    asked = asyncio.ensure_future(workers.ask(number, ask, max(left_s, workers.answers_within_s)))
    try:
        while not asked.done():
            await asyncio.wait({asked}, timeout=LOOK_S)
            if not ask.changes and not asked.done() and owner() not in (number, None):
                raise NotAnswered(503, f"worker {number} has not answered")
        return asked.result()
    finally:
        asked.cancel()
