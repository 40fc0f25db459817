"""What DescribeGroups and the admin view show of classic groups.

The chosen protocol and the members' metadata belong to a generation, so they are shown in Stable only, as in Kafka. Assignments
are shown in every state: they are what members hold until they give it up. Kafka before 4.0 shows them in Stable only.
"""

from typing import Any

from coordinator.groups.classic.assignment_rules import RULES
from coordinator.groups.classic.group import ClassicGroup, find_classic_group
from coordinator.groups.classic.leader_extensions import AssignmentFailure
from coordinator.groups.classic.member import ClassicMember
from coordinator.groups.classic.round import Rebalance
from coordinator.groups.classic.states import State
from coordinator.groups.group import longest_waits
from coordinator.groups.state import Groups
from coordinator.protocol.codec import DecodeError
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import DescribeGroupsResponse
from coordinator.protocol.releases import AS_NEWEST, Behaviours
from coordinator.protocol.subscription import parse_assignment

_Described = DescribeGroupsResponse.DescribedGroup
_DescribedMember = DescribeGroupsResponse.DescribedGroupMember

GROUP_ID_NOT_FOUND_SINCE = 6
"""DescribeGroups before this version describes an unknown group as Dead, without an error."""


def describe_group(groups: Groups, group_id: str, api_version: int, behaviours: Behaviours = AS_NEWEST) -> _Described:
    """One group as DescribeGroups answers it; the answer's error may be GROUP_ID_NOT_FOUND.

    Mirrors `GroupMetadataManager.describeGroups`.
    """
    group = find_classic_group(groups, group_id)
    if group is None:
        unknown = _Described(group_id=group_id, group_state=State.DEAD.value)
        if api_version >= GROUP_ID_NOT_FOUND_SINCE:
            is_known = group_id in groups.by_id
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
            _DescribedMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.metadata(name) or b"",
                b"" if name is None and behaviours.assignments_are_shown_in_stable_only else member.assignment,
            )
            for member in group.members.values()
        ],
    )


def details(groups: Groups, group: ClassicGroup) -> dict[str, Any]:
    """Everything about a group as plain values (`/v1/groups/{group}`), with its last rebalances and their causes."""
    if group.protocol_type is None:
        return {}
    return {
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol_name,
        "leader": group.leader_id,
        "members": [_member(group, member) for member in group.members.values()],
        "pending_members": len(group.pending_joins),
        "claims": _claims(group),
        "resync": _resync(group),
        "assignment_failure": _failure(group.failure),
        "invalid_assignments": _invalid_assignments(group),
        "rebalances": [_rebalance(rebalance) for rebalance in group.rebalances],
    }


def _member(group: ClassicGroup, member: ClassicMember) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "waits_for": "join" if member.awaiting_join else "sync" if member.awaiting_sync else None,
        "assignment": _assignment(group, member.assignment),
    }


def _assignment(group: ClassicGroup, assignment: bytes) -> dict[str, list[int]] | None:
    """Topic -> partitions; None if the assignment is not one of the consumer protocol."""
    if not group.uses_consumer_protocol:
        return None
    try:
        return {topic: list(partitions) for topic, partitions in parse_assignment(assignment).partitions.items()}
    except DecodeError:
        return None


def _claims(group: ClassicGroup) -> dict[str, Any]:
    """Invalid claims on partitions (KIP-792): counts over the life of the round, details of this generation."""
    view: dict[str, Any] = {
        "stale": group.claims_stale,
        "contested": group.claims_contested,
        "subscriptions_in_kip_order": group.claims_in_kip_order,
    }
    if group.claims is not None:
        view["generation"] = group.claims.generation
        view["stale_claims"] = [
            {"member_id": claim.member_id, "generation": claim.generation_id, "partitions": claim.partitions}
            for claim in group.claims.stale
        ]
        view["contested_partitions"] = [
            {"topic": each.topic, "partition": each.partition, "member_ids": each.member_ids}
            for each in group.claims.contested
        ]
    return view


def _resync(group: ClassicGroup) -> dict[str, Any]:
    """How often the leader has resynced the generation, and the resync in progress."""
    view: dict[str, Any] = {"resyncs": group.resyncs, "started_ms": None, "waits_for": []}
    if group.resync is not None:
        view |= {"started_ms": group.resync.started_ms, "waits_for": list(group.resync.awaited)}
    return view


def _failure(failure: AssignmentFailure | None) -> dict[str, Any] | None:
    """Why the leader could not assign, in its own words."""
    if failure is None:
        return None
    return {
        "generation": failure.generation,
        "leader": failure.leader_id,
        "error": failure.error.name,
        "reason": failure.message,
        "failed_ms": failure.failed_ms,
    }


def _invalid_assignments(group: ClassicGroup) -> dict[str, Any]:
    """Partitions that leaders assigned against a rule: counts over the life of the round, details of the last assignment."""
    view: dict[str, Any] = {rule: group.invalid_partitions.get(rule, 0) for rule in RULES}
    last = group.invalid_assignment
    if last is not None:
        view |= {
            "generation": last.generation,
            "leader": last.leader_id,
            "protocol": last.protocol,
            "refused": last.is_refused,
            "partitions": [
                {"rule": violation.rule, **each._asdict()}
                for violation in last.violations
                for each in violation.partitions
            ],
        }
    return view


def _rebalance(rebalance: Rebalance) -> dict[str, Any]:
    return {
        "cause": rebalance.cause.what,
        "member_id": rebalance.cause.member_id,
        "reason": rebalance.cause.reason,
        "from_state": rebalance.from_state.value,
        "from_generation": rebalance.from_generation,
        "started_ms": rebalance.started_ms,
        "formed_ms": rebalance.formed_ms,
        "ended_ms": rebalance.ended_ms,
        "delay_ms": rebalance.delay_ms,
        "waited_for": longest_waits(rebalance.waits),
        "given_up": rebalance.given_up,
        "assignment_failure": _failure(rebalance.failure),
    }
