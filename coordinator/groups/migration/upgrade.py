"""A classic group becomes a consumer group when the first member that speaks the consumer protocol joins (KIP-848).

An empty group is replaced; its offsets stay. A group with members is converted as it stands, in whatever phase its round is:
the generation becomes the group epoch, and every member becomes a member of the consumer group that speaks the classic
protocol. Parked requests get REBALANCE_IN_PROGRESS; their clients rejoin and reach the consumer group (classic_members.py).

The members stay in the epoch that they know, and so does the fence of what a resync took from them in it (fence.py).

At this moment a member holds what its generation assigned to it and also what it claims to own: in the middle of a
cooperative rebalance there is no assignment yet, and the member keeps reading what it had. Kafka considers the assignment
alone, and so can give away a partition that a member is reading. If two members claim a partition, the one it was assigned to
keeps it; the other claim is stale.

A group cannot be converted if its members' metadata are not subscriptions, or if a custom assignor keeps data of its own in the
assignments. Mirrors `GroupMetadataManager.convertToConsumerGroup` and `ConsumerGroup.fromClassicGroup`.
"""

from coordinator.groups.catalog import Catalog
from coordinator.groups.classic.group import ClassicGroup, find_classic_group
from coordinator.groups.classic.member import ClassicMember, session_key
from coordinator.groups.classic.records import group_tombstones
from coordinator.groups.classic.responses import join_error, sync_error
from coordinator.groups.classic.round import pending_key, resync_key, sync_key
from coordinator.groups.consumer import records
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.group import session_key as consumer_session_key
from coordinator.groups.consumer.member import ClassicPart, ConsumerMember
from coordinator.groups.consumer.subscription import metadata_hash
from coordinator.groups.consumer.update import ConsumerUpdate
from coordinator.groups.epochs.group import EPOCH_AT_FIRST
from coordinator.groups.events import group_converted
from coordinator.groups.fence import NO_FENCE, Partition
from coordinator.groups.kinds import Kind
from coordinator.groups.settings import BIDIRECTIONAL, UPGRADE
from coordinator.groups.state import Groups
from coordinator.protocol.codec import DecodeError
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.releases import Behaviours
from coordinator.protocol.subscription import Subscription, TopicPartitions, parse_assignment, parse_subscription


def group_to_join(groups: Groups, group_id: str, member_id: str, behaviours: Behaviours, now_ms: int) -> ConsumerUpdate:
    """An update of the consumer group that this member joins: existing, new, or converted from a classic group.

    Raises: GROUP_ID_NOT_FOUND (a group of another kind that cannot be converted), GROUP_MAX_SIZE_REACHED (`limit.groups`).
    Mirrors `GroupMetadataManager.getOrMaybeCreateConsumerGroup`.
    """
    known = ConsumerUpdate.find(groups, group_id, now_ms)
    if known is not None:
        return known
    other = groups.by_id.get(group_id)
    classic = find_classic_group(groups, group_id)
    if other is not None and classic is None:
        raise groups.not_found(group_id, Kind.CONSUMER)
    if classic is None or classic.is_empty:
        group = ConsumerGroup(group_id, NO_FENCE)
        if behaviours.epochs_begin_at_0:
            group.set_group_epoch(0, 0, NO_FENCE)
            group.set_target_epoch(0, 0)
        update = ConsumerUpdate(groups, group, now_ms)
        if classic is None:
            groups.admit(group_id)
        else:
            update.replace(groups, classic, Kind.CONSUMER, update.group_epoch, member_id)
        return update
    _check_upgrade_allowed(groups, classic)
    return _upgrade(groups, classic, member_id, behaviours, now_ms)


def _check_upgrade_allowed(groups: Groups, classic: ClassicGroup) -> None:
    """Raises GROUP_ID_NOT_FOUND. Mirrors `GroupMetadataManager.validateOnlineUpgrade`."""
    if groups.config.group_consumer_migration_policy not in (UPGRADE, BIDIRECTIONAL):
        raise _refused(classic, "online upgrade is disabled")
    if not classic.uses_consumer_protocol:
        raise _refused(classic, "the group does not use the consumer embedded protocol")
    if len(classic.members) > groups.config.group_consumer_max_size:
        raise _refused(classic, "the group size exceeds the consumer group maximum size")


def _refused(classic: ClassicGroup, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {classic.group_id} to consumer group because {why}.",
    )


