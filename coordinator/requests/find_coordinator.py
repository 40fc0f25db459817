"""FindCoordinator (key 10): the node that coordinates a group or a transactional id: this one, unless it shares its journal.

v4 looks up several keys at once (KIP-699). In Kafka the first look-up creates the internal topic and answers
COORDINATOR_NOT_AVAILABLE; here the coordinators' logs always exist. The message of a success is "NONE" in v1-3 and "" in the
batched form. Of several workers the answer is the one that has the shard, and COORDINATOR_NOT_AVAILABLE while nobody has. Share groups are not supported: their look-up is refused with INVALID_REQUEST, because the retriable
COORDINATOR_NOT_AVAILABLE would make clients ask forever.
"""

from typing import Any

from coordinator.api.cluster import Node
from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import FindCoordinatorRequest, FindCoordinatorResponse
from coordinator.runtime.router import Router
from coordinator.security.access import CLUSTER_ACTION, DESCRIBE_GROUP, DESCRIBE_TRANSACTIONAL_ID
from coordinator.topics.names import CONSUMER_OFFSETS, TRANSACTION_STATE

GROUP, TRANSACTION, SHARE = 0, 1, 2
_BATCHED_SINCE = 4
_NO_NODE = -1
_REFUSALS = {SHARE: ""}
_NOT_AVAILABLE = "The coordinator is not available."
_Coordinator = FindCoordinatorResponse.Coordinator
_UNKNOWN_TYPE = "The coordinator type of the request is unknown."


def handle(server: Server, exchange: Exchange[FindCoordinatorRequest]) -> None:
    request = exchange.request
    if request.key_type not in (GROUP, TRANSACTION):
        raise KafkaError(ErrorCode.INVALID_REQUEST, _REFUSALS.get(request.key_type, _UNKNOWN_TYPE))
    if exchange.api_version < _BATCHED_SINCE:
        node = _coordinator(server, exchange, request.key)
        if node is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, _NOT_AVAILABLE)
        exchange.reply(FindCoordinatorResponse(error_message="NONE", node_id=node.id, host=node.host, port=node.port))
        return
    exchange.reply(
        FindCoordinatorResponse(
            coordinators=[_described(key, _coordinator(server, exchange, key)) for key in request.coordinator_keys]
        )
    )


def _coordinator(server: Server, exchange: Exchange[FindCoordinatorRequest], key: str) -> Node | None:
    router: Router[Any] = server.groups if exchange.request.key_type == GROUP else server.transactions
    topic = CONSUMER_OFFSETS if exchange.request.key_type == GROUP else TRANSACTION_STATE
    return server.cluster.leader(topic, router.shard_of(key).index, exchange.advertised)


def _described(key: str, node: Node | None) -> FindCoordinatorResponse.Coordinator:
    if node is None:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return _Coordinator(key=key, node_id=_NO_NODE, host="", port=-1, error_code=error, error_message=_NOT_AVAILABLE)
    return _Coordinator(key=key, node_id=node.id, host=node.host, port=node.port, error_message="")


def refuse(request: FindCoordinatorRequest, error: KafkaError, api_version: int) -> FindCoordinatorResponse:
    text = error.message or ""
    if api_version < _BATCHED_SINCE:
        text = text or _UNKNOWN_TYPE  # the message may be empty in the batched form only
        return FindCoordinatorResponse(error_code=error.code, error_message=text, node_id=_NO_NODE, host="", port=-1)
    return FindCoordinatorResponse(
        coordinators=[
            FindCoordinatorResponse.Coordinator(
                key=key, node_id=_NO_NODE, host="", port=-1, error_code=error.code, error_message=text
            )
            for key in request.coordinator_keys
        ]
    )


API = Api(
    key=10,
    name="FindCoordinator",
    versions=(0, 6),
    access=(DESCRIBE_GROUP, DESCRIBE_TRANSACTIONAL_ID, CLUSTER_ACTION),
    handle=handle,
    refuse=refuse,
    writes=False,
)
