"""What others may see of consumer groups: ListGroups, ConsumerGroupDescribe, and the whole story for people.

What a member must give up is shown as its own until it says that it gave it up; it may still be reading it. Topics that are
gone have no name and are left out.
"""

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from coordinator.groups.consumer.group import NO_PARTITIONS, ConsumerGroup, ConsumerMember, find_consumer_group
from coordinator.groups.group import CONSUMER_PROTOCOL_TYPE
from coordinator.groups.kinds import Kind
from coordinator.groups.modern import Epochs
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.java import hash_map_order
from coordinator.protocol.messages import ConsumerGroupDescribeResponse, ListGroupsResponse

if TYPE_CHECKING:
    from coordinator.groups.state import Catalog, Groups

KIND = "consumer"

_Listed = ListGroupsResponse.ListedGroup
_Described = ConsumerGroupDescribeResponse.DescribedGroup
_Member = ConsumerGroupDescribeResponse.Member
_Assignment = ConsumerGroupDescribeResponse.Assignment
_TopicPartitions = ConsumerGroupDescribeResponse.TopicPartitions

_CLASSIC_PROTOCOL, _CONSUMER_PROTOCOL = 0, 1


def list_groups(groups: "Groups", states: Iterable[str], types: Iterable[str]) -> list[_Listed]:
    """The shard's consumer groups. Filters as for classic ones."""
    wanted_states = {state.strip().lower() for state in states}
    wanted_types = {kind.strip().lower() for kind in types}
    if wanted_types and KIND not in wanted_types:
        return []
    return [
        _Listed(group.group_id, CONSUMER_PROTOCOL_TYPE, group.state.value, KIND)
        for group in groups.of_kind(Kind.CONSUMER)
        if not wanted_states or group.state.lower() in wanted_states
    ]


def describe_consumer_group(groups: "Groups", group_id: str) -> _Described:
    if not group_id:
        return _Described(error_code=ErrorCode.INVALID_GROUP_ID, group_id=group_id)
    group = find_consumer_group(groups, group_id)
    if group is None:
        is_known = groups.by_id.get(group_id) is not None
        return _Described(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} {'is not a consumer group' if is_known else 'not found'}.",
            group_id=group_id,
        )
    catalog = groups.catalog
    return _Described(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.group_epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=assignor_of(groups, group),
        members=[_described(catalog, group, member) for member in group.members.values()],
    )


def assignor_of(groups: "Groups", group: ConsumerGroup) -> str:
    """The assignor that most members ask for, or the default."""
    known = hash_map_order(name for name in group.assignors if name in groups.assignors)
    return max(known, key=group.assignors.__getitem__) if known else next(iter(groups.assignors))


def _described(catalog: "Catalog", group: ConsumerGroup, member: ConsumerMember) -> _Member:
    held: dict[bytes, set[int]] = {}
    for epochs in (member.assigned, member.pending_revocation):
        for topic_id, partitions in epochs.items():
            held.setdefault(topic_id, set()).update(partitions)
    target = group.target.get(member.member_id, NO_PARTITIONS)
    return _Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(catalog, held),
        target_assignment=_assignment(catalog, target),
        member_type=_CONSUMER_PROTOCOL if member.classic is None else _CLASSIC_PROTOCOL,
    )


def _assignment(catalog: "Catalog", held: Any) -> _Assignment:
    named = ((topic_id, catalog.topic_name(topic_id)) for topic_id in held)
    return _Assignment(
        [
            _TopicPartitions(topic_id, name, sorted(held[topic_id]))
            for topic_id, name in sorted(named)
            if name is not None
        ]
    )


def details(groups: "Groups", group: ConsumerGroup) -> dict[str, Any]:
    """Everything about a group, as plain values: also what each member waits for, and why the group rebalanced lately."""
    catalog = groups.catalog
    return {
        "group_id": group.group_id,
        "kind": KIND,
        "state": group.state.value,
        "group_epoch": group.group_epoch,
        "target_epoch": group.target_epoch,
        "target_timestamp_ms": group.target_timestamp_ms,
        "assignor": assignor_of(groups, group),
        "subscribed_topics": sorted(group.subscribed),
        "regexes": {regex: sorted(resolved.topics) for regex, resolved in sorted(group.regexes.items())},
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.instance_id,
                "rack_id": member.rack_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "protocol": "consumer" if member.classic is None else "classic",
                "rebalance_timeout_ms": member.rebalance_timeout_ms,
                "topics": sorted(member.topics),
                "regex": member.regex or None,
                "assignor": member.assignor,
                "state": member.state.name,
                "member_epoch": member.member_epoch,
                "previous_member_epoch": member.previous_member_epoch,
                "revocation_epoch": member.revocation_epoch,
                "assigned": _epochs(catalog, member.assigned),
                "pending_revocation": _epochs(catalog, member.pending_revocation),
                "waits_for": _waits_for(group, member),
            }
            for member in group.members.values()
        ],
        "waiting_for": sorted(group.unreconciled),
        "rebalances": [asdict(rebalance) for rebalance in group.rebalances],
    }


def _epochs(catalog: "Catalog", held: Epochs) -> dict[str, dict[int, int]]:
    """Topic -> partition -> since which epoch; a topic that is gone goes by its id."""
    return {
        catalog.topic_name(topic_id) or topic_id.hex(): dict(sorted(partitions.items()))
        for topic_id, partitions in held.items()
    }


def _waits_for(group: ConsumerGroup, member: ConsumerMember) -> list[str]:
    """The members that hold what this one should have."""
    target = group.target.get(member.member_id, NO_PARTITIONS)
    owners = {group.owner(topic_id, partition) for topic_id, partitions in target.items() for partition in partitions}
    return sorted(owner for owner in owners if owner is not None and owner != member.member_id)
