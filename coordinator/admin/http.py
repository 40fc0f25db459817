"""A small HTTP/1.1 server for metrics, health checks and views of the state, on top of h11.

It shares the event loop with the groups, so its limits are tight: few connections, short headers, small bodies, and a time
limit for each request. A connection beyond the limit takes the place of the one that has kept the server waiting the longest,
so slow clients cannot keep others out. A web framework would be more code than all of the routes.

It has no password, so by default it listens on the loopback address. Nearly all routes only read. Those that change something
are POST and take JSON, declared as such: a browser does not send that to another site's server without asking it first, so a
web page that an administrator visits cannot use them.

A route is `(method, path)`. A path segment in braces matches any one segment; its unquoted value is in
`request.parameters`. Handlers run on the event loop, so they either finish quickly or return an awaitable.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote

from coordinator.config.settings import AdminConfig

if TYPE_CHECKING:
    import h11

_log = logging.getLogger(__name__)

_READ_BYTES = 4096
_QUERY_FIELDS_MAX = 100
_TOO_MANY = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A complete request."""

    method: str
    path: str
    parameters: Mapping[str, str]
    query: Mapping[str, list[str]]
    content_type: str = ""
    """In small letters, without parameters."""
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[Request], Response | Awaitable[Response]]
Routes = Mapping[tuple[str, str], Handler]


class RefusedRequest(Exception):
    """The request gets a response with this status and text."""

    def __init__(self, status: int, text: str, **headers: str) -> None:
        super().__init__(text)
        self.status = status
        self.headers = headers


def json_response(value: Any, status: int = 200) -> Response:
    """The value as JSON, in which names that clients choose can become neither markup nor another header."""
    return Response(body=json.dumps(value, indent=2).encode() + b"\n", status=status)


def json_body(request: Request) -> dict[str, Any]:
    """The object in the body. Raises RefusedRequest if the request does not declare JSON, or has something else."""
    if request.content_type != "application/json":
        raise RefusedRequest(415, "the content type must be application/json")
    try:
        value = json.loads(request.body)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise RefusedRequest(400, "the body must be a JSON object")
    return value


