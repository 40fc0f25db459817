"""AlterConfigs (key 33): replaces all configs that a resource has of its own.

Superseded by IncrementalAlterConfigs (KIP-339), because a client that sets one config of a topic thereby removes all others.
Old tools still send it.
"""

from coordinator.api import Api, Exchange, Forwarded, Server
from coordinator.api.config_resources import is_of_groups
from coordinator.api.error_families import CONFIGS_ERRORS
from coordinator.protocol.errors import KafkaError
from coordinator.protocol.messages import AlterConfigsRequest, AlterConfigsResponse
from coordinator.requests.incremental_alter_configs import Altered, alter_resources, results
from coordinator.security.access import ALTER_CLUSTER_CONFIGS, ALTER_GROUP_CONFIGS, ALTER_TOPIC_CONFIGS
from coordinator.topics import alter_configs
from coordinator.topics.alter_configs import ConfigChange, replacing

_Result = AlterConfigsResponse.AlterConfigsResourceResponse


def handle(server: Server, exchange: Exchange[AlterConfigsRequest]) -> None:
    request = exchange.request

    def altered(resource: AlterConfigsRequest.AlterConfigsResource) -> Altered:
        entries = [ConfigChange(entry.name, alter_configs.ConfigOp.SET, entry.value) for entry in resource.configs]
        values = {entry.name: entry.value for entry in entries if entry.value is not None}
        return Altered(resource.resource_type, resource.resource_name, entries, lambda _kind: replacing(values))

    def reply(errors: list[KafkaError | None]) -> None:
        exchange.reply_in_slices(AlterConfigsResponse(responses=results(_Result, request.resources, errors)))

    requested = map(altered, request.resources)
    pieces = alter_resources(
        server, exchange.permits, requested, reply, validate_only=request.validate_only, legacy=True
    )
    exchange.run_in_slices(pieces, even_if_lost=True)


def refuse(request: AlterConfigsRequest, error: KafkaError, _api_version: int) -> AlterConfigsResponse:
    return AlterConfigsResponse(responses=results(_Result, request.resources, [error] * len(request.resources)))


API = Api(
    key=33,
    name="AlterConfigs",
    versions=(0, 2),
    access=(ALTER_CLUSTER_CONFIGS, ALTER_TOPIC_CONFIGS, ALTER_GROUP_CONFIGS),
    handle=handle,
    refuse=refuse,
    errors=CONFIGS_ERRORS,
    elements=("resources",),
    overlay=Forwarded(last=2, is_ours=is_of_groups),
)
