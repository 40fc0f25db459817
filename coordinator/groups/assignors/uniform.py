"""The `uniform` assignor, the default: as even as possible, and as little moved as possible.

Two cases, as in Kafka, because the first is what nearly every group is and has a simple answer.

All members subscribe to the same topics: every member has a quota, the number of partitions by the number of members; where it
does not come out even some members have one more. Each keeps what it has up to its quota, what is over is handed to
those below theirs. The places with one more go to members that have one more already, as long as there are enough of them.
The result differs by one partition at most, and no partition moves that could have stayed.

Subscriptions differ: quotas make no sense. Everyone keeps what it still subscribes to; free partitions go, topic by topic,
to the subscriber with the least; then partitions are moved from the fullest to the emptiest subscriber of a topic as long as
that makes them more equal. Topics with few subscribers come first since they have the least choice. One pass over
the topics nearly always settles it; after `PASSES_MAX` it is good enough.

Members and topics are walked in sorted order, so that what comes out does not depend on the order in which they went in.
"""

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace

from coordinator.groups.assignors.assignor import GroupSpec, Partitions

PASSES_MAX = 16

_Chunk = tuple[bytes, Sequence[int]]
"""Free partitions of one topic."""


class UniformAssignor:
    """Kafka's `uniform`."""

    def assign(self, group: GroupSpec) -> Mapping[str, Partitions]:
        subscriptions = {member.topics for member in group.members.values()}
        if len(subscriptions) > 1:
            return _Uneven(group).assign()
        topics = next(iter(subscriptions), None)
        return _assign_evenly(group, sorted(topics)) if topics else {}


def _assign_evenly(group: GroupSpec, topics: Sequence[bytes]) -> dict[str, Partitions]:
    free = {topic_id: set(range(group.partitions[topic_id])) for topic_id in topics}
    total = sum(map(len, free.values()))
    members = sorted(group.members)
    quota, longer = divmod(total, len(members))
    target: dict[str, dict[bytes, frozenset[int]]] = {}
    unfilled: list[tuple[str, int]] = []
    over: list[_Chunk] = []
    for index, member_id in enumerate(members):
        has_longer = longer > 0
        room = quota + has_longer
        kept: dict[bytes, frozenset[int]] = {}
        assigned = group.members[member_id].assigned
        for topic_id in sorted(assigned):
            available = free.get(topic_id)
            if available is None:
                continue
            mine = assigned[topic_id] & available
            available -= mine
            if len(mine) > room:
                in_order = sorted(mine)
                over.append((topic_id, in_order[room:]))
                mine = frozenset(in_order[:room])
            room -= len(mine)
            if mine:
                kept[topic_id] = mine
        if room and has_longer and len(members) - index > longer:
            room -= 1
            has_longer = False
        longer -= has_longer
        target[member_id] = kept
        if room:
            unfilled.append((member_id, room))
    chunks: list[_Chunk] = [(topic_id, sorted(partitions)) for topic_id, partitions in free.items() if partitions]
    _fill(target, unfilled, chunks + over)
    return dict(target)


def _fill(
    target: dict[str, dict[bytes, frozenset[int]]], unfilled: Sequence[tuple[str, int]], chunks: Sequence[_Chunk]
) -> None:
    """Gives the chunks, in order, to the members that have room."""
    chunk = start = 0
    for member_id, room in unfilled:
        kept = target[member_id]
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
    assert chunk == len(chunks), "every partition has a place"


class _Uneven:
    """Members whose subscriptions differ. Members are numbers here: their place in sorted order."""

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
        """Moves partitions of one topic to emptier subscribers; returns how many."""
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
                heappop(emptiest)  # It has given since.
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
