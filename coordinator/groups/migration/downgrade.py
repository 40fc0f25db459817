"""A consumer group becomes a classic group when its last member of the consumer protocol goes and classic ones stay (KIP-848).

The remaining members form the next generation themselves: the converted group is in PreparingRebalance, its generation has the
number of the group epoch, and the members are called to rejoin. Until they do they keep what they hold, and the group's record
says so: it lists everything a member holds, including what it was about to give up. Kafka writes the *target* instead. If a
member of the consumer protocol then joins before the others have rejoined, the group is converted back, and
whatever the target had taken from a member counts as free while that member still reads it.

The group is converted without a rebalance only if every member has reached the target: a static member went back to the classic
protocol, as the last one to do so, and took its own place. Mirrors `GroupMetadataManager.convertToClassicGroup`.
"""

from collections.abc import Collection, Sequence

from coordinator.groups.catalog import Catalog
from coordinator.groups.classic.group import ClassicGroup
from coordinator.groups.classic.member import ClassicMember
from coordinator.groups.classic.protocols import select_protocol
from coordinator.groups.classic.rebalance import prepare_rebalance, read_subscriptions
from coordinator.groups.classic.records import completed_generation
from coordinator.groups.classic.round import Cause
from coordinator.groups.classic.states import State
from coordinator.groups.consumer import records
from coordinator.groups.consumer.group import ConsumerGroup, regex_key
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.update import ConsumerUpdate
from coordinator.groups.epochs.member import PartitionEpochs
from coordinator.groups.events import event_only, group_converted
from coordinator.groups.group import CONSUMER_PROTOCOL_TYPE
from coordinator.groups.kinds import Kind
from coordinator.groups.settings import BIDIRECTIONAL, DOWNGRADE
from coordinator.groups.state import Groups
from coordinator.groups.update import GroupUpdate
from coordinator.protocol.codec import DecodeError
from coordinator.protocol.subscription import Assignment, encode_assignment, parse_subscription


def may_downgrade_without(groups: Groups, group: ConsumerGroup, leaving: Collection[ConsumerMember]) -> bool:
    """Whether only classic members stay when these leave, and the group may be converted.

    Mirrors `GroupMetadataManager.validateOnlineDowngradeWithFencedMembers`.
    """
    staying = len(group.members) - len(leaving)
    classic_staying = group.classic_members - sum(member.classic is not None for member in leaving)
    return 0 < staying == classic_staying and _is_allowed(groups, staying)


def may_downgrade_replacing(groups: Groups, group: ConsumerGroup, holder: ConsumerMember) -> bool:
    """Whether only classic members are left when a classic member replaces this one, and the group may be converted.

    Mirrors `GroupMetadataManager.validateOnlineDowngradeWithReplacedMember`.
    """
    count = len(group.members)
    return holder.classic is None and group.classic_members == count - 1 and _is_allowed(groups, count)


def _is_allowed(groups: Groups, size: int) -> bool:
    config = groups.config
    policy = config.group_consumer_migration_policy
    return policy in (DOWNGRADE, BIDIRECTIONAL) and size <= config.group_max_size


def downgrade_without(update: ConsumerUpdate, leaving: Sequence[ConsumerMember]) -> None:
    """Converts the group; these members leave, and classic ones stay."""
    gone = {member.member_id for member in leaving}
    staying = [member for member_id, member in update.group.members.items() if member_id not in gone]
    cause = Cause("the last member of the consumer protocol left", leaving[0].member_id, None)
    _downgrade(update, staying, leaving[0].member_id, cause)


def downgrade_replacing(
    update: ConsumerUpdate, holder: ConsumerMember, successor: ConsumerMember, *, rebalances: bool
) -> None:
    """Converts the group; a classic member replaces the last member of the consumer protocol."""
    update.disarm_all_of(holder.member_id)
    members = [successor if member is holder else member for member in update.group.members.values()]
    cause = Cause("the last member of the consumer protocol turned classic", successor.member_id, None)
    _downgrade(update, members, successor.member_id, cause if rebalances else None)


def _downgrade(update: ConsumerUpdate, members: Sequence[ConsumerMember], asked_by: str, cause: Cause | None) -> None:
    groups, group, now_ms = update.groups, update.group, update.now_ms
    fence = group.fence.at(update.group_epoch)
    classic = ClassicGroup(group.group_id, now_ms, fence)
    for member in members:
        classic.add(_classic_member(group.group_id, member), CONSUMER_PROTOCOL_TYPE)
    classic.generation = update.group_epoch
    classic.protocol_name = select_protocol(classic)
    for member in members:
        classic_member = classic.members[member.member_id]
        classic.set_assignment(classic_member, _assignment(groups.catalog, classic, classic_member, member))
    # The group is not new: it does not wait for more members (the initial rebalance delay).
    classic.state = State.STABLE
    read_subscriptions(classic)
    update.records += [*records.group_tombstones(group, group.members), *completed_generation(classic, fence)]
    for member_id in group.members:
        update.disarm_all_of(member_id)
    update.disarm(regex_key(group.group_id))
    update.timers.extend(member.session_timer for member in classic.members.values())
    update.facts.append(
        event_only(
            group_converted(group.group_id, Kind.CONSUMER, Kind.CLASSIC, update.group_epoch, asked_by, len(members))
        )
    )
    if cause is not None:
        rebalance = GroupUpdate(group.group_id)
        prepare_rebalance(groups, classic, cause, now_ms, rebalance)
        assert not rebalance.records
        update.timers += rebalance.timers
        update.replies += rebalance.replies
        update.facts += rebalance.facts
    update.emit("group_downgraded", generation=classic.generation, members=len(members))
    update.on_result = lambda: groups.place(classic)


def _classic_member(group_id: str, member: ConsumerMember) -> ClassicMember:
    assert member.classic is not None
    return ClassicMember(
        group_id,
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.classic.protocols,
        b"",
        member.classic.session_timeout_ms,
        member.rebalance_timeout_ms,
    )


def _assignment(
    catalog: Catalog, classic: ClassicGroup, classic_member: ClassicMember, member: ConsumerMember
) -> bytes:
    """Everything the member holds, in the version of its subscription."""
    held: dict[bytes, set[int]] = {}
    for epochs in (member.assigned, member.pending_revocation):
        for topic_id, partitions in epochs.items():
            held.setdefault(topic_id, set()).update(partitions)
    return encoded(catalog, held, classic_member.metadata(classic.protocol_name) or b"")


def encoded(catalog: Catalog, held: dict[bytes, set[int]] | PartitionEpochs, metadata: bytes) -> bytes:
    """Encodes partitions as a classic member's assignment, in the version of its subscription; omits deleted topics."""
    try:
        version = parse_subscription(metadata).version
    except DecodeError:
        version = 0
    names = ((catalog.topic_name(topic_id), partitions) for topic_id, partitions in held.items())
    partitions = {name: tuple(sorted(each)) for name, each in sorted((n, p) for n, p in names if n is not None)}
    return encode_assignment(Assignment(partitions, None, version))
