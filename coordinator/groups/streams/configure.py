"""A topology as the topics allow it: how many tasks it has, which internal topics it needs, or what prevents it from running.

Only source topics have a number of partitions of their own. Everything else follows from them, in Kafka's order:

    1. a repartition topic without a number has as many partitions as the largest topic that its writer reads; that may be a
       repartition topic as well, so this is repeated until nothing is left
    2. repartition topics that are joined with other topics take the number of those
    3. a changelog has as many partitions as the largest topic that its subtopology reads, and the subtopology as many tasks

Two kinds of things can be wrong. A topology that no topics could make right is refused (STREAMS_INVALID_TOPOLOGY). If only the
topics are wrong, that is a *problem*: members see it as a status until somebody mends it, and the group waits.
Missing internal topics are such a problem, too; the caller creates them (requests/streams_group_heartbeat.py), and the next
heartbeat finds them.

Where several things could be named, they are named in the order of their names.

Kafka: `InternalTopicManager.configureTopics`, `RepartitionTopics`, `CopartitionedTopicsEnforcer`, `ChangelogTopics`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from coordinator.groups.catalog import Catalog
from coordinator.groups.streams.status import Status, StatusCode
from coordinator.groups.streams.topology import InternalTopic, Subtopology, Topology
from coordinator.protocol.errors import ErrorCode, KafkaError

TOPICS_NAMED_MAX = 3
"""Topics that a problem names; of the others it gives the number."""

_Count = Callable[[str], int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredSubtopology:
    """A subtopology whose topics have their numbers of partitions; topics are sorted by name (Kafka's class too)."""

    number_of_tasks: int
    source_topics: tuple[str, ...]
    repartition_source_topics: tuple[InternalTopic, ...]
    repartition_sink_topics: tuple[str, ...]
    state_changelog_topics: tuple[InternalTopic, ...]

    @property
    def is_stateful(self) -> bool:
        """Whether its tasks have state, which a standby task could keep a copy of."""
        return bool(self.state_changelog_topics)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (*self.source_topics, *(topic.name for topic in self.repartition_source_topics))


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """A topology as the topics allow it (Kafka: `ConfiguredTopology`)."""

    subtopologies: Mapping[str, ConfiguredSubtopology]
    """In the order of their ids; empty if not even the numbers of partitions are known."""
    internal_topics_to_create: tuple[InternalTopic, ...] = ()
    """In the order of their names."""
    problem: Status | None = None

    @property
    def is_ready(self) -> bool:
        return self.problem is None


class _Problem(Exception):
    """The topics are not what the topology needs."""

    def __init__(self, code: StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.status = Status(code, detail)


def configure(topology: Topology, catalog: Catalog) -> Configured:
    """The topology as the topics of the catalog allow it. Raises STREAMS_INVALID_TOPOLOGY.

    Kafka: `InternalTopicManager.configureTopics`.
    """
    try:
        return _configure(topology, catalog.partition_count)
    except _Problem as problem:
        return Configured(subtopologies={}, problem=problem.status)


def _configure(topology: Topology, existing: _Count) -> Configured:
    parts = dict(sorted(topology.subtopologies.items()))
    missing = sorted({topic for part in parts.values() for topic in part.source_topics if existing(topic) is None})
    if missing:
        raise _Problem(StatusCode.MISSING_SOURCE_TOPICS, f"Source topics {_listed(missing)} are missing.")
    decided = _repartition_counts(parts, existing)

    def count(topic: str) -> int:
        """The number of partitions that an existing topic has, or that a missing one will have."""
        found = existing(topic)
        return decided[topic] if found is None else found

    _copartition(parts, decided, count)
    tasks: dict[str, int] = {}
    for subtopology_id, part in parts.items():
        if not part.inputs:
            raise _invalid(f"No source topics found for subtopology {subtopology_id}")
        tasks[subtopology_id] = number = max(map(count, part.inputs))
        decided.update(dict.fromkeys((topic.name for topic in part.state_changelog_topics), number))
    configured = {
        subtopology_id: ConfiguredSubtopology(
            number_of_tasks=tasks[subtopology_id],
            source_topics=tuple(sorted(set(part.source_topics))),
            repartition_source_topics=_sized(part.repartition_source_topics, decided),
            repartition_sink_topics=tuple(sorted(set(part.repartition_sink_topics))),
            state_changelog_topics=_sized(part.state_changelog_topics, decided),
        )
        for subtopology_id, part in parts.items()
    }
    to_create = _missing(configured.values(), existing)
    if not to_create:
        return Configured(subtopologies=configured)
    detail = f"Internal topics are missing: {_listed([topic.name for topic in to_create])}"
    return Configured(
        subtopologies=configured,
        internal_topics_to_create=to_create,
        problem=Status(StatusCode.MISSING_INTERNAL_TOPICS, detail),
    )


def _repartition_counts(parts: Mapping[str, Subtopology], existing: _Count) -> dict[str, int]:
    """The partitions of all repartition topics. A number given by the application overrides that of an existing topic."""
    decided = {
        topic.name: topic.partitions
        for part in parts.values()
        for topic in part.repartition_source_topics
        if topic.partitions
    }
    left = [(sink, part) for part in parts.values() for sink in part.repartition_sink_topics]
    while left:
        undecided = []
        for sink, part in left:
            if sink in decided:
                continue
            counts = [existing(topic) for topic in part.source_topics]
            counts += [decided.get(topic.name) for topic in part.repartition_source_topics]
            known = [each for each in counts if each is not None]
            if known:
                decided[sink] = max(known)
            else:
                undecided.append((sink, part))
        if len(undecided) == len(left):
            raise _invalid(
                "Failed to compute number of partitions for all repartition topics. There may be loops in the topology "
                "that cannot be resolved."
            )
        left = undecided
    if any(topic.name not in decided for part in parts.values() for topic in part.repartition_source_topics):
        raise _invalid(
            "Failed to compute number of partitions for all repartition topics, because a repartition source topic is "
            "never used as a sink topic."
        )
    return decided


def _copartition(parts: Mapping[str, Subtopology], decided: dict[str, int], count: Callable[[str], int]) -> None:
    """Gives topics that are joined the same number of partitions, where they may be given one."""
    internal = {topic.name: topic for part in parts.values() for topic in part.repartition_source_topics}
    fixed = sorted(name for name, topic in internal.items() if topic.partitions)
    for group in (group for part in parts.values() for group in part.copartitioned() if group):
        counts = {topic: count(topic) for topic in sorted(group)}
        given = {topic: counts[topic] for topic in counts if topic not in internal}
        if given:
            number = _same(given, given)
        elif fixed:
            # As in Kafka: the fixed numbers of the whole topology count, not only those of this co-partition group.
            number = _same({topic: count(topic) for topic in fixed}, counts)
        else:
            number = max(counts.values())
        for topic in (topic for topic in counts if topic in internal):
            if internal[topic].partitions and counts[topic] != number:
                raise _Problem(
                    StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Number of partitions [{counts[topic]}] of repartition topic [{topic}] doesn't match number of "
                    f"partitions [{number}] of the source topic.",
                )
            decided[topic] = number


def _same(counts: Mapping[str, int], named: Mapping[str, int]) -> int:
    """The number that all of `counts` have; `named` are the topics to name if they differ."""
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{topic}={number}" for topic, number in named.items())
        raise _Problem(
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{listed}}}]",
        )
    return next(iter(counts.values()))


def _sized(topics: Iterable[InternalTopic], decided: Mapping[str, int]) -> tuple[InternalTopic, ...]:
    sized = {topic.name: replace(topic, partitions=topic.partitions or decided[topic.name]) for topic in topics}
    return tuple(sized[name] for name in sorted(sized))


def _missing(parts: Iterable[ConfiguredSubtopology], existing: _Count) -> tuple[InternalTopic, ...]:
    """The internal topics that do not exist."""
    wanted = {
        topic.name: topic for part in parts for topic in (*part.repartition_source_topics, *part.state_changelog_topics)
    }
    missing = []
    for name, topic in sorted(wanted.items()):
        found = existing(name)
        if found is None:
            missing.append(topic)
        elif found != topic.partitions:
            raise _Problem(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected {topic.partitions}, found {found}",
            )
    return tuple(missing)


def _listed(names: list[str]) -> str:
    more = len(names) - TOPICS_NAMED_MAX
    return ", ".join(names[:TOPICS_NAMED_MAX]) + (f" and {more} additional topics" if more > 0 else "")


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
