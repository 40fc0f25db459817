"""The partitions that a member's tasks read.

Task `n` of a subtopology reads partition `n` of each of its source topics, the user's and the internal ones, where they have so
many. Members with an endpoint are told this about each other, so that a query for a key can be sent to the process that has
its state (Interactive Queries). And offsets are committed for partitions, not for tasks: to the rules about commits
(fencing.py) and to the event log, a member of a streams group is a reader of partitions like one of a consumer group.

Kafka: `EndpointToPartitionsManager`; `StreamsGroup.createAssignmentEpochValidator` for commits.
"""

from collections.abc import Iterable, Mapping

from coordinator.groups.consumer.member import NO_REVOCATION_EPOCH, ConsumerMember
from coordinator.groups.epochs.member import PartitionEpochs
from coordinator.groups.state import Catalog
from coordinator.groups.streams.configure import Configured
from coordinator.groups.streams.group import StreamsGroup
from coordinator.groups.streams.member import StreamsMember, TaskEpochs
from coordinator.groups.streams.topology import Topology
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


def as_reader(
    group: StreamsGroup, member: StreamsMember, topology: Topology | None, catalog: Catalog
) -> ConsumerMember:
    """The member with the partitions that its active tasks read, each with the assignment epoch of its task.

    `topology`: the group's; None if the log has none, and then the member reads nothing.
    """
    known = group.soft.readers.get(member.member_id)
    if known is not None and known[0] is member and known[1] == catalog.version:
        return known[2]
    reader = ConsumerMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        assigned=_read(topology, member.assigned.active, catalog),
        pending_revocation=_read(topology, member.pending_revocation.active, catalog),
        revocation_epoch=NO_REVOCATION_EPOCH,
    )
    group.soft.readers[member.member_id] = (member, catalog.version, reader)
    return reader


def _read(topology: Topology | None, active: TaskEpochs, catalog: Catalog) -> PartitionEpochs:
    read: dict[bytes, Mapping[int, int]] = {}
    for topic, subtopology_id in () if topology is None else topology.readers.items():
        numbers = active.get(subtopology_id)
        topic_id, count = catalog.topic_id(topic), catalog.partition_count(topic)
        if numbers is not None and topic_id is not None and count is not None:
            partitions = {number: epoch for number, epoch in numbers.items() if number < count}
            if partitions:
                read[topic_id] = partitions
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
