"""Numbers of partitions follow from the source topics as in Kafka; problems of topics are reported, not raised."""

import pytest

from coordinator.groups.streams.configure import configure
from coordinator.groups.streams.status import StatusCode
from coordinator.groups.streams.topology import CopartitionGroup, InternalTopic, Subtopology, Topology
from coordinator.protocol.errors import ErrorCode, KafkaError
from tests.support.catalog import Catalog


def topics_of(**partitions):
    return Catalog(partitions)


def internal(*names, partitions=0):
    return tuple(InternalTopic(name, partitions, 0) for name in names)


def part(*sources, sinks=(), repartition=(), changelogs=(), together=()):
    """`together`: groups of topics by name."""
    names = [topic.name for topic in repartition]
    return Subtopology(
        source_topics=sources,
        repartition_sink_topics=sinks,
        repartition_source_topics=repartition,
        state_changelog_topics=internal(*changelogs),
        copartition_groups=tuple(
            CopartitionGroup(
                tuple(sources.index(name) for name in group if name in sources),
                (),
                tuple(names.index(name) for name in group if name in names),
            )
            for group in together
        ),
    )


def configured(topics, *parts):
    return configure(Topology(1, {str(place): each for place, each in enumerate(parts)}), topics)


def created(found):
    return {topic.name: topic.partitions for topic in found.internal_topics_to_create}


def test_the_largest_topic_decides_the_number_of_tasks_of_a_subtopology():
    found = configured(topics_of(a=3, b=5), part("a", "b"))
    assert found.is_ready
    assert found.subtopologies["0"].number_of_tasks == 5


def test_a_repartition_topic_has_as_many_partitions_as_its_writer_has_tasks():
    reader = part(repartition=internal("r"), changelogs=["c"])
    found = configured(topics_of(a=3, b=5), part("a", "b", sinks=["r"]), reader)
    assert created(found) == {"c": 5, "r": 5}
    assert found.subtopologies["1"].number_of_tasks == 5
    assert found.problem == (StatusCode.MISSING_INTERNAL_TOPICS, "Internal topics are missing: c, r")


def test_partition_counts_pass_through_chains_of_repartition_topics_in_any_order():
    chain = [
        part(repartition=internal("r3"), changelogs=["c"]),
        part(repartition=internal("r2"), sinks=["r3"]),
        part(repartition=internal("r1"), sinks=["r2"]),
        part("a", sinks=["r1"]),
    ]
    assert created(configured(topics_of(a=4), *chain)) == {"c": 4, "r1": 4, "r2": 4, "r3": 4}


def test_a_partition_count_set_by_the_application_is_used():
    found = configured(topics_of(a=3), part("a", sinks=["r"]), part(repartition=internal("r", partitions=7)))
    assert created(found) == {"r": 7}
    assert found.subtopologies["1"].number_of_tasks == 7


def test_a_repartition_topic_gets_the_partition_count_of_its_copartitioned_topic():
    joined = part("b", repartition=internal("r"), changelogs=["c"], together=[["b", "r"]])
    found = configured(topics_of(a=3, b=5), part("a", sinks=["r"]), joined)
    assert created(found) == {"c": 5, "r": 5}


def test_copartitioned_repartition_topics_get_the_largest_partition_count():
    joined = part(repartition=internal("r", "s"), together=[["r", "s"]])
    found = configured(topics_of(a=3, b=5), part("a", sinks=["r"]), part("b", sinks=["s"]), joined)
    assert created(found) == {"r": 5, "s": 5}


def test_a_partition_count_set_by_the_application_holds_for_its_copartition_group():
    joined = part(repartition=(*internal("r"), *internal("s", partitions=2)), together=[["r", "s"]])
    found = configured(topics_of(a=3, b=5), part("a", sinks=["r"]), part("b", sinks=["s"]), joined)
    assert created(found) == {"r": 2, "s": 2}


def test_existing_internal_topics_are_not_created():
    found = configured(topics_of(a=3, c=3), part("a", changelogs=["c", "d"]))
    assert created(found) == {"d": 3}
    assert configured(topics_of(a=3, c=3, d=3), part("a", changelogs=["c", "d"])).is_ready


def test_the_configs_of_an_internal_topic_are_kept():
    wanted = InternalTopic("c", 0, 1, (("cleanup.policy", "compact"),))
    found = configured(topics_of(a=3), Subtopology(source_topics=("a",), state_changelog_topics=(wanted,)))
    assert found.internal_topics_to_create == (InternalTopic("c", 3, 1, (("cleanup.policy", "compact"),)),)


@pytest.mark.parametrize(
    ("topics", "parts", "code", "detail"),
    [
        (
            topics_of(),
            [part("b", "a", changelogs=["c"])],
            StatusCode.MISSING_SOURCE_TOPICS,
            "Source topics a, b are missing.",
        ),
        (
            topics_of(c=1),
            [part("f", "e", "d", "c", "b", "a")],
            StatusCode.MISSING_SOURCE_TOPICS,
            "Source topics a, b, d and 2 additional topics are missing.",
        ),
        (
            topics_of(a=3, b=5),
            [part("a", "b", together=[["a", "b"]])],
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
            "Following topics do not have the same number of partitions: [{a=3, b=5}]",
        ),
        (
            topics_of(a=3),
            [part("a", sinks=["r"]), part("a", repartition=internal("r", partitions=2), together=[["a", "r"]])],
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
            "Number of partitions [2] of repartition topic [r] doesn't match number of partitions [3] of the source topic.",
        ),
        (
            topics_of(a=3),
            [
                part("a", sinks=["r", "s"]),
                part(repartition=(*internal("r", partitions=2), *internal("s", partitions=4)), together=[["r", "s"]]),
            ],
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
            "Following topics do not have the same number of partitions: [{r=2, s=4}]",
        ),
        (
            topics_of(a=3, c=2),
            [part("a", changelogs=["c"])],
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
            "Existing topic c has different number of partitions: expected 3, found 2",
        ),
        (
            topics_of(a=3),
            [part("a", changelogs=["c5", "c4", "c3", "c2", "c1"])],
            StatusCode.MISSING_INTERNAL_TOPICS,
            "Internal topics are missing: c1, c2, c3 and 2 additional topics",
        ),
    ],
)
def test_a_problem_with_the_topics_is_reported(topics, parts, code, detail):
    found = configured(topics, *parts)
    assert not found.is_ready
    assert found.problem == (code, detail)
    assert bool(found.internal_topics_to_create) == (code is StatusCode.MISSING_INTERNAL_TOPICS)


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([part(repartition=internal("r"), sinks=["r"])], "loops"),
        ([part("a"), part(repartition=internal("r"))], "never used as a sink"),
        ([part("a"), part(changelogs=["c"])], "No source topics found for subtopology 1"),
    ],
)
def test_what_no_topics_could_make_right_is_refused(parts, text):
    with pytest.raises(KafkaError, match=text) as refused:
        configured(topics_of(a=1), *parts)
    assert refused.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY
