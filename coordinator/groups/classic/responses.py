"""The JoinGroup and SyncGroup responses that several operations give.

Contents are the same for all versions, with one exception of Kafka's own: an error's ProtocolName is null since v7 and ""
before, where the field cannot be null. The encoder drops fields that a version does not have."""

from coordinator.groups.catalog import Catalog
from coordinator.groups.classic.member import ClassicMember
from coordinator.groups.classic.round import Round
from coordinator.groups.events import ClassicDelivery, event_only
from coordinator.groups.fence import Fence
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import JoinGroupResponse, SyncGroupResponse
from coordinator.runtime.result import Fact

_JoinedMember = JoinGroupResponse.JoinGroupResponseMember

_NULL_PROTOCOL_NAME_SINCE = 7


def join_error(api_version: int, error: ErrorCode, member_id: str) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error, protocol_name=None if api_version >= _NULL_PROTOCOL_NAME_SINCE else "", member_id=member_id
    )


def join_response(
    group: Round, member_id: str, members: list[_JoinedMember], *, leader_id: str | None, skip_assignment: bool
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


def current_generation(group: Round, member_id: str) -> JoinGroupResponse:
    """The current generation as this member may see it: the leader with the members' metadata, a follower without."""
    members = members_for_leader(group) if group.is_leader(member_id) else []
    return join_response(group, member_id, members, leader_id=group.leader_id, skip_assignment=False)


def members_for_leader(group: Round) -> list[_JoinedMember]:
    """All members with their metadata; stale claims are cleared where `group.classic.sanitize.owned.partitions` is on."""
    name = group.protocol_name
    cleared = group.claims.cleared if group.claims is not None else {}
    return [
        _JoinedMember(member_id, member.group_instance_id, cleared.get(member_id) or member.metadata(name) or b"")
        for member_id, member in group.members.items()
    ]


def sync_response(group: Round, member: ClassicMember, fence: Fence) -> SyncGroupResponse:
    """The member's assignment in the current generation; the fence says how many times that was resynced."""
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
        resynced=fence.at(group.generation).resyncs if group.is_leader(member.member_id) else 0,
    )


def delivered(catalog: Catalog, group: Round, member: ClassicMember) -> Fact:
    """The event of a SyncGroup response with the member's assignment."""
    return event_only(ClassicDelivery(group.group_id, member.member_id, group.generation, member.assignment, catalog))


def sync_error(error: ErrorCode, message: str | None = None) -> SyncGroupResponse:
    """`message` is for clients that use an extension of SyncGroup; plain ones skip it."""
    return SyncGroupResponse(error_code=error, error_message=message)
