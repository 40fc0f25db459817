"""What others may see of classic groups: ListGroups, DescribeGroups, and the whole story for people.

The chosen protocol and the members' metadata are shown in Stable only, as in Kafka, for they belong to a generation;
assignments are shown in every state, being what members hold until they give it up.

`details` is not limited by any message: it says also what a round is waiting for, why the group rebalanced lately and which
of its members claimed partitions they should not.
"""

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from coordinator.groups.classic.group import ClassicGroup, State
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
            unknown.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            unknown.error_message = f"Group {group_id} not found."
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


def details(group: ClassicGroup) -> dict[str, Any]:
    """Everything about a group but the bytes that members exchange, as plain values."""
    return {
        "group_id": group.group_id,
        "kind": KIND,
        "state": group.state.value,
        "state_since_ms": group.state_timestamp_ms,
        "generation": group.generation,
        "generation_stored": None if group.stored is None else group.stored.generation,
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol_name,
        "leader_id": group.leader_id,
        "subscribed_topics": None if group.subscribed_topics is None else sorted(group.subscribed_topics),
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "session_timeout_ms": member.session_timeout_ms,
                "rebalance_timeout_ms": member.rebalance_timeout_ms,
                "protocols": [name for name, _ in member.protocols],
                "join_reason": member.client_reason,
                "join_parked": member.awaiting_join is not None,
                "sync_parked": member.awaiting_sync is not None,
                "assignment_bytes": len(member.assignment),
            }
            for member in group.members.values()
        ],
        "waiting_for": _waiting_for(group),
        "rebalances": [asdict(rebalance) | {"cause": rebalance.cause._asdict()} for rebalance in group.rebalances],
        "owned_partitions": {
            "stale": group.claims_stale,
            "contested": group.claims_contested,
            "last": None if group.claims is None else _claims(group),
        },
    }


def _waiting_for(group: ClassicGroup) -> dict[str, list[str]]:
    """Whose join or sync is missing before the group can go on."""
    joins: list[str] = []
    if group.state is State.PREPARING_REBALANCE:
        joins = [member_id for member_id, member in group.members.items() if member.awaiting_join is None]
    return {
        "joins": joins + sorted(group.pending_joins),
        "syncs": list(group.pending_syncs),
    }


def _claims(group: ClassicGroup) -> dict[str, Any]:
    assert group.claims is not None
    return {
        "generation": group.claims.generation,
        "stale": [claim._asdict() for claim in group.claims.stale],
        "contested": [each._asdict() for each in group.claims.contested],
        "cleared": sorted(group.claims.cleared),
    }
