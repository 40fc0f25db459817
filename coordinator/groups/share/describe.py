"""Views of share groups: ListGroups, ShareGroupDescribe, and everything about a group for people.

Topics that are gone have no name and are left out.
"""

from typing import Any

from coordinator.groups.assignors.simple import NAME
from coordinator.groups.catalog import Catalog
from coordinator.groups.epochs.describe import absent, group_view, member_view, progress_view
from coordinator.groups.kinds import Kind
from coordinator.groups.share.group import ShareGroup, find_share_group
from coordinator.groups.share.initialized import Topics
from coordinator.groups.share.member import NO_PARTITIONS, ShareMember
from coordinator.groups.state import Groups
from coordinator.protocol.messages import ShareGroupDescribeResponse

_Described = ShareGroupDescribeResponse.DescribedGroup
_Member = ShareGroupDescribeResponse.Member
_Assignment = ShareGroupDescribeResponse.Assignment
_TopicPartitions = ShareGroupDescribeResponse.TopicPartitions


def describe_share_group(groups: Groups, group_id: str) -> _Described:
    """The group for ShareGroupDescribe (KIP-932). Kafka: `GroupMetadataManager.shareGroupDescribe`.

    Errors in the description: INVALID_GROUP_ID, GROUP_ID_NOT_FOUND.
    """
    group = find_share_group(groups, group_id)
    if group is None:
        return _Described(**absent(groups, group_id, Kind.SHARE))
    return _Described(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.group_epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=NAME,
        members=[_described(groups.catalog, member) for member in group.members.values()],
    )


def _described(catalog: Catalog, member: ShareMember) -> _Member:
    named = ((topic_id, catalog.topic_name(topic_id)) for topic_id in sorted(member.assigned))
    return _Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        assignment=_Assignment(
            [
                _TopicPartitions(topic_id, name, sorted(member.assigned[topic_id]))
                for topic_id, name in named
                if name is not None
            ]
        ),
    )


def details(groups: Groups, group: ShareGroup) -> dict[str, Any]:
    """Everything about a group, as plain values: also which partitions have a state, and why the group last rebalanced."""
    states = group.state_partitions
    return {
        **group_view(group),
        "assignor": NAME,
        "subscribed_topics": sorted(group.subscribed),
        "initializing": _named(states.initializing),
        "initialized": _named(states.initialized),
        "members": [_details(groups.catalog, group, member) for member in group.members.values()],
        **progress_view(group),
    }


def _details(catalog: Catalog, group: ShareGroup, member: ShareMember) -> dict[str, Any]:
    target = group.target.get(member.member_id, NO_PARTITIONS)
    return {
        **member_view(member),
        "topics": sorted(member.topics),
        "member_epoch": member.member_epoch,
        "previous_member_epoch": member.previous_member_epoch,
        "assigned": _numbers(catalog, member.assigned),
        "target": _numbers(catalog, target),
    }


def _numbers(catalog: Catalog, held: Any) -> dict[str, list[int]]:
    """Topic -> partitions; a topic that is gone is shown by its id."""
    return {catalog.topic_name(topic_id) or topic_id.hex(): sorted(numbers) for topic_id, numbers in held.items()}


def _named(topics: Topics) -> dict[str, list[int]]:
    return {topic.name: sorted(topic.partitions) for topic in sorted(topics.values())}
