"""What a fork needs to know of the server that it copies."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from coordinator.log.batch import BatchHeader

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
