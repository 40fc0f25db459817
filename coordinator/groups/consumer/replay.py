"""What a log record of a consumer group does to the state: live and at load, the same.

Records come in any order and some may be missing: a compacted log keeps the last record of each key, and while it is being
compacted a reader may meet a member's later record before the earlier one of another. So every record stands on its
own. It makes what it speaks of if that is not there yet, and a tombstone of something unknown is no matter. What one
record cannot know, because it is in another that comes later, has a harmless value until then.

Group ids are shared by all kinds of groups: a record of a consumer group says that the id is now a consumer group's. The
offsets of the id stay where they are.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from coordinator.groups.consumer.group import (
    NO_REVOCATION_EPOCH,
    NOTHING,
    ClassicPart,
    ConsumerMember,
    MemberState,
    ResolvedRegex,
    consumer_group_or_new,
    find_consumer_group,
)
from coordinator.groups.kinds import Kind
from coordinator.groups.modern import EPOCH_AT_FIRST, LEAVING_EPOCH, Epochs
from coordinator.protocol.messages import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

if TYPE_CHECKING:
    from coordinator.groups.state import Groups

_MEMBER_STATES = {state.value: state for state in MemberState}


def replay_member_metadata(
    groups: "Groups", key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None
) -> None:
    if value is None:
        group = find_consumer_group(groups, key.group_id)
        if group is not None:
            group.drop(key.member_id)
        return
    group = consumer_group_or_new(groups, key.group_id)
    before = group.members.get(key.member_id) or ConsumerMember(member_id=key.member_id)
    classic = value.classic_member_metadata
    topics = frozenset(value.subscribed_topic_names)
    group.put(
        replace(
            before,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=before.topics if topics == before.topics else topics,
            regex=value.subscribed_topic_regex or "",
            assignor=value.server_assignor,
            classic=None
            if classic is None
            else ClassicPart(
                session_timeout_ms=classic.session_timeout_ms,
                protocols=tuple((each.name, each.metadata) for each in classic.supported_protocols),
            ),
        )
    )


def replay_current_assignment(
    groups: "Groups",
    key: ConsumerGroupCurrentMemberAssignmentKey,
    value: ConsumerGroupCurrentMemberAssignmentValue | None,
) -> None:
    if value is None:
        group = find_consumer_group(groups, key.group_id)
        member = None if group is None else group.members.get(key.member_id)
        if group is not None and member is not None:
            group.put(
                member.holding(
                    member_epoch=LEAVING_EPOCH,
                    previous_member_epoch=LEAVING_EPOCH,
                    state=MemberState.STABLE,
                    assigned=NOTHING,
                    pending_revocation=NOTHING,
                    revocation_epoch=NO_REVOCATION_EPOCH,
                )
            )
        return
    group = consumer_group_or_new(groups, key.group_id)
    before = group.members.get(key.member_id) or ConsumerMember(member_id=key.member_id)
    assigned = _epochs(value.assigned_partitions, value.member_epoch)
    pending_revocation = _epochs(value.partitions_pending_revocation, value.member_epoch)
    group.put(
        before.holding(
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=_MEMBER_STATES.get(value.state, MemberState.UNKNOWN),
            assigned=before.assigned if assigned == before.assigned else assigned,
            pending_revocation=before.pending_revocation
            if pending_revocation == before.pending_revocation
            else pending_revocation,
            revocation_epoch=value.revocation_epoch,
        )
    )


def replay_group_epoch(
    groups: "Groups", key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None
) -> None:
    """Its tombstone is the last one when a group is deleted: the group is gone."""
    if value is None:
        groups.remove(key.group_id, Kind.CONSUMER)
    else:
        consumer_group_or_new(groups, key.group_id).set_group_epoch(value.epoch, value.metadata_hash)


def replay_target_epoch(
    groups: "Groups",
    key: ConsumerGroupTargetAssignmentMetadataKey,
    value: ConsumerGroupTargetAssignmentMetadataValue | None,
) -> None:
    if value is not None:
        consumer_group_or_new(groups, key.group_id).set_target_epoch(value.assignment_epoch, value.assignment_timestamp)
    elif (group := find_consumer_group(groups, key.group_id)) is not None:
        group.set_target_epoch(EPOCH_AT_FIRST, 0)


def replay_target_of_member(
    groups: "Groups",
    key: ConsumerGroupTargetAssignmentMemberKey,
    value: ConsumerGroupTargetAssignmentMemberValue | None,
) -> None:
    if value is not None:
        partitions = {
            topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions if topic.partitions
        }
        consumer_group_or_new(groups, key.group_id).set_target(key.member_id, partitions)
    elif (group := find_consumer_group(groups, key.group_id)) is not None:
        group.set_target(key.member_id, None)


def replay_regex(
    groups: "Groups", key: ConsumerGroupRegularExpressionKey, value: ConsumerGroupRegularExpressionValue | None
) -> None:
    if value is not None:
        resolved = ResolvedRegex(topics=frozenset(value.topics), version=value.version, timestamp_ms=value.timestamp)
        consumer_group_or_new(groups, key.group_id).set_regex(key.regular_expression, resolved)
    elif (group := find_consumer_group(groups, key.group_id)) is not None:
        group.set_regex(key.regular_expression, None)


def replay_partition_metadata(
    groups: "Groups", key: ConsumerGroupPartitionMetadataKey, value: ConsumerGroupPartitionMetadataValue | None
) -> None:
    """What a Kafka before 4.1 kept of the topics. Nothing here needs it, but its record should go when it can."""
    if value is not None:
        consumer_group_or_new(groups, key.group_id).has_partition_metadata = True
    elif (group := find_consumer_group(groups, key.group_id)) is not None:
        group.has_partition_metadata = False


def _epochs(topics: Iterable[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions], member_epoch: int) -> Epochs:
    """Where the epochs are missing (written by a Kafka before 4.3) they are the member's, but never negative."""
    held = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [max(member_epoch, 0)] * len(topic.partitions)
        if topic.partitions:
            held[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return held
