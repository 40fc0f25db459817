"""Views of consumer groups: ListGroups, ConsumerGroupDescribe, and everything about a group for people.

What a member must give up is shown as its own until it says that it gave it up; it may still be reading it. Topics that are
gone have no name and are left out.
"""

from typing import Any

from coordinator.groups.catalog import Catalog
from coordinator.groups.consumer.group import NO_PARTITIONS, ConsumerGroup, find_consumer_group
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.preferred_assignor import standing_assignor
from coordinator.groups.epochs.describe import absent, group_view, member_view, other_owners, progress_view, shown_epoch
from coordinator.groups.epochs.member import PartitionEpochs
from coordinator.groups.kinds import Kind
from coordinator.groups.state import Groups
from coordinator.protocol.messages import ConsumerGroupDescribeResponse
from coordinator.protocol.releases import AS_NEWEST, Behaviours

_Described = ConsumerGroupDescribeResponse.DescribedGroup
_Member = ConsumerGroupDescribeResponse.Member
_Assignment = ConsumerGroupDescribeResponse.Assignment
_TopicPartitions = ConsumerGroupDescribeResponse.TopicPartitions

_CLASSIC_PROTOCOL, _CONSUMER_PROTOCOL = 0, 1


def describe_consumer_group(groups: Groups, group_id: str, behaviours: Behaviours = AS_NEWEST) -> _Described:
    """The group for ConsumerGroupDescribe (KIP-848). Kafka: `GroupMetadataManager.consumerGroupDescribe`.

    Errors in the description: INVALID_GROUP_ID, GROUP_ID_NOT_FOUND.
    """
    group = find_consumer_group(groups, group_id)
    if group is None:
        return _Described(**absent(groups, group_id, Kind.CONSUMER))
    catalog = groups.catalog
    return _Described(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.group_epoch,
        assignment_epoch=shown_epoch(group, behaviours),
        assignor_name=standing_assignor(groups, group),
        members=[_described(catalog, group, member) for member in group.members.values()],
    )


def _described(catalog: Catalog, group: ConsumerGroup, member: ConsumerMember) -> _Member:
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


def _assignment(catalog: Catalog, held: Any) -> _Assignment:
    named = ((topic_id, catalog.topic_name(topic_id)) for topic_id in held)
    return _Assignment(
        [
            _TopicPartitions(topic_id, name, sorted(held[topic_id]))
            for topic_id, name in sorted(named)
            if name is not None
        ]
    )


def details(groups: Groups, group: ConsumerGroup) -> dict[str, Any]:
    """Everything about a group, as plain values: also what each member waits for, and why the group last rebalanced."""
    return {
        **group_view(group),
        "assignor": standing_assignor(groups, group),
        "subscribed_topics": sorted(group.subscribed),
        "regexes": {regex: sorted(resolved.topics) for regex, resolved in sorted(group.regexes.items())},
        "members": [_member_details(groups.catalog, group, member) for member in group.members.values()],
        **progress_view(group),
    }


def _member_details(catalog: Catalog, group: ConsumerGroup, member: ConsumerMember) -> dict[str, Any]:
    return {
        **member_view(member),
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


def _epochs(catalog: Catalog, held: PartitionEpochs) -> dict[str, dict[int, int]]:
    """Topic -> partition -> assignment epoch; a topic that is gone is shown by its id."""
    return {
        catalog.topic_name(topic_id) or topic_id.hex(): dict(sorted(partitions.items()))
        for topic_id, partitions in held.items()
    }


def _waits_for(group: ConsumerGroup, member: ConsumerMember) -> list[str]:
    """The members that hold what this one should have."""
    target = group.target.get(member.member_id, NO_PARTITIONS)
    owners = (group.owner(topic_id, partition) for topic_id, partitions in target.items() for partition in partitions)
    return other_owners(owners, member)