def _upgrade(
    groups: Groups, classic: ClassicGroup, joining_id: str, behaviours: Behaviours, now_ms: int
) -> ConsumerUpdate:
    group_id = classic.group_id
    epoch = max(classic.generation, EPOCH_AT_FIRST)
    members = _members(groups.catalog, classic, epoch, behaviours)
    held = {member.member_id: _names(groups.catalog, member) for member in members}
    fence = classic.fence.converted(epoch, held)
    group = ConsumerGroup(group_id, fence)
    group.set_target_epoch(epoch, 0)
    for member in members:
        group.put(member)
        target = {topic_id: frozenset(partitions) for topic_id, partitions in member.assigned.items()}
        group.set_target(member.member_id, target)
    group.set_group_epoch(epoch, metadata_hash(group, set(), set(), groups.catalog, is_known=False), fence)
    group.soft.catalog_version = groups.catalog.version
    update = ConsumerUpdate(groups, group, now_ms)
    update.on_result = lambda: _end_round(update, classic)
    update.records += [
        *group_tombstones(classic),
        *(records.member_metadata(group_id, member) for member in members),
        records.group_epoch(group_id, group.group_epoch, group.metadata_hash, fence),
        *(records.target_of_member(group_id, member_id, group.target[member_id]) for member_id in group.members),
        records.target_epoch(group_id, group.target_epoch, 0),
        *(records.current_assignment(group_id, member) for member in members),
    ]
    for member in members:
        assert member.classic is not None
        update.arm(consumer_session_key(group_id, member.member_id), member.classic.session_timeout_ms)
    event = group_converted(group_id, Kind.CLASSIC, Kind.CONSUMER, group.group_epoch, joining_id, len(group.members))
    update.emit("group_upgraded", event, epoch=group.group_epoch, members=len(group.members), state=classic.state.value)
    return update


def _end_round(update: ConsumerUpdate, classic: ClassicGroup) -> None:
    """Ends the round of the classic group: parked requests are answered so that clients rejoin, and timers are disarmed."""
    group_id = classic.group_id
    for member in classic.members.values():
        context = classic.unpark_join(member)
        if context is not None:
            refusal = join_error(context.api_version, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
            update.replies.append((context, refusal))
        context = classic.unpark_sync(member)
        if context is not None:
            update.replies.append((context, sync_error(ErrorCode.REBALANCE_IN_PROGRESS)))
        update.disarm(session_key(group_id, member.member_id))
    for member_id in classic.pending_joins:
        update.disarm(pending_key(group_id, member_id))
    update.disarm(classic.join_timer_key)
    update.disarm(sync_key(classic))
    update.disarm(resync_key(classic))


def _members(catalog: Catalog, classic: ClassicGroup, epoch: int, behaviours: Behaviours) -> list[ConsumerMember]:
    """The members with the partitions that they hold; each partition is held by one member."""
    readings = []
    for member in classic.members.values():
        try:
            subscription = parse_subscription(_metadata(classic, member))
            assignment = parse_assignment(member.assignment)
        except DecodeError:
            raise _refused(classic, "the embedded consumer protocol is malformed") from None
        if not member.assignment and behaviours.upgrade_needs_assignments:
            raise _refused(classic, "the embedded consumer protocol is malformed")
        if assignment.user_data and not behaviours.upgrade_drops_user_data:
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"Cannot upgrade classic group {classic.group_id} to consumer group because an unsupported custom "
                "assignor is in use. Please refer to the documentation or switch to a default assignor before "
                "re-attempting the upgrade.",
            )
        readings.append((member, subscription, assignment.partitions))
    taken: dict[bytes, set[int]] = {}
    held: dict[str, dict[bytes, dict[int, int]]] = {member.member_id: {} for member, _, _ in readings}
    for member, _, partitions in readings:
        _hold(catalog, held[member.member_id], partitions, taken, epoch)
    for member, subscription, _ in readings:
        _hold(catalog, held[member.member_id], subscription.owned, taken, epoch)
    return [_member(member, subscription, held[member.member_id], epoch) for member, subscription, _ in readings]


def _names(catalog: Catalog, member: ConsumerMember) -> frozenset[Partition]:
    """What the member holds, by topic name."""
    return frozenset(
        (catalog.topic_name(topic_id) or "", index) for topic_id, held in member.assigned.items() for index in held
    )


def _metadata(classic: ClassicGroup, member: ClassicMember) -> bytes:
    """The member's metadata under the chosen protocol; before one is chosen, under the first that it offers."""
    metadata = member.metadata(classic.protocol_name)
    return member.protocols[0][1] if metadata is None else metadata


def _hold(
    catalog: Catalog,
    held: dict[bytes, dict[int, int]],
    partitions: TopicPartitions,
    taken: dict[bytes, set[int]],
    epoch: int,
) -> None:
    for name, indexes in partitions.items():
        topic_id = catalog.topic_id(name)
        if topic_id is None:
            continue
        others = taken.setdefault(topic_id, set())
        free = set(indexes) - others
        if free:
            others |= free
            held.setdefault(topic_id, {}).update(dict.fromkeys(free, epoch))


def _member(
    member: ClassicMember, subscription: Subscription, held: dict[bytes, dict[int, int]], epoch: int
) -> ConsumerMember:
    """The member of the consumer group. What it held before this epoch is unknown, so no earlier epoch may commit."""
    return ConsumerMember(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=frozenset(subscription.topics),
        classic=ClassicPart(session_timeout_ms=member.session_timeout_ms, protocols=member.protocols),
        member_epoch=epoch,
        previous_member_epoch=epoch,
        assigned=held,
        revocation_epoch=epoch - 1,
    )
