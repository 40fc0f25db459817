"""FindCoordinator (key 10): the node that coordinates a group or a transactional id.

v4 looks up several keys at once (KIP-699). In Kafka the first look-up creates the internal topic and answers
COORDINATOR_NOT_AVAILABLE; here the coordinators' logs always exist. The message of a success is "NONE" in v1-3 and "" in the
batched form. Whether a client may look a key up is decided before whether the key exists.

v6 looks up share coordinators (KIP-932), which is for brokers: it needs CLUSTER_ACTION. A key is GROUP:TOPIC-ID:PARTITION; any
other one gets INVALID_REQUEST. In front of a cluster every one does, because share groups are not supported there: the
retriable COORDINATOR_NOT_AVAILABLE would make clients ask forever.

Of several workers it is the one that has the shard, or while nobody has it, the one that takes it. Only a client whose listener
that worker does not have gets COORDINATOR_NOT_AVAILABLE.
"""

from typing import Any

from coordinator.api import Api, Coordinator, Exchange, Forwarded, Permits, Pieces, Server, denial
from coordinator.api.cluster import Node
from coordinator.api.permits import DENIED
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    InitializeShareGroupStateRequest,
)
from coordinator.runtime.router import Router
from coordinator.security.access import CLUSTER_ACTION, DESCRIBE_GROUP, DESCRIBE_TRANSACTIONAL_ID
from coordinator.share_state.coordinator import share_partition, text_of
from coordinator.topics.names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE

GROUP, TRANSACTION, SHARE = 0, 1, 2
_BATCHED_SINCE = 4
_PIECE_KEYS = 200
"""Keys that are looked up in a millisecond, with their permissions."""
_SHARE_SINCE = 6
_NO_NODE = -1
_NOT_AVAILABLE = "The coordinator is not available."
_INVALID_REQUEST = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an"
    " incompatible broker. See the broker logs for more details."
)
_TEXTS = {
    ErrorCode.INVALID_REQUEST: _INVALID_REQUEST,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: _NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is loading and hence can't process requests.",
    ErrorCode.UNKNOWN_SERVER_ERROR: "The server experienced an unexpected error when processing the request.",
}
"""Kafka's messages (Errors) for what a fault rule may answer."""
_ACCESS = {GROUP: DESCRIBE_GROUP, TRANSACTION: DESCRIBE_TRANSACTIONAL_ID}
_FIELDS = {GROUP: "group", TRANSACTION: "transactional_id"}
_Coordinator = FindCoordinatorResponse.Coordinator


def handle(server: Server, exchange: Exchange[FindCoordinatorRequest]) -> None:
    request = exchange.request
    if request.key_type == SHARE:
        _find_share_coordinators(server, exchange)
        return
    if request.key_type not in (GROUP, TRANSACTION):
        raise _unknown_type(exchange, _INVALID_REQUEST)
    permits, access = exchange.permits, _ACCESS[request.key_type]
    if exchange.api_version < _BATCHED_SINCE:
        if not permits.allows(access, request.key):
            raise denial(access.resource_type)
        node = _coordinator(server, exchange, request.key)
        if node is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, _NOT_AVAILABLE)
        exchange.reply(FindCoordinatorResponse(error_message="NONE", node_id=node.id, host=node.host, port=node.port))
        return

    def pieces() -> Pieces:
        found: list[_Coordinator] = []
        for start in range(0, len(request.coordinator_keys), _PIECE_KEYS):
            found += [
                _described(key, _coordinator(server, exchange, key))
                if permits.allows(access, key)
                else _nowhere(key, DENIED[access.resource_type])
                for key in request.coordinator_keys[start : start + _PIECE_KEYS]
            ]
            yield
        exchange.reply_in_slices(FindCoordinatorResponse(coordinators=found))

    exchange.run_in_slices(pieces())


