"""The parts of the views of groups that consumer and streams groups share."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from coordinator.groups.epochs.group import ModernGroup
from coordinator.groups.epochs.member import ModernMember
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import ListGroupsResponse

if TYPE_CHECKING:
    from coordinator.groups.groups import Groups

_Listed = ListGroupsResponse.ListedGroup


def listed(
    groups: Iterable[Any], kind: str, protocol_type: str, states: Iterable[str], types: Iterable[str]
) -> list[_Listed]:
    """The groups of one kind that are in one of these states, if the kind is one of `types`; no filter if empty."""
    wanted_states = {state.strip().lower() for state in states}
    wanted_types = {each.strip().lower() for each in types}
    if wanted_types and kind not in wanted_types:
        return []
    return [
        _Listed(group.group_id, protocol_type, group.state.value, kind)
        for group in groups
        if not wanted_states or group.state.lower() in wanted_states
    ]


def absent(groups: "Groups", group_id: str, kind: str) -> dict[str, Any]:
    """The fields of a description that say why there is none: INVALID_GROUP_ID, GROUP_ID_NOT_FOUND."""
    if not group_id:
        return {"error_code": ErrorCode.INVALID_GROUP_ID, "group_id": group_id}
    is_known = groups.group(group_id) is not None
    return {
        "error_code": ErrorCode.GROUP_ID_NOT_FOUND,
        "error_message": f"Group {group_id} {f'is not a {kind} group' if is_known else 'not found'}.",
        "group_id": group_id,
    }


def group_view(group: Any, kind: str) -> dict[str, Any]:
    """The group's epochs, for people."""
    return {
        "group_id": group.group_id,
        "kind": kind,
        "state": group.state.value,
        "group_epoch": group.group_epoch,
        "target_epoch": group.target_epoch,
        "target_timestamp_ms": group.target_timestamp_ms,
    }


def progress_view(group: ModernGroup[Any, Any, Any]) -> dict[str, Any]:
    """The members that have not reached the target, and why the group last rebalanced, for people."""
    return {
        "waiting_for": sorted(group.unreconciled),
        "rebalances": [asdict(rebalance) for rebalance in group.soft.rebalances],
    }


def member_view(member: ModernMember) -> dict[str, Any]:
    """What every member says about itself, for people."""
    return {
        "member_id": member.member_id,
        "group_instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
    }


def other_owners(owners: Iterable[str | None], member: ModernMember) -> list[str]:
    """The members, other than this one, among those that hold what it should have."""
    return sorted({owner for owner in owners if owner is not None and owner != member.member_id})
