"""The admin HTTP server: routes, both sides of each limit, and malformed requests."""

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any

import pytest
from msgspec import Struct, defstruct

from coordinator.admin.application import protocol_factory
from coordinator.admin.endpoint import Endpoint, RefusedRequest, Request, Response, Stream, TimeoutMs
from coordinator.admin.server import AdminServer
from coordinator.config.settings import AdminConfig
from tests.support.waiting import WITHIN_S

CONFIG = AdminConfig(
    host="127.0.0.1",
    port=0,
    admin_connections=2,
    admin_header_bytes=512,
    admin_body_bytes=100,
    admin_request_time_ms=60_000,
)


class Body(Struct):
    """Any object."""

    text: str = ""


def echo(_server: Any, request: Request) -> dict[str, Any]:
    return {"name": request.parameters.get("name"), "text": request.body.text if request.body else None}


async def later(_server: Any, _request: Request) -> Response:
    await asyncio.sleep(0)
    return Response(body=b"later", content_type="text/plain")


def broken(_server: Any, _request: Request) -> Response:
    raise RuntimeError("a bug")


def refusing(_server: Any, _request: Request) -> Response:
    raise RefusedRequest(404, "no such thing")


Query = defstruct("Query", [(f"f{number}", str, "") for number in range(100)])

ENDPOINTS = (
    Endpoint("GET", "/echo/{name}", "", echo),
    Endpoint("POST", "/echo/{name}", "", echo, body=Body),
    Endpoint("GET", "/later", "", later, query=Query),
    Endpoint("GET", "/broken", "", broken),
    Endpoint("GET", "/refusing", "", refusing),
)


class View:
    """What the framework itself uses of a server."""

    def run_in_thread(self, function: Any, done: Any) -> None:
        loop = asyncio.get_running_loop()
        loop.run_in_executor(None, function).add_done_callback(lambda future: done(future.result()))


def made(config: AdminConfig = CONFIG, endpoints: tuple[Endpoint, ...] = ENDPOINTS) -> AdminServer:
    """An admin server with these endpoints."""
    view: Any = View()
    return AdminServer(view, config, load=lambda: partial(protocol_factory, endpoints=endpoints))


@asynccontextmanager
async def serving(config: AdminConfig = CONFIG, endpoints: tuple[Endpoint, ...] = ENDPOINTS) -> AsyncIterator[int]:
    """A running admin server; yields its port. The conversation with it must end within WITHIN_S."""
    server = made(config, endpoints)
    port = await server.start()
    try:
        async with asyncio.timeout(WITHIN_S):
            yield port
    finally:
        await server.stop()


async def ask(port: int, data: bytes) -> bytes:
    """Sends bytes and returns everything until the server closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        return await reader.read()
    finally:
        writer.close()


async def ask_and_stay_connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Sends a request and reads the response. After that, the server counts the connection as open."""
    writer.write(b"GET /later HTTP/1.1\r\nhost: localhost\r\n\r\n")
    assert status(await reader.readuntil(b"\r\n\r\n")) == 200
    assert await reader.readexactly(5) == b"later"


def request(target: str, method: str = "GET", body: bytes = b"", *headers: str) -> bytes:
    lines = [
        f"{method} {target} HTTP/1.1",
        "host: localhost",
        "connection: close",
        f"content-length: {len(body)}",
        *headers,
    ]
    if body:
        lines.append("content-type: application/json")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def body(answer: bytes) -> bytes:
    return answer.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (request("/echo/a"), 200),
        (request("/echo/a", "POST", b'{"text": "%s"}' % (b"x" * 88)), 200),
        (request("/later"), 200),
        (request("/later", "HEAD"), 200),
        (request("/nowhere"), 404),
        (request("/echo/a/b"), 404),
        (request("/refusing"), 404),
        (request("/later", "DELETE"), 405),
        (request("/echo/a", "POST", b'{"text": "%s"}' % (b"x" * 89)), 413),
        (request("/later", "GET", b"", "a: " + "b" * 400), 200),
        (request("/later", "GET", b"", "a: " + "b" * 600), 431),
        (request("/later", "GET", b"", "a: " + "b" * 9000), 431),
        (request("/broken"), 500),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"\x16\x03\x01nonsense\r\n\r\n", 400),
        (b"\x00\x00\x00\x10\x00\x12\x00\x04\x00\x00\x00\x01\r\n\r\n", 400),
        (request("/later?f1=a&f1=b"), 400),
        (request("/later?g=a"), 422),
    ],
)
async def test_each_kind_of_request_has_a_status_and_refusals_are_problem_details(asked, expected):
    async with serving() as port:
        answer = await ask(port, asked)
    assert status(answer) == expected
    if expected != 200:
        check_problem(answer)


