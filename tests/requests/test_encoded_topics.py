"""Metadata: a topic is encoded once per change, in every form exactly as the codec would, and a wide one in slices."""

import pytest

from coordinator.protocol.codec import Codec
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import DescribeConfigsRequest, MetadataRequest
from coordinator.topics import encoded_topics
from tests.support.asking import Server, ask

VERSIONS = range(14)


@pytest.fixture
def server():
    server = Server(num_partitions=3)
    for name, partitions in (("small", 2), ("wide", 300), ("none", 1)):
        server.plane.create(name, partitions)
    server.topics.offline["small"] = frozenset({1})
    return server


def metadata(server, version, *wanted, **fields):
    topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in wanted] if wanted else None
    if version == 0:
        topics = topics or []
    return ask(server, "Metadata", version, topics=topics, **fields)


@pytest.mark.parametrize("operations", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_response_has_the_bytes_that_the_codec_gives_its_content(server, version, operations):
    fields = {"include_topic_authorized_operations": True} if operations and version >= 8 else {}
    if operations and 8 <= version <= 10:
        fields["include_cluster_authorized_operations"] = True
    missing = [f"missing-{number}" for number in range(200)]
    for wanted in ((), ("small",), ("wide", "missing", "small"), (*missing, "wide")):
        for _ in range(2):
            exchange = metadata(server, version, *wanted, allow_auto_topic_creation=False, **fields)
            assert exchange.payload == Codec.of().encoder("MetadataResponse", version)(exchange.answer)
            found = {topic.name: topic for topic in exchange.answer.topics}
            assert list(found) == list(wanted or ("small", "wide", "none"))
            for name, partitions in (("small", 2), ("wide", 300)):
                if name in found:
                    assert [each.partition_index for each in found[name].partitions] == list(range(partitions))
    offline = metadata(server, version, "small").answer.topics[0].partitions
    assert [each.error_code for each in offline] == [ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE]


def test_a_topic_is_encoded_once_for_each_form(server, monkeypatch):
    described = []
    real = encoded_topics.encode_topic

    def encode_topic(form, topic, *rest):
        described.append((topic.name, form.version))
        return (yield from real(form, topic, *rest))

    monkeypatch.setattr("coordinator.requests.metadata.encode_topic", encode_topic)
    for version in (9, 12, 9, 12):
        metadata(server, version, "wide")
        metadata(server, version, "wide", "missing", allow_auto_topic_creation=False)
    assert described == [("wide", 9), ("wide", 12)]


def test_a_topic_that_has_changed_is_encoded_again(server):
    assert len(metadata(server, 12, "small").answer.topics[0].partitions) == 2
    server.topics.grow({"small": 5}, lambda error: None)
    assert len(metadata(server, 12, "small").answer.topics[0].partitions) == 5
    server.topics.offline.clear()
    assert not any(each.error_code for each in metadata(server, 12, "small").answer.topics[0].partitions)


def test_a_wide_topic_lets_others_have_their_turn(server):
    assert metadata(server, 12, "wide").pieces >= 2
    assert metadata(server, 12, "wide").pieces == 0, "its bytes are kept"


def test_missing_topics_are_created_a_few_at_a_time(server):
    wanted = [f"new-{number}" for number in range(100)]
    exchange = metadata(server, 12, *wanted)
    assert exchange.pieces >= 10
    assert [topic.error_code for topic in exchange.answer.topics] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 100
    assert set(wanted) <= server.topics.registry.topics.keys()


def test_the_kept_bytes_are_bounded(server, monkeypatch):
    monkeypatch.setattr(encoded_topics, "KEPT_BYTES_MAX", 10_000)
    for version in VERSIONS:
        metadata(server, version)
        assert server.encoded_topics.kept_bytes <= 10_000
    assert len(metadata(server, 12, "wide").answer.topics[0].partitions) == 300


@pytest.mark.parametrize("version", range(1, 5))
def test_the_settings_of_many_resources_are_encoded_in_pieces_exactly_as_the_codec_would(server, version):
    wanted = [("small", 2), ("missing", 2), ("1", 4)] * 60
    resources = [
        DescribeConfigsRequest.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        for name, kind in wanted
    ]
    exchange = ask(server, "DescribeConfigs", version, resources=resources, include_synonyms=True)
    assert exchange.payload == Codec.of().encoder("DescribeConfigsResponse", version)(exchange.answer)
    assert [(result.resource_name, result.resource_type) for result in exchange.answer.results] == wanted
    assert exchange.pieces >= 10
