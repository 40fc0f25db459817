"""The parts of the views of groups that consumer and streams groups share."""

from collections.abc import Iterable
from typing import Any

from coordinator.groups.epochs.group import ModernGroup
from coordinator.groups.epochs.member import ModernMember
from coordinator.groups.epochs.soft_state import Rebalance
from coordinator.groups.group import longest_waits
from coordinator.groups.kinds import Kind
from coordinator.groups.state import Groups
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.releases import Behaviours


def absent(groups: Groups, group_id: str, kind: Kind) -> dict[str, Any]:
    """The fields of a description that say why there is none: INVALID_GROUP_ID, GROUP_ID_NOT_FOUND."""
    if not group_id:
        return {"error_code": ErrorCode.INVALID_GROUP_ID, "group_id": group_id}
    is_known = group_id in groups.by_id
    return {
        "error_code": ErrorCode.GROUP_ID_NOT_FOUND,
        "error_message": f"Group {group_id} {f'is not a {kind.label} group' if is_known else 'not found'}.",
        "group_id": group_id,
    }


def shown_epoch(group: ModernGroup[Any, Any, Any], behaviours: Behaviours) -> int:
    """The assignment epoch in descriptions of the group."""
    if group.members or not behaviours.empty_groups_keep_an_assignment_epoch:
        return group.target_epoch
    computed = (each.epoch for each in reversed(group.soft.rebalances) if each.assigned_ms is not None)
    return next(computed, group.target_epoch)


def group_view(group: ModernGroup[Any, Any, Any]) -> dict[str, Any]:
    """The group's epochs, for people."""
    return {
        "group_id": group.group_id,
        "kind": group.kind.label,
        "state": group.state.value,
        "group_epoch": group.group_epoch,
        "target_epoch": group.target_epoch,
        "target_timestamp_ms": group.target_timestamp_ms,
    }


def progress_view(group: ModernGroup[Any, Any, Any]) -> dict[str, Any]:
    """The members that have not reached the target, and why the group last rebalanced, for people."""
    return {
        "waiting_for": sorted(group.unreconciled),
        "rebalances": [_rebalance(rebalance) for rebalance in group.soft.rebalances],
    }


def _rebalance(rebalance: Rebalance) -> dict[str, Any]:
    return {
        "epoch": rebalance.epoch,
        "cause": rebalance.cause,
        "member_id": rebalance.member_id,
        "reason": rebalance.reason,
        "started_ms": rebalance.started_ms,
        "assigned_ms": rebalance.assigned_ms,
        "ended_ms": rebalance.ended_ms,
        "delay_ms": rebalance.delay_ms,
        "waited_for": longest_waits(rebalance.waits),
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
