"""LeaveGroup (key 13): members leave a classic group.

v3 names several members, by member id or instance id, and answers each (KIP-345). v5 brings reasons (KIP-800).
"""

from operator import attrgetter

from coordinator.api import HERE, Api, Coordinator, Exchange, Server
from coordinator.api.declaration import ErrorPlaces
from coordinator.api.error_families import MEMBER_ERRORS
from coordinator.api.guards import check_group_is_named, guarded_by
from coordinator.groups.classic_protocol import leave_group
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import LeaveGroupRequest, LeaveGroupResponse
from coordinator.security.access import READ_GROUP

_MEMBERS_SINCE = 3
_MEMBERS_ERRORS = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})
"""Each member has its own."""


def handle(server: Server, exchange: Exchange[LeaveGroupRequest]) -> None:
    check_group_is_named(exchange.request.group_id)
    server.groups.submit(exchange.request.group_id, leave_group, exchange)


def _shape(request: LeaveGroupRequest, error: KafkaError, version: int) -> LeaveGroupResponse | None:
    if version < _MEMBERS_SINCE or error.code not in _MEMBERS_ERRORS:
        return None
    members = [
        LeaveGroupResponse.MemberResponse(each.member_id, each.group_instance_id, error.code)
        for each in request.members
    ]
    return LeaveGroupResponse(members=members)


API = Api(
    key=13,
    name="LeaveGroup",
    versions=(0, 5),
    access=(READ_GROUP,),
    handle=handle,
    guard=guarded_by(READ_GROUP, attrgetter("group_id"), handle),
    errors=MEMBER_ERRORS,
    elements=("members",),
    coordinator=Coordinator.GROUP,
    overlay=HERE,
    places=ErrorPlaces(of_elements=_MEMBERS_ERRORS, shape=_shape),
)
