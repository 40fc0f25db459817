"""From a frame to its API: finds the API files, decodes each request frame and calls its handler.

A module of `requests/` that has an `API` is a supported API; there is no other list. One dispatcher serves the listeners of
one dialect. A frame that no response fits closes the connection, as in Kafka: an unknown key, an unsupported version
(except of ApiVersions, which answers with the versions that are supported), a malformed body.
"""

import importlib
import logging
import pkgutil
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from struct import Struct
from types import ModuleType
from typing import Any, cast

from coordinator.api.declaration import Api
from coordinator.api.exchange import CachedRequest, Exchange, ReplyQueue, RequestForm, Route
from coordinator.api.server import Server
from coordinator.protocol.codec import Codec, DecodeError
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.form import Filled
from coordinator.protocol.header import decode_request_header

_log = logging.getLogger(__name__)

API_VERSIONS = 18
CACHED_REQUEST_BYTES_MAX = 512
"""A larger request is not cached, because every connection may hold one."""
FORM_BYTES_MAX = 512
"""Nor is there a form of a larger one, which with all that is made of it takes forty times as much."""
FORM_PAYS_AFTER, UNLIKE_MAX = 8, 16
"""To make a form costs as much as a few requests save by it. So one that has served is replaced by the first request that is
unlike it, any other after so many. (A client may commit other partitions each time.)"""
UNLIKE_AT_FIRST = UNLIKE_MAX - 2
"""A connection's second request makes its form."""
_CORRELATION_ID = Struct(">i").unpack_from
_BLANKS = {4: "i", 8: "q", 12: "qi"}
"""A correlation id, an offset, an offset and a leader epoch."""

_new_filled = partial(tuple.__new__, Filled)
"""Without the call of its constructor."""

NO_CACHED_REQUEST = CachedRequest(b"nothing", b"", cast(Route, None), None, None)
"""For a connection that has sent no cacheable request. Its head is longer than four bytes, so that no frame matches it, not
even an empty one."""


NO_FORM = RequestForm(b"", b"", {}, cast(Route, None), None, None)
"""Of a connection that has none."""
NO_FORM.size_bytes = -1


class RefusedFrame(Exception):
    """The connection must be closed; the text says why."""


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


def _in_dialect(api: Api[Any], codec: Codec) -> Api[Any]:
    """The API with the versions for which the dialect defines a request."""
    request = codec.versions(f"{api.name}Request")
    first, last = api.versions
    return replace(api, versions=(max(first, request.lowest), min(last, request.highest)))


class Dispatcher:
    """Decodes the frames of one dialect and hands each to its API's `handle(server, exchange)`."""

    def __init__(self, server: Server, apis: Mapping[int, Api[Any]], codec: Codec) -> None:
        self._server = server
        self._apis = {key: _in_dialect(api, codec) for key, api in apis.items()}
        self._supported = {key: api.versions for key, api in self._apis.items()}
        self._codec = codec
        self._routes: dict[int, Route] = {}

    @property
    def routes(self) -> list[Route]:
        """The routes used so far, with their counts."""
        return list(self._routes.values())

    def dispatch(self, frame: bytes, queue: ReplyQueue) -> None:
        """Handles one request frame (without its size), which is answered now or later. Raises RefusedFrame."""
        cached, form = queue.cached_request, queue.form
        if frame[8:] == cached.rest and frame[:4] == cached.head:
            route, client_id, request = cached.route, cached.client_id, cached.request
            (correlation_id,) = _CORRELATION_ID(frame, 4)
        elif len(frame) == form.size_bytes and (numbers := form.read(frame)) is not None:
            form.served += 1
            route, client_id, correlation_id = form.route, form.client_id, numbers[0]
            request = _new_filled((form.content, numbers))
        else:
            try:
                api_key, version, correlation_id, client_id, position = decode_request_header(frame)
                route = self._routes.get(api_key << 16 | version) or self._route(api_key, version)
                # The body of an ApiVersions of an unsupported version is not decoded; it is answered in version 0.
                request = route.decode(frame, position)[0] if route.version == version else None
            except DecodeError as error:
                raise RefusedFrame(f"malformed request: {error}") from error
            if route.is_cacheable and len(frame) <= CACHED_REQUEST_BYTES_MAX:
                queue.cached_request = CachedRequest(frame[:4], frame[8:], route, client_id, request)
            elif route.form is not None and len(frame) <= FORM_BYTES_MAX:
                self._learn(queue, frame, position, route, client_id)
        exchange: Exchange[Any] = Exchange(route, queue, request, correlation_id, client_id)
        queue.expect(exchange)
        try:
            route.handle(self._server, exchange)
        except KafkaError as error:
            exchange.reply(exchange.refusal(error))
        except Exception:  # noqa: BLE001 - a bug must not take the other connections down
            _log.exception("event=request_failed api=%s version=%d", route.name, route.version)
            exchange.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)

    def _learn(self, queue: ReplyQueue, frame: bytes, position: int, route: Route, client_id: str | None) -> None:
        """Makes a request's form, if that may pay."""
        queue.unlike += 1
        if queue.unlike < UNLIKE_MAX and queue.form.served < FORM_PAYS_AFTER:
            return
        queue.unlike = 0
        queue.form = NO_FORM
        request = route.decode(frame, position)[0]
        samples = route.form(request, route.version) if route.form is not None else None
        encode = self._codec.encoder(f"{route.name}Request", route.version)
        if samples is None or encode(request) != frame[position:]:  # it may say more than we understand
            return
        other, content = samples
        inverted_id = (~_CORRELATION_ID(frame, 4)[0]).to_bytes(4, signed=True)
        queue.form = RequestForm(
            frame, frame[:4] + inverted_id + frame[8:position] + encode(other), _BLANKS, route, client_id, content
        )

    def _route(self, api_key: int, version: int) -> Route:
        api = self._apis.get(api_key)
        if api is None:
            raise RefusedFrame(f"unknown API key {api_key}")
        first, last = api.versions
        answered_in = version
        if not first <= version <= last:
            if api_key != API_VERSIONS:
                raise RefusedFrame(f"unsupported version {version} of {api.name} (supported: {first} to {last})")
            answered_in = 0
        codec = self._codec
        route = Route(
            api.name,
            answered_in,
            api.handle,
            api.refuse,
            codec.decoder(f"{api.name}Request", answered_in),
            codec.encoder(f"{api.name}Response", answered_in),
            codec.parts_encoder(f"{api.name}Response", answered_in),
            supported=self._supported,
            flexible_response=api_key != API_VERSIONS and codec.is_flexible(f"{api.name}Response", answered_in),
            is_cacheable=api.is_cacheable,
            form=api.form,
            writes=api.writes,
        )
        if answered_in == version:
            self._routes[api_key << 16 | version] = route
        return route
