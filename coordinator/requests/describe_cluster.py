"""DescribeCluster (key 60): the cluster's id and its nodes, which are broker and controller in one (KIP-700).

v1 names the type of endpoint that the client expects (KIP-919). A client that expects a controller is answered
MISMATCHED_ENDPOINT_TYPE, as by any broker.
"""

from coordinator.api import Api, Exchange, Forwarded, Server
from coordinator.api.guards import cluster_operations
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import DescribeClusterRequest, DescribeClusterResponse
from coordinator.security.access import DESCRIBE_CLUSTER

_BROKERS, _CONTROLLERS = 1, 2


def handle(server: Server, exchange: Exchange[DescribeClusterRequest]) -> None:
    request = exchange.request
    if request.endpoint_type == _CONTROLLERS:
        raise KafkaError(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        )
    if request.endpoint_type != _BROKERS:
        raise KafkaError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {request.endpoint_type}")
    response = DescribeClusterResponse(
        cluster_id=server.cluster_id,
        controller_id=server.controller_id,
        brokers=[
            DescribeClusterResponse.DescribeClusterBroker(node.id, node.host, node.port, node.rack)
            for node in server.cluster.named_nodes(exchange.advertised)
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(exchange.permits)
    exchange.reply(response)


_ERRORS = frozenset({
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.MISMATCHED_ENDPOINT_TYPE, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
})  # fmt: skip

API = Api(
    key=60,
    name="DescribeCluster",
    versions=(0, 2),
    access=(DESCRIBE_CLUSTER,),
    handle=handle,
    writes=False,
    errors=_ERRORS,
    overlay=Forwarded(last=2),
)
