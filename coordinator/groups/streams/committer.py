"""A member of a streams group as one that commits: the partitions that its active tasks read, with the epochs of these tasks.

Task `n` of a subtopology reads partition `n` of each of its source topics, the user's and the internal ones, as far as they
have that many. Offsets are committed for partitions, so the fence (fencing.py) and the event log know a member by these.
(Kafka: `StreamsGroup.createAssignmentEpochValidator`.)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from coordinator.groups.catalog import Catalog
from coordinator.groups.epochs.member import PartitionEpochs
from coordinator.groups.streams.member import StreamsMember, TaskEpochs
from coordinator.groups.streams.topology import Topology

_NO_EPOCHS: Mapping[int, int] = {}


@dataclass(frozen=True, slots=True)
class StreamsCommitter:
    """See committer.py. Its revocation epoch is the last one in which it had an active task that it does not have any more."""

    member_id: str
    member_epoch: int
    revocation_epoch: int
    assigned: PartitionEpochs
    pending_revocation: PartitionEpochs

    uses_classic_protocol: ClassVar[bool] = False

    def assignment_epoch(self, topic_id: bytes, partition: int) -> int | None:
        epoch = self.assigned.get(topic_id, _NO_EPOCHS).get(partition)
        return self.pending_revocation.get(topic_id, _NO_EPOCHS).get(partition) if epoch is None else epoch


Committers = dict[str, tuple[StreamsMember, int, StreamsCommitter]]
"""A cache: member id -> the member, the catalog version, and the member as a committer."""


def committer_of(
    cache: Committers, member: StreamsMember, topology: Topology | None, catalog: Catalog
) -> StreamsCommitter:
    """The member as a committer; cached as long as neither the member nor the topics change.

    `topology`: the group's; None if the log has none, and then the member reads nothing.
    """
    cached = cache.get(member.member_id)
    if cached is not None and cached[0] is member and cached[1] == catalog.version:
        return cached[2]
    committer = StreamsCommitter(
        member.member_id,
        member.member_epoch,
        member.revocation_epoch,
        _partitions_read(topology, member.assigned.active, catalog),
        _partitions_read(topology, member.pending_revocation.active, catalog),
    )
    cache[member.member_id] = (member, catalog.version, committer)
    return committer


def _partitions_read(topology: Topology | None, active: TaskEpochs, catalog: Catalog) -> PartitionEpochs:
    read: dict[bytes, Mapping[int, int]] = {}
    for topic, subtopology_id in () if topology is None else topology.readers.items():
        numbers = active.get(subtopology_id)
        topic_id, count = catalog.topic_id(topic), catalog.partition_count(topic)
        if numbers is not None and topic_id is not None and count is not None:
            partitions = {number: epoch for number, epoch in numbers.items() if number < count}
            if partitions:
                read[topic_id] = partitions
    return read
