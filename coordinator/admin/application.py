"""The application behind a connection: it finds the endpoint, validates the request, and sends what the handler returns.

Starlette routes; uvicorn (connection.py) speaks HTTP. Every response has `no-store` and `nosniff`. A bug in a handler is a 500
whose details are in the log only.
"""

import asyncio
import inspect
import logging
import sys
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import aclosing, suppress
from typing import Any
from urllib.parse import unquote

from starlette.convertors import Convertor, register_url_convertor
from starlette.routing import Route, Router
from uvicorn.config import Config
from uvicorn.server import ServerState

from coordinator.admin.browser_defence import check_host, check_origin
from coordinator.admin.connection import AdminConnection
from coordinator.admin.connections import Connections
from coordinator.admin.credentials import Credentials
from coordinator.admin.endpoint import PROBLEM_JSON, Endpoint, RefusedRequest, Request, Response, Stream, wait_ms
from coordinator.admin.json_body import json_bytes
from coordinator.admin.routes import all_endpoints
from coordinator.admin.server_view import RunsInThread
from coordinator.admin.validation import read_body, read_query
from coordinator.config.settings import AdminConfig

_log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_HEADERS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


class _Segment(Convertor[str]):
    """One segment of a path as it was sent, perhaps empty: ids may contain anything, a quoted slash too."""

    regex = "[^/]*"

    def convert(self, value: str) -> str:
        return unquote(value, errors="replace")

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("segment", _Segment())


def protocol_factory(
    server: RunsInThread,
    config: AdminConfig,
    connections: Connections,
    token: str,
    endpoints: Sequence[Endpoint] | None = None,
) -> Callable[[], AdminConnection]:
    """A function that makes the protocol of a connection."""
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # it warns of each malformed request
    time_limit_s = config.admin_request_time_ms / 1000
    uvicorn_config = Config(
        Application(server, config, Credentials(config, token), all_endpoints() if endpoints is None else endpoints),
        loop="none",
        http=AdminConnection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        h11_max_incomplete_event_size=config.admin_header_bytes,
    )
    uvicorn_config.load()
    state = ServerState()
    return lambda: AdminConnection(uvicorn_config, state, connections, time_limit_s)


