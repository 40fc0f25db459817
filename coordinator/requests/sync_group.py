"""SyncGroup (key 14): a member asks for its assignment; the leader brings the assignments of all members.

v3 knows static members (KIP-345). v5 must name the protocol type and protocol (KIP-559). The dialect
`client-side-assignment` adds v6, where the extensions for leaders are plain fields; since v4 they are tagged ones.
"""

from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.permits import Permits
from coordinator.api.server import Server
from coordinator.groups.classic.leader_extensions import uses_extension
from coordinator.groups.classic.responses import sync_error
from coordinator.groups.classic_protocol import check_protocol_is_named, sync_group
from coordinator.protocol.errors import KafkaError
from coordinator.protocol.messages import SyncGroupRequest, SyncGroupResponse
from coordinator.security.access import READ_GROUP


def handle(server: Server, exchange: Exchange[SyncGroupRequest]) -> None:
    server.groups.submit(exchange.request.group_id, sync_group, exchange)


def guard(server: Server, exchange: Exchange[SyncGroupRequest], permits: Permits) -> None:
    request = exchange.request
    check_protocol_is_named(request, exchange.api_version)
    permits.require(READ_GROUP, request.group_id)
    handle(server, exchange)


def refuse(request: SyncGroupRequest, error: KafkaError, api_version: int) -> SyncGroupResponse:
    return sync_error(error.code, error.message if uses_extension(request) else None)


API = Api(
    key=14,
    name="SyncGroup",
    versions=(0, 5),
    access=(READ_GROUP,),
    handle=handle,
    refuse=refuse,
    guard=guard,
)
