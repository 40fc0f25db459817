"""From a frame to its API: decodes each request frame and calls the outermost layer of its route (api/route.py).

One dispatcher serves the listeners of one dialect. A frame that no response fits closes the connection, as in Kafka: an unknown
key, an unsupported version (except of ApiVersions, which answers with the versions that are supported), a malformed body.
"""

from collections.abc import Mapping
from dataclasses import replace
from struct import Struct
from types import MappingProxyType
from typing import Any

from coordinator.api.declaration import Api
from coordinator.api.exchange import ReplyQueue
from coordinator.api.guards import Guards
from coordinator.api.recognition import CACHED_REQUEST_BYTES_MAX, CachedRequest, LearnTemplate
from coordinator.api.route import PERMITS, Layer, Route
from coordinator.api.server import Server
from coordinator.protocol.codec import Codec, DecodeError
from coordinator.protocol.header import decode_request_header
from coordinator.runtime.memory import COUNTED_BYTES
from coordinator.security.authorizer import Authorizer

API_VERSIONS = 18
_CORRELATION_ID = Struct(">i").unpack_from


class RefusedFrame(Exception):
    """The connection must be closed; the text says why."""


def _in_dialect(api: Api[Any], codec: Codec) -> Api[Any]:
    """The API with the versions for which the dialect defines a request; a version that only it defines is supported, too."""
    name = f"{api.name}Request"
    request, first, last = codec.versions(name), *api.versions
    is_extended = request.highest > Codec.of().versions(name).highest
    return replace(
        api, versions=(max(first, request.lowest), request.highest if is_extended else min(last, request.highest))
    )


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
        self._codec = codec
        self._routes: dict[int, Route] = {}
        self._former_routes: list[Route] = []
        """Those of APIs that were served before `serve`; they keep their counts."""
        self._layers: dict[str, Layer] = {} if authorizer is None else {PERMITS: Guards(authorizer)}
        self.serve(apis, learners)

    def serve(self, apis: Mapping[int, Api[Any]], learners: Mapping[int, LearnTemplate]) -> None:
        """Serves these APIs from now on. Connections that had a request before must end: they keep its route."""
        self._learners = learners
        self._apis = {key: _in_dialect(api, self._codec) for key, api in apis.items()}
        self._supported = {key: api.versions for key, api in self._apis.items()}
        self._former_routes += self._routes.values()
        self._routes = {}

    @property
    def routes(self) -> list[Route]:
        """The routes used so far, with their counts."""
        return [*self._former_routes, *self._routes.values()]

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
                if len(frame) > COUNTED_BYTES:
                    queue.turn.begin()
                # The body of an ApiVersions of an unsupported version is not decoded; it is answered in version 0.
                request = route.decode(frame, position)[0] if route.version == version else None
            except DecodeError as error:
                raise RefusedFrame(f"malformed request: {error}") from error
            handle, queue.frame_bytes = route.handle, len(frame)
            if route.is_cacheable and len(frame) <= CACHED_REQUEST_BYTES_MAX:
                queue.cached_request = CachedRequest(frame[:4], frame[8:], route, client_id, request)
            elif route.learn is not None and not (route.layers and route.needs_all(queue, client_id)):
                route.learn(queue, frame, position, route, client_id)
        exchange = route.exchange(route, queue, request, correlation_id, client_id)
        queue.client_id = client_id
        queue.exchanges.append(exchange)
        try:
            handle(self._server, exchange)
        except Exception as error:  # noqa: BLE001 - one failed request must not take the connection down
            exchange.fail(error)

    def put(self, place: str, layer: Layer) -> None:
        """Puts a layer into its place in `LAYERS`, or asks it again which APIs it concerns."""
        self._layers[place] = layer
        for route in self._routes.values():
            route.compose(self._layers)

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
        route = Route(
            api,
            answered_in,
            self._codec,
            supported=self._supported,
            learn=self._learners.get(api_key),
            authorizer=self._authorizer,
        )
        route.compose(self._layers)
        if answered_in == version:
            self._routes[api_key << 16 | version] = route
        return route
