"""The topology of a Kafka Streams application, which its members send when they join.

A *topology* is cut into subtopologies: the parts that share no state and exchange data through topics only. Each names the
topics it reads, those it writes for others to read, and those that keep its state:

    source topics               the user's; must exist
    repartition source topics   internal: written by a subtopology (its *sink* topics), read by another
    state changelog topics      internal: every change of its state, from which the state is restored
    co-partition groups         topics that are joined, and so must have the same number of partitions

A topology is a value: equal ones are the same application, and a group has one. It is in the log (record type 23) as the
first member sent it, with its lists in their order, since Kafka compares them so. How many partitions internal topics must
have is not here: that depends on the existing topics (configure.py).

Kafka: `StreamsTopology`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from coordinator.groups.held_bytes import NAME_BYTES, names_bytes
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import StreamsGroupHeartbeatRequest, StreamsGroupTopologyValue

_Record = StreamsGroupTopologyValue
_Request = StreamsGroupHeartbeatRequest


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A topic that belongs to the application and is created for it."""

    name: str
    partitions: int
    """0: as many as its readers and writers need (configure.py)."""
    replication_factor: int
    """0: the server's default."""
    configs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class CopartitionGroup:
    """Topics of a subtopology that must have equal numbers of partitions, as indexes into the subtopology's lists."""

    source_topics: tuple[int, ...]
    source_topic_regex: tuple[int, ...]
    repartition_source_topics: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtopology:
    """One part of a topology."""

    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    """Always empty in an accepted topology; Kafka does not support it either."""
    state_changelog_topics: tuple[InternalTopic, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[InternalTopic, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The topics it reads: source topics and repartition topics."""
        return (*self.source_topics, *(topic.name for topic in self.repartition_source_topics))

    @property
    def topics(self) -> tuple[str, ...]:
        """All topics that must exist for it to run."""
        return (*self.inputs, *(topic.name for topic in self.state_changelog_topics))

    def copartitioned(self) -> tuple[frozenset[str], ...]:
        """The names of each group of topics that must have equal numbers of partitions."""
        return tuple(
            frozenset(self.source_topics[place] for place in group.source_topics)
            | frozenset(self.repartition_source_topics[place].name for place in group.repartition_source_topics)
            for group in self.copartition_groups
        )


@dataclass(frozen=True, slots=True)
class Topology:
    """An application, cut into parts."""

    epoch: int
    """Its version, as its developer counts versions."""
    subtopologies: Mapping[str, Subtopology]
    readers: Mapping[str, str] = field(init=False, compare=False, repr=False)
    """Topic -> id of a subtopology that reads it."""
    topics: frozenset[str] = field(init=False, compare=False, repr=False)
    """All topics that must exist for it to run."""
    held_bytes: int = field(init=False, compare=False, repr=False)
    """Its size (held_bytes.py)."""

    def __post_init__(self) -> None:
        parts = self.subtopologies
        object.__setattr__(self, "readers", {topic: each for each, part in parts.items() for topic in part.inputs})
        object.__setattr__(self, "topics", frozenset(topic for part in parts.values() for topic in part.topics))
        object.__setattr__(self, "held_bytes", sum(_part_bytes(each, part) for each, part in parts.items()))

    @classmethod
    def of_request(cls, sent: StreamsGroupHeartbeatRequest.Topology) -> "Topology":
        """The topology that a member sent. Raises STREAMS_INVALID_TOPOLOGY if it contradicts itself."""
        topology = cls(sent.epoch, _subtopologies(sent.subtopologies))
        if len(topology.subtopologies) < len(sent.subtopologies):
            raise _invalid("Each subtopology must have an id of its own.")
        if sent.epoch < 0:
            raise _invalid(f"The topology epoch is {sent.epoch}, but must not be negative.")
        for subtopology_id, part in topology.subtopologies.items():
            _check_places(subtopology_id, part)
            for topic in (*part.repartition_source_topics, *part.state_changelog_topics):
                if topic.partitions < 0:
                    raise _invalid(f"Topic {topic.name} must not have {topic.partitions} partitions.")
                if len(dict(topic.configs)) < len(topic.configs):
                    raise _invalid(f"Topic {topic.name} has a setting twice.")
        return topology

    @classmethod
    def of_record(cls, value: StreamsGroupTopologyValue) -> "Topology":
        return cls(value.epoch, _subtopologies(value.subtopologies))

    def to_record(self) -> StreamsGroupTopologyValue:
        return _Record(
            self.epoch,
            [
                _Record.Subtopology(
                    subtopology_id=subtopology_id,
                    source_topics=list(part.source_topics),
                    source_topic_regex=list(part.source_topic_regex),
                    state_changelog_topics=_to_record(part.state_changelog_topics),
                    repartition_sink_topics=list(part.repartition_sink_topics),
                    repartition_source_topics=_to_record(part.repartition_source_topics),
                    copartition_groups=[
                        _Record.CopartitionGroup(
                            list(group.source_topics),
                            list(group.source_topic_regex),
                            list(group.repartition_source_topics),
                        )
                        for group in part.copartition_groups
                    ],
                )
                for subtopology_id, part in self.subtopologies.items()
            ],
        )


def _part_bytes(subtopology_id: str, part: Subtopology) -> int:
    internal = (*part.state_changelog_topics, *part.repartition_source_topics)
    places = sum(
        len(each.source_topics) + len(each.source_topic_regex) + len(each.repartition_source_topics) + 1
        for each in part.copartition_groups
    )
    return (
        names_bytes(
            (
                subtopology_id,
                *part.source_topics,
                *part.source_topic_regex,
                *part.repartition_sink_topics,
                *(
                    text
                    for topic in internal
                    for text in (topic.name, *(each for config in topic.configs for each in config))
                ),
            )
        )
        + NAME_BYTES * places
    )


def check_regexes(sent: StreamsGroupHeartbeatRequest.Topology) -> None:
    """Raises INVALID_REQUEST if source topics are given by patterns. Kafka checks this before anything else."""
    if any(part.source_topic_regex for part in sent.subtopologies):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Regular expressions for source topics are not supported yet.")


def check_changelogs(sent: StreamsGroupHeartbeatRequest.Topology) -> None:
    """Raises STREAMS_INVALID_TOPOLOGY if a member gives a number of partitions for a changelog."""
    for part in sent.subtopologies:
        for topic in part.state_changelog_topics:
            if topic.partitions:
                raise _invalid(
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to "
                    f"{topic.partitions}."
                )


def _check_places(subtopology_id: str, part: Subtopology) -> None:
    for group in part.copartition_groups:
        for places, topics in (
            (group.source_topics, part.source_topics),
            (group.repartition_source_topics, part.repartition_source_topics),
        ):
            if any(not 0 <= place < len(topics) for place in places):
                raise _invalid(f"A co-partition group of subtopology {subtopology_id} names a topic that it has not.")


def _subtopologies(
    sent: Iterable[StreamsGroupHeartbeatRequest.Subtopology] | Iterable[StreamsGroupTopologyValue.Subtopology],
) -> dict[str, Subtopology]:
    return {
        part.subtopology_id: Subtopology(
            source_topics=tuple(part.source_topics),
            source_topic_regex=tuple(part.source_topic_regex),
            state_changelog_topics=_internal(part.state_changelog_topics),
            repartition_sink_topics=tuple(part.repartition_sink_topics),
            repartition_source_topics=_internal(part.repartition_source_topics),
            copartition_groups=tuple(
                CopartitionGroup(
                    tuple(group.source_topics), tuple(group.source_topic_regex), tuple(group.repartition_source_topics)
                )
                for group in part.copartition_groups
            ),
        )
        for part in sent
    }


def _internal(
    topics: Iterable[StreamsGroupHeartbeatRequest.TopicInfo] | Iterable[StreamsGroupTopologyValue.TopicInfo],
) -> tuple[InternalTopic, ...]:
    return tuple(
        InternalTopic(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            tuple((config.key, config.value) for config in topic.topic_configs),
        )
        for topic in topics
    )


def _to_record(topics: Iterable[InternalTopic]) -> list[StreamsGroupTopologyValue.TopicInfo]:
    return [
        _Record.TopicInfo(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            [_Record.TopicConfig(key, value) for key, value in topic.configs],
        )
        for topic in topics
    ]


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
