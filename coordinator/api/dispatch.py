"""From a frame to its API: finds the API files, decodes each request frame and calls its handler.

A module of `requests/` that has an `API` is a supported API; there is no other list. One dispatcher serves the listeners of
one dialect. A frame that no response fits closes the connection, as in Kafka: an unknown key, an unsupported version
(except of ApiVersions, which answers with the versions that are supported), a malformed body.
"""

import importlib
import pkgutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from struct import Struct
from types import MappingProxyType, ModuleType
from typing import Any, cast

from coordinator.api.declaration import Api
from coordinator.api.exchange import CachedRequest, Exchange, Interceptor, LearnTemplate, Metering, ReplyQueue, Route
from coordinator.api.server import Server
from coordinator.protocol.codec import Codec, DecodeError
from coordinator.protocol.header import decode_request_header
from coordinator.security.authorizer import Authorizer

API_VERSIONS = 18
CACHED_REQUEST_BYTES_MAX = 512
"""A larger request is not cached, because every connection may hold one."""
_CORRELATION_ID = Struct(">i").unpack_from
NO_CACHED_REQUEST = CachedRequest(b"nothing", b"", cast(Route, None), None, None)
"""For a connection that has sent no cacheable request. Its head is longer than four bytes, so that no frame matches it, not
even an empty one."""


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
    """The API with the versions for which the dialect defines a request; a version that only it defines is supported, too."""
    name = f"{api.name}Request"
    request, first, last = codec.versions(name), *api.versions
    is_extended = request.highest > Codec.of().versions(name).highest
    return replace(
        api, versions=(max(first, request.lowest), request.highest if is_extended else min(last, request.highest))
    )


def _guarded(api: Api[Any], authorizer: Authorizer) -> Callable[[Server, Exchange[Any]], None]:
    guard, own_handle = api.guard, api.handle
    if guard is None:
        return own_handle

    def handle(server: Server, exchange: Exchange[Any]) -> None:
        guard(server, exchange, exchange.permits)

    def handle_cached(server: Server, exchange: Exchange[Any]) -> None:
        queue = exchange.queue
        cached, version = queue.cached_request, authorizer.version
        if cached.request is not exchange.request:
            handle(server, exchange)
        elif cached.permitted == version:
            own_handle(server, exchange)
        else:
            handle(server, exchange)
            if queue.cached_request is cached:
                queue.cached_request = cached._replace(permitted=version)

    return handle_cached if api.is_cacheable and api.is_guarded_whole else handle


class Dispatcher:
    """Decodes the frames of one dialect and hands each to its API's `handle(server, exchange)`."""

    def __init__(
        self,
        server: Server,
        apis: Mapping[int, Api[Any]],
        codec: Codec,
        learners: Mapping[int, LearnTemplate] = MappingProxyType({}),
        authorizer: Authorizer | None = None,
    ) -> None:
        """`learners`: API key -> what makes templates of its requests. `authorizer`: None allows everything."""
        self._server = server
        self._authorizer = authorizer
        self._learners = learners
        self._apis = {key: _in_dialect(api, codec) for key, api in apis.items()}
        self._supported = {key: api.versions for key, api in self._apis.items()}
        self._codec = codec
        self._routes: dict[int, Route] = {}
        self._intercepted: Collection[str] = ()
        """The names of the APIs whose requests the interceptor gets."""
        self._interceptor: Interceptor | None = None
        self._metering: Metering | None = None

    @property
    def routes(self) -> list[Route]:
        """The routes used so far, with their counts."""
        return list(self._routes.values())

    def versions(self, api_key: int) -> tuple[int, int]:
        """The first and last version of an API."""
        return self._supported[api_key]

    def dispatch(self, frame: bytes, queue: ReplyQueue) -> None:
        """Handles one request frame (without its size), which is answered now or later. Raises RefusedFrame."""
        cached, template = queue.cached_request, queue.template
        if frame[8:] == cached.rest and frame[:4] == cached.head:
            route, client_id, request = cached.route, cached.client_id, cached.request
            handle = route.handle
            (correlation_id,) = _CORRELATION_ID(frame, 4)
        elif len(frame) == template.size_bytes and (request := template.match(frame)) is not None:
            route, client_id, handle = template.route, template.client_id, template.handle
            correlation_id = request.values[0]
        else:
            try:
                api_key, version, correlation_id, client_id, position = decode_request_header(frame)
                route = self._routes.get(api_key << 16 | version) or self._route(api_key, version)
                # The body of an ApiVersions of an unsupported version is not decoded; it is answered in version 0.
                request = route.decode(frame, position)[0] if route.version == version else None
            except DecodeError as error:
                raise RefusedFrame(f"malformed request: {error}") from error
            handle = route.handle
            if route.is_cacheable and len(frame) <= CACHED_REQUEST_BYTES_MAX:
                queue.cached_request = CachedRequest(frame[:4], frame[8:], route, client_id, request)
            elif route.learn is not None:
                route.learn(queue, frame, position, route, client_id)
        exchange = route.exchange(route, queue, request, correlation_id, client_id)
        queue.expect(exchange)
        try:
            handle(self._server, exchange)
        except Exception as error:  # noqa: BLE001 - one failed request must not take the connection down
            exchange.fail(error)

    def intercept(self, names: Collection[str], interceptor: Interceptor) -> None:
        """Lets the interceptor have the requests of these APIs, and of no others any more."""
        self._intercepted, self._interceptor = names, interceptor
        for route in self._routes.values():
            route.intercept(interceptor if route.name in names else None)

    def meter(self, metering: Metering) -> None:
        """Lets quotas count the requests of the APIs that they concern now, and of no others any more."""
        self._metering = metering
        for route in self._routes.values():
            route.meter(metering if metering.concerns(route.name) else None)

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
            api.handle if self._authorizer is None else _guarded(api, self._authorizer),
            api.refuse,
            codec.decoder(f"{api.name}Request", answered_in),
            codec.encoder(f"{api.name}Response", answered_in),
            codec.parts_encoder(f"{api.name}Response", answered_in),
            supported=self._supported,
            flexible_response=api_key != API_VERSIONS and codec.is_flexible(f"{api.name}Response", answered_in),
            dialect=codec.schemas.dialect,
            is_cacheable=api.is_cacheable,
            learn=self._learners.get(api_key),
            writes=api.writes,
            access=api.access,
            authorizer=self._authorizer,
        )
        if route.name in self._intercepted:
            route.intercept(self._interceptor)
        if self._metering is not None and self._metering.concerns(route.name):
            route.meter(self._metering)
        if answered_in == version:
            self._routes[api_key << 16 | version] = route
        return route
