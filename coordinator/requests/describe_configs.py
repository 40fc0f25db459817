"""DescribeConfigs (key 32): the configs of topics, groups, the server and its loggers (api/config_resources.py).

Each resource is answered by itself, in the order of the request. A list of keys selects some of its configs; null and an
empty list both select all. Unknown keys are left out without an error, as in Kafka. v3 may request documentation (KIP-569).
"""

from collections.abc import Generator

from coordinator.api import Api, Exchange, Forwarded, Permits, Pieces, Server, denial
from coordinator.api.config_resources import ConfigResourceType, config_access, config_resource, is_of_groups
from coordinator.api.error_families import CONFIGS_ERRORS
from coordinator.api.guards import PIECE_NAMES
from coordinator.config.release_configs import as_in_release
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import DescribeConfigsRequest, DescribeConfigsResponse
from coordinator.protocol.releases import Release, shown_configs
from coordinator.protocol.spliced_array import SplicedArray
from coordinator.security.access import (
    DESCRIBE_CLUSTER_CONFIGS,
    DESCRIBE_GROUP_CONFIGS,
    DESCRIBE_TOPIC_CONFIGS,
    AclOperation,
)
from coordinator.topics.topic_settings import ConfigValue

_Result = DescribeConfigsResponse.DescribeConfigsResult
_Entry = DescribeConfigsResponse.DescribeConfigsResourceResult
_Synonym = DescribeConfigsResponse.DescribeConfigsSynonym
_TYPES = frozenset(ConfigResourceType)
_FLEXIBLE_SINCE = 4
_PIECE_RESOURCES = 5
"""Resources that are described and encoded in about a millisecond."""


def handle(server: Server, exchange: Exchange[DescribeConfigsRequest]) -> None:
    request = exchange.request
    for resource in request.resources:
        if resource.resource_type not in _TYPES:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected resource type {resource.resource_type} for resource {resource.resource_name}",
            )
    exchange.run_in_slices(_respond(server, exchange))


def _respond(server: Server, exchange: Exchange[DescribeConfigsRequest]) -> Pieces:
    """A topic has forty settings, and their documentation has 4 kB: each resource is encoded by itself.

    The resources that the client may not describe come last, as in Kafka.
    """
    request, is_flexible = exchange.request, exchange.api_version >= _FLEXIBLE_SINCE
    refused = yield from _denied(request, exchange.permits)
    array = SplicedArray(exchange.route.encode, is_flexible, 1 if is_flexible else 0)
    response = DescribeConfigsResponse()
    encoded: list[bytes] = []
    resources = sorted(enumerate(request.resources), key=lambda each: each[0] in refused)
    for number, (place, resource) in enumerate(resources, 1):
        error = refused.get(place)
        release = exchange.route.api.release
        described = _result(server, request, resource, release) if error is None else _refused(resource, error)
        result = DescribeConfigsResponse(results=[described])
        encoded.append(array.elements(result, response))
        if not number % _PIECE_RESOURCES:
            yield
    before, behind = array.around(response, len(encoded))
    exchange.reply_encoded(response, [before, b"".join(encoded), behind])


def _denied(request: DescribeConfigsRequest, permits: Permits) -> Generator[None, None, dict[int, KafkaError]]:
    """The errors of the resources that the client may not describe, by their place in the request."""
    refused: dict[int, KafkaError] = {}
    if permits.everything:
        return refused
    for place, resource in enumerate(request.resources):
        access, name = config_access(AclOperation.DESCRIBE_CONFIGS, resource.resource_type, resource.resource_name)
        if not permits.allows(access, name):
            refused[place] = denial(access.resource_type)
        if not (place + 1) % PIECE_NAMES:
            yield
    return refused


def refuse(request: DescribeConfigsRequest, error: KafkaError, _api_version: int) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[_refused(resource, error) for resource in request.resources])


def _refused(
    resource: DescribeConfigsRequest.DescribeConfigsResource, error: KafkaError
) -> DescribeConfigsResponse.DescribeConfigsResult:
    return _Result(
        error_code=error.code,
        error_message=error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _result(
    server: Server,
    request: DescribeConfigsRequest,
    resource: DescribeConfigsRequest.DescribeConfigsResource,
    release: Release | None,
) -> DescribeConfigsResponse.DescribeConfigsResult:
    kind = ConfigResourceType(resource.resource_type)
    changed = {} if release is None else shown_configs()[release.name].get(kind.name, {})
    if changed is None:
        return _refused(resource, KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {kind}"))
    try:
        values = config_resource(kind).describe(server, resource.resource_name)
    except KafkaError as error:
        return _refused(resource, error)
    if changed:
        values = as_in_release(values, changed, "log." if kind is ConfigResourceType.TOPIC else "")
    wanted = set(resource.configuration_keys or ())
    return _Result(
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[_entry(value, request) for value in values if not wanted or value.name in wanted],
    )


def _entry(
    value: ConfigValue, request: DescribeConfigsRequest
) -> DescribeConfigsResponse.DescribeConfigsResourceResult:
    synonyms = value.synonyms if request.include_synonyms else ()
    return _Entry(
        name=value.name,
        value=value.value,
        read_only=value.read_only,
        config_source=value.source,
        synonyms=[_Synonym(name=place.name, value=place.value, source=place.source) for place in synonyms],
        is_sensitive=value.is_sensitive,
        config_type=value.kind,
        documentation=value.about if request.include_documentation or not value.about else None,
    )


API = Api(
    key=32,
    name="DescribeConfigs",
    versions=(1, 4),
    access=(DESCRIBE_CLUSTER_CONFIGS, DESCRIBE_TOPIC_CONFIGS, DESCRIBE_GROUP_CONFIGS),
    handle=handle,
    refuse=refuse,
    writes=False,
    errors=CONFIGS_ERRORS,
    elements=("resources",),
    overlay=Forwarded(last=4, is_ours=is_of_groups),
)
