"""Kafka's own classes read our record of a topology, and configure it with the topics as we do."""

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest

from coordinator.groups.streams.configure import configure
from coordinator.groups.streams.topology import CopartitionGroup, InternalTopic, Subtopology, Topology
from coordinator.protocol.codec import Codec
from coordinator.protocol.errors import KafkaError
from tests.support.catalog import Catalog
from tests.support.java_support import KAFKA_VERSION, compile_java, java, kafka_classpath

TOPOLOGIES = 1_500
ARTIFACTS = [f"org.apache.kafka:kafka-group-coordinator:{KAFKA_VERSION}", "org.slf4j:slf4j-nop:1.7.36"]
_Topics = dict[str, int]


def made_up(random: Random) -> tuple[Topology, _Topics]:
    """A topology of up to four parts, often nonsense; most of the topics that it reads, and some internal ones."""
    topics = {name: random.choice([1, 2, 3, 3, 4]) for name in "abc" if random.random() < 0.97}
    internal = {f"r{each}": random.choice([0, 0, 0, 2, 3]) for each in range(random.randrange(4))}
    count = random.randint(1, 4)
    reader = {name: random.randrange(count) for name in internal}
    parts = {}
    for place in range(count):
        sources = tuple(random.sample("abc", random.choice([0, 1, 1, 2]) if place else random.choice([1, 1, 2])))
        repartition = tuple(
            InternalTopic(name, partitions, random.choice([0, 1]))
            for name, partitions in internal.items()
            if reader[name] == place
        )
        parts[str(place)] = Subtopology(
            source_topics=sources,
            repartition_source_topics=repartition,
            repartition_sink_topics=tuple(
                name for name in internal if random.random() < (0.1 if reader[name] == place else 0.6)
            ),
            state_changelog_topics=tuple(
                InternalTopic(f"c{place}{each}", 0, 0, (("a", "b"),)) for each in range(random.choice([0, 0, 1, 2]))
            ),
            copartition_groups=tuple(
                CopartitionGroup(some(random, sources), (), some(random, repartition))
                for _ in range(random.choice([0, 0, 1, 1, 2]))
            ),
        )
    changelogs = [topic.name for part in parts.values() for topic in part.state_changelog_topics]
    topics |= {name: random.choice([1, 2, 3, 3, 4]) for name in [*internal, *changelogs] if random.random() < 0.25}
    return Topology(1, parts), topics


def some(random: Random, topics: Iterable[object]) -> tuple[int, ...]:
    return tuple(place for place, _ in enumerate(topics) if random.random() < 0.6)


def said(topology: Topology, topics: _Topics) -> str:
    def sizes(internal: Iterable[InternalTopic]) -> str:
        return "".join(f"{topic.name}:{topic.partitions}," for topic in internal)

    try:
        made = configure(topology, Catalog(topics))
    except KafkaError as refused:
        return str(refused.message)
    status = "ready" if made.problem is None else f"{int(made.problem.code)} {made.problem.detail}"
    parts = "".join(
        f"{name}={part.number_of_tasks}[{sizes(part.repartition_source_topics)}|{sizes(part.state_changelog_topics)}]"
        for name, part in made.subtopologies.items()
    )
    create = "".join(
        f"{topic.name}:{topic.partitions}:{topic.replication_factor or -1}," for topic in made.internal_topics_to_create
    )
    return f"{status}#{parts}#{create}"


def without_choice(text: str) -> str:
    """Of several wrong topics Kafka names the first of a hash map, and it lists missing ones in that order."""
    if text.startswith(("2 Existing topic", "2 Number of partitions")):
        return text[:9]
    return re.sub(r"^3 Internal topics are missing: [^#]*", "3", text)


@pytest.mark.java
def test_kafkas_own_classes_find_the_same_topics_and_tasks() -> None:
    random = Random(1071)
    cases = [made_up(random) for _ in range(TOPOLOGIES)]
    encode = Codec.of().encoder("StreamsGroupTopologyValue", 0)
    questions = "".join(
        f"{encode(topology.to_record()).hex()} {','.join(f'{name}={count}' for name, count in topics.items())}\n"
        for topology, topics in cases
    )
    classpath = compile_java(Path(__file__).parent / "java" / "ConfigureTopics.java", kafka_classpath(ARTIFACTS))
    done = subprocess.run(
        java(classpath, "ConfigureTopics"), input=questions, capture_output=True, text=True, check=True, timeout=120
    )
    answers = done.stdout.splitlines()
    assert len(answers) == TOPOLOGIES
    kinds = {text[:2] for text in answers}
    assert {"re", "1 ", "2 ", "3 ", "Fa", "No"} <= kinds
    for (topology, topics), kafkas in zip(cases, answers, strict=True):
        assert without_choice(said(topology, topics)) == without_choice(kafkas), (topology, topics)
