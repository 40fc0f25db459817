"""ListConfigResources (key 74): the resources that have configs (KIP-1142).

v0 lists client metrics only. v1 lists the requested types, or all.
"""

from coordinator.api import Api, Exchange, Forwarded, Server
from coordinator.api.config_resources import RESOURCES, ConfigResourceType
from coordinator.api.guards import guarded_by_cluster
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ListConfigResourcesRequest, ListConfigResourcesResponse
from coordinator.security.access import DESCRIBE_CLUSTER_CONFIGS

_Resource = ListConfigResourcesResponse.ConfigResource


def handle(server: Server, exchange: Exchange[ListConfigResourcesRequest]) -> None:
    request = exchange.request
    known = set(ConfigResourceType)
    types = {ConfigResourceType.CLIENT_METRICS} if exchange.api_version == 0 else set(request.resource_types) or known
    if not types <= known:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    exchange.reply(
        ListConfigResourcesResponse(
            config_resources=[
                _Resource(name, kind)
                for kind, resource in RESOURCES.items()
                if kind in types
                for name in resource.names(server, exchange.advertised)
            ]
        )
    )


def _is_of_groups(request: ListConfigResourcesRequest) -> bool:
    return request.resource_types == [ConfigResourceType.GROUP]


API = Api(
    key=74,
    name="ListConfigResources",
    versions=(0, 1),
    access=(DESCRIBE_CLUSTER_CONFIGS,),
    handle=handle,
    guard=guarded_by_cluster(DESCRIBE_CLUSTER_CONFIGS, handle),
    writes=False,
    errors=frozenset({ErrorCode.CLUSTER_AUTHORIZATION_FAILED}),
    overlay=Forwarded(last=1, is_ours=_is_of_groups),
)
