"""JoinGroup (key 11): a member joins or rejoins a classic group.

v1 has a rebalance timeout of its own. v4 makes the member come back with the id that it is given (KIP-394). v5 knows static
members (KIP-345). v8 brings a reason (KIP-800) and, as our extension, a generation (tagged field 792, KIP-792). v9 may skip
the assignment (KIP-814).

A member that joins a consumer group may be the one in whose name the group's patterns are matched against the topics
(groups/consumer/subscription.py).
"""

from operator import attrgetter

from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.guards import guarded_by
from coordinator.api.server import Server
from coordinator.groups.classic.responses import join_error
from coordinator.groups.classic_protocol import join_group
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import JoinGroupRequest, JoinGroupResponse
from coordinator.security.access import DESCRIBE_TOPIC, READ_GROUP

_ECHOED = frozenset({ErrorCode.INVALID_GROUP_ID, ErrorCode.INVALID_SESSION_TIMEOUT, ErrorCode.UNKNOWN_MEMBER_ID})
"""Errors with which Kafka returns the member id of the request; with any other that ends the operation it returns none."""


def handle(server: Server, exchange: Exchange[JoinGroupRequest]) -> None:
    if not exchange.request.member_id:
        exchange.fresh_id = server.entropy.uuid()
    server.groups.submit(exchange.request.group_id, join_group, exchange)


def refuse(request: JoinGroupRequest, error: KafkaError, api_version: int) -> JoinGroupResponse:
    return join_error(api_version, error.code, request.member_id if error.code in _ECHOED else "")


API = Api(
    key=11,
    name="JoinGroup",
    versions=(0, 9),
    access=(READ_GROUP, DESCRIBE_TOPIC),
    handle=handle,
    refuse=refuse,
    guard=guarded_by(READ_GROUP, attrgetter("group_id"), handle),
)
