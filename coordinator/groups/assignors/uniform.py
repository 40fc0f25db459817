"""The `uniform` assignor, the default: as even as possible, and as little moved as possible.

There are two cases, as in Kafka, because the first covers nearly every group and has a simple answer.

All members subscribe to the same topics: every member has a quota, the number of partitions divided by the number of members;
where that leaves a remainder some members have one more. Each keeps what it has up to its quota; the excess is given to those
below theirs. The places with one more go to members that have one more already, as long as there are enough of them. The
result differs by one partition at most, and no partition moves that could have stayed.

Subscriptions differ: quotas make no sense. All members keep what they still subscribe to; free partitions go, topic by topic,
to the subscriber with the fewest; then partitions are moved from the fullest to the emptiest subscriber of a topic as long as
that makes them more equal. Topics with few subscribers come first since they have the least choice. One pass over the topics
nearly always settles it; after `PASSES_MAX` passes the result is good enough.

The result does not depend on the order of the input. Topics are processed in sorted order. So are members, but where all
subscribe to the same they are taken in the order of Kafka's hash table, and the same members get one more here as there.

Kafka: `UniformAssignor`, `UniformHomogeneousAssignmentBuilder`, `UniformHeterogeneousAssignmentBuilder`.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from heapq import heapify, heappop, heappush, heapreplace

from coordinator.groups.assignors.assignor import BuiltIn, GroupSpec, Partitions
from coordinator.protocol.java import hash_map_order

PASSES_MAX = 16
_NONE: frozenset[int] = frozenset()

_Chunk = tuple[bytes, Sequence[int]]
"""Free partitions of one topic."""


class UniformAssignor(BuiltIn):
    """Kafka's `uniform`."""

    def assign(self, group: GroupSpec) -> Mapping[str, Partitions]:
        subscriptions = {member.topics for member in group.members.values()}
        if len(subscriptions) > 1:
            return _Uneven(group).assign()
        topics = next(iter(subscriptions), None)
        return _assign_evenly(group, sorted(topics)) if topics else {}


def _assign_evenly(group: GroupSpec, topics: Sequence[bytes]) -> dict[str, Partitions]:
    """The case of equal subscriptions. A member that keeps what it has is given the same object again."""
    free: Mapping[bytes, AbstractSet[int]]
    if group.free is None:
        free, assigned, sizes = _disjoint(group, topics)
    else:
        free = group.free
        assigned = {member_id: member.assigned for member_id, member in group.members.items()}
        sizes = {member_id: member.assigned_count for member_id, member in group.members.items()}
    members = hash_map_order(sorted(group.members))
    quota, longer = divmod(sum(group.partitions[topic_id] for topic_id in topics), len(members))
    target: dict[str, Partitions] = {}
    unfilled: list[tuple[str, int]] = []
    over: list[_Chunk] = []
    for index, member_id in enumerate(members):
        has_longer = longer > 0
        room = quota + has_longer - sizes[member_id]
        if room < 0:
            target[member_id] = _trimmed(assigned[member_id], quota + has_longer, over)
        else:
            target[member_id] = assigned[member_id]
            if room:
                if has_longer and len(members) - index > longer:
                    room -= 1
                    has_longer = False
                if room:
                    unfilled.append((member_id, room))
        longer -= has_longer
    chunks: list[_Chunk] = [(topic_id, sorted(partitions)) for topic_id, partitions in free.items() if partitions]
    _fill(target, unfilled, chunks + over)
    return target


def _disjoint(
    group: GroupSpec, topics: Sequence[bytes]
) -> tuple[dict[bytes, set[int]], dict[str, Partitions], dict[str, int]]:
    """The free partitions of these topics, what each member has of them, and how many. No partition has two members.

    A target that this assignor made is disjoint already; counting shows it, without looking at each partition by itself.
    """
    free = {topic_id: set(range(group.partitions[topic_id])) for topic_id in topics}
    had: dict[bytes, list[frozenset[int]]] = {topic_id: [] for topic_id in free}
    assigned: dict[str, Partitions] = {}
    sizes: dict[str, int] = {}
    for member_id, member in group.members.items():
        size = 0
        assigned[member_id] = member.assigned
        for topic_id, partitions in member.assigned.items():
            if topic_id in had:
                had[topic_id].append(partitions)
                size += len(partitions)
            else:
                assigned[member_id] = {each: parts for each, parts in member.assigned.items() if each in had}
        sizes[member_id] = size
    for topic_id, sets in had.items():
        free[topic_id].difference_update(*sets)
        if len(free[topic_id]) + sum(map(len, sets)) != group.partitions[topic_id]:
            return _made_disjoint(group, topics)
    return free, assigned, sizes


def _made_disjoint(
    group: GroupSpec, topics: Sequence[bytes]
) -> tuple[dict[bytes, set[int]], dict[str, Partitions], dict[str, int]]:
    """The same for a target that is not disjoint: the first member keeps what several have."""
    free = {topic_id: set(range(group.partitions[topic_id])) for topic_id in topics}
    assigned: dict[str, Partitions] = {}
    for member_id in sorted(group.members):
        mine = {}
        for topic_id, partitions in group.members[member_id].assigned.items():
            own = partitions & free.get(topic_id, _NONE)
            if own:
                free[topic_id] -= own
                mine[topic_id] = own
        assigned[member_id] = mine
    return free, assigned, {member_id: sum(map(len, mine.values())) for member_id, mine in assigned.items()}


