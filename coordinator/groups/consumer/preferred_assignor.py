"""The assignor of a consumer group: the one that most of the members ask for that name one, or the default.

A group has two answers to "which one is it?", and the group's epoch is raised when a heartbeat finds that they differ:

    standing    by the votes of the members as they are
    upcoming    by the same votes after the member that sends the heartbeat has withdrawn its vote and cast it again

Between assignors with equal votes, each answer is the first in the order of a hash table, and Kafka has two kinds of them. If
`range` and `uniform` have one vote each, `uniform` stands, but the heartbeat of the member that asks for `range` puts `range`
first again. So the epoch is raised by every heartbeat of that member, until the votes differ. This is what Kafka 4.4 does.

Votes for assignors that this server does not have do not count. Kafka fails on them.

Kafka: `ConsumerGroup.preferredServerAssignor`, `computePreferredServerAssignor`,
`GroupMetadataManager.hasPreferredServerAssignorChanged`.
"""

from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.state import Groups
from coordinator.protocol.java import copied_map_capacity, hash_map_order, timeline_map_order


def standing_assignor(groups: Groups, group: ConsumerGroup) -> str:
    """The assignor that the members ask for."""
    votes = _votes(groups, group)
    return max(timeline_map_order(votes), key=votes.__getitem__, default=_default(groups))


def upcoming_assignor(groups: Groups, group: ConsumerGroup, old: ConsumerMember, new: ConsumerMember) -> str:
    """The assignor that the members ask for once `new` has replaced `old`."""
    votes = _votes(groups, group)
    order = timeline_map_order(votes)
    capacity = copied_map_capacity(len(order))
    if old.assignor in votes:
        votes[old.assignor] -= 1
    listed = [name for name in order if votes[name]]
    cast = new.assignor
    if cast is None or cast not in groups.assignors:
        listed = hash_map_order(listed, capacity)
    elif cast in listed:
        votes[cast] += 1
        listed = hash_map_order(listed, capacity)
    else:
        votes[cast] = 1
        listed = hash_map_order([*reversed(listed), cast], capacity, computed=True)
    return max(listed, key=votes.__getitem__, default=_default(groups))


def changes_assignor(groups: Groups, group: ConsumerGroup, old: ConsumerMember, new: ConsumerMember) -> bool:
    """Whether the heartbeat of a member that was `old` and is now `new` raises the group's epoch for the assignor."""
    if old.assignor == new.assignor and len(group.assignors) < 2:
        return False
    return upcoming_assignor(groups, group, old, new) != standing_assignor(groups, group)


def _votes(groups: Groups, group: ConsumerGroup) -> dict[str, int]:
    return {name: count for name, count in group.assignors.items() if name in groups.assignors}


def _default(groups: Groups) -> str:
    return next(iter(groups.assignors))
