"""Where each partition is on a server with several brokers: its replicas, those in sync, its leader and the leader's epoch.

The records are stored once, whatever the number of replicas: a placement is only what clients see. The metadata log has it in
the partition's PartitionRecord, as in Kafka, so that leader epochs never go back. A server that is one broker has none.
"""

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.java import positive_hash
from coordinator.protocol.messages import Message, PartitionRecord
from coordinator.topics.metadata_records import NO_DIRECTORY

NO_LEADER = -1
REPLICAS_DEFAULT = 3
"""The replicas of a topic whose creator does not say how many, where there are as many brokers."""


class Placement(NamedTuple):
    """A partition as clients see it."""

    replicas: tuple[int, ...]
    """The first one is the preferred leader."""
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0


Place = Callable[[int], Placement]
"""Index of a partition -> where it is."""


NOWHERE: Mapping[str, Place] = MappingProxyType({})


class Placements(dict[tuple[bytes, int], Placement]):
    """By topic id and partition. `nodes`: the ids of the brokers, in ascending order; `up`: those that are up."""

    def __init__(self, nodes: Sequence[int]) -> None:
        super().__init__()
        self.nodes = nodes
        self.up = set(nodes)

    def replay(self, record: PartitionRecord) -> None:
        """Applies the record of a partition, which is created or changed."""
        placement = Placement(tuple(record.replicas), tuple(record.isr), record.leader, record.leader_epoch)
        self[record.topic_id, record.partition_id] = placement

    def spread(self, topic: str, factor: int = REPLICAS_DEFAULT) -> Place:
        """Places partitions as Kafka's StripedReplicaPlacer does, from a broker that the topic's name decides: brokers that are
        down come last.
        """
        nodes, first = self.nodes, positive_hash(topic)

        def place(index: int) -> Placement:
            turned = (nodes[(first + index + number) % len(nodes)] for number in range(len(nodes)))
            return assigned(sorted(turned, key=lambda each: each not in self.up)[:factor], self.up)

        return place


def on_one(node_id: int) -> Place:
    """Places partitions on the only broker."""
    placement = assigned((node_id,), (node_id,))
    return lambda _index: placement


def assigned(replicas: Sequence[int], up: Container[int]) -> Placement:
    """A new partition on these brokers: those that are down are not in sync. If all are, it waits for the first."""
    isr = tuple(each for each in replicas if each in up)
    return Placement(tuple(replicas), isr or tuple(replicas[:1]), isr[0] if isr else NO_LEADER)


def placed(topic_id: bytes, index: int, placement: Placement) -> Message:
    """The record that creates a partition, or changes its placement."""
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(placement.replicas),
        isr=list(placement.isr),
        leader=placement.leader,
        leader_epoch=placement.leader_epoch,
        partition_epoch=0,
        directories=[NO_DIRECTORY] * len(placement.replicas),
    )


def check_factor(factor: int, nodes: Sequence[int]) -> None:
    """Checks a replication factor that is not the default. Raises INVALID_REPLICATION_FACTOR."""
    if factor <= 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if factor > len(nodes):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot be "
            f"reached because only {len(nodes)} broker(s) are registered or some brokers have all their log directories"
            " cordoned.",
        )


def check_brokers(nodes: Sequence[int], broker_ids: Sequence[int], expected: int | None = None) -> None:
    """Checks a manual assignment of one partition. Raises INVALID_REPLICA_ASSIGNMENT.

    `expected`: how many replicas the partitions before it have.
    """
    includes = "The manual partition assignment includes "
    error = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if not broker_ids:
        raise KafkaError(error, includes + "an empty replica list.")
    for broker_id, count in sorted(Counter(broker_ids).items()):
        if broker_id not in nodes:
            raise KafkaError(error, f"{includes}broker {broker_id}, but no such broker is registered.")
        if count > 1:
            raise KafkaError(error, f"{includes}the broker {broker_id} more than once.")
    if expected is not None and len(broker_ids) != expected:
        raise KafkaError(
            error,
            f"{includes}a partition with {len(broker_ids)} replica(s), but this is not consistent with previous partitions,"
            f" which have {expected} replica(s).",
        )


def check_up(up: Container[int], index: int, broker_ids: Sequence[int]) -> None:
    """Checks that a manual assignment of a new partition has a broker that is up. Raises INVALID_REPLICA_ASSIGNMENT."""
    if not any(each in up for each in broker_ids):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"All brokers specified in the manual partition assignment for partition {index} are fenced or in controlled"
            " shutdown.",
        )
