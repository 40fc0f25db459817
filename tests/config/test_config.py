"""Settings: the sources of values, what is refused, and that table, dataclasses and files agree."""

import json
import re
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from coordinator.config import settings
from coordinator.config.access_control import STANDARD_AUTHORIZER, principals
from coordinator.config.load import ConfigError, _build, load, load_with_sources
from coordinator.config.settings import SETTINGS, STRUCTURED, ListenerConfig, ServerConfig
from coordinator.config.show import CHANGED, as_yaml

REPOSITORY = Path(__file__).resolve().parents[2]


def written(folder: Path, text: str) -> Path:
    path = folder / "settings.yaml"
    path.write_text(text)
    return path


def refusal(file: Path | None = None, *assignments: str, **flags: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(file, assignments, flags)
    text = str(caught.value)
    assert "\n" not in text
    return text


# --- the table --------------------------------------------------------------------------------------------------------


KAFKA = {
    "group.initial.rebalance.delay.ms": 3000,
    "group.max.session.timeout.ms": 1800000,
    "group.max.size": 2147483647,
    "group.min.session.timeout.ms": 6000,
    "offset.metadata.max.bytes": 4096,
    "offsets.commit.timeout.ms": 5000,
    "offsets.retention.check.interval.ms": 600000,
    "offsets.retention.minutes": 10080,
    "offsets.topic.num.partitions": 50,
    "offsets.topic.segment.bytes": 104857600,
    "producer.id.expiration.ms": 86400000,
    "num.partitions": 1,
    "auto.create.topics.enable": True,
    "delete.topic.enable": True,
    "message.max.bytes": 1048588,
    "log.segment.bytes": 1073741824,
    "log.retention.bytes": -1,
    "log.cleanup.policy": "delete",
    "log.message.timestamp.type": "CreateTime",
    "log.message.timestamp.after.max.ms": 3600000,
    "fetch.max.bytes": 57671680,
    "socket.request.max.bytes": 104857600,
    "connections.max.idle.ms": 600000,
}


@pytest.mark.parametrize(("name", "default"), KAFKA.items())
def test_settings_of_kafka_have_kafkas_defaults(name, default):
    assert settings.SETTINGS[name].default == default


def test_every_field_has_a_setting_and_every_setting_has_a_field():
    structured = {"behind", "host", "port", "listeners", "declared_topics", "dynamic"}
    areas = [ServerConfig, settings.AdminConfig, settings.NetworkConfig, settings.LogConfig]
    areas += [settings.GroupsConfig, settings.TopicsConfig, settings.TransactionsConfig, settings.ShareStateConfig]
    areas += [settings.TlsConfig, settings.SaslConfig, settings.AccessControlConfig, settings.SharedConfig]
    areas += [settings.DelegationTokensConfig]
    areas += [settings.QuotasConfig, settings.OverlayConfig]
    held = {
        (area, item.name)
        for area in areas
        for item in fields(area)
        if item.name not in structured and not is_dataclass(getattr(ServerConfig(), item.name, None))
    }
    assert held == {(setting.area, setting.field_name) for setting in settings.SETTINGS.values()}


@pytest.mark.parametrize("name", [name for name, each in settings.SETTINGS.items() if type(each.default) is int])
def test_a_setting_sets_its_field(name):
    default = settings.SETTINGS[name].default
    value = next(
        each for each in (default - 1, default + 1) if settings.SETTINGS[name].parse.read(each, False) is not None
    )
    built = _build({name: value})
    assert settings.value_of(built, name) == value


def test_every_default_is_allowed_and_every_setting_is_documented():
    for setting in settings.SETTINGS.values():
        assert setting.parse.read(setting.default, False) == setting.default, setting.name
        assert setting.documentation.endswith(".")


def test_config_default_yaml_has_the_defaults():
    """If this fails: `coordinator config defaults > config/default.yaml`."""
    path = REPOSITORY / "config" / "default.yaml"
    assert path.read_text() == as_yaml(ServerConfig())
    assert load(path) == ServerConfig()


def test_config_test_yaml_has_no_delays_and_no_topics():
    loaded = load(REPOSITORY / "config" / "test.yaml")
    assert loaded.groups.group_initial_rebalance_delay_ms == 0
    assert loaded.groups.group_min_session_timeout_ms == 100
    assert loaded.log.offsets_topic_num_partitions == 1
    assert not loaded.declared_topics


def test_a_configuration_that_is_printed_as_yaml_is_read_back_unchanged(tmp_path):
    text = """
durability: write
log.dir: 'a folder: with "signs"'
listeners:
  - {address: "[::1]:9000", advertise: "kafka.example:9092"}
  - {address: 127.0.0.1:9001, dialect: kip-792}
admin.listener: 127.0.0.1:0
topics:
  - {name: orders, partitions: 3, configs: {retention.ms: 1000, cleanup.policy: compact}}
"""
    loaded = load(written(tmp_path, text))
    assert load(written(tmp_path, as_yaml(loaded))) == loaded
    assert loaded.declared_topics[0].configs == {"retention.ms": "1000", "cleanup.policy": "compact"}


# --- sources ----------------------------------------------------------------------------------------------------------


def test_the_file_overrides_defaults_set_overrides_the_file_and_flags_override_set(tmp_path):
    file = written(tmp_path, "group.max.size: 5\nlog.dir: from-file\n")
    assert load().log_dir == "data"
    assert load(file).log_dir == "from-file"
    assert load(file, ["log.dir=from-set"]).log_dir == "from-set"
    assert load(file, ["log.dir=from-set"], {"data_dir": "from-flag"}).log_dir == "from-flag"
    assert load(file, ["group.max.size=7"]).groups.group_max_size == 7
    assert load(file, ["group.max.size=7", "group.max.size=8"]).groups.group_max_size == 8


def test_listen_and_advertise_change_the_first_listener(tmp_path):
    file = written(tmp_path, "listeners: [127.0.0.1:1111, {address: 127.0.0.1:2222, dialect: kip-792}]\n")
    loaded = load(file, (), {"listen": "127.0.0.1:0", "advertise": "kafka:9092"})
    assert loaded.listeners == (
        ListenerConfig(host="127.0.0.1", port=0, advertised_host="kafka", advertised_port=9092),
        ListenerConfig(host="127.0.0.1", port=2222, dialect="kip-792"),
    )


def test_listeners_can_have_kafkas_notation():
    loaded = load(None, ["listeners=PLAINTEXT://127.0.0.1:9092,PLAINTEXT://[::1]:9093"])
    assert [(each.host, each.port) for each in loaded.listeners] == [("127.0.0.1", 9092), ("::1", 9093)]


def test_structured_settings_can_be_set_as_yaml():
    loaded = load(None, ['topics=[{"name": "orders", "partitions": 4}]', "listeners=[{address: 127.0.0.1:0}]"])
    assert loaded.declared_topics[0].partitions == 4
    assert loaded.listeners[0].port == 0


@pytest.mark.parametrize(("text", "value"), [("true", True), ("FALSE", False), (" true ", True)])
def test_booleans_on_the_command_line_have_kafkas_notation(text, value):
    assert load(None, [f"auto.create.topics.enable={text}"]).topics.auto_create_topics_enable is value


@pytest.mark.parametrize("name", ["1000", "null", "true", "a: b", "it's", "[x]", "1:30", "~", "data"])
def test_text_that_yaml_would_read_as_something_else_is_printed_in_quotes(tmp_path, name):
    loaded = load(None, [f"log.dir={name}"])
    assert load(written(tmp_path, as_yaml(loaded))) == loaded


@pytest.mark.parametrize("text", ["off", "'off'"])
def test_a_word_that_yaml_takes_for_false_can_be_chosen(tmp_path, text):
    loaded = load(written(tmp_path, f"group.classic.validate.assignments: {text}\n"))
    assert loaded.groups.group_classic_validate_assignments == "off"


def test_a_printed_configuration_marks_what_is_not_the_default_and_its_source(tmp_path):
    file = written(
        tmp_path, "group.max.size: 3\nnum.partitions: 2\noffset.metadata.max.bytes: 4096\ntopics: [{name: t}]\n"
    )
    environment = {"KAFKA_NUM_PARTITIONS": "5", "COORDINATOR_ADVERTISE": "host:1"}
    loaded = load_with_sources(file, ["durability=write"], {"listen": "0.0.0.0:9092", "data_dir": "d"}, environment)
    text = as_yaml(loaded.config, loaded.sources)
    marks = [line.removeprefix(f"{CHANGED} ") for line in text.splitlines() if line.startswith(CHANGED)]
    assert marks == [
        "COORDINATOR_ADVERTISE and --listen.",
        f"{file}.",
        "--data-dir; default: data.",
        "--set; default: fsync.",
        f"{file}; default: 2147483647.",
        "KAFKA_NUM_PARTITIONS; default: 1.",
    ]
    assert "KAFKA_NUM_PARTITIONS; default: 1.\nnum.partitions: 5\n" in text
    assert load(written(tmp_path, text)) == loaded.config


def test_an_empty_file_changes_nothing(tmp_path):
    assert load(written(tmp_path, "# nothing yet\n")) == ServerConfig()


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_an_unknown_setting_is_refused_with_a_similar_one(tmp_path):
    assert "did you mean group.max.size?" in refusal(None, "group.max.sise=3")
    assert "did you mean group.max.size?" in refusal(None, "group_max_size=3")
    assert "no such setting; `coordinator config list` lists all settings" in refusal(
        written(tmp_path, "colour: red\n")
    )


@pytest.mark.parametrize("value", ["0", "-1", "2147483648", "1.5", "ten", "", "1e3", "0x10"])
def test_an_impossible_number_is_refused_with_key_value_and_what_is_allowed(value):
    text = refusal(None, f"group.max.size={value}")
    assert text.startswith("group.max.size = ")
    assert (value or "''") in text
    assert "allowed: a whole number from 1 to 2147483647 (members)" in text


@pytest.mark.parametrize(
    "line", ["group.max.size: '4'", "group.max.size: true", "group.max.size: [4]", "group.max.size:"]
)
def test_a_wrong_type_in_the_file_is_refused(tmp_path, line):
    assert "group.max.size = " in refusal(written(tmp_path, line))


def test_both_bounds_are_allowed():
    assert load(None, ["group.max.size=1"]).groups.group_max_size == 1
    assert load(None, ["group.max.size=2147483647"]).groups.group_max_size == 2147483647
    assert load(None, ["fetch.max.bytes=1024"]).topics.fetch_max_bytes == 1024
    assert "fetch.max.bytes = 1023" in refusal(None, "fetch.max.bytes=1023")


def test_a_word_that_is_not_a_choice_is_refused():
    assert refusal(None, "durability=maybe") == "durability = maybe (--set): allowed: fsync or write"


@pytest.mark.parametrize(
    ("key", "feature"),
    [
        ("group.streams.num.warmup.replicas", "KIP-1071"),
        ("transaction.two.phase.commit.enable", "KIP-939"),
        ("ssl.engine.factory.class", "TLS"),
        ("sasl.kerberos.service.name", "SASL"),
    ],
)
def test_a_setting_of_an_unsupported_feature_is_refused_with_its_name(key, feature):
    text = refusal(None, f"{key}=5")
    assert feature in text
    assert "not supported yet" in text


def test_classic_groups_cannot_be_switched_off():
    name = "group.coordinator.rebalance.protocols"
    assert load(None, [f"{name}=classic"]).groups.group_coordinator_rebalance_protocols == ("classic",)
    assert load(None, [f"{name}=consumer, classic"]).groups.group_coordinator_rebalance_protocols == (
        "consumer",
        "classic",
    )
    for value in ("consumer", "", "classic,classic", "streams", "classic,shared"):
        text = refusal(None, f"{name}={value}")
        assert "allowed: classic, alone or with consumer, share and streams, separated by commas" in text


def test_replication_settings_are_accepted_with_the_only_possible_value(tmp_path):
    assert load(None, ["offsets.topic.replication.factor=1"]) == ServerConfig()
    assert load(written(tmp_path, "default.replication.factor: 1\n")) == ServerConfig()
    assert "allowed: 1, because there is one node" in refusal(None, "offsets.topic.replication.factor=3")


def test_a_setting_of_kafka_with_another_name_here_is_refused_with_that_name():
    assert "use log.dir" in refusal(None, "log.dirs=/tmp")
    assert "--advertise" in refusal(None, "advertised.listeners=PLAINTEXT://x:1")


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("broker.rack", "no effect here, because there is one node, so no replica is nearer to a client than another"),
        ("replica.selector.class", "no effect here, because there is one node, so no replica is nearer"),
        ("principal.builder.class", "access control: not supported yet"),
        ("num.io.threads", "no effect here, because one event loop serves all clients"),
        ("remote.log.storage.system.enable", "tiered storage (KIP-405): not supported yet"),
        ("log.flush.interval.ms", "use durability"),
    ],
)
def test_a_setting_of_kafka_that_is_none_here_is_refused_with_the_reason(key, why):
    assert f"{key} = x (--set): " in refusal(None, f"{key}=x")
    assert why in refusal(None, f"{key}=x")


