"""Settings in environment variables: names, precedence, and refusals."""

from pathlib import Path

import pytest

from coordinator.config.load import ConfigError, ineffective_variables, load

CONTAINER = Path(__file__).resolve().parents[2] / "config" / "container.yaml"


def loaded(assignments=(), flags=None, file=None, **environment):
    return load(file, assignments, flags, environment)


def listeners(config):
    return [(each.host, each.port, each.advertised_host, each.advertised_port) for each in config.listeners]


@pytest.mark.parametrize(
    "name", ["COORDINATOR_SET_group_max_size", "COORDINATOR_SET_GROUP_MAX_SIZE", "KAFKA_GROUP_MAX_SIZE"]
)
def test_names_have_underscores_for_dots_in_either_case(name):
    assert loaded(**{name: "7"}).groups.group_max_size == 7


def test_a_variable_overrides_the_file_and_the_command_line_overrides_it(tmp_path):
    file = tmp_path / "file.yaml"
    file.write_text("group.max.size: 3\nnum.partitions: 3\n")
    config = loaded(
        ["num.partitions=9"], file=file, COORDINATOR_SET_group_max_size="5", COORDINATOR_SET_num_partitions="5"
    )
    assert (config.groups.group_max_size, config.topics.num_partitions) == (5, 9)
    assert loaded(flags={"data_dir": "flag"}, COORDINATOR_DATA_DIR="variable").log_dir == "flag"


def test_our_name_overrides_that_of_kafkas_image():
    config = loaded(KAFKA_GROUP_MAX_SIZE="5", COORDINATOR_SET_group_max_size="6")
    assert config.groups.group_max_size == 6


def test_each_flag_has_a_variable():
    config = loaded(
        COORDINATOR_LISTEN="0.0.0.0:1",
        COORDINATOR_ADVERTISE="host:2",
        COORDINATOR_ADMIN="0.0.0.0:3",
        COORDINATOR_SET_admin_anonymous="read",
        COORDINATOR_DATA_DIR="d",
    )
    assert listeners(config) == [("0.0.0.0", 1, "host", 2)]
    assert (config.admin.host, config.admin.port, config.log_dir) == ("0.0.0.0", 3, "d")


@pytest.mark.parametrize("variable", ["KAFKA_EMULATE", "COORDINATOR_EMULATE"])
def test_a_container_is_an_earlier_release(variable):
    assert loaded(**{variable: "3.6"}).emulate == "3.6"


def test_kafkas_listeners_are_matched_by_name_without_those_of_controllers():
    config = loaded(
        KAFKA_LISTENERS="IN://0.0.0.0:9092,OUT://:29092,CONTROLLER://:9093",
        KAFKA_ADVERTISED_LISTENERS="OUT://localhost:29092,IN://coordinator:9092",
        KAFKA_LISTENER_SECURITY_PROTOCOL_MAP="IN:PLAINTEXT,OUT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        KAFKA_CONTROLLER_LISTENER_NAMES="CONTROLLER",
    )
    assert listeners(config) == [
        ("0.0.0.0", 9092, "coordinator", 9092),
        ("0.0.0.0", 29092, "localhost", 29092),
    ]


