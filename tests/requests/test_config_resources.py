"""Configs as clients describe and alter them, beyond the scenarios that are played to Kafka too."""

import logging

import pytest

from coordinator.config.broker_configs import Endpoint
from coordinator.config.dynamic_configs import DYNAMIC
from coordinator.config.load import load
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)
from coordinator.requests.incremental_alter_configs import Altered, alter_resources
from coordinator.topics.alter_configs import ConfigChange, ConfigOp
from coordinator.topics.topic_settings import ROWS, Kind
from tests.support.asking import Server, answer, ask
from tests.support.permitting import EVERYTHING
from tests.topics.data_plane import FOLDER

TOPIC, BROKER, LOGGER, GROUP, UNSUPPORTED = 2, 4, 8, 32, 64


@pytest.fixture
def server():
    return Server(message_max_bytes=2_000_000)


def describe(server, kind, name, keys=None, **fields):
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    (result,) = answer(server, "DescribeConfigs", 4, resources=[resource], **fields).results
    return result


def change(server, kind, name, operation=0, **values):
    entries = [
        IncrementalAlterConfigsRequest.AlterableConfig(
            name=key.replace("_", "."), config_operation=operation, value=value
        )
        for key, value in values.items()
    ]
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=entries
    )
    (result,) = answer(server, "IncrementalAlterConfigs", 1, resources=[resource]).responses
    return result


def test_others_have_their_turn_before_thousands_of_names_are_checked(server):
    entries = [
        IncrementalAlterConfigsRequest.AlterableConfig(name=f"n{number}", config_operation=ConfigOp.APPEND, value="x")
        for number in range(2_500)
    ]
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=TOPIC, resource_name="t", configs=entries
    )
    exchange = ask(server, "IncrementalAlterConfigs", 1, resources=[resource])
    assert exchange.answer.responses[0].error_code == ErrorCode.INVALID_CONFIG
    assert exchange.pieces == ask(server, "IncrementalAlterConfigs", 1, resources=[]).pieces + 1


def test_a_setting_from_the_configuration_is_reported_as_static(server):
    server.plane.create("t")
    (entry,) = describe(server, TOPIC, "t", ["max.message.bytes"], include_synonyms=True).configs
    assert (entry.value, entry.config_source) == ("2000000", 4)
    assert [(place.name, place.value, place.source) for place in entry.synonyms] == [
        ("message.max.bytes", "2000000", 4),
        ("message.max.bytes", "1048588", 5),
    ]


def test_every_setting_has_documentation(server):
    server.plane.create("t")
    assert all(entry.documentation for entry in describe(server, TOPIC, "t", include_documentation=True).configs)
    assert all(entry.documentation for entry in describe(server, BROKER, "1", include_documentation=True).configs)
    assert all(entry.documentation is None for entry in describe(server, TOPIC, "t").configs)


def test_a_setting_that_kafka_does_not_change_at_run_time_is_read_only(server):
    entries = {entry.name: entry for entry in describe(server, BROKER, "1").configs}
    assert (entries["message.max.bytes"].value, entries["message.max.bytes"].config_source) == ("2000000", 4)
    assert entries["auto.create.topics.enable"].value == "true"
    assert {name for name, entry in entries.items() if not entry.read_only} == entries.keys() & DYNAMIC.keys()
    refused = change(server, BROKER, "1", num_partitions="1")
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert refused.error_message == "Cannot update these configs dynamically: [num.partitions]"
    assert change(server, BROKER, "1", operation=1, num_partitions=None).error_code == ErrorCode.NONE


def test_what_clients_have_set_has_documentation_too(server):
    assert change(server, BROKER, "", num_io_threads="5", log_retention_ms="5").error_code == ErrorCode.NONE
    for name in ("1", ""):
        keys = ["num.io.threads", "log.retention.ms"]
        entries = describe(server, BROKER, name, keys, include_documentation=True).configs
        assert len(entries) == 2
        assert all(entry.documentation and entry.config_source == 3 for entry in entries)


def test_a_broker_names_where_it_listens_and_stores_as_kafka_does(server):
    server.endpoints = [
        Endpoint("PLAINTEXT", ("::", 9092), ("kafka.example", 19092)),
        Endpoint("KIP-792", ("127.0.0.1", 9093), ("127.0.0.1", 9093)),
    ]
    entries = {entry.name: entry for entry in describe(server, BROKER, "1", include_synonyms=True).configs}
    found = {name: entries[name].value for name in sorted(entries) if entries[name].config_source == 4}
    assert found == {
        "advertised.listeners": "PLAINTEXT://kafka.example:19092,KIP-792://127.0.0.1:9093",
        "broker.id": "1",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,KIP-792:PLAINTEXT",
        "listeners": "PLAINTEXT://[::]:9092,KIP-792://127.0.0.1:9093",
        "log.dir": FOLDER,
        "log.dirs": FOLDER,
        "message.max.bytes": "2000000",
        "node.id": "1",
        "process.roles": "broker,controller",
    }
    assert [(each.name, each.source) for each in entries["listeners"].synonyms] == [("listeners", 4)]


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("authorizer.class.name", "", Kind.STRING),
        ("broker.rack", None, Kind.STRING),
        ("delete.topic.enable", "true", Kind.BOOLEAN),
        ("group.coordinator.threads", "1", Kind.INT),
        ("log.cleaner.enable", "true", Kind.BOOLEAN),
        ("log.retention.hours", "168", Kind.INT),
        ("log.retention.minutes", None, Kind.INT),
        ("log.roll.hours", "168", Kind.INT),
        ("remote.log.storage.system.enable", "false", Kind.BOOLEAN),
        ("sasl.enabled.mechanisms", "", Kind.LIST),
        ("security.inter.broker.protocol", "PLAINTEXT", Kind.STRING),
    ],
)
def test_a_broker_reports_what_is_always_so_here_under_kafkas_names(server, name, value, kind):
    [entry] = describe(server, BROKER, "1", [name], include_documentation=True).configs
    assert (entry.value, entry.config_type, entry.config_source, entry.read_only) == (value, kind, 5, True)
    assert entry.documentation


