"""The `simple` assignor of share groups (KIP-932): every partition has a reader, and the members have equally many.

A partition of a share group may be read by several members. If there are more members than partitions, each partition has
`ceil(members / partitions)` of them; otherwise it has one. What members have stays with them as far as that allows. Members
that subscribe to the same topics share the partitions of all these topics; if subscriptions differ, the partitions of each
topic are shared for themselves.

The numbers are those of Kafka. Which member reads which partition is not: there the order of a hash table decides, and members
can end up with one partition less than they should have.

Kafka: `SimpleAssignor`, with its two builders.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from heapq import heapify, heappop, heappush

from coordinator.groups.assignors.assignor import Partitions

NAME = "simple"
_Partition = tuple[bytes, int]


def assign(
    topics: Mapping[str, AbstractSet[bytes]], partitions: Partitions, before: Mapping[str, Partitions]
) -> dict[str, Partitions]:
    """The part of each member: `topics` by member id, the `partitions` that can be assigned, and the parts `before`."""
    held = {
        member_id: {(topic_id, number) for topic_id, numbers in before.get(member_id, {}).items() for number in numbers}
        for member_id in topics
    }
    target: dict[str, dict[bytes, set[int]]] = {member_id: {} for member_id in topics}
    for pool, readers in _pools(topics, partitions):
        for (topic_id, number), sharing in _shared_out(pool, readers, held):
            for member_id in sharing:
                target[member_id].setdefault(topic_id, set()).add(number)
    return {
        member_id: {topic_id: frozenset(numbers) for topic_id, numbers in part.items()}
        for member_id, part in target.items()
    }


def _pools(
    topics: Mapping[str, AbstractSet[bytes]], partitions: Partitions
) -> list[tuple[list[_Partition], list[str]]]:
    """What is shared out together, and by which members; both in order."""
    readers: defaultdict[bytes, list[str]] = defaultdict(list)
    for member_id in sorted(topics):
        for topic_id in topics[member_id]:
            readers[topic_id].append(member_id)
    lists = {topic_id: [(topic_id, number) for number in sorted(partitions.get(topic_id, ()))] for topic_id in readers}
    if len({frozenset(each) for each in topics.values()}) == 1:
        return [([each for topic_id in sorted(lists) for each in lists[topic_id]], sorted(topics))]
    return [(lists[topic_id], readers[topic_id]) for topic_id in sorted(lists)]


def _shared_out(
    pool: Sequence[_Partition], readers: Sequence[str], held: Mapping[str, Collection[_Partition]]
) -> list[tuple[_Partition, set[str]]]:
    """The members of each partition. Who has fewest of what it should have is given the next one."""
    if not pool:
        return []
    sharing = -(-len(readers) // len(pool))
    places = sharing * len(pool)
    members: dict[_Partition, set[str]] = {each: set() for each in pool}
    room: list[tuple[int, str]] = []
    for index, member_id in enumerate(readers):
        missing = -(-places * (index + 1) // len(readers)) + (-places * index // len(readers))
        for each in sorted(held[member_id]):
            if missing and each in members and len(members[each]) < sharing:
                members[each].add(member_id)
                missing -= 1
        if missing:
            room.append((-missing, member_id))
    heapify(room)
    for each in pool:
        passed_over = []
        while room and len(members[each]) < sharing:
            missing, member_id = heappop(room)
            if member_id in members[each]:
                passed_over.append((missing, member_id))
                continue
            members[each].add(member_id)
            if missing < -1:
                passed_over.append((missing + 1, member_id))
        for entry in passed_over:
            heappush(room, entry)
    return list(members.items())