def test_no_broker_config_of_kafka_4_4_is_refused_as_unknown():
    """The file has the names that DescribeConfigs of a Kafka 4.4 broker lists."""
    names = Path(__file__).with_name("kafka_4_4_broker_configs.txt").read_text().split()
    assert len(names) > 300
    for name in names:
        if name not in SETTINGS and name not in STRUCTURED:
            assert "no such setting" not in refusal(None, f"{name}=?"), name


def test_values_that_contradict_each_other_are_refused():
    text = refusal(None, "group.min.session.timeout.ms=10", "group.max.session.timeout.ms=9")
    assert text == "group.min.session.timeout.ms = 10: allowed: at most group.max.session.timeout.ms (9)"
    assert "used twice" in refusal(None, listen="127.0.0.1:9644")
    assert load(None, (), {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0"})


def test_a_rebalance_interval_below_its_bound_is_refused_and_0_turns_it_off():
    assert refusal(None, "group.rebalance.interval.ms=9999") == (
        "group.min.rebalance.interval.ms = 10000: allowed: at most group.rebalance.interval.ms (9999)"
    )
    assert load(None, ("group.rebalance.interval.ms=0",)).groups.group_rebalance_interval_ms == 0


def test_values_of_streams_groups_that_contradict_each_other_are_refused():
    assert refusal(None, "group.streams.num.standby.replicas=3") == (
        "group.streams.num.standby.replicas = 3: allowed: at most group.streams.max.standby.replicas (2)"
    )
    text = refusal(None, "group.streams.session.timeout.ms=50000", "group.streams.max.session.timeout.ms=49000")
    assert text.startswith("group.streams.session.timeout.ms = 50000: allowed: at most")
    text = refusal(None, "group.streams.min.session.timeout.ms=5000", "group.streams.session.timeout.ms=5000")
    assert (
        text == "group.streams.heartbeat.interval.ms = 5000: allowed: less than group.streams.session.timeout.ms (5000)"
    )
    assert "min.task.offset.interval.ms" in refusal(None, "group.streams.task.offset.interval.ms=14999")


def test_streams_groups_have_one_assignor_and_optional_tags():
    assert "allowed: sticky" in refusal(None, "group.streams.assignors=uniform")
    assert load(None, ["group.streams.assignors=sticky"]) == ServerConfig()
    name = "group.streams.rack.aware.assignment.tags"
    assert load(None, [f"{name}=zone, rack"]).groups.group_streams_rack_aware_assignment_tags == ("zone", "rack")
    assert load(None, [f"{name}="]) == ServerConfig()
    assert "different names" in refusal(None, f"{name}=zone,zone")


def test_groups_with_metrics_of_their_own_are_named_in_text_or_in_a_list(tmp_path):
    assert load(None, ["metrics.groups=orders, bill it"]).admin.metrics_groups == ("orders", "bill it")
    assert load(None, ["metrics.groups="]) == ServerConfig()
    many = [f"g{number}" for number in range(101)]
    assert load(None, [f"metrics.groups={','.join(many[:100])}"]).admin.metrics_groups == tuple(many[:100])
    for refused in (",".join(many), "a,a", "a,,b", "a\nb"):
        assert "at most 100 different group ids" in refusal(None, f"metrics.groups={refused}")
    names = ("a,b", "c: #d", 'e"\\', "it's", "1", "yes", "plain")
    listed = load(written(tmp_path, f"metrics.groups: {json.dumps(names)}\n"))
    assert listed.admin.metrics_groups == names
    assert load(written(tmp_path, as_yaml(listed))) == listed


def test_an_address_that_clients_cannot_connect_to_is_not_advertised():
    assert "--advertise" in refusal(None, listen="0.0.0.0:9092")
    assert "advertise = 0.0.0.0" in refusal(None, listen="127.0.0.1:9092", advertise="0.0.0.0:9092")
    assert load(None, (), {"listen": "0.0.0.0:9092", "advertise": "kafka:0"}).listeners[0].advertised_port == 0


@pytest.mark.parametrize(
    "value", ["9092", "host", "host:", ":9092", "host:70000", "host:-1", "a b:1", "http://x:1", "::1:9"]
)
def test_a_malformed_address_is_refused(value):
    assert "allowed: HOST:PORT" in refusal(None, listen=value)


@pytest.mark.parametrize(
    "text",
    [
        "topics: orders",
        "topics: [orders]",
        "topics: [{partitions: 1}]",
        "topics: [{name: a b}]",
        "topics: [{name: ..}]",
        "topics: [{name: __consumer_offsets}]",
        "topics: [{name: orders, partitions: 0}]",
        "topics: [{name: orders, replicas: 1}]",
        "topics: [{name: orders}, {name: orders}]",
        "listeners: []",
        "listeners: [{port: 9092}]",
        "listeners: [{address: 127.0.0.1:1, dialect: kip-1}]",
        "group.max.size: 1\ngroup.max.size: 2",
        "topics: [{name: orders, name: payments}]",
        "- a list",
        "just text",
        "1: one",
        "a: [",
        "!!python/object/apply:os.system [echo]",
        "node.id: &a [*a]",
    ],
)
def test_a_malformed_file_is_refused_in_one_line(tmp_path, text):
    refusal(written(tmp_path, text))


def test_a_missing_file_is_refused(tmp_path):
    assert "No such file" in refusal(tmp_path / "nowhere.yaml")


def test_an_assignment_without_an_equals_sign_is_refused():
    assert refusal(None, "group.max.size") == "--set group.max.size: allowed: key=value"


def test_access_control_has_kafkas_settings():
    config = load(
        assignments=[
            f"authorizer.class.name={STANDARD_AUTHORIZER}",
            "super.users=User:admin; User:CN=ops,O=example;",
            "allow.everyone.if.no.acl.found=true",
        ]
    ).access_control
    assert config.authorizer_class_name == STANDARD_AUTHORIZER
    assert principals(config.super_users) == ("User:admin", "User:CN=ops,O=example")
    assert config.allow_everyone_if_no_acl_found


@pytest.mark.parametrize(
    ("assignments", "reason"),
    [
        (
            ["authorizer.class.name=kafka.security.authorizer.AclAuthorizer"],
            f"allowed: {STANDARD_AUTHORIZER}, or nothing",
        ),
        (
            [f"authorizer.class.name={STANDARD_AUTHORIZER}", "super.users=alice"],
            "allowed: principals such as User:alice",
        ),
        (["super.users=User:alice"], "set authorizer.class.name"),
    ],
)
def test_settings_of_access_control_that_would_mislead_are_refused(assignments, reason):
    with pytest.raises(ConfigError, match=re.escape(reason)):
        load(assignments=assignments)
