"""The fence of one epoch: the partitions that members lost without a new epoch.

An epoch fences what was lost before it: a commit that was delayed carries an earlier one. A leader's resync is the only change
that takes a partition from a member within an epoch (classic/resync.py). The fence remembers what it took, by member, until no
member can be in that epoch any more:

    taken   no other member was given it. Its former owner may still commit it: a cooperative one does so when it learns of it
    lost    another member has it, or had it since. Its former owner may not commit it, and never gets it back in this epoch,
            because nothing distinguishes its commits before the loss from those after it

Every group has one fence, also after it was converted, and it is in the records of either kind: ClassicGroupResync, and a
tagged field of ConsumerGroupMetadata. The constructors of groups and the builders of these records take it, without a default,
so that a conversion cannot forget it.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Partition = tuple[str, int]
"""By name, so that a topic that was deleted and created again stays fenced."""
Losses = Mapping[str, frozenset[Partition]]
"""Member id -> partitions."""
LOSSES_MAX = 100_000
"""No fence has more entries; they take a few bytes each in a record."""
_NOTHING: frozenset[Partition] = frozenset()


@dataclass(frozen=True, slots=True)
class Fence:
    """An immutable value."""

    epoch: int
    """The generation or member epoch that it is about."""
    resyncs: int
    """How many times a leader has resynced it."""
    lost: Losses
    taken: Losses

    def forbids(self, member_id: str, epoch: int, partitions: Iterable[Partition]) -> bool:
        """Whether this member may not commit all of these partitions with this epoch."""
        return epoch == self.epoch and not self.lost.get(member_id, _NOTHING).isdisjoint(partitions)

    def gives_back(self, epoch: int, given: Losses) -> bool:
        """Whether a member would be given, in this epoch, what it lost in it."""
        return any(self.forbids(member_id, epoch, partitions) for member_id, partitions in given.items())

    def at(self, epoch: int) -> "Fence":
        """The fence of a group whose members are in this epoch."""
        return self if epoch == self.epoch else NO_FENCE

    def resynced(self, epoch: int, before: Losses, after: Losses) -> "Fence":
        """The fence after one more resync of this epoch; `before`, `after`: what each member has."""
        earlier = self.at(epoch)
        owners: defaultdict[Partition, set[str]] = defaultdict(set)
        for member_id, partitions in after.items():
            for partition in partitions:
                owners[partition].add(member_id)
        lost, taken = dict(earlier.lost), {}
        for member_id in before.keys() | earlier.taken.keys():
            has = after.get(member_id, _NOTHING)
            gone = (before.get(member_id, _NOTHING) | earlier.taken.get(member_id, _NOTHING)) - has
            to_others = frozenset(each for each in gone if each in owners)
            if to_others:
                lost[member_id] = lost.get(member_id, _NOTHING) | to_others
            if gone - to_others:
                taken[member_id] = gone - to_others
        return Fence(epoch, earlier.resyncs + 1, lost, taken)

    def converted(self, epoch: int, held: Losses) -> "Fence":
        """The fence of a group with epochs that takes over a classic one in this epoch; `held`: what each member holds in it.

        The new group may give away what was taken and is not held. Its targets do not reach the fence, so it counts as lost.
        """
        earlier = self.at(epoch)
        if not earlier.taken:
            return earlier
        lost = dict(earlier.lost)
        for member_id, partitions in earlier.taken.items():
            gone = partitions - held.get(member_id, _NOTHING)
            if gone:
                lost[member_id] = lost.get(member_id, _NOTHING) | gone
        return Fence(epoch, earlier.resyncs, lost, {})

    @property
    def size(self) -> int:
        return sum(map(len, self.lost.values())) + sum(map(len, self.taken.values()))


NO_FENCE = Fence(-1, 0, {}, {})
"""Nothing was lost without a new epoch. No member has this epoch."""


def written(losses: Losses, by_member: type[Any], topic: type[Any]) -> list[Any]:
    """Losses as structs of a record; sorted, so that equal states make equal bytes."""
    members = []
    for member_id in sorted(losses):
        indexes: defaultdict[str, list[int]] = defaultdict(list)
        for name, index in sorted(losses[member_id]):
            indexes[name].append(index)
        members.append(by_member(member_id, [topic(name, each) for name, each in indexes.items()]))
    return members


def read(members: Iterable[Any]) -> Losses:
    """The losses in the structs of a record."""
    return {
        each.member_id: frozenset((topic.name, index) for topic in each.topics for index in topic.partitions)
        for each in members
    }
