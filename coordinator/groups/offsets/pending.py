"""Pending offsets: committed in transactions that are still open; by producer, group and partition.

They are in the log but in no response until the producer's marker arrives: "commit" makes them the group's offsets, "abort"
discards them. Meanwhile they have three effects: readers with `require_stable` have to wait for the partition, the group is not
deleted for lack of offsets, and the partition's committed offset does not expire.

The order of the commits in the log decides which one wins, not that of the markers: a plain commit made after a pending one
stays although the marker comes later still, and so does the offset of another transaction that was committed after this one.
(Going by the markers would let compaction, which keeps the last record of each key, change the outcome.) An offset that has
lost is still pending as far as its effects go, but it has no value any more.

Producers are remembered beyond their transactions, with their last epoch. A request that was sent before its transaction ended
and arrives afterwards must not begin another one, which nobody would end: it has an older epoch, or it was verified before the
last marker (`guard`). A producer is forgotten after a day, as in Kafka.
"""

from collections.abc import Collection, Container, Iterator
from dataclasses import dataclass

from coordinator.groups.offsets import value as values
from coordinator.groups.offsets.value import StoredOffset
from coordinator.protocol.messages import OffsetCommitValue
from coordinator.runtime.result import Marker, Producer

Partition = tuple[str, int]
"""Topic name and partition index."""


@dataclass(slots=True)
class Pending:
    """One pending offset; `order` grows with the place in the log."""

    order: int
    committed: StoredOffset | None
    """None: a newer commit of the partition is in the log."""


@dataclass(slots=True)
class KnownProducer:
    """What the log says about a producer."""

    epoch: int
    coordinator_epoch: int = -1
    """The epoch of the coordinator that ended its last transaction; -1 if none has ended."""
    markers: int = 0
    idle_since_ms: int | None = None
    """When it was first seen without an open transaction since its last record (wall clock); not in the log."""


class PendingOffsets:
    """All pending offsets of a shard. Only replay.py changes them; expire.py also makes it forget idle producers."""

    __slots__ = ("_order", "by_group", "by_producer", "known")

    def __init__(self) -> None:
        self.by_group: dict[str, dict[Partition, dict[int, Pending]]] = {}
        """Group -> partition -> producer id. No inner dictionary is empty."""
        self.by_producer: dict[int, dict[tuple[str, Partition], None]] = {}
        """Producer id -> its pending partitions, in order; no entry if it has no open transaction here."""
        self.known: dict[int, KnownProducer] = {}
        self._order = 0

    def partitions(self, group_id: str) -> Collection[Partition]:
        """The group's partitions that have pending offsets."""
        return self.by_group.get(group_id, ())

    def of_topics(self, group_id: str, topics: Container[str]) -> Iterator[tuple[Partition, OffsetCommitValue]]:
        """The group's pending offsets of some topics that no newer commit has superseded; a partition may have several."""
        for partition, producers in self.by_group.get(group_id, {}).items():
            if partition[0] in topics:
                for pending in producers.values():
                    if pending.committed is not None:
                        yield partition, values.decode(pending.committed)

    def guard(self, producer_id: int) -> int:
        """A number that grows with each marker of the producer."""
        known = self.known.get(producer_id)
        return 0 if known is None else known.markers

    def add(
        self, producer: Producer, group_id: str, topic: str, committed: Collection[tuple[int, StoredOffset]]
    ) -> None:
        """Adds offsets of one topic by partition index; at least one."""
        self._note_producer(producer)
        of_group = self.by_group.setdefault(group_id, {})
        of_producer = self.by_producer.setdefault(producer.id, {})
        for order, (index, value) in enumerate(committed, self._order + 1):
            partition = topic, index
            of_group.setdefault(partition, {})[producer.id] = Pending(order, value)
            of_producer[group_id, partition] = None
        self._order += len(committed)

    def supersede(self, group_id: str, partition: Partition, *, before: int | None = None) -> None:
        """A newer commit of the partition is in the log: pending ones have lost, or only those with an order below `before`."""
        for pending in self.by_group.get(group_id, {}).get(partition, {}).values():
            if before is None or pending.order < before:
                pending.committed = None

    def drop(self, group_id: str, partition: Partition) -> None:
        """Deletes every pending offset of the partition."""
        for producer_id in list(self.by_group.get(group_id, {}).get(partition, ())):
            self._remove(producer_id, group_id, partition)

    def end(self, marker: Marker) -> list[tuple[str, Partition, StoredOffset]]:
        """Ends the producer's transaction; returns the offsets that are now committed."""
        known = self._note_producer(Producer(marker.producer_id, marker.producer_epoch))
        known.coordinator_epoch = max(known.coordinator_epoch, marker.coordinator_epoch)
        known.markers += 1
        out = []
        for group_id, partition in list(self.by_producer.get(marker.producer_id, ())):
            pending = self._remove(marker.producer_id, group_id, partition)
            if marker.commit and pending.committed is not None:
                self.supersede(group_id, partition, before=pending.order)
                out.append((group_id, partition, pending.committed))
        return out

    def forget_idle(self, now_ms: int, expiration_ms: int) -> None:
        """Forgets producers that have had no transaction here for `expiration_ms`."""
        for producer_id, known in list(self.known.items()):
            if producer_id in self.by_producer:
                known.idle_since_ms = None
            elif known.idle_since_ms is None:
                known.idle_since_ms = now_ms
            elif now_ms - known.idle_since_ms >= expiration_ms:
                del self.known[producer_id]

    def _note_producer(self, producer: Producer) -> KnownProducer:
        known = self.known.get(producer.id)
        if known is None:
            known = self.known[producer.id] = KnownProducer(producer.epoch)
        known.epoch = max(known.epoch, producer.epoch)
        known.idle_since_ms = None
        return known

    def _remove(self, producer_id: int, group_id: str, partition: Partition) -> Pending:
        partitions = self.by_group[group_id]
        producers = partitions[partition]
        pending = producers.pop(producer_id)
        if not producers:
            del partitions[partition]
            if not partitions:
                del self.by_group[group_id]
        mine = self.by_producer[producer_id]
        del mine[group_id, partition]
        if not mine:
            del self.by_producer[producer_id]
        return pending
