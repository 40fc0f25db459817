"""`coordinator topics ...` on this server and, if there are Java and Maven, on Kafka, with the same results."""

import json
import uuid
from functools import partial

import pytest

from coordinator.operations.client import Client
from coordinator.protocol.messages import MetadataRequest
from tests.support.waiting import wait_until


@pytest.fixture
def run(command):
    return partial(command, "topics")


@pytest.fixture
def topic():
    return f"topic-{uuid.uuid4().hex[:8]}"


def wait_for(bootstrap, topic):
    """Waits until the topic's partitions have leaders; Kafka elects them after it has responded."""

    def led() -> bool:
        with Client(bootstrap, 10) as client:
            [found] = (
                client.any().ask(MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)])).topics
            )
        return bool(found.partitions) and all(each.leader_id >= 0 for each in found.partitions)

    wait_until(led, "the topic's leaders")


def test_a_topic_is_created_listed_described_and_deleted(run, bootstrap, topic):
    assert run("create", topic, "--partitions", "2", "--config", "retention.ms=1000") == f"topic {topic} created\n"
    wait_for(bootstrap, topic)
    assert [topic, "2", "1"] in [row.split() for row in run("list").splitlines()]
    [described] = json.loads(run("describe", topic, "--json"))["topics"]
    assert len(described.pop("topic_id")) == 22
    partition = {"leader": 1, "replicas": [1], "in_sync": [1], "start": 0, "end": 0}
    assert described == {
        "name": topic,
        "internal": False,
        "configs": {"retention.ms": "1000"},
        "partitions": [{"partition": 0, **partition}, {"partition": 1, **partition}],
    }
    header, row, _, partitions, *_ = run("describe", topic).splitlines()
    assert header.split() == ["TOPIC", "ID", "CONFIGS"]
    assert row.split()[::2] == [topic, "retention.ms=1000"]
    assert partitions.split() == ["PARTITION", "LEADER", "REPLICAS", "IN-SYNC", "START", "END"]
    assert run("delete", topic).splitlines()[1].split() == [topic, "deleted"]
    wait_until(lambda: topic not in run("list"), "the topic to be gone")


def test_a_topic_without_partitions_gets_the_servers_default(run, bootstrap, topic):
    assert json.loads(run("create", topic, "--json")) == {"topic": topic, "created": True}
    wait_for(bootstrap, topic)
    [listed] = [each for each in json.loads(run("list", "--json"))["topics"] if each["name"] == topic]
    assert (listed["partitions"], listed["replicas"], listed["internal"]) == (1, 1, False)


def test_a_topic_that_exists_is_an_error_unless_it_may(run, topic):
    run("create", topic)
    assert run("create", topic, expect=1) == f"coordinator: topic {topic} exists already\n"
    assert run("create", topic, "--if-not-exists") == f"topic {topic} exists already\n"


def test_what_the_server_refuses_is_one_line_with_its_reason(run, topic):
    assert "INVALID_CONFIG" in run("create", topic, "--config", "retention.ms=many", expect=1)
    assert "INVALID_TOPIC_EXCEPTION" in run("create", "a/b", expect=1)
    assert run("describe", topic, expect=1) == f"coordinator: there is no topic {topic}\n"
    assert "not deleted: " in run("delete", topic, expect=1)


def test_a_config_without_a_value_and_too_few_partitions_are_refused(run, topic):
    assert run("create", topic, "--config", "retention.ms", expect=1).endswith("allowed: key=value\n")
    assert "--partitions" in run("create", topic, "--partitions", "0", expect=2)


def test_internal_topics_are_listed_on_request(run, bootstrap):
    with Client(bootstrap, 10) as client:
        client.coordinator("group")  # Kafka creates __consumer_offsets when a group is looked up
    assert "__consumer_offsets" not in run("list")
    assert "__consumer_offsets" in run("list", "--internal")
