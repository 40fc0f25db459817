"""The answers to JoinGroup and SyncGroup that several operations give.

Contents are the same for all versions, with one exception that is Kafka's own: an error's ProtocolName is null since v7 and
"" before, where the field cannot be null. Fields that a version does not have are dropped by its encoder.
"""

from coordinator.groups.classic.group import ClassicGroup, ClassicMember
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import JoinGroupResponse, SyncGroupResponse

_JoinedMember = JoinGroupResponse.JoinGroupResponseMember

_NULL_PROTOCOL_NAME_SINCE = 7


def join_refused(api_version: int, error: ErrorCode, member_id: str) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error,
        protocol_name=None if api_version >= _NULL_PROTOCOL_NAME_SINCE else "",
        member_id=member_id,
    )


def joined(
    group: ClassicGroup, member_id: str, members: list[_JoinedMember], *, leader_id: str | None, skip_assignment: bool
) -> JoinGroupResponse:
    """A place in the current generation. `members` is for the leader; a follower's is empty."""
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=leader_id or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=members,
    )


def current_generation(group: ClassicGroup, member_id: str) -> JoinGroupResponse:
    """The current generation as this member may see it: the leader with the members' metadata, a follower without."""
    members = for_leader(group) if group.is_leader(member_id) else []
    return joined(group, member_id, members, leader_id=group.leader_id, skip_assignment=False)


def for_leader(group: ClassicGroup) -> list[_JoinedMember]:
    """All members with what each said about itself; stale claims cleared where that is switched on."""
    name = group.protocol_name
    cleared = group.claims.cleared if group.claims is not None else {}
    return [
        _JoinedMember(member_id, member.group_instance_id, cleared.get(member_id) or member.metadata(name) or b"")
        for member_id, member in group.members.items()
    ]


def assigned(group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )


def sync_refused(error: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error)
