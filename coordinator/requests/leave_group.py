"""LeaveGroup (key 13): members leave a classic group.

v3 names several members, by member id or instance id, and answers each (KIP-345). v5 brings reasons (KIP-800).
"""

from operator import attrgetter

from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.guards import guarded_by
from coordinator.api.server import Server
from coordinator.groups.classic_protocol import leave_group
from coordinator.protocol.errors import KafkaError
from coordinator.protocol.messages import LeaveGroupRequest, LeaveGroupResponse
from coordinator.security.access import READ_GROUP


def handle(server: Server, exchange: Exchange[LeaveGroupRequest]) -> None:
    server.groups.submit(exchange.request.group_id, leave_group, exchange)


def refuse(request: LeaveGroupRequest, error: KafkaError, api_version: int) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=error.code)


API = Api(
    key=13,
    name="LeaveGroup",
    versions=(0, 5),
    access=(READ_GROUP,),
    handle=handle,
    refuse=refuse,
    guard=guarded_by(READ_GROUP, attrgetter("group_id"), handle),
)
