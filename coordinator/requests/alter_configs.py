"""AlterConfigs: the settings named are all that a resource has of its own from now on.

Old tools send it. Whoever names one setting of a topic thereby takes away all others, which is why it was superseded.
"""

from coordinator.api.access import ALTER_CLUSTER_CONFIGS, ALTER_GROUP_CONFIGS, ALTER_TOPIC_CONFIGS
from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.protocol.errors import KafkaError
from coordinator.protocol.messages import AlterConfigsRequest, AlterConfigsResponse
from coordinator.requests.incremental_alter_configs import Altered, alter_resources, results
from coordinator.topics import alter_configs
from coordinator.topics.alter_configs import ConfigChange, replacing

_Result = AlterConfigsResponse.AlterConfigsResourceResponse


def handle(server: Server, exchange: Exchange[AlterConfigsRequest]) -> None:
    request = exchange.request

    def altered(asked: AlterConfigsRequest.AlterConfigsResource) -> Altered:
        entries = [ConfigChange(entry.name, alter_configs.ConfigOp.SET, entry.value) for entry in asked.configs]
        values = {entry.name: entry.value for entry in entries if entry.value is not None}
        return Altered(asked.resource_type, asked.resource_name, entries, lambda _kind: replacing(values))

    def answer(errors: list[KafkaError | None]) -> None:
        exchange.reply(AlterConfigsResponse(responses=results(_Result, request.resources, errors)))

    wanted = [altered(asked) for asked in request.resources]
    alter_resources(server, wanted, answer, validate_only=request.validate_only, legacy=True)


def refuse(request: AlterConfigsRequest, error: KafkaError, _api_version: int) -> AlterConfigsResponse:
    return AlterConfigsResponse(responses=results(_Result, request.resources, [error] * len(request.resources)))


API = Api(
    key=33,
    name="AlterConfigs",
    versions=(0, 2),
    access=(ALTER_CLUSTER_CONFIGS, ALTER_TOPIC_CONFIGS, ALTER_GROUP_CONFIGS),
    handle=handle,
    refuse=refuse,
)
