"""The fixture `kafka_coordinator`, used by test suites that run in a pytest of their own."""

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from tests.support.wire import Connection

pytestmark = pytest.mark.process

pytest_plugins = ["pytester"]

NAME = "coordinator_testing.pytest_plugin"
INSTALLED = NAME in {point.name for point in entry_points(group="pytest11")}
"""Whether pytest finds the plugin by itself, because the package is installed."""
PLUGIN = ("-p", "no:cacheprovider", "-p", "no:asyncio", *(() if INSTALLED else ("-p", NAME)))


@pytest.fixture
def suite(pytester):
    """`suite(source, ini)` runs a test file in a pytest of its own and returns the result."""

    def run(source: str, ini: str = "", *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(source)
        pytester.makeini(f"[pytest]\nfilterwarnings = error\n{ini}")
        return pytester.runpytest_inprocess(*PLUGIN, *arguments)

    return run


def test_tests_share_a_server_and_have_their_own_topics(suite):
    result = suite(
        """
        import pytest
        from confluent_kafka import Consumer, Producer
        from confluent_kafka.admin import AdminClient

        seen = []

        @pytest.mark.parametrize("turn", [1, 2])
        def test_round_trip(kafka_coordinator, turn):
            topic, group = kafka_coordinator.topic("orders"), kafka_coordinator.group("billing")
            assert topic == kafka_coordinator.topic("orders") and topic.startswith("orders-")
            producer = Producer({"bootstrap.servers": kafka_coordinator.bootstrap_servers})
            producer.produce(topic, b"hello %d" % turn)
            assert producer.flush(10) == 0
            consumer = Consumer({"bootstrap.servers": kafka_coordinator.bootstrap_servers, "group.id": group,
                                 "auto.offset.reset": "earliest"})
            consumer.subscribe([topic])
            message = consumer.poll(10)
            assert message.value() == b"hello %d" % turn
            consumer.close()
            seen.append((kafka_coordinator.bootstrap_servers, topic, group))

        def test_partitions(kafka_coordinator):
            name = kafka_coordinator.topic(partitions=3)
            admin = AdminClient({"bootstrap.servers": kafka_coordinator.bootstrap_servers})
            assert len(admin.list_topics(name, timeout=60).topics[name].partitions) == 3

        def test_what_was_seen():
            (server, *names), (again, *others) = seen
            assert server == again
            assert not set(names) & set(others)
        """
    )
    result.assert_outcomes(passed=4)


def test_the_report_of_a_failed_test_has_the_servers_log_during_that_test(suite):
    result = suite(
        """
        import urllib.request
        from coordinator.operations.client import Client
        from coordinator.protocol.messages import JoinGroupRequest

        def join(kafka_coordinator, name):
            protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
            with Client(kafka_coordinator.bootstrap_servers, 10) as client:
                client.any().ask(JoinGroupRequest(group_id=kafka_coordinator.group(name), session_timeout_ms=10_000,
                    rebalance_timeout_ms=1000, protocol_type="consumer", protocols=[protocol]), version_max=3)

        def test_passes(kafka_coordinator):
            join(kafka_coordinator, "quiet")

        def test_fails(kafka_coordinator):
            join(kafka_coordinator, "loud")
            assert False
        """
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*kafka coordinator log (call)*", "*loud-*"])
    result.stdout.no_fnmatch_line("*quiet-*")


def test_a_server_that_a_test_killed_is_started_again_for_the_next_test(suite):
    result = suite(
        """
        import socket

        def test_kill(kafka_coordinator):
            test_kill.bootstrap = kafka_coordinator.bootstrap_servers
            kafka_coordinator.server.kill()
            assert not kafka_coordinator.server.alive

        def test_next(kafka_coordinator):
            assert kafka_coordinator.bootstrap_servers == test_kill.bootstrap
            host, port = kafka_coordinator.bootstrap_servers.split(":")
            socket.create_connection((host, int(port))).close()
        """
    )
    result.assert_outcomes(passed=2)


def test_settings_come_from_the_configuration_of_pytest_and_not_from_the_environment(suite, monkeypatch):
    monkeypatch.setenv("KAFKA_LISTENERS", "nonsense")
    result = suite(
        """
        import json, urllib.request

        def test_partitions(kafka_coordinator):
            with urllib.request.urlopen(kafka_coordinator.admin_url + "/health/ready") as answer:
                assert json.load(answer)["shards"] == 3
        """,
        "kafka_coordinator_settings =\n    offsets.topic.num.partitions=3\n",
    )
    result.assert_outcomes(passed=1)


def test_a_suite_can_begin_with_the_groups_of_another_server(suite, coordinator_process):
    source = coordinator_process()
    with Connection(source.bootstrap) as link:
        partition = {"partition_index": 0, "committed_offset": 5}
        link.call("OffsetCommit", 8, group_id="billing", topics=[{"name": "orders", "partitions": [partition]}])
    result = suite(
        """
        from confluent_kafka import Consumer, TopicPartition

        def test_offset(kafka_coordinator):
            kafka_coordinator.server.restart()
            consumer = Consumer({"bootstrap.servers": kafka_coordinator.bootstrap_servers, "group.id": "billing"})
            [found] = consumer.committed([TopicPartition("orders", 0)], timeout=60)
            consumer.close()
            assert found.offset == 5
        """,
        f"kafka_coordinator_from = {source.bootstrap}\n",
    )
    result.assert_outcomes(passed=1)


def test_the_report_says_why_a_server_did_not_start(suite):
    result = suite("def test_it(kafka_coordinator): pass", "kafka_coordinator_settings = group.max.sise=3\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*did you mean group.max.size*"])


def test_a_suite_that_does_not_use_the_fixture_starts_no_server(suite):
    result = suite("def test_it(tmp_path_factory): assert not list(tmp_path_factory.getbasetemp().glob('kafka*'))")
    result.assert_outcomes(passed=1)


def test_the_plugin_by_itself_does_not_load_the_client():
    """pytest imports it for every suite of an environment that has the package."""
    code = "import sys, coordinator_testing.pytest_plugin; print(*{'httpx', 'msgspec', 'asyncio'} & sys.modules.keys())"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert finished.stdout == "\n"


def test_control_has_a_scope_for_each_test_that_ends_with_it_even_if_the_test_fails(suite):
    result = suite(
        """
        import pytest
        from confluent_kafka import Consumer
        from coordinator_testing.control import Control

        scopes, members = [], []

        def test_fails(kafka_coordinator):
            control, group = kafka_coordinator.control, kafka_coordinator.group()
            scopes.append(control.scope)
            member = Consumer({"bootstrap.servers": kafka_coordinator.bootstrap_servers, "group.id": group,
                               "heartbeat.interval.ms": 50})
            member.subscribe([kafka_coordinator.topic("events", partitions=1)])
            control.group(group).wait(state="Stable", members=1)
            control.fault(api="Heartbeat", group=group, hold="request", until="cleared").wait(held=1)
            control.record(group=group)
            control.clock.manual()
            members.append(member)
            assert False

        def test_next(kafka_coordinator):
            control = kafka_coordinator.control
            assert control.scope not in scopes
            everything = Control(kafka_coordinator.admin_url, scope=None)
            assert (everything.faults(), everything.recordings()) == ([], [])
            assert control.clock.read().mode == "real"
            everything.disconnect()
            members.pop().close()

        def test_that_uses_no_control(kafka_coordinator):
            assert "control" not in vars(kafka_coordinator)
        """
    )
    result.assert_outcomes(passed=2, failed=1)


def test_an_asyncio_test_is_in_the_same_scope(suite):
    result = suite(
        """
        import asyncio
        from coordinator_testing.control import Control

        def test_asyncio(kafka_coordinator):
            async def run():
                control = kafka_coordinator.async_control()
                await control.fault(api="Heartbeat", group="nobody", close=True)
                await control.clock.manual()
                assert len(kafka_coordinator.control.faults()) == 1
                await control.disconnect()

            asyncio.run(run())

        def test_next(kafka_coordinator):
            everything = Control(kafka_coordinator.admin_url, scope=None)
            assert everything.faults() == []
            assert everything.clock.read().mode == "real"
            everything.disconnect()
        """
    )
    result.assert_outcomes(passed=2)


def test_the_end_of_a_test_that_killed_the_server_is_no_error(suite):
    result = suite(
        """
        def test_kill(kafka_coordinator):
            kafka_coordinator.control.clock.manual()
            kafka_coordinator.server.kill()

        def test_next(kafka_coordinator):
            assert kafka_coordinator.control.clock.read().mode == "real"
        """
    )
    result.assert_outcomes(passed=2)


VERSIONS_SEEN = """
    import pytest
    from tests.support.wire import Connection

    def last_produce(kafka_coordinator):
        with Connection(kafka_coordinator.bootstrap_servers) as link:
            return next(each["max_version"] for each in link.call("ApiVersions", 0)["api_keys"] if not each["api_key"])
"""


def test_a_suite_runs_on_an_earlier_release(suite):
    test = """
    def test_release(kafka_coordinator):
        assert last_produce(kafka_coordinator) == 9
    """
    suite(VERSIONS_SEEN + test, "kafka_coordinator_emulate = 2.8").assert_outcomes(passed=1)


def test_a_marked_test_runs_on_each_release_and_others_on_that_of_the_server(suite):
    tests = """
    def test_before(kafka_coordinator):
        assert last_produce(kafka_coordinator) == 11

    @pytest.mark.kafka_releases("2.8", "4.4")
    def test_each(kafka_coordinator, kafka_coordinator_release):
        assert last_produce(kafka_coordinator) == {"2.8": 9, "4.4": 13}[kafka_coordinator_release]

    def test_after(kafka_coordinator):
        assert last_produce(kafka_coordinator) == 11
    """
    result = suite(VERSIONS_SEEN + tests, "kafka_coordinator_emulate = 3.9", "-v")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["*test_each[[]2.8[]]*", "*test_each[[]4.4[]]*"])


def test_a_marker_with_an_unknown_release_is_refused(suite):
    test = """
    @pytest.mark.kafka_releases("0.8")
    def test_each(kafka_coordinator):
        pass
    """
    result = suite(VERSIONS_SEEN + test)
    result.stdout.fnmatch_lines(["*no release '0.8'; there are 4.4, *"])