def check_problem(answer: bytes) -> None:
    """The response is a problem of RFC 9457 whose members agree with the status line."""
    assert b"\r\ncontent-type: application/problem+json\r\n" in answer
    problem = json.loads(body(answer))
    assert (problem["status"], problem["title"]) == (status(answer), HTTPStatus(status(answer)).phrase)
    assert problem["detail"]
    assert "type" not in problem  # about:blank: the status says which problem it is


async def test_path_segments_are_unquoted_and_cannot_inject_headers():
    name = '<script>"\r\nset-cookie: x'
    async with serving() as port:
        answer = await ask(port, request("/echo/%3Cscript%3E%22%0D%0Aset-cookie%3A%20x"))
        assert json.loads(body(answer))["name"] == name
        assert b"\r\nset-cookie" not in answer
        assert b"nosniff" in answer
        slashed = await ask(port, request("/echo/a%2Fb"))
        assert json.loads(body(slashed))["name"] == "a/b"


async def test_the_response_to_a_head_request_has_a_length_but_no_body():
    async with serving() as port:
        answer = await ask(port, request("/later", "HEAD"))
        assert b"content-length: 5" in answer
        assert body(answer) == b""


async def test_a_bug_in_a_handler_is_a_500_without_details():
    async with serving() as port:
        answer = await ask(port, request("/broken"))
        assert status(answer) == 500
        assert b"a bug" not in answer


async def test_a_connection_can_send_several_requests():
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(3):
            await ask_and_stay_connected(reader, writer)
        writer.close()


@pytest.mark.parametrize("sent", [b"", b"GET /later HTT", b"GET /later HTTP/1.1\r\nhost: localhost\r\n"])
async def test_the_connection_of_a_request_that_is_incomplete_for_too_long_is_closed(sent):
    async with serving(replace(CONFIG, admin_request_time_ms=50)) as port:
        assert await ask(port, sent) == b""


async def test_a_connection_over_the_limit_takes_the_place_of_the_longest_wait():
    async with serving() as port:
        first, second = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        for reader, writer in (first, second, first):
            await ask_and_stay_connected(reader, writer)
        assert status(await ask(port, request("/later"))) == 200
        assert await second[0].read() == b""
        await ask_and_stay_connected(*first)
        for _, writer in (first, second):
            writer.close()


async def test_slow_clients_do_not_keep_others_out():
    """Sixteen connections send a request byte by byte, and connect again when they are closed."""
    async with serving(replace(CONFIG, admin_connections=16)) as port:
        opened, slow = [], []
        for _ in range(20):
            slow = [(reader, writer) for reader, writer in slow if not (reader.at_eof() or writer.is_closing())]
            fresh = [await asyncio.open_connection("127.0.0.1", port) for _ in range(16 - len(slow))]
            opened += fresh
            slow += fresh
            for _, writer in slow:
                writer.write(b"G")
            assert status(await ask(port, request("/later"))) == 200
        for _, writer in opened:
            writer.close()


