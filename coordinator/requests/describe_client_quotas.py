"""DescribeClientQuotas (key 48): the quotas that match a filter (KIP-546; quotas/describe.py)."""

from coordinator.api import Api, Exchange, Server
from coordinator.api.guards import guarded_by
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from coordinator.quotas.describe import find_quotas
from coordinator.security.access import DESCRIBE_CLUSTER_CONFIGS
from coordinator.security.authorizer import CLUSTER_NAME


def handle(server: Server, exchange: Exchange[DescribeClientQuotasRequest]) -> None:
    entries = find_quotas(server.topics.registry.client_quotas, exchange.request)
    exchange.reply(DescribeClientQuotasResponse(entries=entries))


def refuse(_request: DescribeClientQuotasRequest, error: KafkaError, _api_version: int) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)


API = Api(
    key=48,
    name="DescribeClientQuotas",
    versions=(0, 1),
    access=(DESCRIBE_CLUSTER_CONFIGS,),
    handle=handle,
    refuse=refuse,
    guard=guarded_by(DESCRIBE_CLUSTER_CONFIGS, lambda _request: CLUSTER_NAME, handle),
    writes=False,
    errors=frozenset({ErrorCode.CLUSTER_AUTHORIZATION_FAILED}),
)