def _trimmed(assigned: Partitions, room: int, over: list[_Chunk]) -> Partitions:
    """As much of `assigned` as there is room for; the rest goes to `over`."""
    kept: dict[bytes, frozenset[int]] = {}
    for topic_id in sorted(assigned):
        mine = assigned[topic_id]
        if len(mine) > room:
            given = [max(mine)] if len(mine) == room + 1 else sorted(mine)[room:]
            over.append((topic_id, given))
            mine = mine.difference(given)
        room -= len(mine)
        if mine:
            kept[topic_id] = mine
    return kept


def _fill(target: dict[str, Partitions], unfilled: Sequence[tuple[str, int]], chunks: Sequence[_Chunk]) -> None:
    """Gives the free partitions, in order, to the members that have room."""
    chunk = start = 0
    for member_id, room in unfilled:
        kept = dict(target[member_id])
        left = room
        while left and chunk < len(chunks):
            topic_id, partitions = chunks[chunk]
            some = partitions[start : start + left]
            left -= len(some)
            start += len(some)
            before = kept.get(topic_id)
            kept[topic_id] = frozenset(some) if before is None else before.union(some)
            if start == len(partitions):
                chunk, start = chunk + 1, 0
        target[member_id] = kept
    assert chunk == len(chunks), "every partition has a place"


class _Uneven:
    """The case of different subscriptions. Members are numbers here: their index in sorted order."""

    def __init__(self, group: GroupSpec) -> None:
        self.members = sorted(group.members)
        self.partitions = group.partitions
        self.load = [0] * len(self.members)
        self.subscribers: dict[bytes, list[int]] = {}
        self.owned: dict[bytes, dict[int, set[int]]] = {}
        """Topic -> member -> its partitions."""
        self.free: dict[bytes, set[int]] = {}
        for number, member_id in enumerate(self.members):
            for topic_id in group.members[member_id].topics:
                self.subscribers.setdefault(topic_id, []).append(number)
        for topic_id in self.subscribers:
            self.free[topic_id] = set(range(group.partitions[topic_id]))
            self.owned[topic_id] = {}
        for number, member_id in enumerate(self.members):
            member = group.members[member_id]
            for topic_id, partitions in member.assigned.items():
                if topic_id in member.topics:
                    mine = partitions & self.free[topic_id]
                    self.free[topic_id] -= mine
                    self._give(topic_id, number, mine)

    def assign(self) -> dict[str, Partitions]:
        topics = sorted(self.subscribers, key=self._order)
        for topic_id in topics:
            self._give_free(topic_id)
        shared = [topic_id for topic_id in topics if len(self.subscribers[topic_id]) > 1]
        for _ in range(PASSES_MAX):
            if not sum([self._balance(topic_id) for topic_id in shared]):
                break
        target: dict[str, dict[bytes, frozenset[int]]] = {member_id: {} for member_id in self.members}
        for topic_id in sorted(self.owned):
            for number, partitions in self.owned[topic_id].items():
                if partitions:
                    target[self.members[number]][topic_id] = frozenset(partitions)
        return dict(target)

    def _order(self, topic_id: bytes) -> tuple[float, int, bytes]:
        """Most partitions per subscriber first, then fewest subscribers."""
        subscribers = len(self.subscribers[topic_id])
        return -self.partitions[topic_id] / subscribers, subscribers, topic_id

    def _give(self, topic_id: bytes, number: int, partitions: set[int] | frozenset[int]) -> None:
        if partitions:
            self.owned[topic_id].setdefault(number, set()).update(partitions)
            self.load[number] += len(partitions)

    def _give_free(self, topic_id: bytes) -> None:
        free = sorted(self.free[topic_id])
        if not free:
            return
        owned = self.owned[topic_id]
        emptiest = [(self.load[number], number) for number in self.subscribers[topic_id]]
        heapify(emptiest)
        for partition in free:
            load, number = emptiest[0]
            owned.setdefault(number, set()).add(partition)
            heapreplace(emptiest, (load + 1, number))
        for load, number in emptiest:
            self.load[number] = load

    def _balance(self, topic_id: bytes) -> int:
        """Moves partitions of one topic to emptier subscribers; returns how many it moved."""
        load, owned = self.load, self.owned[topic_id]
        loads = [load[number] for number in self.subscribers[topic_id]]
        if max(loads) - min(loads) <= 1:
            return 0
        emptiest = [(load[number], number) for number in self.subscribers[topic_id]]
        fullest = [(-load[number], -number) for number, partitions in owned.items() if partitions]
        heapify(emptiest)
        heapify(fullest)
        moved = 0
        while fullest:
            giver = -fullest[0][1]
            while emptiest[0][0] != load[emptiest[0][1]]:
                heappop(emptiest)  # It has given one away since.
            taker = emptiest[0][1]
            if load[giver] - load[taker] <= 1:
                break
            partition = max(owned[giver])
            owned[giver].remove(partition)
            owned.setdefault(taker, set()).add(partition)
            load[giver] -= 1
            load[taker] += 1
            moved += 1
            heapreplace(emptiest, (load[taker], taker))
            heappush(emptiest, (load[giver], giver))
            heappop(fullest)
            if owned[giver]:
                heappush(fullest, (-load[giver], -giver))
        return moved