def test_an_advertised_listener_by_itself_belongs_to_kafkas_default_listener():
    config = loaded(KAFKA_ADVERTISED_LISTENERS="PLAINTEXT://kafka:9092")
    assert listeners(config) == [("0.0.0.0", 9092, "kafka", 9092)]


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"COORDINATOR_SET_group_max_sise": "4"}, "did you mean group.max.size"),
        ({"COORDINATOR_SET_group_max_size": "many"}, "COORDINATOR_SET_group_max_size"),
        ({"COORDINATOR_SET_ssl_engine_factory_class": "4"}, "not supported yet"),
        ({"COORDINATOR_LISTEN": "9092"}, "COORDINATOR_LISTEN"),
        ({"KAFKA_GROUP_MAX_SIZE": "0"}, "KAFKA_GROUP_MAX_SIZE"),
        ({"KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "3"}, "there is one node"),
        ({"KAFKA_LISTENERS": "9092"}, "NAME://HOST:PORT"),
        ({"KAFKA_LISTENERS": "A://h:1", "KAFKA_ADVERTISED_LISTENERS": "B://h:1"}, "B is not a listener"),
        (
            {"KAFKA_LISTENERS": "A://h:1", "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "A:SASL_SSL"},
            "TLS needs ssl.keystore.location",
        ),
        (
            {"KAFKA_LISTENERS": "A://h:1", "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "A:TLS"},
            "with PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL",
        ),
        ({"KAFKA_LISTENERS": "A://:1"}, "advertise"),
    ],
)
def test_a_wrong_variable_is_refused_in_one_line(environment, words):
    with pytest.raises(ConfigError) as refused:
        loaded(**environment)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL", "sasl_ssl"])
def test_a_listener_is_never_plaintext_if_its_name_is_another_security_protocol(protocol):
    what = "SASL needs" if protocol == "SASL_PLAINTEXT" else "TLS needs"
    with pytest.raises(ConfigError, match=what):
        loaded(KAFKA_LISTENERS=f"{protocol}://0.0.0.0:9092", KAFKA_ADVERTISED_LISTENERS=f"{protocol}://h:9092")
    with pytest.raises(ConfigError, match=what):
        loaded([f"listeners={protocol}://127.0.0.1:9092"])
    with pytest.raises(ConfigError, match="COORDINATOR_LISTEN"):
        loaded(COORDINATOR_LISTEN=f"{protocol}://127.0.0.1:9092")


def test_a_variable_sets_a_setting_of_one_listener_and_mechanism_as_in_apaches_image():
    config = loaded(
        KAFKA_LISTENERS="OUT_1://0.0.0.0:9092",
        KAFKA_ADVERTISED_LISTENERS="OUT_1://h:9092",
        KAFKA_LISTENER_SECURITY_PROTOCOL_MAP="OUT_1:SASL_PLAINTEXT",
        KAFKA_SASL_ENABLED_MECHANISMS="PLAIN,SCRAM-SHA-256",
        KAFKA_LISTENER_NAME_OUT__1_PLAIN_SASL_JAAS_CONFIG='x required user_alice="secret";',
        KAFKA_LISTENER_NAME_OUT__1_SCRAM___SHA___256_CONNECTIONS_MAX_REAUTH_MS="1000",
    )
    mechanisms = config.listeners[0].security.mechanisms
    assert mechanisms["PLAIN"].sasl_jaas_config == 'x required user_alice="secret";'
    assert {name: each.connections_max_reauth_ms for name, each in mechanisms.items()} == {
        "PLAIN": 0,
        "SCRAM-SHA-256": 1000,
    }
    assert "secret" not in repr(config)


def test_the_map_of_security_protocols_decides_before_the_name_of_a_listener():
    config = loaded(
        KAFKA_LISTENERS="SSL://127.0.0.1:9092,CONTROLLER://:9093",
        KAFKA_CONTROLLER_LISTENER_NAMES="CONTROLLER",
        KAFKA_LISTENER_SECURITY_PROTOCOL_MAP="SSL:PLAINTEXT,CONTROLLER:SASL_SSL,OTHER:SSL",
    )
    assert listeners(config) == [("127.0.0.1", 9092, None, None)]


def test_variables_without_effect_are_listed_with_advice():
    environment = {
        "KAFKA_GROUP_MAX_SISE": "4",
        "KAFKA_LISTENER": "PLAINTEXT://:1",
        "COORDINATOR_LISTN": "h:1",
        "KAFKA_BROKER_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker",
        "KAFKA_GROUP_MAX_SIZE": "4",
        "kafka_num_partitions": "4",
        "KAFKA_LISTENERS": "PLAINTEXT://:9092",
        "COORDINATOR_SET_num_partitions": "4",
        "COORDINATOR_ADMIN": "h:1",
        "COORDINATOR_CACHE_DIR": "/cache",
        "KAFKA_SERVICE_PORT_PLAIN": "9092",
        "KAFKA_PORT_9092_TCP_ADDR": "10.0.0.1",
        "COORDINATOR_PORT": "tcp://10.0.0.1:9092",
        "HOME": "/root",
    }
    assert ineffective_variables(environment) == [
        "COORDINATOR_LISTN (did you mean COORDINATOR_LISTEN?)",
        "KAFKA_BROKER_ID (use node.id)",
        "KAFKA_GROUP_MAX_SISE (did you mean KAFKA_GROUP_MAX_SIZE?)",
        "KAFKA_LISTENER (did you mean KAFKA_LISTENERS?)",
        "KAFKA_PROCESS_ROLES",
    ]


def test_unrelated_variables_have_no_effect():
    assert (
        loaded(
            KAFKA_HOME="/opt/kafka",
            KAFKA_PROCESS_ROLES="broker,controller",
            KAFKA_SERVICE_HOST="10.0.0.1",
            COORDINATOR_PORT="tcp://10.0.0.1:9092",
            COORDINATOR_SERVICE_HOST="10.0.0.1",
            COORDINATOR_ADMIN="",
        )
        == load()
    )


def test_the_configuration_of_the_image_advertises_the_port_that_is_bound():
    config = load(CONTAINER, environment={"COORDINATOR_LISTEN": "0.0.0.0:19092"})
    assert listeners(config) == [("0.0.0.0", 19092, "localhost", 0)]
    assert config.log_dir == "/data"