async def test_a_connection_over_the_limit_gets_503_while_the_server_works_on_all_others():
    arrived, released = asyncio.Semaphore(0), asyncio.Event()

    async def held(_server: Any, _request: Request) -> Response:
        arrived.release()
        await released.wait()
        return Response(body=b"released")

    async with serving(endpoints=(*ENDPOINTS, Endpoint("GET", "/held", "", held))) as port:
        working = [asyncio.create_task(ask(port, request("/held"))) for _ in range(2)]
        for _ in working:
            await arrived.acquire()
        refused = await ask(port, request("/later"))
        assert status(refused) == 503
        check_problem(refused)
        released.set()
        assert [status(answer) for answer in await asyncio.gather(*working)] == [200, 200]
        assert status(await ask(port, request("/later"))) == 200


async def test_a_response_that_is_not_read_in_time_is_dropped():
    large = Endpoint("GET", "/large", "", lambda _server, _request: Response(body=bytes(50 << 20)))
    server = made(replace(CONFIG, admin_request_time_ms=50), (large,))
    port = await server.start()
    async with asyncio.timeout(WITHIN_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(request("/large"))
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.wait([connection.closed for connection in server.connections.open])
        read = 0
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 20):
                read += len(data)
        assert read < 50 << 20
        writer.close()
        await server.stop()


@pytest.mark.parametrize(("fields", "expected"), [(100, 200), (101, 400), (5_000, 400)])
async def test_a_query_with_too_many_fields_is_refused(fields, expected, caplog):
    async with serving(replace(CONFIG, admin_header_bytes=65_536)) as port:
        query = "&".join(f"f{number}" for number in range(fields))
        assert status(await ask(port, request(f"/later?{query}"))) == expected
    assert not caplog.records


async def test_stopping_closes_open_connections():
    server = made(replace(CONFIG, admin_request_time_ms=10 * 60_000))
    port = await server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await ask_and_stay_connected(reader, writer)
    await asyncio.wait_for(server.stop(), WITHIN_S)
    assert await asyncio.wait_for(reader.read(), WITHIN_S) == b""
    writer.close()


# --- long polls and streams -------------------------------------------------------------------------------------------


class Waiting(Struct, forbid_unknown_fields=True):
    timeout_ms: TimeoutMs = 0


class Held:
    """Endpoints that hold their request, and what became of it."""

    def __init__(self) -> None:
        self.begun = asyncio.Semaphore(0)
        self.ended = asyncio.Event()
        self.endpoints = (
            *ENDPOINTS,
            Endpoint("GET", "/poll", "", self.poll, query=Waiting),
            Endpoint("GET", "/stream", "", self.stream),
        )

    async def poll(self, _server: Any, request: Request) -> Response:
        self.begun.release()
        try:
            await asyncio.sleep(request.query.timeout_ms / 1000)
        finally:
            self.ended.set()
        return Response(body=b"waited")

    def stream(self, _server: Any, _request: Request) -> Stream:
        return Stream(chunks=self.chunks(), content_type="text/plain", last=lambda reason: f"end: {reason}".encode())

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        self.begun.release()
        try:
            while True:
                yield bytes(10_000)
        finally:
            self.ended.set()


async def test_a_long_poll_may_take_its_timeout_in_addition_to_the_time_of_a_request():
    held = Held()
    async with serving(replace(CONFIG, admin_request_time_ms=200), held.endpoints) as port:
        assert body(await ask(port, request("/poll?timeout_ms=400"))) == b"waited"
        assert status(await ask(port, request("/poll?timeout_ms=600001"))) == 422


async def test_a_handler_that_takes_too_long_gets_an_answer_that_says_so():
    async def stuck(_server: Any, _request: Request) -> Response:
        await asyncio.Event().wait()
        return Response(body=b"")

    async with serving(replace(CONFIG, admin_request_time_ms=50), (Endpoint("GET", "/stuck", "", stuck),)) as port:
        answer = await ask(port, request("/stuck"))
        assert (status(answer), b"unknown whether it was done" in answer) == (503, True)


async def test_a_long_poll_whose_client_has_gone_ends():
    held = Held()
    async with serving(endpoints=held.endpoints) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request("/poll?timeout_ms=600000"))
        await held.begun.acquire()
        writer.close()
        await held.ended.wait()


