"""What no client of Kafka's own sends is answered as by a live Kafka 4.4: empty lists, empty names, things named twice."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.kafka_broker import KafkaBroker
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until
from tests.support.wire import Connection

NONE, UNEXPECTED, UNKNOWN_PARTITION, INVALID_REQUEST, UNSUPPORTED_VERSION = 0, -1, 3, 42, 35


@pytest.fixture(scope="module", params=["ours", pytest.param("kafka", marks=pytest.mark.java)])
def link(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """A client of a server that has the topic `made` with two partitions."""
    folder = tmp_path_factory.mktemp("server")
    server = ServerProcess(folder) if request.param == "ours" else KafkaBroker(folder)
    try:
        server.start()
        with Connection(server.bootstrap) as link:
            topic = {"name": "made", "num_partitions": 2, "replication_factor": 1}
            link.call("CreateTopics", 5, topics=[topic], timeout_ms=10_000)
            wait_until(lambda: _is_led(link), "the topic to have leaders")
            wait_until(
                lambda: link.call("FindCoordinator", 3, key="g", key_type=0)["error_code"] == NONE, "a coordinator"
            )
            wait_until(lambda: _starts(link, "none", ("made", [0]))["error_code"] == NONE, "a share coordinator")
            yield link
    finally:
        server.stop()


def _is_led(link: Connection) -> bool:
    asked = {"name": "made", "partitions": [{"partition_index": index, "timestamp": -1} for index in (0, 1)]}
    [topic] = link.call("ListOffsets", 7, replica_id=-1, topics=[asked])["topics"]
    return all(each["error_code"] == NONE for each in topic["partitions"])


def _starts(link: Connection, group_id: str, *topics: tuple[str, list[int]]) -> dict[str, Any]:
    asked = [{"topic_name": name, "partitions": partitions} for name, partitions in topics]
    [group] = link.call("DescribeShareGroupOffsets", 0, groups=[{"group_id": group_id, "topics": asked}])["groups"]
    return group


Case = tuple[str, int, dict[str, Any], Callable[[dict[str, Any]], Any], Any]
DELETED_NOTHING = {"topics": [{"name": "made", "partitions": []}], "timeout_ms": 10_000}
NO_PLACE = {"replica_id": -1, "topics": [{"name": "made", "partitions": [{"partition_index": 9, "timestamp": -9}]}]}
NO_PARTITIONS = {"replica_id": -1, "topics": [{"name": "made", "partitions": []}]}
NO_PASSWORD = {"upsertions": [{"name": "a", "mechanism": 1, "iterations": 4096, "salt": b"s", "salted_password": b""}]}
CASES: dict[str, Case] = {
    "records of no partition": ("DeleteRecords", 1, DELETED_NOTHING, lambda answer: answer["topics"], []),
    "offsets of no partition": ("ListOffsets", 7, NO_PARTITIONS, lambda answer: answer["topics"], []),
    "a place that there is not, in a partition that there is not": (
        "ListOffsets",
        7,
        NO_PLACE,
        lambda answer: answer["topics"][0]["partitions"][0]["error_code"],
        UNSUPPORTED_VERSION,
    ),
    "an unknown election of nothing": (
        "ElectLeaders",
        1,
        {"election_type": -128, "topic_partitions": [], "timeout_ms": 10_000},
        lambda answer: answer["error_code"],
        NONE,
    ),
    "an unknown election of a topic's no partitions": (
        "ElectLeaders",
        1,
        {"election_type": -128, "topic_partitions": [{"topic": "made", "partitions": []}], "timeout_ms": 10_000},
        lambda answer: answer["error_code"],
        INVALID_REQUEST,
    ),
    "a page with a topic without a name": (
        "DescribeTopicPartitions",
        0,
        {"topics": [{"name": "made"}, {"name": ""}], "response_partition_limit": 10},
        lambda answer: {each["error_code"] for each in answer["topics"]},
        {UNEXPECTED},
    ),
    "a topic with neither name nor id": (
        "Metadata",
        12,
        {"topics": [{"name": None}], "allow_auto_topic_creation": False},
        lambda answer: [each["error_code"] for each in answer["topics"]],
        [UNEXPECTED],
    ),
    "a SCRAM credential without a password": (
        "AlterUserScramCredentials",
        0,
        NO_PASSWORD,
        lambda answer: answer["results"],
        [{"user": "a", "error_code": UNEXPECTED, "error_message": None}],
    ),
    "the configs of a group without a name": (
        "DescribeConfigs",
        4,
        {"resources": [{"resource_type": 32, "resource_name": ""}]},
        lambda answer: (answer["results"][0]["error_code"], answer["results"][0]["error_message"]),
        (INVALID_REQUEST, "Group name must not be empty"),
    ),
    "an unknown type of coordinator": (
        "FindCoordinator",
        4,
        {"key_type": 7, "coordinator_keys": ["a"]},
        lambda answer: answer["coordinators"][0]["error_message"].partition(" by ")[0],
        "This most likely occurs because of a request being malformed",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_unusual_request_is_answered_as_by_kafka(link, name):
    api, version, values, shown, expected = CASES[name]
    assert shown(link.call(api, version, **values)) == expected


@pytest.mark.parametrize(
    ("group_id", "topics"),
    [("", [("made", [0])]), ("g", [("made", [])]), ("g", [("made", [0, -1])])],
    ids=["of no group", "of no partition", "of a negative partition"],
)
def test_offsets_of_a_share_group_that_no_coordinator_can_know_are_refused(link, group_id, topics):
    group = _starts(link, group_id, *topics)
    assert (group["error_code"], group["topics"]) == (UNEXPECTED, [])


def test_the_offsets_of_a_topic_that_is_named_twice_are_all_set(link):
    def topic(name: str, index: int) -> dict[str, Any]:
        return {"topic_name": name, "partitions": [{"partition_index": index, "start_offset": index + 5}]}

    topics = [topic("made", 0), topic("none", 0), topic("made", 1), topic("made", 7), topic("none", 1)]
    answer = link.call("AlterShareGroupOffsets", 0, group_id="twice", topics=topics)
    assert [
        (each["topic_name"], [(part["partition_index"], part["error_code"]) for part in each["partitions"]])
        for each in answer["responses"]
    ] == [
        ("none", [(0, UNKNOWN_PARTITION), (1, UNKNOWN_PARTITION)]),
        ("made", [(0, NONE), (1, NONE), (7, UNKNOWN_PARTITION)]),
    ]
    [made] = _starts(link, "twice", ("made", [0, 1]))["topics"]
    assert [(each["partition_index"], each["start_offset"]) for each in made["partitions"]] == [(0, 5), (1, 6)]