def test_a_retention_without_limit_has_none_in_hours_either(server):
    server.config = load(None, ["log.retention.ms=-1", "log.roll.ms=5400000"])
    found = describe(server, BROKER, "1", ["log.retention.hours", "log.roll.hours"]).configs
    assert [(entry.value, entry.config_source) for entry in found] == [("-1", 4), ("1", 4)]


def test_a_broker_describes_every_config_that_its_topics_name_as_a_synonym(server):
    server.plane.create("t")
    broker = {entry.name: entry for entry in describe(server, BROKER, "1").configs}
    for entry in describe(server, TOPIC, "t", include_synonyms=True).configs:
        for place in entry.synonyms:
            assert (broker[place.name].value, broker[place.name].config_type) == (entry.value, entry.config_type)


def test_a_list_that_is_fixed_cannot_be_appended_to_either(server):
    refused = change(server, BROKER, "1", operation=2, listeners="x")
    assert refused.error_message == "Cannot update these configs dynamically: [listeners]"
    assert change(server, BROKER, "1", operation=2, node_id="5").error_code == ErrorCode.INVALID_CONFIG


def test_a_setting_of_several_values_is_reported_as_a_list(server):
    (entry,) = describe(server, BROKER, "1", ["group.consumer.assignors"], include_synonyms=True).configs
    assert (entry.value, entry.config_type) == ("uniform,range", Kind.LIST)
    assert [place.value for place in entry.synonyms] == ["uniform,range"]


def test_the_configs_of_consumer_offsets_are_read_only(server):
    server.topics.attach_internal("__consumer_offsets", [])
    entries = {entry.name: entry for entry in describe(server, TOPIC, "__consumer_offsets").configs}
    assert (entries["cleanup.policy"].value, entries["cleanup.policy"].config_source) == ("compact", 1)
    assert change(server, TOPIC, "__consumer_offsets", retention_ms="1").error_code == ErrorCode.POLICY_VIOLATION


def test_a_log_level_changes_at_once(server):
    logger = logging.getLogger("coordinator.test.configs")
    try:
        assert change(server, LOGGER, "1", **{logger.name: "DEBUG"}).error_code == ErrorCode.NONE
        assert logger.isEnabledFor(logging.DEBUG)
        (entry,) = describe(server, LOGGER, "1", [logger.name]).configs
        assert (entry.value, entry.config_source) == ("DEBUG", 6)
        assert change(server, LOGGER, "1", operation=1, **{logger.name: None}).error_code == ErrorCode.NONE
        assert logger.level == logging.NOTSET
    finally:
        logger.setLevel(logging.NOTSET)


def test_an_unsupported_type_of_resource_is_refused_with_a_message(server):
    assert describe(server, UNSUPPORTED, "x").error_code == ErrorCode.INVALID_REQUEST
    refused = change(server, UNSUPPORTED, "x", a="1")
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert refused.error_message == "Unknown resource type 64"


def test_an_unknown_config_operation_is_refused(server):
    server.plane.create("t")
    assert change(server, TOPIC, "t", operation=9, retention_ms="1").error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_the_response_waits_for_all_resources(server):
    server.plane.create("a")
    server.plane.create("b")
    server.plane.late = True
    resources = [
        AlterConfigsRequest.AlterConfigsResource(
            resource_type=TOPIC,
            resource_name=name,
            configs=[AlterConfigsRequest.AlterableConfig(name="retention.ms", value=value)],
        )
        for name, value in [("a", "1"), ("none", "1"), ("b", "soon")]
    ]
    from tests.support.asking import ask

    exchange = ask(server, "AlterConfigs", 2, resources=resources)
    assert exchange.answer is None
    server.plane.sync()
    assert [result.error_code for result in exchange.answer.responses] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_CONFIG,
    ]


def test_the_rows_are_kafkas_37():
    assert len(ROWS) == 37
    assert list(ROWS) == sorted(ROWS)


def test_long_values_are_checked_one_resource_in_each_piece():
    changed = ConfigChange("cleanup.policy", ConfigOp.APPEND, "x" * 30_000)
    replies = []
    twice = [Altered(TOPIC, "t", [changed], lambda _kind: dict)] * 5

    def pieces(resources):
        return sum(
            1 for _ in alter_resources(None, EVERYTHING, resources, replies.append, validate_only=False, legacy=False)
        )

    assert pieces(twice) == pieces([]) + len(twice)
    assert [error.code for error in replies[0]] == [ErrorCode.INVALID_REQUEST] * len(twice)
