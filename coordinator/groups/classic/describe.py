"""What ListGroups and DescribeGroups show of classic groups.

The chosen protocol and the members' metadata are shown in Stable only, as in Kafka, for they belong to a generation;
assignments are shown in every state, being what members hold until they give it up.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from coordinator.groups.classic.group import ClassicGroup, ClassicMember, Rebalance, State, find_classic_group
from coordinator.groups.kinds import Kind
from coordinator.protocol.codec import DecodeError
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import DescribeGroupsResponse, ListGroupsResponse
from coordinator.protocol.subscription import parse_assignment

if TYPE_CHECKING:
    from coordinator.groups.state import Groups

KIND = "classic"

_Listed = ListGroupsResponse.ListedGroup
_Described = DescribeGroupsResponse.DescribedGroup
_DescribedMember = DescribeGroupsResponse.DescribedGroupMember

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
        for group in groups.of_kind(Kind.CLASSIC)
        if not wanted_states or group.state.lower() in wanted_states
    ]


def describe_group(groups: "Groups", group_id: str, api_version: int) -> _Described:
    group = find_classic_group(groups, group_id)
    if group is None:
        unknown = _Described(group_id=group_id, group_state=State.DEAD.value)
        if api_version >= GROUP_ID_NOT_FOUND_SINCE:
            is_known = groups.by_id.get(group_id) is not None
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
                member.assignment,
            )
            for member in group.members.values()
        ],
    )


def details(groups: "Groups", group: ClassicGroup) -> dict[str, Any]:
    """Everything about a group as plain values, for `/v1/groups/{group}`: also why it rebalanced lately."""
    if group.protocol_type is None:
        return {}
    return {
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol_name,
        "leader": group.leader_id,
        "members": [_member(group, member) for member in group.members.values()],
        "pending_members": len(group.pending_joins),
        "claims": _claims(group),
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
    """Topic -> partitions; None where the assignment is not a consumer's and so not ours to read."""
    if not group.uses_consumer_protocol:
        return None
    try:
        return {topic: list(partitions) for topic, partitions in parse_assignment(assignment).partitions.items()}
    except DecodeError:
        return None


def _claims(group: ClassicGroup) -> dict[str, Any]:
    """What members say they own and should not (KIP-792): counts over the group's life, details of this generation."""
    view: dict[str, Any] = {"stale": group.claims_stale, "contested": group.claims_contested}
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


def _rebalance(rebalance: Rebalance) -> dict[str, Any]:
    return {
        "cause": rebalance.cause.what,
        "member_id": rebalance.cause.member_id,
        "client_reason": rebalance.cause.client_reason,
        "from_state": rebalance.from_state.value,
        "from_generation": rebalance.from_generation,
        "started_ms": rebalance.started_ms,
        "formed_ms": rebalance.formed_ms,
        "ended_ms": rebalance.ended_ms,
        "last_joined": rebalance.last_joined,
        "given_up": rebalance.given_up,
    }
