"""The `range` assignor: neighbouring partitions to the same member, the same ranges of every topic.

Members are sorted (those with an instance id first, by it; the others by member id) and each topic is cut into as many ranges
as it has subscribers, the first ranges longer by one where the division leaves a remainder. So topics with the same number of
partitions and the same subscribers are cut alike, and records with the same key in both reach one member: that is why people
choose it. It looks at nothing but the subscriptions, which makes it neither sticky nor, over many small topics, balanced.

Kafka: `RangeAssignor`.
"""

from collections.abc import Mapping

from coordinator.groups.assignors.assignor import BuiltIn, GroupSpec, Partitions


class RangeAssignor(BuiltIn):
    """Kafka's `range`."""

    def assign(self, group: GroupSpec) -> Mapping[str, Partitions]:
        subscribers: dict[bytes, list[str]] = {}
        for member_id in sorted(group.members, key=lambda each: _order(group, each)):
            for topic_id in group.members[member_id].topics:
                subscribers.setdefault(topic_id, []).append(member_id)
        assigned: dict[str, dict[bytes, frozenset[int]]] = {member_id: {} for member_id in group.members}
        for topic_id, member_ids in subscribers.items():
            length, longer = divmod(group.partitions[topic_id], len(member_ids))
            start = 0
            for index, member_id in enumerate(member_ids):
                end = start + length + (index < longer)
                if end == start:
                    break
                assigned[member_id][topic_id] = frozenset(range(start, end))
                start = end
        return assigned


def _order(group: GroupSpec, member_id: str) -> tuple[bool, str]:
    instance_id = group.members[member_id].instance_id
    return (True, member_id) if instance_id is None else (False, instance_id)