def guard(server: Server, exchange: Exchange[FindCoordinatorRequest], permits: Permits) -> None:
    is_share = exchange.request.key_type == SHARE and exchange.api_version >= _SHARE_SINCE
    if is_share and not permits.allows(CLUSTER_ACTION):
        raise denial(CLUSTER_ACTION.resource_type)
    handle(server, exchange)


def _find_share_coordinators(server: Server, exchange: Exchange[FindCoordinatorRequest]) -> None:
    has_coordinators = InitializeShareGroupStateRequest.API_KEY in exchange.supported
    if exchange.api_version < _SHARE_SINCE or not has_coordinators or server.config.overlay.data_bootstrap_servers:
        raise _unknown_type(exchange, "")
    keys, shard_of = exchange.request.coordinator_keys, server.share_states.router.shard_of

    def find(key: str) -> _Coordinator:
        partition = share_partition(key)
        if partition is None:
            return _nowhere(key, ErrorCode.INVALID_REQUEST)
        index = shard_of(text_of(partition)).index
        return _described(key, server.cluster.coordinator(SHARE_GROUP_STATE, index, exchange.advertised))

    def pieces() -> Pieces:
        found: list[_Coordinator] = []
        for start in range(0, len(keys), _PIECE_KEYS):
            found += map(find, keys[start : start + _PIECE_KEYS])
            yield
        exchange.reply_in_slices(FindCoordinatorResponse(coordinators=found))

    exchange.run_in_slices(pieces())


def _unknown_type(exchange: Exchange[FindCoordinatorRequest], text: str) -> KafkaError:
    if exchange.behaviours.unknown_key_types_are_unexpected:
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return KafkaError(ErrorCode.INVALID_REQUEST, text)


def _coordinator(server: Server, exchange: Exchange[FindCoordinatorRequest], key: str) -> Node | None:
    is_group = exchange.request.key_type == GROUP
    router: Router[Any] = server.groups if is_group else server.transactions
    topic = CONSUMER_OFFSETS if is_group else TRANSACTION_STATE
    return server.cluster.coordinator(topic, router.shard_of(key).index, exchange.advertised)


def _described(key: str, node: Node | None) -> _Coordinator:
    if node is None:
        return _nowhere(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, _NOT_AVAILABLE)
    return _Coordinator(key=key, node_id=node.id, host=node.host, port=node.port, error_message="")


def refuse(request: FindCoordinatorRequest, error: KafkaError, api_version: int) -> FindCoordinatorResponse:
    text = error.message or ""
    if api_version < _BATCHED_SINCE:
        # The message may be empty in the batched form only.
        text = text or _TEXTS.get(error.code, error.code.name)
        return FindCoordinatorResponse(error_code=error.code, error_message=text, node_id=_NO_NODE, host="", port=-1)
    return FindCoordinatorResponse(coordinators=[_nowhere(key, error.code, text) for key in request.coordinator_keys])


def _nowhere(key: str, error: ErrorCode, text: str = "") -> _Coordinator:
    return _Coordinator(key=key, node_id=_NO_NODE, host="", port=-1, error_code=error, error_message=text)


def _looked_up(request: FindCoordinatorRequest) -> list[tuple[str | None, str]]:
    field = _FIELDS.get(request.key_type)
    return [(field, key) for key in request.coordinator_keys or ([request.key] if request.key else [])]


def _is_of_groups(request: FindCoordinatorRequest) -> bool:
    return request.key_type != TRANSACTION


_ERRORS = frozenset({
    ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.INVALID_GROUP_ID,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
})  # fmt: skip

API = Api(
    key=10,
    name="FindCoordinator",
    versions=(0, 6),
    access=(DESCRIBE_GROUP, DESCRIBE_TRANSACTIONAL_ID, CLUSTER_ACTION),
    handle=handle,
    refuse=refuse,
    guard=guard,
    writes=False,
    errors=_ERRORS,
    elements=("coordinator_keys",),
    coordinator=Coordinator.FOUND,
    overlay=Forwarded(last=6, is_ours=_is_of_groups),
    looked_up=_looked_up,
)
