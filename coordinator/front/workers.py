"""Requests to the admin HTTP of single workers, and which worker has a shard."""

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx
from msgspec import json, to_builtins

from coordinator.admin.endpoint import Endpoint, RefusedRequest, Request, Response
from coordinator.front.site import Site

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
        said = self.json()
        return RefusedRequest(self.status, said["error"], said.get("allowed"))


class Workers:
    """The workers of this machine."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._client = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {site.token}"},
            limits=httpx.Limits(max_keepalive_connections=0),  # no request meets a connection that is closing
            trust_env=False,
            verify=False,  # noqa: S501 - loopback, without TLS
        )
        self.answers_within_s = site.config.admin.admin_request_time_ms / 1000 / 2
        """How long a worker may take, so that this address answers in its own time."""

    @property
    def ready(self) -> list[int]:
        """The numbers of those that serve."""
        return [worker.number for worker in self._site.workers if worker.admin_port is not None]

    def owner_of(self, log: str) -> int | None:
        """The number of the worker that has a log; None: no worker has it at the moment."""
        owner = self._site.owners().get(log)
        if owner is None or owner.worker is None:
            return None
        return owner.worker.node_id - self._site.config.node_id

    async def ask(self, number: int, ask: Ask, within_s: float | None = None) -> Answer:
        """What a worker answers. Raises NotAsked, NotAnswered."""
        port = self._site.workers[number].admin_port
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
