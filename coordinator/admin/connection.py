"""One HTTP/1.1 connection: uvicorn's protocol on h11, with the limits that uvicorn does not keep.

    a client that does not send a request, or does not read a response, within `admin.request.time.ms`   is cut off;
        a stream whose client stops reading ends with an event that says so
    more than `admin.connections` connections                                     one that waits is cut off (connections.py)
    a header that is incomplete after `admin.header.bytes`                        431 (complete ones: application.py)

A client may close its side when its request is sent; it gets the response all the same.
"""

import asyncio
import sys
from collections.abc import Iterable
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from coordinator.admin.connections import Connections
from coordinator.admin.endpoint import PROBLEM_JSON, RefusedRequest
from coordinator.admin.json_body import json_bytes
from coordinator.admin.server import BUSY

_HEADERS = [(b"content-type", PROBLEM_JSON.encode()), (b"connection", b"close")]


class AdminConnection(H11Protocol):
    """A connection. The application finds it as `scope["state"]["connection"]`."""

    def __init__(self, config: Config, state: ServerState, connections: Connections, time_limit_s: float) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(config, state, {"connection": self}, loop)
        self._connections = connections
        self._time_limit_s = time_limit_s
        self._timer: asyncio.TimerHandle | None = None
        self._is_working = False
        self.is_held = False
        """Whether its request is a long poll or an event stream."""
        self.end_reason = ""
        """Why `task` was cancelled."""
        self.task: asyncio.Task[Any] | None = None
        """What works on the request, and can be cancelled."""
        self.has_certificate = False
        """Whether the client has a certificate that an authority of `admin.ssl.truststore.location` signed."""
        self.closed: asyncio.Future[None] = loop.create_future()

    # --- what the application reports ---------------------------------------------------------------------------------

    def work(self) -> None:
        """The request has arrived: from now on the client waits for the server."""
        self._is_working = True
        self._stop_timer()
        self._connections.work(self)

    def hold(self) -> bool:
        """The request is a long poll or a stream. Returns False if there are too many of them."""
        if self._connections.held >= self._connections.held_max:
            return False
        self._connections.held += 1
        self.is_held = True
        return True

    def release(self) -> None:
        """The long poll or the stream is over."""
        if self.is_held:
            self.is_held = False
            self._connections.held -= 1

    # --- the two ends -------------------------------------------------------------------------------------------------

    def abandon(self) -> None:
        self._end_cycle()
        self.transport.abort()

    def stop(self) -> Iterable[asyncio.Task[Any]]:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
            return ()
        if self.task is None:  # its request is not complete
            self.abandon()
            return ()
        self._end_task("the server is stopping")
        return (self.task,)

    def _end_task(self, reason: str) -> None:
        """Ends a response early. Its last bytes do not wait until the client has read those before."""
        assert self.task is not None
        self.end_reason = reason
        self.cycle.keep_alive = False
        self.flow.resume_writing()
        self.task.cancel()

    def _end_cycle(self) -> None:
        """Makes uvicorn drop what the application still sends."""
        if self.cycle is not None:
            self.cycle.disconnected = True

    # --- asyncio.Protocol ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        if self._connections.admit(self):
            super().connection_made(transport)
            tls = transport.get_extra_info("ssl_object")
            self.has_certificate = tls is not None and tls.getpeercert(binary_form=True) is not None
            self._start_timer()
        else:
            self.transport = transport
            transport.write(BUSY)
            transport.close()

    def data_received(self, data: bytes) -> None:
        if not self.transport.is_closing():
            super().data_received(data)

    def eof_received(self) -> bool:  # type: ignore[override]  # asyncio allows it
        """Keeps the connection half-open, which TLS cannot, if a response is due; a long poll or a stream ends."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete or cycle.more_body or self.is_held or self.scheme == "https":
            return False
        cycle.keep_alive = False
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._unset_keepalive_if_required()
        self._connections.forget(self)
        if self.flow is not None:  # it was admitted
            super().connection_lost(exc)
        if not self.closed.done():
            self.closed.set_result(None)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._is_working:
            self._connections.wait(self)
            self._start_timer()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._is_working:
            self.work()
        elif not self.transport.is_closing():
            self._start_timer()

    # --- uvicorn's protocol -------------------------------------------------------------------------------------------

    def on_response_complete(self) -> None:
        self._is_working = False
        self._connections.wait(self)
        self._start_timer()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's text has no status
        """Answers bytes that are not a request. uvicorn calls it while it handles h11's error."""
        error = sys.exception()
        is_large = isinstance(error, h11.RemoteProtocolError) and error.error_status_hint == 431
        if self.conn.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            self.abandon()
            return
        refused = (
            RefusedRequest(431, "the request headers are too large; admin.header.bytes is the limit")
            if is_large
            else RefusedRequest(400, "the request is not HTTP/1.1")
        )
        body = json_bytes(refused.problem)
        self._end_cycle()
        length = (b"content-length", b"%d" % len(body))
        events = (
            h11.Response(status_code=refused.status, headers=[*_HEADERS, length]),
            h11.Data(data=body),
            h11.EndOfMessage(),
        )
        self.transport.write(b"".join(self.conn.send(event) or b"" for event in events))
        self.transport.close()

    # --- time ---------------------------------------------------------------------------------------------------------

    def _start_timer(self) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(self._time_limit_s, self._on_time_over)

    def _on_time_over(self) -> None:
        """Abandons the connection; a stream first gets a last event."""
        if self._is_working and self.is_held and self.task is not None and not self.end_reason:
            self._end_task(f"the client has read nothing for {self._time_limit_s:g} s")
            self._start_timer()
        else:
            self.abandon()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
