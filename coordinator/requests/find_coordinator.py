"""FindCoordinator (key 10): the node that coordinates a group or a transactional id, which is always this one.

v4 looks up several keys at once (KIP-699). In Kafka the first look-up creates the internal topic and answers
COORDINATOR_NOT_AVAILABLE; here the coordinators' logs always exist. The message of a success is "NONE" in v1-3 and "" in the
batched form. Share groups are not supported: their look-up is refused with INVALID_REQUEST, because the retriable
COORDINATOR_NOT_AVAILABLE would make clients ask forever.
"""

from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import FindCoordinatorRequest, FindCoordinatorResponse
from coordinator.security.access import CLUSTER_ACTION, DESCRIBE_GROUP, DESCRIBE_TRANSACTIONAL_ID

GROUP, TRANSACTION, SHARE = 0, 1, 2
_BATCHED_SINCE = 4
_NO_NODE = -1
_REFUSALS = {SHARE: ""}
_UNKNOWN_TYPE = "The coordinator type of the request is unknown."


def handle(server: Server, exchange: Exchange[FindCoordinatorRequest]) -> None:
    request = exchange.request
    if request.key_type not in (GROUP, TRANSACTION):
        raise KafkaError(ErrorCode.INVALID_REQUEST, _REFUSALS.get(request.key_type, _UNKNOWN_TYPE))
    host, port = exchange.advertised
    node_id: int = server.node_id
    if exchange.api_version < _BATCHED_SINCE:
        exchange.reply(FindCoordinatorResponse(error_message="NONE", node_id=node_id, host=host, port=port))
        return
    exchange.reply(
        FindCoordinatorResponse(
            coordinators=[
                FindCoordinatorResponse.Coordinator(key=key, node_id=node_id, host=host, port=port, error_message="")
                for key in request.coordinator_keys
            ]
        )
    )


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
