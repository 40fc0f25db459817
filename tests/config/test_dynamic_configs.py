"""Settings of the server are altered as in Kafka 4.4: which ones, to what, and what DescribeConfigs shows of them.

`kafka_4_4_dynamic_configs.jsonl` is a conversation, `kafka_4_4_dynamic_names.json` has Kafka's answer to a validated change of
each of its broker configs, for a broker and for the cluster. `pytest -m java tests/config --rewrite` records both.
"""

import json
from contextlib import closing
from pathlib import Path

import pytest

from coordinator.config.settings import SETTINGS
from coordinator.log.batch_builder import BatchBuilder
from tests.support.kafka_broker import KafkaBroker
from tests.support.recorded import Recorded
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until
from tests.support.wire import Connection, ConnectionClosed

FOLDER = Path(__file__).parent
NAMES = FOLDER / "kafka_4_4_dynamic_names.json"
KAFKA_NAMES = (FOLDER / "kafka_4_4_broker_configs.txt").read_text().split()
BROKER, TOPIC, GROUP = 4, 2, 32
NONE, INVALID_REQUEST, MESSAGE_TOO_LARGE = 0, 42, 10


def _normalise(api, answer):
    if api == "DescribeConfigs":
        for result in answer["results"]:
            result["configs"] = sorted(result["configs"], key=lambda each: each["name"])
            for config in result["configs"]:
                config.pop("documentation", None)
    if api == "CreateTopics":
        return {}
    return answer


RECORDED = Recorded(FOLDER / "kafka_4_4_dynamic_configs.jsonl", _normalise)
FIXED_HERE = (
    "cordoned.log.dirs", "listener.security.protocol.map", "listeners", "principal.builder.class", "sasl.enabled.mechanisms",
    "sasl.jaas.config", "sasl.mechanism.inter.broker.protocol", "ssl.cipher.suites", "ssl.client.auth", "ssl.enabled.protocols",
    "ssl.engine.factory.class", "ssl.protocol",
)  # fmt: skip
"""Configs that Kafka changes for one broker."""


def alter(link, name, values, operation=0, *, validate_only=False):
    """The error of a change of the configs of a broker, or of the cluster ("")."""
    entries = [{"name": key, "config_operation": operation, "value": value} for key, value in values.items()]
    resource = {"resource_type": BROKER, "resource_name": name, "configs": entries}
    (answer,) = link.call("IncrementalAlterConfigs", 1, resources=[resource], validate_only=validate_only)["responses"]
    return answer["error_code"], answer["error_message"]


def describe(link, kind, name, *keys):
    """The values of configs, with their sources."""
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": list(keys) or None}
    (answer,) = link.call("DescribeConfigs", 4, resources=[resource], include_synonyms=True)["results"]
    return {each["name"]: (each["value"], each["config_source"]) for each in answer["configs"]}


def recorded_names():
    """By config of Kafka: the value to set, and the errors of Kafka for a broker and for the cluster."""
    return json.loads(NAMES.read_text())


def errors_of(link, name, value):
    """The errors of setting a config of the broker and of the cluster, without doing it."""
    return [[*alter(link, where, {name: value}, validate_only=True)] for where in ("1", "")]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ServerProcess(tmp_path_factory.mktemp("server")) as process:
        yield process


@pytest.fixture
def link(server):
    with closing(Connection(server.bootstrap)) as opened:
        yield opened


def test_a_conversation_about_settings_goes_as_with_kafka_and_a_kill_loses_nothing(tmp_path):
    with ServerProcess(tmp_path, settings={"num.partitions": "1"}) as server:
        with Connection(server.bootstrap) as link:
            for line in RECORDED.lines:
                assert RECORDED.said(link, line) == line
            before = [describe(link, BROKER, name) for name in ("1", "")]
        server.restart(kill=True)
        with Connection(server.bootstrap) as link:
            after = [describe(link, BROKER, name) for name in ("1", "")]
    assert [each.pop("listeners", None) and None for each in (*before, *after)]
    for each in (*before, *after):
        each.pop("advertised.listeners", None)
    assert after == before


