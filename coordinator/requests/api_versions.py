"""ApiVersions: what this server speaks, derived from the files of this package and from nothing else.

A client opens every connection with it, in the newest version it knows; so this is the one API that answers a version
it does not speak: in version 0, with UNSUPPORTED_VERSION and the range of ApiVersions itself; the client asks again.

Features (KIP-584): there are two levels that clients look at. By `transaction.version` they choose the protocol of their
transactions; `streams.version` says whether streams groups are served. Both are settings here and never change while the server
runs, so the epoch is always 0. As in Kafka, level 0 is a feature that is not listed, and a supported range that begins at 0 is
told from v4 on: before, clients could not read it.
"""

import re
from collections.abc import Mapping

from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.config.settings import ServerConfig
from coordinator.groups.settings import STREAMS
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ApiVersionsRequest, ApiVersionsResponse

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?\Z")
TRANSACTION_VERSION = "transaction.version"
TRANSACTION_VERSIONS = (0, 2)
STREAMS_VERSION = "streams.version"
STREAMS_VERSIONS = (0, 1)
_PRODUCE = 0
_NO_NODE = -1


def handle(server: Server, exchange: Exchange[ApiVersionsRequest | None]) -> None:
    request = exchange.request
    if request is None:
        exchange.reply(unsupported())
    else:
        exchange.reply(respond(server, exchange.supported, request, exchange.api_version))


def respond(
    server: Server, supported: Mapping[int, tuple[int, int]], request: ApiVersionsRequest, api_version: int
) -> ApiVersionsResponse:
    """Lists the versions of every API; an error response lists none."""
    if api_version >= 3 and not (
        _SOFTWARE.match(request.client_software_name) and _SOFTWARE.match(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    if request.cluster_id is not None or request.node_id != _NO_NODE:
        # KIP-1242: a client says whom it means to talk to; both or neither.
        if request.cluster_id is None or request.node_id == _NO_NODE:
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        if (request.cluster_id, request.node_id) != (server.cluster_id, server.node_id):
            return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    response = ApiVersionsResponse(api_keys=[_entry(key, versions) for key, versions in sorted(supported.items())])
    _add_features(response, server.config, api_version)
    return response


def _add_features(response: ApiVersionsResponse, config: ServerConfig, api_version: int) -> None:
    serves_streams = STREAMS in config.groups.group_coordinator_rebalance_protocols
    levels = {STREAMS_VERSION: int(serves_streams), TRANSACTION_VERSION: config.transactions.transaction_version}
    if api_version >= 4:
        response.supported_features = [
            ApiVersionsResponse.SupportedFeatureKey(STREAMS_VERSION, *STREAMS_VERSIONS),
            ApiVersionsResponse.SupportedFeatureKey(TRANSACTION_VERSION, *TRANSACTION_VERSIONS),
        ]
    response.finalized_features_epoch = 0
    response.finalized_features = [
        ApiVersionsResponse.FinalizedFeatureKey(name, level, level) for name, level in levels.items() if level
    ]


def unsupported() -> ApiVersionsResponse:
    """Builds the response, in version 0, to a request of an unsupported version."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[_entry(API.key, API.versions)])


def refuse(_request: ApiVersionsRequest | None, error: KafkaError, _api_version: int) -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=error.code)


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
    refuse=refuse,
    writes=False,
)
