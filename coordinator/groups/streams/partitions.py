"""The partitions that the tasks of members read, as the members with an endpoint learn them of each other.

Task `n` of a subtopology reads partition `n` of each of its source topics, the user's and the internal ones, as far as they
have that many. With this a query for a key can be sent to the process that has its state (Interactive Queries).

Kafka: `EndpointToPartitionsManager`. What a member's commits are checked by is in committer.py.
"""

from collections.abc import Iterable, Mapping

from coordinator.groups.catalog import Catalog
from coordinator.groups.streams.configure import Configured
from coordinator.groups.streams.group import StreamsGroup
from coordinator.groups.streams.member import StreamsMember
from coordinator.protocol.messages import StreamsGroupHeartbeatResponse

_Entry = StreamsGroupHeartbeatResponse.EndpointToPartitions
_Endpoint = StreamsGroupHeartbeatResponse.Endpoint
_Partitions = StreamsGroupHeartbeatResponse.TopicPartition


def partitions_of(
    tasks: Mapping[str, Iterable[int]], configured: Configured | None, catalog: Catalog
) -> dict[str, list[int]]:
    """Topic -> partitions, both in order; nothing for subtopologies that are not configured (yet)."""
    read: dict[str, list[int]] = {}
    for subtopology_id in sorted(tasks):
        subtopology = None if configured is None else configured.subtopologies.get(subtopology_id)
        for topic in () if subtopology is None else subtopology.inputs:
            count = catalog.partition_count(topic) or 0
            partitions = sorted(number for number in tasks[subtopology_id] if number < count)
            if partitions:
                read[topic] = partitions
    return read


def partitions_by_endpoint(
    group: StreamsGroup, member: StreamsMember, replaced: StreamsMember | None, catalog: Catalog
) -> list[_Entry]:
    """The partitions of every member with an endpoint; `member` as it will be, in the place of `replaced` if there is one."""
    gone = None if replaced is None else replaced.member_id
    others = (each for each in group.members.values() if each.member_id not in (member.member_id, gone))
    entries = []
    for each in (*others, member):
        if each.user_endpoint is not None:
            held = each.assigned
            copies: dict[str, set[int]] = {}
            for tasks in (held.standby, held.warmup):
                for subtopology_id, numbers in tasks.items():
                    copies.setdefault(subtopology_id, set()).update(numbers)
            entries.append(
                _Entry(
                    _Endpoint(each.user_endpoint.host, each.user_endpoint.port),
                    _partitions(held.active, group.soft.configured, catalog),
                    _partitions(copies, group.soft.configured, catalog),
                )
            )
    return entries


def _partitions(
    tasks: Mapping[str, Iterable[int]], configured: Configured | None, catalog: Catalog
) -> list[_Partitions]:
    return [_Partitions(topic, which) for topic, which in partitions_of(tasks, configured, catalog).items()]