def test_each_config_of_kafka_can_be_changed_here_if_it_can_there(link):
    for name, (value, *kafka) in recorded_names().items():
        fixed = [INVALID_REQUEST, f"Cannot update these configs dynamically: [{name}]"]
        expected = [
            fixed if name in FIXED_HERE and (code == NONE or name == "ssl.engine.factory.class") else [code, text]
            for code, text in kafka
        ]
        assert (name, errors_of(link, name, value)) == (name, expected)


@pytest.mark.parametrize("name", sorted(set(SETTINGS) - set(KAFKA_NAMES) - {"super.users", "log.retention.ms"}))
def test_a_setting_that_kafka_lacks_cannot_be_changed(link, name):
    refusal = (INVALID_REQUEST, f"Cannot update these configs dynamically: [{name}]")
    assert alter(link, "1", {name: "1"}) == alter(link, "", {name: "1"}) == refusal


def test_the_broker_of_another_number_is_refused(link):
    assert alter(link, "2", {"message.max.bytes": "1"})[0] == INVALID_REQUEST


# --- what changes at once ---------------------------------------------------------------------------------------------


def accepts(server):
    try:
        with closing(Connection(server.bootstrap)) as opened:
            opened.call("ApiVersions", 0)
    except (ConnectionClosed, ConnectionError):
        return False
    return True


@pytest.mark.parametrize("name", ["1", ""])
@pytest.mark.parametrize("setting", ["max.connections", "max.connections.per.ip"])
def test_a_limit_of_connections_holds_at_once_and_its_deletion_too(server, link, name, setting):
    assert accepts(server)
    assert alter(link, name, {setting: "1"}) == (NONE, None)
    assert not accepts(server)
    assert alter(link, name, {setting: None}, 1) == (NONE, None)
    wait_until(lambda: accepts(server), "connections again")


def test_the_default_of_a_topic_setting_changes_existing_topics(link):
    link.call("CreateTopics", 5, topics=[{"name": "small", "num_partitions": 1, "replication_factor": 1}])
    assert alter(link, "", {"message.max.bytes": "100"}) == (NONE, None)
    assert produce(link, "small", 500) == MESSAGE_TOO_LARGE
    assert alter(link, "1", {"message.max.bytes": "10000"}) == (NONE, None)
    assert produce(link, "small", 500) == NONE
    assert alter(link, "1", {"message.max.bytes": None}, 1) == (NONE, None)
    assert produce(link, "small", 500) == MESSAGE_TOO_LARGE
    assert alter(link, "", {"message.max.bytes": None}, 1) == (NONE, None)
    assert produce(link, "small", 500) == NONE


def produce(link, topic, size):
    builder = BatchBuilder()
    builder.add(None, b"x" * size)
    data = {"index": 0, "records": builder.build(0, 0)}
    answer = link.call("Produce", 9, acks=1, timeout_ms=1000, topic_data=[{"name": topic, "partition_data": [data]}])
    return answer["responses"][0]["partition_responses"][0]["error_code"]


@pytest.mark.thorough
@pytest.mark.java
def test_kafka_answers_so(tmp_path, request):
    rewrite = request.config.getoption("--rewrite")
    broker = KafkaBroker(tmp_path)
    broker.start()
    try:
        with Connection(broker.bootstrap) as link:
            configs = describe(link, BROKER, "1")
            if rewrite:
                found = {name: (configs.get(name, ("", 0))[0] or "") for name in KAFKA_NAMES}
                names = {name: [value, *errors_of(link, name, value)] for name, value in found.items()}
                lines = (f"{json.dumps(name)}: {json.dumps(each)}" for name, each in names.items())
                NAMES.write_text("{\n" + ",\n".join(lines) + "\n}\n")
            for name, (value, *errors) in recorded_names().items():
                mine = configs[name][0] if name == "listeners" else value  # its ports are of this run
                assert (name, errors_of(link, name, mine)) == (name, errors)
            assert RECORDED.said_by_kafka(link, rewrite=rewrite) == RECORDED.lines
    finally:
        broker.stop()
