"""SyncGroup (key 14): a member asks for its assignment; the leader brings the assignments of all members.

v3 knows static members (KIP-345). v5 must name the protocol type and protocol (KIP-559). The dialect
`client-side-assignment` adds v6, where the extensions for leaders are plain fields; since v4 they are tagged ones.
"""

from typing import Any

from coordinator.api import HERE, Api, Coordinator, Exchange, Permits, Server
from coordinator.api.declaration import Fields, Recorded, Seen
from coordinator.api.error_families import GENERATION_ERRORS
from coordinator.api.guards import check_group_is_named
from coordinator.groups.classic.leader_extensions import uses_extension
from coordinator.groups.classic.responses import sync_error
from coordinator.groups.classic.round import Round
from coordinator.groups.classic_protocol import sync_group
from coordinator.groups.group import CONSUMER_PROTOCOL_TYPE
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import SyncGroupRequest, SyncGroupResponse
from coordinator.protocol.subscription import parse_assignment
from coordinator.protocol.wire import DecodeError
from coordinator.requests.join_group import shown_partitions
from coordinator.security.access import READ_GROUP

_PROTOCOL_REQUIRED_SINCE = 5


def handle(server: Server, exchange: Exchange[SyncGroupRequest]) -> None:
    _check_protocol_is_named(exchange)
    check_group_is_named(exchange.request.group_id)
    server.groups.submit(exchange.request.group_id, sync_group, exchange)


def guard(server: Server, exchange: Exchange[SyncGroupRequest], permits: Permits) -> None:
    _check_protocol_is_named(exchange)
    permits.require(READ_GROUP, exchange.request.group_id)
    handle(server, exchange)


def _check_protocol_is_named(exchange: Exchange[SyncGroupRequest]) -> None:
    """Raises INCONSISTENT_GROUP_PROTOCOL for a request that must name its protocol and does not (KIP-559)."""
    request = exchange.request
    is_named = request.protocol_type is not None and request.protocol_name is not None
    if exchange.api_version >= _PROTOCOL_REQUIRED_SINCE and not is_named:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def refuse(request: SyncGroupRequest, error: KafkaError, api_version: int) -> SyncGroupResponse:
    return sync_error(error.code, error.message if uses_extension(request) else None)


def _recorded_request(seen: Seen, request: Any) -> Fields:
    fields = seen.fields(request)
    protocol_type = _protocol_type(seen)
    fields["assignments"] = [
        {"member_id": each.member_id, **_assignment(protocol_type, each.assignment)} for each in request.assignments
    ]
    return fields


def _recorded_response(seen: Seen, response: Any) -> Fields:
    fields = seen.fields(response)
    fields.pop("assignment")
    return fields | _assignment(_protocol_type(seen), response.assignment)


def _protocol_type(seen: Seen) -> str | None:
    """That of the request, or of its group: before version 5 a SyncGroup does not say."""
    request: Any = seen.request
    if request.protocol_type:
        return str(request.protocol_type)
    group = seen.server.groups.shard_of(request.group_id).state.by_id.get(request.group_id)
    return group.protocol_type if isinstance(group, Round) else CONSUMER_PROTOCOL_TYPE


def _assignment(protocol_type: str | None, data: bytes) -> Fields:
    if protocol_type == CONSUMER_PROTOCOL_TYPE and data:
        try:
            return {"assignment": shown_partitions(parse_assignment(data).partitions)}
        except DecodeError:
            pass
    return {"assignment": [] if not data else {"bytes": len(data)}}


API = Api(
    key=14,
    name="SyncGroup",
    versions=(0, 5),
    access=(READ_GROUP,),
    handle=handle,
    refuse=refuse,
    guard=guard,
    errors=GENERATION_ERRORS | {ErrorCode.INCONSISTENT_GROUP_PROTOCOL},
    coordinator=Coordinator.GROUP,
    overlay=HERE,
    recorded=Recorded(_recorded_request, _recorded_response),
)