async def test_long_polls_hold_half_of_the_connections_and_leave_the_rest_to_others():
    held = Held()
    async with serving(replace(CONFIG, admin_connections=4), held.endpoints) as port:
        polls = [asyncio.create_task(ask(port, request("/poll?timeout_ms=600000"))) for _ in range(2)]
        for _ in polls:
            await held.begun.acquire()
        refused = await ask(port, request("/poll?timeout_ms=1"))
        assert (status(refused), b"half of admin.connections" in refused) == (503, True)
        assert status(await ask(port, request("/later"))) == 200
        for poll in polls:
            poll.cancel()


async def test_a_stream_whose_client_stops_reading_takes_no_memory_and_ends_with_a_last_chunk():
    held = Held()
    async with serving(replace(CONFIG, admin_request_time_ms=1_000), held.endpoints) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(request("/stream"))
        await reader.readuntil(b"\r\n\r\n")
        await held.ended.wait()
        read = bytearray()
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 20):
                read += data
        assert len(read) < 50 << 20
        assert b"end: the client has read nothing for 1 s" in read
        writer.close()


async def test_a_stop_ends_long_polls_and_streams_at_once():
    held = Held()
    server = made(replace(CONFIG, admin_connections=4, admin_request_time_ms=10 * 60_000), held.endpoints)
    port = await server.start()
    async with asyncio.timeout(WITHIN_S):
        poll = asyncio.create_task(ask(port, request("/poll?timeout_ms=600000")))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request("/stream"))
        for _ in range(2):
            await held.begun.acquire()
        streamed = asyncio.create_task(reader.read())
        await server.stop()
        answer = await poll
        assert (status(answer), b"the server is stopping" in answer) == (503, True)
        assert b"end: the server is stopping" in await streamed
        writer.close()


async def test_a_client_that_closes_its_side_after_the_request_gets_the_response():
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request("/later"))
        writer.write_eof()
        assert body(await reader.read()) == b"later"
        writer.close()


async def test_requests_that_arrive_together_are_answered_in_order():
    async with serving() as port:
        first = request("/later").replace(b"connection: close\r\n", b"")
        answer = await ask(port, first + request("/echo/second"))
        assert answer.index(b"later") < answer.index(b"second")


async def test_a_method_that_a_path_does_not_have_is_answered_with_those_that_it_has():
    async with serving() as port:
        answer = await ask(port, request("/echo/a", "DELETE"))
        assert b"\r\nallow: GET, HEAD, POST\r\n" in answer
        assert b"\r\ncontent-type: application/problem+json\r\n" in answer
        detail = "the path supports GET, HEAD, POST"
        assert json.loads(body(answer)) == {"title": "Method Not Allowed", "status": 405, "detail": detail}


async def test_an_import_that_fails_closes_the_connection_and_the_next_one_tries_again(caplog):
    outcomes = iter([ImportError("no such module"), partial(protocol_factory, endpoints=ENDPOINTS)])

    def load() -> Any:
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    class Threads(View):
        def run_in_thread(self, function: Any, done: Any) -> None:
            def work() -> Any:
                try:
                    return function()
                except ImportError as error:
                    return error

            super().run_in_thread(work, done)

    view: Any = Threads()
    server = AdminServer(view, CONFIG, load=load)
    port = await server.start()
    async with asyncio.timeout(WITHIN_S):
        with contextlib.suppress(ConnectionError):
            assert await ask(port, request("/later")) == b""
        assert status(await ask(port, request("/later"))) == 200
        await server.stop()
    assert "admin_not_loaded" in caplog.text


def test_the_framework_is_not_imported_before_the_first_connection():
    """Start-up and idle memory are those of a server without it (docs/performance.md)."""
    code = (
        "import sys; import coordinator.server.process;"
        "print(sorted({'starlette', 'uvicorn', 'msgspec', 'h11', 'anyio', 'httpx', 'scramp'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
