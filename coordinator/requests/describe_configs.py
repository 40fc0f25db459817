"""DescribeConfigs: the settings of topics, of the server and of its log; `config_resources.py` says of what else.

Each resource is answered by itself, in the order asked; a list of names picks some of its settings, an empty one as well
as null means all. Names that are no settings are left out without a word, as by Kafka.
"""

from coordinator.api.access import DESCRIBE_CLUSTER_CONFIGS, DESCRIBE_GROUP_CONFIGS, DESCRIBE_TOPIC_CONFIGS
from coordinator.api.config_resources import ConfigResourceType, resource
from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import DescribeConfigsRequest, DescribeConfigsResponse
from coordinator.topics.topic_settings import ConfigValue

_Result = DescribeConfigsResponse.DescribeConfigsResult
_Entry = DescribeConfigsResponse.DescribeConfigsResourceResult
_Synonym = DescribeConfigsResponse.DescribeConfigsSynonym


def handle(server: Server, exchange: Exchange[DescribeConfigsRequest]) -> None:
    request = exchange.request
    for asked in request.resources:
        if asked.resource_type not in set(ConfigResourceType):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected resource type {asked.resource_type} for resource {asked.resource_name}",
            )
    exchange.reply(DescribeConfigsResponse(results=[_result(server, request, asked) for asked in request.resources]))


def refuse(request: DescribeConfigsRequest, error: KafkaError, _api_version: int) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[_refused(asked, error) for asked in request.resources])


def _refused(
    asked: DescribeConfigsRequest.DescribeConfigsResource, error: KafkaError
) -> DescribeConfigsResponse.DescribeConfigsResult:
    return _Result(
        error_code=error.code,
        error_message=error.message,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
    )


def _result(
    server: Server, request: DescribeConfigsRequest, asked: DescribeConfigsRequest.DescribeConfigsResource
) -> DescribeConfigsResponse.DescribeConfigsResult:
    try:
        values = resource(asked.resource_type).describe(server, asked.resource_name)
    except KafkaError as error:
        return _refused(asked, error)
    wanted = set(asked.configuration_keys or ())
    return _Result(
        error_message="",
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
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
)
