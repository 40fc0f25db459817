"""From what a member holds to what it should hold, one step at a time (KIP-848).

A pure function: it takes a member, the target, what the member says it owns, and who holds what; it returns the member as it is
after this step. In sets, topic by topic:

    kept         what it holds and should hold
    lost         what it holds and should not
    pending      what it should hold and does not
    unreleased   the part of `pending` that another member still holds

    anything lost that it still owns    UNREVOKED_PARTITIONS, in its old epoch, until it says that it gave them up
    nothing lost                        the target's epoch; it gets what is pending and free, and is
                                        UNRELEASED_PARTITIONS if something is unreleased, else STABLE

A heartbeat that does not say what the member owns leaves the question open. When its subscription changes, the member gives up
what it no longer subscribes to at once, before there is a target that knows of it.

A member never loses a partition and keeps its epoch. Kafka allows this in two cases, and then nothing distinguishes a commit
made before the loss from one made after it. Here, in the first case, a member that unsubscribes in its target's epoch holds on
to what it gave up until the next target moves it to a later epoch: it is UNRELEASED_PARTITIONS with partitions pending
revocation. Nobody else can be given the partition before that target, so nobody waits longer for it. In the second case, a
target takes more from a member that has just given up what an earlier one took: it moves to an epoch between the two. So
`revocation_epoch`, the last epoch in which it had something that it does not have any more, is always before its epoch.

A member that joins, or comes back after it left for a while, gets an epoch in this step (epochs/entry.py).

Kafka: `CurrentAssignmentBuilder` (modern.consumer).
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet

from coordinator.groups.assignors.assignor import Partitions
from coordinator.groups.consumer.member import NOTHING, ConsumerMember, MemberState, joined
from coordinator.groups.epochs.entry import entry_epoch, entry_revocation_epoch
from coordinator.groups.epochs.member import Owned, PartitionEpochs, assigned_at

_NONE: frozenset[int] = frozenset()
_NO_EPOCHS: Mapping[int, int] = {}


def reconcile(
    member: ConsumerMember,
    *,
    target_epoch: int,
    target: Partitions,
    topics: AbstractSet[bytes],
    owned: Owned,
    is_free: Callable[[bytes, int], bool],
    subscription_changed: bool,
) -> ConsumerMember:
    """The member after this step; the same object if nothing changes.

    `topics`: the ids of the topics it subscribes to. `is_free`: whether no other member holds a partition.
    Kafka: `CurrentAssignmentBuilder.build`.
    """
    if member.is_joining:
        return _enter(member, target_epoch, _advance(member, target_epoch, target, topics, owned, is_free))
    is_at_target = member.member_epoch == target_epoch
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        waits = _owns_any(owned, member.pending_revocation)
        if not waits and is_at_target:
            member = member.holding(
                member_epoch=member.member_epoch,
                previous_member_epoch=member.member_epoch,
                state=MemberState.UNRELEASED_PARTITIONS,
                assigned=member.assigned,
                pending_revocation=member.pending_revocation,
                revocation_epoch=member.revocation_epoch,
            )
    else:
        waits = is_at_target and (member.state is MemberState.STABLE or bool(member.pending_revocation))
    if waits or holds_on(member, target_epoch):
        return _give_up_unsubscribed(member, topics, owned) if subscription_changed else member
    return _advance(member, target_epoch, target, topics, owned, is_free)


def _enter(before: ConsumerMember, target_epoch: int, after: ConsumerMember) -> ConsumerMember:
    """The joining member after its first step, with an epoch; `after`: as if it had none."""
    assigned, pending, known = after.assigned, after.pending_revocation, before.revocation_epoch
    epoch = entry_epoch(known, target_epoch, must_give_up=bool(pending))
    return after.holding(
        member_epoch=epoch,
        previous_member_epoch=after.previous_member_epoch,
        state=after.state,
        assigned=assigned_at(assigned, epoch),
        pending_revocation=assigned_at(pending, epoch),
        revocation_epoch=entry_revocation_epoch(known, epoch, before.assigned, (assigned, pending)),
    )


def holds_on(member: ConsumerMember, target_epoch: int) -> bool:
    """Whether the member gave up partitions that stay its own until a later target."""
    return (
        member.state is MemberState.UNRELEASED_PARTITIONS
        and bool(member.pending_revocation)
        and member.member_epoch == target_epoch
    )


def _advance(
    member: ConsumerMember,
    target_epoch: int,
    target: Partitions,
    topics: AbstractSet[bytes],
    owned: Owned,
    is_free: Callable[[bytes, int], bool],
) -> ConsumerMember:
    kept: dict[bytes, Mapping[int, int]] = {}
    lost: dict[bytes, Mapping[int, int]] = {}
    gained: dict[bytes, Mapping[int, int]] = {}
    unreleased = False
    assigned = member.assigned
    for topic_id, held in assigned.items():
        wanted = target.get(topic_id, _NONE) if topic_id in topics else _NONE
        if held.keys() <= wanted:
            kept[topic_id] = held
            continue
        keeps = {partition: epoch for partition, epoch in held.items() if partition in wanted}
        if keeps:
            kept[topic_id] = keeps
        lost[topic_id] = {partition: epoch for partition, epoch in held.items() if partition not in wanted}
    still_owns = bool(lost) and _owns_any(owned, lost)
    if still_owns or (lost and member.member_epoch == target_epoch):
        return _give_up_more(member, target_epoch, kept, lost, still_owns=still_owns)
    for topic_id, wanted in target.items():
        if topic_id not in topics:
            continue
        pending = wanted.difference(kept.get(topic_id, _NO_EPOCHS))
        free = {partition: target_epoch for partition in pending if is_free(topic_id, partition)}
        unreleased = unreleased or len(free) < len(pending)
        if free:
            gained[topic_id] = free
    state = MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE
    if not gained and not lost and member.member_epoch == target_epoch and member.state is state:
        return member
    gave_up = bool(lost or member.pending_revocation)
    return member.holding(
        member_epoch=target_epoch,
        previous_member_epoch=member.member_epoch,
        state=state,
        assigned=joined(kept, gained) if gained or lost else assigned,
        pending_revocation=NOTHING,
        revocation_epoch=member.member_epoch if gave_up else member.revocation_epoch,
    )


def _give_up_more(
    member: ConsumerMember, target_epoch: int, kept: PartitionEpochs, lost: PartitionEpochs, *, still_owns: bool
) -> ConsumerMember:
    """The member must give something up before it reaches the target.

    What it gave up earlier is released now if there is an epoch between its own and the target's for it to reach, and
    together with the rest otherwise.
    """
    epoch, revocation_epoch, pending = member.member_epoch, member.revocation_epoch, lost
    if member.pending_revocation:
        if target_epoch - 1 > epoch:
            epoch, revocation_epoch = target_epoch - 1, epoch
        else:
            pending = joined(member.pending_revocation, lost)
    return member.holding(
        member_epoch=epoch,
        previous_member_epoch=member.member_epoch,
        state=MemberState.UNREVOKED_PARTITIONS if still_owns else MemberState.UNRELEASED_PARTITIONS,
        assigned=kept,
        pending_revocation=pending,
        revocation_epoch=revocation_epoch,
    )


def _give_up_unsubscribed(member: ConsumerMember, topics: AbstractSet[bytes], owned: Owned) -> ConsumerMember:
    lost = {topic_id: held for topic_id, held in member.assigned.items() if topic_id not in topics}
    if not lost:
        return member
    pending = joined(member.pending_revocation, lost)
    still_owns = _owns_any(owned, pending)
    return member.holding(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.member_epoch,
        state=MemberState.UNREVOKED_PARTITIONS if still_owns else MemberState.UNRELEASED_PARTITIONS,
        assigned={topic_id: held for topic_id, held in member.assigned.items() if topic_id in topics},
        pending_revocation=pending,
        revocation_epoch=member.revocation_epoch,
    )


def _owns_any(owned: Owned, held: PartitionEpochs) -> bool:
    if owned is None:
        return True
    for topic_id, partitions in owned:
        epochs = held.get(topic_id)
        if epochs is not None and any(partition in epochs for partition in partitions):
            return True
    return False
