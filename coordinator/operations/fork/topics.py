"""Which topics a fork gets, and which offsets their partitions span."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from coordinator.groups.offsets import value as values
from coordinator.groups.offsets.pending import Partition
from coordinator.groups.offsets.value import NO_TOPIC_ID, StoredOffset
from coordinator.operations.fork.source import OffsetRange, SourceTopic, SourceTopics
from coordinator.topics import names


class CommittedOffsets:
    """The smallest and the largest committed offset of each partition, and the ids of topics that commits name."""

    def __init__(self) -> None:
        self._ranges: dict[str, dict[int, OffsetRange]] = {}
        self._ids: dict[str, bytes] = {}

    def add_all(self, offsets: Mapping[Partition, StoredOffset]) -> None:
        """Adds the offsets of a group."""
        for (topic, index), stored in offsets.items():
            offset, _, _, topic_id = values.fetched(stored)
            ranges = self._ranges.setdefault(topic, {})
            start, end = ranges.get(index, (offset, offset))
            ranges[index] = OffsetRange(min(start, offset), max(end, offset))
            if topic_id != NO_TOPIC_ID:
                self._ids[topic] = topic_id

    def ranges(self, topic: str) -> Mapping[int, OffsetRange]:
        return self._ranges.get(topic, {})

    def topics(self) -> Iterator[SourceTopic]:
        """The topics that the offsets imply: with as many partitions as have offsets."""
        for name, ranges in sorted(self._ranges.items()):
            if name not in names.INTERNAL and names.why_invalid(name) is None:
                yield SourceTopic(name=name, topic_id=self._ids.get(name), partitions=max(ranges) + 1)


def topics_of(found: SourceTopics, committed: CommittedOffsets) -> Iterator[tuple[SourceTopic, bool]]:
    """The topics of a fork, and whether committed offsets had to say how many partitions each has.

    Partitions that the source could not look at span the committed offsets, so that these are valid.
    """
    for topic in found.topics.values():
        implied = 0 if found.is_complete else max(committed.ranges(topic.name), default=-1) + 1
        yield _with_ranges(topic, max(topic.partitions, implied), committed), implied > topic.partitions
    if not found.is_complete:
        for topic in committed.topics():
            if topic.name not in found.topics:
                yield _with_ranges(topic, topic.partitions, committed), True


def _with_ranges(topic: SourceTopic, partitions: int, committed: CommittedOffsets) -> SourceTopic:
    commits = committed.ranges(topic.name)
    ranges = dict(commits)
    for index, (start, end) in topic.ranges.items():
        ranges[index] = OffsetRange(start, max(end, commits[index].end if index in commits else 0))
    ranges = {index: span for index, span in ranges.items() if index < partitions}
    return replace(topic, partitions=partitions, ranges=ranges)
