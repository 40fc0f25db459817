"""What a fork needs to know of the server that it copies, and which topics it gets."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from coordinator.groups.offsets import value as values
from coordinator.groups.offsets.pending import Partition
from coordinator.groups.offsets.value import NO_TOPIC_ID, StoredOffset
from coordinator.log.batch import BatchHeader
from coordinator.topics import names

Visit = Callable[[bytes, int, BatchHeader, str], None]
"""`visit(buffer, position, header, where)` is called for each intact batch; `where` names the file or the partition."""


class OffsetRange(NamedTuple):
    """The first offset of a partition, and the offset of its next record."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTopic:
    """A topic. `topic_id` is None if the source does not know it; `ranges` lacks the partitions that it could not look at."""

    name: str
    topic_id: bytes | None
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)
    ranges: Mapping[int, OffsetRange] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTopics:
    """The topics of a source, without internal ones."""

    topics: Mapping[str, SourceTopic]
    is_complete: bool
    """Whether these are all topics. A folder without a metadata log has only those of its partition folders."""
    group_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Group id -> its dynamic configs."""
    notes: tuple[str, ...] = ()
    """What the source could not say, for the summary."""


class Source(Protocol):
    """A server, or the files of one."""

    name: str
    """For people."""
    partition_count: int | None
    """The number of partitions of `__consumer_offsets`; None if the source does not say."""

    @property
    def partitions(self) -> Mapping[int, int]:
        """The partitions of `__consumer_offsets` that can be read, with the amount of work (bytes or records) of each."""
        ...

    def read(self, index: int, visit: Visit, advance: Callable[[int], object]) -> None:
        """Visits the batches of a partition in order. `advance` gets parts of its amount of work. Raises ForkFailed."""
        ...

    def read_topics(self) -> SourceTopics:
        """Call it when the groups are read: the ends of partitions are then behind every committed offset.

        Raises ForkFailed.
        """
        ...

    def close(self) -> None: ...


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