class AdminServer:
    """An HTTP server for the routes, on one address."""

    def __init__(self, routes: Routes, config: AdminConfig) -> None:
        self._routes = {(method, tuple(path.split("/"))): handler for (method, path), handler in routes.items()}
        self._config = config
        self._connections: set[asyncio.Task[None]] = set()
        self._waiting: dict[asyncio.Task[None], None] = {}
        """The connections that wait for their client, to send a request or to read a response; the longest wait first."""
        self._server: asyncio.Server | None = None

    async def start(self) -> int:
        """Listens on the configured address. Returns the port."""
        self._server = await asyncio.start_server(self._accepted, self._config.host, self._config.port)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def stop(self) -> None:
        """Closes the listening socket and all connections."""
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= self._config.admin_connections and not self._close_longest_wait():
            writer.write(_TOO_MANY)
            writer.close()
            return
        task = asyncio.create_task(self._serve(reader, writer))
        self._connections.add(task)
        self._waiting[task] = None
        task.add_done_callback(lambda task: self._ended(task, writer))

    def _close_longest_wait(self) -> bool:
        """Closes the connection that has waited for its client the longest. Returns False if none waits."""
        task = next(iter(self._waiting), None)
        if task is None:
            return False
        task.cancel()
        self._forget(task)
        return True

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._connections.discard(task)
        self._waiting.pop(task, None)

    def _ended(self, task: asyncio.Task[None], writer: asyncio.StreamWriter) -> None:
        """Drops what the client has not read by now."""
        self._forget(task)
        writer.transport.abort()

    def _wait_for_client(self) -> None:
        """From now on the current task's connection waits for its client."""
        self._work()
        self._waiting[asyncio.current_task()] = None  # type: ignore[index]

    def _work(self) -> None:
        """From now on the current task's client waits for the server."""
        self._waiting.pop(asyncio.current_task(), None)  # type: ignore[arg-type]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one connection until one side closes it or a time limit has passed."""
        with suppress(TimeoutError, ConnectionError):
            await self._converse(reader, writer)
            writer.close()
            async with self._time_limit():
                await writer.wait_closed()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        import h11  # noqa: PLC0415 - keeps start-up fast

        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=self._config.admin_header_bytes)
        while True:
            async with self._time_limit():
                request, response = await self._next(connection, reader)
            if response is None:
                return
            self._write(connection, writer, request, response)
            self._wait_for_client()
            async with self._time_limit():
                await writer.drain()
            if {connection.our_state, connection.their_state} != {h11.DONE}:
                return
            connection.start_next_cycle()
            self._wait_for_client()

    def _time_limit(self) -> asyncio.Timeout:
        return asyncio.timeout(self._config.admin_request_time_ms / 1000)

    async def _next(
        self, connection: "h11.Connection", reader: asyncio.StreamReader
    ) -> tuple["h11.Request | None", Response | None]:
        """The next request and its response. The response is None if the client has closed the connection."""
        import h11  # noqa: PLC0415 - keeps start-up fast

        head: h11.Request | None = None
        body = b""
        try:
            while True:
                event = connection.next_event()
                if event is h11.NEED_DATA:
                    connection.receive_data(await reader.read(_READ_BYTES))
                elif isinstance(event, h11.Request):
                    head = event
                    self._check_head(head)
                elif isinstance(event, h11.Data):
                    body += event.data
                    self._check_body(body)
                elif isinstance(event, h11.EndOfMessage):
                    assert head is not None
                    self._work()
                    return head, await self._answer(head, body)
                else:
                    return head, None
        except h11.RemoteProtocolError as error:
            return head, json_response({"error": str(error)}, error.error_status_hint)
        except RefusedRequest as error:
            return head, Response(
                body=json_response({"error": str(error)}).body, status=error.status, headers=error.headers
            )

    def _check_head(self, head: "h11.Request") -> None:
        """h11 limits the size of incomplete headers; this limits headers that arrive in one piece."""
        size = len(head.target) + sum(len(name) + len(value) + 4 for name, value in head.headers)
        if size > self._config.admin_header_bytes:
            raise RefusedRequest(431, "the request headers are too large")

    def _check_body(self, body: bytes) -> None:
        if len(body) > self._config.admin_body_bytes:
            raise RefusedRequest(413, f"the body has more than {self._config.admin_body_bytes} bytes")

    async def _answer(self, head: "h11.Request", body: bytes) -> Response:
        raw_path, _, query = head.target.decode("ascii", "replace").partition("?")
        method = head.method.decode("ascii")
        handler, parameters = self._route("GET" if method == "HEAD" else method, raw_path)
        request = Request(
            method=method,
            path=raw_path,
            parameters=parameters,
            query=_fields(query),
            content_type=_content_type(head),
            body=body,
        )
        try:
            answer = handler(request)
            return answer if isinstance(answer, Response) else await answer
        except RefusedRequest:
            raise
        except Exception:  # noqa: BLE001 - a bug in a handler must not stop the server
            _log.exception("event=admin_request_failed method=%s path=%s", method, raw_path)
            raise RefusedRequest(500, "the request failed; see the server's log") from None

    def _route(self, method: str, path: str) -> tuple[Handler, dict[str, str]]:
        """The handler for a path, and the values of its segments in braces. Raises RefusedRequest."""
        segments = path.split("/")
        methods = []
        for (route_method, pattern), handler in self._routes.items():
            parameters = _matched(pattern, segments)
            if parameters is not None:
                if route_method == method:
                    return handler, parameters
                methods.append(route_method)
        if methods:
            raise RefusedRequest(405, "the path does not support this method", allow=", ".join(methods))
        raise RefusedRequest(404, "no such path")

    def _write(
        self,
        connection: "h11.Connection",
        writer: asyncio.StreamWriter,
        request: "h11.Request | None",
        response: Response,
    ) -> None:
        import h11  # noqa: PLC0415 - keeps start-up fast

        headers = {
            "content-type": response.content_type,
            "content-length": str(len(response.body)),
            "cache-control": "no-store",
            "x-content-type-options": "nosniff",
            **response.headers,
        }
        reason = HTTPStatus(response.status).phrase
        head = h11.Response(status_code=response.status, reason=reason.encode(), headers=list(headers.items()))
        data = connection.send(head) or b""
        if request is None or request.method != b"HEAD":
            data += connection.send(h11.Data(data=response.body)) or b""
        data += connection.send(h11.EndOfMessage()) or b""
        writer.write(data)


def _fields(query: str) -> dict[str, list[str]]:
    """The fields of a query. Raises RefusedRequest if there are too many."""
    try:
        return parse_qs(query, keep_blank_values=True, max_num_fields=_QUERY_FIELDS_MAX)
    except ValueError:
        raise RefusedRequest(400, f"the query has more than {_QUERY_FIELDS_MAX} fields") from None


def _content_type(head: "h11.Request") -> str:
    value: bytes = next((value for name, value in head.headers if name == b"content-type"), b"")
    return value.decode("ascii", "replace").partition(";")[0].strip().lower()


def _matched(pattern: tuple[str, ...], segments: list[str]) -> dict[str, str] | None:
    if len(pattern) != len(segments):
        return None
    parameters = {}
    for wanted, given in zip(pattern, segments, strict=True):
        if wanted.startswith("{"):
            parameters[wanted[1:-1]] = unquote(given, errors="replace")
        elif wanted != given:
            return None
    return parameters
