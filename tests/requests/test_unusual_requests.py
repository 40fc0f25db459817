"""What no client of Kafka's own sends is answered as by a live Kafka 4.4: empty lists, empty names, things named twice.

Configs of client metrics (KIP-714) are here, too: their tool sends only what is valid.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.kafka_broker import KafkaBroker
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until
from tests.support.wire import Connection

NONE, UNEXPECTED, UNKNOWN_PARTITION, UNSUPPORTED_VERSION, INVALID_CONFIG, INVALID_REQUEST = 0, -1, 3, 35, 40, 42
TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, UNKNOWN = 0, 1, 2, 9


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


def _configs(kind: int, name: str, *changes: tuple[str, int, str]) -> dict[str, Any]:
    entries = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    return {"resource_type": kind, "resource_name": name, "configs": entries}


def _altered(link: Connection, *resources: dict[str, Any]) -> list[tuple[int, str | None]]:
    answer = link.call("IncrementalAlterConfigs", 1, resources=resources, validate_only=False)
    return [(each["error_code"], each["error_message"]) for each in answer["responses"]]


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


@pytest.mark.parametrize(("partitions", "refused"), [([0, -1], -1), ([-7], -7)])
def test_a_negative_partition_alters_no_offset_of_a_share_group(link, partitions, refused):
    places = [{"partition_index": index, "start_offset": 5} for index in partitions]
    topics = [{"topic_name": "none", "partitions": places}, {"topic_name": "made", "partitions": places}]
    answer = link.call("AlterShareGroupOffsets", 0, group_id="negative", topics=topics)
    assert (answer["error_code"], answer["responses"]) == (UNEXPECTED, [])
    assert answer["error_message"].endswith(f" {refused}")
    [made] = _starts(link, "negative", ("made", [0]))["topics"]
    assert made["partitions"][0]["start_offset"] == -1


def test_an_unknown_operation_fails_all_resources_that_the_controller_changes(link):
    group = _configs(GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))
    logger, strange = _configs(LOGGER, "1", ("root", SET, "INFO")), _configs(99, "x", ("a", UNKNOWN, "1"))
    topic, absent = (_configs(TOPIC, name, ("retention.ms", UNKNOWN, "1")) for name in ("made", "none"))
    assert _altered(link, topic, group, logger) == [(UNEXPECTED, None), (UNEXPECTED, None), (NONE, None)]
    assert _altered(link, absent, group) == [(UNEXPECTED, None), (UNEXPECTED, None)]
    # What a broker refuses by itself does not get to the controller.
    assert [code for code, _ in _altered(link, strange, group)] == [INVALID_REQUEST, NONE]
    twice = _configs(TOPIC, "made", ("retention.ms", UNKNOWN, "1"), ("retention.ms", SET, "1"))
    assert [code for code, _ in _altered(link, twice, group)] == [INVALID_REQUEST, NONE]
    broker = _configs(BROKER, "", ("log.retention.ms", UNKNOWN, "1"))
    assert _altered(link, broker, group) == [(INVALID_REQUEST, "Unknown operations type 9"), (NONE, None)]


def test_topics_are_added_to_a_transaction_as_they_are_named(link):
    def added(*topics: tuple[str, list[int]]) -> list[tuple[str, list[tuple[int, int]]]]:
        named = [{"name": name, "partitions": partitions} for name, partitions in topics]
        producer = {
            "v3_and_below_producer_id": made["producer_id"],
            "v3_and_below_producer_epoch": made["producer_epoch"],
        }
        one = {"v3_and_below_transactional_id": "t", "v3_and_below_topics": named}
        answer = link.call("AddPartitionsToTxn", 3, **one, **producer)["results_by_topic_v3_and_below"]
        return [
            (
                each["name"],
                [(part["partition_index"], part["partition_error_code"]) for part in each["results_by_partition"]],
            )
            for each in answer
        ]

    def initialize() -> dict[str, Any]:
        link.call("FindCoordinator", 3, key="t", key_type=1)  # Kafka makes the topic of transactions for it.
        return link.call("InitProducerId", 4, transactional_id="t", transaction_timeout_ms=60_000)

    wait_until(lambda: initialize()["error_code"] == NONE, "a transaction coordinator")
    made = initialize()
    assert added(("none", [])) == [("none", [])]
    assert added(("none", []), ("made", [0])) == [("none", []), ("made", [(0, NONE)])]
    assert added(("made", [1, 1]), ("made", [0])) == [("made", [(1, NONE), (1, NONE)]), ("made", [(0, NONE)])]
    assert added(("none", [0]), ("other", [])) == [("none", [(0, UNKNOWN_PARTITION)])]


@pytest.mark.parametrize(
    ("version", "results"),
    [(version, [{"feature": "group.version", "error_code": NONE, "error_message": "NONE"}]) for version in (0, 1)]
    + [(2, None)],
)
def test_each_feature_that_was_updated_has_a_message_before_version_2(link, version, results):
    update = {"feature": "group.version", "max_version_level": 1}
    answer = link.call("UpdateFeatures", version, timeout_ms=10_000, feature_updates=[update])
    assert (answer["error_code"], answer["error_message"], answer.get("results")) == (NONE, None, results)


METRICS_REFUSED = {
    "no name": ("", ("metrics", "a"), INVALID_REQUEST, "Subscription name can't be empty"),
    "unknown": ("m", ("nothing", "a"), INVALID_REQUEST, "Unknown client metrics configuration: nothing"),
    "no number": (
        "m",
        ("interval.ms", "x"),
        INVALID_CONFIG,
        "Invalid value x for configuration interval.ms: Not a number of type INT",
    ),
    "empty item": ("m", ("metrics", "a,,b"), INVALID_CONFIG, "Configuration 'metrics' values must not be empty."),
} | {
    f"interval of {value}": (
        "m",
        ("interval.ms", value),
        INVALID_REQUEST,
        f"Invalid value {value} for interval.ms, interval must be between 100 and 3600000 (1 hour)",
    )
    for value in ("99", "3600001")
} | {
    f"match {value}": ("m", ("match", value), INVALID_CONFIG, f"Illegal client matching pattern: {value}")
    for value in ("client_id", "nothing=x", "client_id=(", "client_id=(?=a)b", "client_id=", "client_id=a=b", "=a")
}  # fmt: skip


@pytest.mark.parametrize("case", METRICS_REFUSED)
def test_a_subscription_to_client_metrics_that_is_not_valid_is_refused(link, case):
    name, (key, value), code, message = METRICS_REFUSED[case]
    assert _altered(link, _configs(CLIENT_METRICS, name, (key, SET, value))) == [(code, message)]


def test_a_subscription_to_client_metrics_is_kept_and_shown(link):
    def shown(name: str) -> dict[str, tuple[str, int, list[str]]]:
        asked = [{"resource_type": CLIENT_METRICS, "resource_name": name}]
        [answer] = link.call("DescribeConfigs", 4, resources=asked, include_synonyms=True)["results"]
        assert answer["error_code"] == NONE
        return {
            each["name"]: (each["value"], each["config_source"], [place["value"] for place in each["synonyms"]])
            for each in answer["configs"]
        }

    def listed() -> list[str]:
        return [each["resource_name"] for each in link.call("ListConfigResources", 0)["config_resources"]]

    interval, match, metrics = ("300000", 5, []), ("", 5, []), ("", 5, [])
    assert shown("m") == {"interval.ms": interval, "match": match, "metrics": metrics}
    assert listed() == []
    changes = [("interval.ms", " +700 "), ("match", " client_id = a , client_source_port=1 "), ("metrics", " a , b,a ")]
    assert _altered(link, _configs(CLIENT_METRICS, "m", *((key, SET, value) for key, value in changes))) == [
        (NONE, None)
    ]
    wait_until(lambda: listed() == ["m"], "the subscription to be listed")
    expected = {"interval.ms": "700", "match": "client_id = a,client_source_port=1", "metrics": "a,b"}
    assert shown("m") == {key: (value, 7, [value]) for key, value in expected.items()}
    append = _configs(CLIENT_METRICS, "m", ("metrics", APPEND, "c"))
    assert _altered(link, append) == [(INVALID_CONFIG, "Can't APPEND to key metrics because its type is not LIST.")]
    assert _altered(link, _configs(CLIENT_METRICS, "m", *((key, DELETE, "") for key, _ in changes))) == [(NONE, None)]
    wait_until(lambda: listed() == [], "the subscription to be gone")
