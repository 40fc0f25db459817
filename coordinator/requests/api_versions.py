"""ApiVersions (key 18): the supported APIs and versions, derived from the files of this package.

Every client opens a connection with this request, in the newest version that it knows. It is therefore the one API that
answers an unsupported version: in version 0, with UNSUPPORTED_VERSION and the range of ApiVersions itself, so that the client
can ask again. v3 names the client's software (KIP-511).

Features (KIP-584; config/features.py): clients look at the levels. The epoch is 0 until a client has set one of them, then the
end of the metadata log, which grows. As in Kafka, a feature at level 0 is not listed, and a supported range that begins at 0 is
sent from v4 on only: earlier clients cannot read it.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from coordinator.api import HERE, Api, Exchange, Server
from coordinator.config import features
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import ApiVersionsRequest, ApiVersionsResponse
from coordinator.protocol.releases import Release

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?\Z")
FEATURES_FROM_ZERO_SINCE = 4
"""Earlier clients cannot read a supported range that begins at 0."""
_PRODUCE = 0
_NO_NODE = -1


def handle(server: Server, exchange: Exchange[ApiVersionsRequest | None]) -> None:
    request = exchange.request
    if request is None:
        exchange.reply(unsupported(exchange.supported[API.key]))
    else:
        exchange.reply(respond(server, exchange.supported, request, exchange.api_version))


def respond(
    server: Server,
    supported: Mapping[int, tuple[int, int]],
    request: ApiVersionsRequest,
    api_version: int,
    release: Release | None = None,
) -> ApiVersionsResponse:
    """Lists the versions of every API, and the features of the release; an error response lists none."""
    error = refused(request, api_version, server.cluster_id, server.node_id)
    if error is not ErrorCode.NONE:
        return ApiVersionsResponse(error_code=error)
    response = listed(supported)
    _add_features(response, server, api_version, release)
    return response


def refused(request: ApiVersionsRequest, api_version: int, cluster_id: str, node_id: int) -> ErrorCode:
    """The error of a request that has an invalid name of software, or expects another node; else NONE."""
    if api_version >= 3 and not (
        _SOFTWARE.match(request.client_software_name) and _SOFTWARE.match(request.client_software_version)
    ):
        return ErrorCode.INVALID_REQUEST
    if request.cluster_id is not None or request.node_id != _NO_NODE:
        # KIP-1242: a client names the cluster and node that it expects; both or neither.
        if request.cluster_id is None or request.node_id == _NO_NODE:
            return ErrorCode.INVALID_REQUEST
        if (request.cluster_id, request.node_id) != (cluster_id, node_id):
            return ErrorCode.REBOOTSTRAP_REQUIRED
    return ErrorCode.NONE


def listed(supported: Mapping[int, tuple[int, int]]) -> ApiVersionsResponse:
    """The response with the versions of these APIs, and no features."""
    return ApiVersionsResponse(api_keys=[_entry(key, versions) for key, versions in sorted(supported.items())])


def _add_features(response: ApiVersionsResponse, server: Server, api_version: int, release: Release | None) -> None:
    registry = server.topics.registry
    supported = features.SUPPORTED if release is None else release.supported_features
    response.supported_features = [
        ApiVersionsResponse.SupportedFeatureKey(name, first, last)
        for name, (first, last) in supported.items()
        if first or api_version >= FEATURES_FROM_ZERO_SINCE
    ]
    if registry.feature_levels and supported:
        response.finalized_features_epoch = server.topics.metadata.high_watermark
    else:
        response.finalized_features_epoch = 0 if release is None else release.features_epoch
    response.finalized_features = [
        ApiVersionsResponse.FinalizedFeatureKey(name, level, level)
        for name, level in features.levels_as(release, server.config, registry).items()
        if level
    ]


def unsupported(versions: tuple[int, int]) -> ApiVersionsResponse:
    """Builds the response, in version 0, to a request of an unsupported version."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[_entry(API.key, versions)])


def as_release(apis: Mapping[int, Api[Any]], release: Release) -> dict[int, Api[Any]]:
    """The APIs of an earlier release, by key, in the versions that this server has as well.

    ApiVersions lists the release's own versions. Those that are too old for this server (KIP-896) are listed, as in the
    release, and close the connection; no client that knows a later one sends them.
    """
    offered: dict[int, Api[Any]] = {}
    listed_versions: dict[int, tuple[int, int]] = {}
    for key, api in apis.items():
        versions = release.range_of(api.name, api.versions)
        if versions is None:
            continue
        listed_versions[key] = versions
        first, last = max(versions[0], api.versions[0]), min(versions[1], api.versions[1])
        is_refused = api.name in release.refused
        handle = _unsupported_feature if is_refused else api.handle
        guard = None if is_refused else api.guard
        offered[key] = replace(
            api, versions=(first, last), handle=handle, guard=guard, release=release, behaviours=release.behaviours
        )
    offered[API.key] = replace(offered[API.key], handle=_handle_as(release, listed_versions))
    return offered


def _handle_as(
    release: Release, versions: Mapping[int, tuple[int, int]]
) -> Callable[[Server, Exchange[ApiVersionsRequest | None]], None]:
    def handle(server: Server, exchange: Exchange[ApiVersionsRequest | None]) -> None:
        request = exchange.request
        if request is None:
            exchange.reply(unsupported(versions[API.key]))
        else:
            exchange.reply(respond(server, versions, request, exchange.api_version, release))

    return handle


def _unsupported_feature(_server: Server, exchange: Exchange[Any]) -> None:
    exchange.refuse(ErrorCode.UNSUPPORTED_VERSION)


def _entry(key: int, versions: tuple[int, int]) -> ApiVersionsResponse.ApiVersion:
    first, last = versions
    if key == _PRODUCE:
        # librdkafka assumes that a broker without Produce v0 cannot compress (KAFKA-18659). It never sends v0.
        first = 0
    return ApiVersionsResponse.ApiVersion(api_key=key, min_version=first, max_version=last)


API = Api(
    key=18,
    name="ApiVersions",
    versions=(0, 5),
    access=(),
    handle=handle,
    writes=False,
    errors=frozenset({ErrorCode.REBOOTSTRAP_REQUIRED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED}),
    overlay=HERE,
)
