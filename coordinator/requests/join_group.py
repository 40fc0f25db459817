"""JoinGroup (key 11): a member joins or rejoins a classic group.

v1 has a rebalance timeout of its own. v4 makes the member come back with the id that it is given (KIP-394). v5 knows static
members (KIP-345). v8 brings a reason (KIP-800). v9 may skip the assignment (KIP-814). As our extension, v6 and later may name
the member's generation (tagged field 792, KIP-792).

A member that joins a consumer group may be the one in whose name the group's patterns are matched against the topics
(groups/consumer/subscription.py).
"""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from coordinator.api import HERE, Api, Coordinator, Exchange, Server
from coordinator.api.declaration import Fields, Recorded, Seen
from coordinator.api.error_families import GENERATION_ERRORS
from coordinator.api.guards import check_group_is_named, guarded_by
from coordinator.groups.classic.responses import join_error
from coordinator.groups.classic_protocol import join_group
from coordinator.groups.group import CONSUMER_PROTOCOL_TYPE
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import JoinGroupRequest, JoinGroupResponse
from coordinator.protocol.subscription import parse_subscription
from coordinator.protocol.wire import DecodeError
from coordinator.security.access import DESCRIBE_TOPIC, READ_GROUP

_ECHOED = frozenset({ErrorCode.INVALID_GROUP_ID, ErrorCode.INVALID_SESSION_TIMEOUT, ErrorCode.UNKNOWN_MEMBER_ID})
"""Errors with which Kafka returns the member id of the request; with any other that ends the operation it returns none."""


def handle(server: Server, exchange: Exchange[JoinGroupRequest]) -> None:
    check_group_is_named(exchange.request.group_id)
    if not exchange.request.member_id:
        exchange.fresh_id = server.entropy.uuid()
    server.groups.submit(exchange.request.group_id, join_group, exchange)


def refuse(request: JoinGroupRequest, error: KafkaError, api_version: int) -> JoinGroupResponse:
    return join_error(api_version, error.code, request.member_id if error.code in _ECHOED else "")


def _recorded_request(seen: Seen, request: Any) -> Fields:
    fields = seen.fields(request)
    fields["protocols"] = [
        {"name": each.name, **_subscription(request.protocol_type, each.metadata)} for each in request.protocols
    ]
    return fields


def _recorded_response(seen: Seen, response: Any) -> Fields:
    fields = seen.fields(response)
    protocol_type = getattr(seen.request, "protocol_type", None)
    for shown, member in zip(fields["members"], response.members, strict=True):
        shown.pop("metadata")
        shown.update(_subscription(protocol_type, member.metadata))
    return fields


def _subscription(protocol_type: str | None, data: bytes) -> Fields:
    if protocol_type == CONSUMER_PROTOCOL_TYPE and data:
        try:
            subscription = parse_subscription(data)
        except DecodeError:
            return {"metadata": {"bytes": len(data)}}
        return {
            "topics": list(subscription.topics),
            "owned": shown_partitions(subscription.owned),
            "generation_id": subscription.generation_id,
            "rack_id": subscription.rack_id,
        }
    return {"metadata": {"bytes": len(data)}}


def shown_partitions(partitions: Mapping[str, tuple[int, ...]]) -> list[Fields]:
    return [{"topic": topic, "partition": index} for topic, indexes in partitions.items() for index in indexes]


_ERRORS = GENERATION_ERRORS | {
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.INVALID_SESSION_TIMEOUT, ErrorCode.MEMBER_ID_REQUIRED,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
}  # fmt: skip

API = Api(
    key=11,
    name="JoinGroup",
    versions=(0, 9),
    access=(READ_GROUP, DESCRIBE_TOPIC),
    handle=handle,
    refuse=refuse,
    guard=guarded_by(READ_GROUP, attrgetter("group_id"), handle),
    errors=_ERRORS,
    coordinator=Coordinator.GROUP,
    overlay=HERE,
    recorded=Recorded(_recorded_request, _recorded_response),
)