class Application:
    """An ASGI application for these endpoints."""

    def __init__(
        self, server: RunsInThread, config: AdminConfig, credentials: Credentials, endpoints: Sequence[Endpoint]
    ) -> None:
        self._server = server
        self._config = config
        self._credentials = credentials
        self._endpoints = endpoints
        by_path: dict[str, dict[str, Endpoint]] = {}
        for endpoint in endpoints:
            methods = by_path.setdefault(endpoint.path, {})
            if endpoint.method in methods:
                raise ValueError(f"{endpoint.method} {endpoint.path} is declared twice")
            methods[endpoint.method] = endpoint
        self._router = Router(
            [Route(path.replace("}", ":segment}"), _Path(self, methods)) for path, methods in by_path.items()],
            redirect_slashes=False,
            default=self._no_path,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection: AdminConnection = scope["state"]["connection"]
        task = connection.task = asyncio.current_task()
        sender = _Sender(send, scope["method"])
        try:
            scope["path"] = scope["raw_path"].decode("ascii")
            scope["sender"] = sender
            await self._router(scope, receive, send)
        except RefusedRequest as refused:
            await sender.refuse(refused)
        except asyncio.CancelledError:
            # The server stops, or the client reads too slowly. uvicorn would report it as a bug.
            with suppress(RuntimeError):
                if not await sender.end(connection.end_reason):
                    connection.abandon()
        except _ClientGone:
            connection.abandon()
        except Exception:  # noqa: BLE001 - a bug in a handler must not stop the server
            _log.exception("event=admin_request_failed method=%s path=%s", scope["method"], scope["path"])
            if sender.is_started:
                connection.abandon()
            else:
                await sender.refuse(RefusedRequest(500, "the request failed; see the server's log"))
        finally:
            connection.release()
            if connection.task is task:
                connection.task = None

    async def _no_path(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI
        self.check_head(scope, None)
        raise RefusedRequest(404, "no such path; / lists them")

    def check_head(self, scope: Scope, endpoint: Endpoint | None) -> Mapping[str, str]:
        """The headers. Raises RefusedRequest."""
        size = len(scope["raw_path"]) + len(scope["query_string"])
        size += sum(len(name) + len(value) + 4 for name, value in scope["headers"])
        if size > self._config.admin_header_bytes:
            raise RefusedRequest(
                431, "the request headers are too large; admin.header.bytes is the limit", headers=_CLOSE
            )
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        check_origin(scope["method"], headers)
        connection: AdminConnection = scope["state"]["connection"]
        if not self._credentials.are_in(headers, has_certificate=connection.has_certificate):
            check_host(headers, self._config.host)
            self._check_anonymous(scope["method"], endpoint)
        return headers

    def _check_anonymous(self, method: str, endpoint: Endpoint | None) -> None:
        """Raises RefusedRequest: 401, 403 the request needs credentials."""
        changes = method not in {"GET", "HEAD"} or (
            endpoint is not None and (endpoint.control or endpoint.shows_records)
        )
        if (endpoint is not None and endpoint.is_open) or self._credentials.allow_anonymous(changes=changes):
            return
        if not self._credentials.are_set:
            raise RefusedRequest(
                403, "this needs credentials, and the server has no token: set admin.token, or admin.anonymous=all"
            )
        raise RefusedRequest(
            401,
            "this needs the token (admin.token) as bearer or as password, or a client certificate",
            headers={"www-authenticate": 'Bearer, Basic realm="coordinator", charset="UTF-8"'},
        )

    async def answer(self, endpoint: Endpoint, headers: Mapping[str, str], scope: Scope, receive: Receive) -> None:
        """Runs the handler of an endpoint, and sends what it returns. Raises RefusedRequest, _ClientGone."""
        connection: AdminConnection = scope["state"]["connection"]
        raw = await self._body(headers, receive)
        connection.work()
        if endpoint.control and not self._config.admin_control_enable:
            raise RefusedRequest(403, "control is off; admin.control.enable=true turns it on")
        takes_body = endpoint.method != "GET"
        if takes_body and raw and not _is_json(headers.get("content-type", "")):
            raise RefusedRequest(415, "the content type must be application/json")
        request = Request(
            method=scope["method"],
            path=scope["path"],
            parameters=scope["path_params"],
            query=read_query(scope["query_string"], endpoint.query),
            body=read_body(raw, endpoint.body) if takes_body else None,
            headers=headers,
            asked_by=f"admin HTTP from {scope['client'][0]}" if scope["client"] else "admin HTTP",
            endpoints=self._endpoints,
        )
        result: Any = endpoint.handle(self._server, request)
        if inspect.isawaitable(result):
            result = await self._awaited(result, wait_ms(request.query), connection, receive)
        sender: _Sender = scope["sender"]
        if isinstance(result, Stream):
            await self._stream(result, sender, connection, receive)
        elif isinstance(result, Response):
            await sender.send(result)
        else:
            headers = {"location": endpoint.creates.format(id=result.id)} if endpoint.creates else {}
            await sender.send(Response(body=json_bytes(result), status=endpoint.status, headers=headers))

    async def _body(self, headers: Mapping[str, str], receive: Receive) -> bytes:
        """The whole body. Raises RefusedRequest, _ClientGone."""
        limit = self._config.admin_body_bytes
        too_large = RefusedRequest(
            413, f"the body has more than {limit} bytes; admin.body.bytes is the limit", headers=_CLOSE
        )
        if int(headers.get("content-length", 0)) > limit:
            raise too_large
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _ClientGone
            body.extend(message["body"])
            if len(body) > limit:
                raise too_large
            if not message["more_body"]:
                return bytes(body)

    async def _awaited(
        self, result: Awaitable[Any], timeout_ms: int, connection: AdminConnection, receive: Receive
    ) -> Any:
        """What a handler returns in time. Raises RefusedRequest, _ClientGone."""
        task = asyncio.ensure_future(result)
        watched: set[asyncio.Future[Any]] = {task}
        try:
            if timeout_ms:
                self._hold(connection)
                watched.add(asyncio.ensure_future(_client_gone(receive)))
            limit_s = (self._config.admin_request_time_ms + timeout_ms) / 1000
            done, _ = await asyncio.wait(watched, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            if task in done:
                return task.result()
            if done:
                raise _ClientGone
            raise RefusedRequest(
                503, f"no result within {limit_s:g} s (admin.request.time.ms); it is unknown whether it was done"
            )
        finally:
            await _cancel(watched, sys.exc_info()[1])

    async def _stream(self, stream: Stream, sender: "_Sender", connection: AdminConnection, receive: Receive) -> None:
        gone = asyncio.ensure_future(_client_gone(receive))
        send = asyncio.ensure_future(sender.send_stream(stream))
        try:
            self._hold(connection)
            await asyncio.wait({gone, send}, return_when=asyncio.FIRST_COMPLETED)
            if not send.done():
                raise _ClientGone
            send.result()
        finally:
            await _cancel({gone, send}, sys.exc_info()[1])

    def _hold(self, connection: AdminConnection) -> None:
        if not connection.hold():
            raise RefusedRequest(503, "too many long polls and streams at once; they may be half of admin.connections")


_CLOSE = {"connection": "close"}


class _ClientGone(Exception):
    """The client has closed the connection."""


async def _client_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _cancel(tasks: set[asyncio.Future[Any]], error: BaseException | None) -> None:
    """Cancels what still runs, and waits for the end of it, unless the loop is gone and nothing can be waited for.

    `error`: what ends the request.
    """
    for task in tasks:
        task.cancel()
    if isinstance(error, GeneratorExit):
        return
    await asyncio.gather(*tasks, return_exceptions=True)


class _Path:
    """The methods of one path, as an ASGI application."""

    def __init__(self, application: Application, methods: Mapping[str, Endpoint]) -> None:
        self._application = application
        self._methods = methods
        self._allow = ", ".join(sorted({*methods, *(["HEAD"] if "GET" in methods else [])}))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        endpoint = self._methods.get(method)
        headers = self._application.check_head(scope, endpoint)
        if endpoint is None:
            raise RefusedRequest(405, f"the path supports {self._allow}", headers={"allow": self._allow})
        await self._application.answer(endpoint, headers, scope, receive)


class _Sender:
    """Sends one response."""

    def __init__(self, send: Send, method: str) -> None:
        self._send = send
        self._is_head = method == "HEAD"
        self.is_started = False
        self._stream: Stream | None = None

    async def send(self, response: Response) -> None:
        """Sends a complete response."""
        headers = {"content-type": response.content_type, "content-length": str(len(response.body)), **response.headers}
        await self._start(response.status, headers)
        await self._send({"type": "http.response.body", "body": response.body})

    async def refuse(self, refused: RefusedRequest) -> None:
        """Sends a refusal, unless a response has begun."""
        body, status = json_bytes(refused.problem), refused.status
        await self.send(Response(body=body, status=status, content_type=PROBLEM_JSON, headers=refused.headers))

    async def send_stream(self, stream: Stream) -> None:
        """Sends the chunks of a stream as they come; a cancelled one ends there."""
        self._stream = stream
        await self._start(200, {"content-type": stream.content_type})
        async with aclosing(stream.chunks) as chunks:
            if not self._is_head:
                async for chunk in chunks:
                    await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
                    await asyncio.sleep(0)  # a client that reads fast would keep the loop from others
        await self._send({"type": "http.response.body", "body": b""})

    async def end(self, reason: str) -> bool:
        """Ends the response early. Returns False if it cannot end in an orderly way."""
        if self._stream is not None:
            await self._send({"type": "http.response.body", "body": self._stream.last(reason)})
            return True
        if self.is_started:
            return False
        await self.refuse(RefusedRequest(503, reason, headers=_CLOSE))
        return True

    async def _start(self, status: int, headers: Mapping[str, str]) -> None:
        self.is_started = True
        pairs = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": [*pairs, *_HEADERS]})


def _is_json(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == "application/json"
