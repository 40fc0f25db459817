"""A topology stays what the first member sent, in memory and in the log."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.groups.streams.topology import Topology, check_changelogs, check_regexes
from coordinator.protocol.codec import Codec
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import StreamsGroupHeartbeatRequest as Request

_NAMES = st.text("abc-.", min_size=1, max_size=6)
_TOPICS = st.builds(
    Request.TopicInfo,
    name=_NAMES,
    partitions=st.integers(0, 9),
    replication_factor=st.integers(0, 3),
    topic_configs=st.lists(
        st.builds(Request.KeyValue, _NAMES, _NAMES), max_size=2, unique_by=lambda config: config.key
    ),
)


@st.composite
def subtopologies(draw):
    part = Request.Subtopology(
        subtopology_id=draw(_NAMES),
        source_topics=draw(st.lists(_NAMES, max_size=3)),
        state_changelog_topics=draw(st.lists(_TOPICS, max_size=2)),
        repartition_sink_topics=draw(st.lists(_NAMES, max_size=2)),
        repartition_source_topics=draw(st.lists(_TOPICS, max_size=2)),
    )

    def places(topics):
        return st.lists(st.sampled_from(range(len(topics))), unique=True) if topics else st.just([])

    part.copartition_groups = [
        Request.CopartitionGroup(
            source_topics=draw(places(part.source_topics)),
            repartition_source_topics=draw(places(part.repartition_source_topics)),
        )
        for _ in range(draw(st.integers(0, 2)))
    ]
    return part


TOPOLOGIES = st.builds(
    Request.Topology,
    epoch=st.integers(0, 5),
    subtopologies=st.lists(subtopologies(), max_size=3, unique_by=lambda part: part.subtopology_id),
)


def simple(**values):
    return Request.Topology(1, [Request.Subtopology(subtopology_id="0", **values)])


@settings(max_examples=30)
@given(TOPOLOGIES)
def test_a_topology_survives_the_round_trip_through_its_record(sent):
    topology = Topology.of_request(sent)
    codec = Codec.of()
    written = codec.encoder("StreamsGroupTopologyValue", 0)(topology.to_record())
    read, end = codec.decoder("StreamsGroupTopologyValue", 0)(written, 0)
    assert end == len(written)
    assert Topology.of_record(read) == topology
    assert list(Topology.of_record(read).subtopologies) == [part.subtopology_id for part in sent.subtopologies]


@settings(max_examples=30)
@given(TOPOLOGIES)
def test_it_knows_which_topics_it_reads_and_which_it_needs(sent):
    topology = Topology.of_request(sent)
    reads = {
        name
        for part in sent.subtopologies
        for name in [*part.source_topics, *(topic.name for topic in part.repartition_source_topics)]
    }
    assert topology.readers.keys() == reads
    changelogs = {topic.name for part in sent.subtopologies for topic in part.state_changelog_topics}
    assert topology.topics == reads | changelogs
    for topic, reader in topology.readers.items():
        assert topic in topology.subtopologies[reader].inputs


def test_topologies_are_equal_only_if_their_lists_have_the_same_order():
    one, other = simple(source_topics=["a", "b"]), simple(source_topics=["b", "a"])
    assert Topology.of_request(one) == Topology.of_request(simple(source_topics=["a", "b"]))
    assert Topology.of_request(one) != Topology.of_request(other)


def test_the_order_of_subtopologies_does_not_matter():
    parts = [Request.Subtopology(subtopology_id="0"), Request.Subtopology(subtopology_id="1")]
    assert Topology.of_request(Request.Topology(1, parts)) == Topology.of_request(Request.Topology(1, parts[::-1]))


def test_a_copartition_group_names_topics_by_index():
    sent = simple(
        source_topics=["a", "b", "c"],
        repartition_source_topics=[Request.TopicInfo("r", 0, 0), Request.TopicInfo("s", 0, 0)],
        copartition_groups=[Request.CopartitionGroup([0, 2], [], [1]), Request.CopartitionGroup([1], [], [])],
    )
    part = Topology.of_request(sent).subtopologies["0"]
    assert part.copartitioned() == (frozenset({"a", "c", "s"}), frozenset({"b"}))


@pytest.mark.parametrize(
    "sent",
    [
        Request.Topology(-1, []),
        Request.Topology(1, [Request.Subtopology(subtopology_id="0"), Request.Subtopology(subtopology_id="0")]),
        simple(source_topics=["a"], copartition_groups=[Request.CopartitionGroup([1], [], [])]),
        simple(source_topics=["a"], copartition_groups=[Request.CopartitionGroup([-1], [], [])]),
        simple(source_topics=["a"], copartition_groups=[Request.CopartitionGroup([0], [], [0])]),
        simple(repartition_source_topics=[Request.TopicInfo("r", -1, 0)]),
        simple(state_changelog_topics=[Request.TopicInfo("c", 0, 0, [Request.KeyValue("a", "b")] * 2)]),
    ],
    ids=[
        "negative epoch",
        "id twice",
        "no such place",
        "place before the first",
        "no such repartition",
        "-1 partitions",
        "setting twice",
    ],
)
def test_an_invalid_topology_is_refused(sent):
    with pytest.raises(KafkaError) as refused:
        Topology.of_request(sent)
    assert refused.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_patterns_are_refused():
    check_regexes(simple(source_topics=["a"]))
    with pytest.raises(KafkaError) as refused:
        check_regexes(simple(source_topic_regex=["a.*"]))
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_a_number_of_partitions_for_a_changelog_is_refused():
    check_changelogs(simple(state_changelog_topics=[Request.TopicInfo("c", 0, 0)]))
    with pytest.raises(KafkaError, match="Changelog topic c must") as refused:
        check_changelogs(simple(state_changelog_topics=[Request.TopicInfo("c", 2, 0)]))
    assert refused.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY
