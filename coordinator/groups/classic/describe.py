"""What ListGroups and DescribeGroups show of classic groups.

The chosen protocol and the members' metadata are shown in Stable only, as in Kafka, for they belong to a generation;
assignments are shown in every state, being what members hold until they give it up.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from coordinator.groups.classic.group import State
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import DescribeGroupsResponse, ListGroupsResponse

if TYPE_CHECKING:
    from coordinator.groups.groups import Groups

KIND = "classic"

_Listed = ListGroupsResponse.ListedGroup
_Described = DescribeGroupsResponse.DescribedGroup
_Member = DescribeGroupsResponse.DescribedGroupMember

GROUP_ID_NOT_FOUND_SINCE = 6
"""DescribeGroups before this version describes a group nobody knows as Dead, without an error."""


def list_groups(groups: "Groups", states: Iterable[str], types: Iterable[str]) -> list[_Listed]:
    """The shard's groups. Empty filters let everything pass; case does not matter; an unknown name lets nothing pass."""
    wanted_states = {state.strip().lower() for state in states}
    wanted_types = {kind.strip().lower() for kind in types}
    if wanted_types and KIND not in wanted_types:
        return []
    return [
        _Listed(group.group_id, group.protocol_type or "", group.state.value, KIND)
        for group in groups.classic.values()
        if not wanted_states or group.state.lower() in wanted_states
    ]


def describe_group(groups: "Groups", group_id: str, api_version: int) -> _Described:
    group = groups.classic.get(group_id)
    if group is None:
        unknown = _Described(group_id=group_id, group_state=State.DEAD.value)
        if api_version >= GROUP_ID_NOT_FOUND_SINCE:
            is_known = groups.group(group_id) is not None
            unknown.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            unknown.error_message = f"Group {group_id} {'is not a classic group' if is_known else 'not found'}."
        return unknown
    name = group.protocol_name if group.state is State.STABLE else None
    return _Described(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=name or "",
        members=[
            _Member(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.metadata(name) or b"",
                member.assignment,
            )
            for member in group.members.values()
        ],
    )
