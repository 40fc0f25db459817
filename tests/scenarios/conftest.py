"""Servers for stories: ours and, where Java and Maven are installed, Kafka; one per configuration, one at a time.

An idle broker uses a third of a core, so it is stopped when a different configuration is requested, and stories run in the
order of their configurations.
"""

import contextlib
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.scenarios.conversation import Broker, Brokers
from tests.support.earlier_kafka import EarlierKafka
from tests.support.kafka_broker import KafkaBroker
from tests.support.ports import HeldPort
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until
from tests.support.wire import Connection, ConnectionClosed

# Small enough that a story can fill a group and time out a transaction; assignments do not wait for more members. Heartbeat
# intervals are Kafka's defaults, which a story sees in answers, not those of config/test.yaml.
SETTINGS = {
    "group.consumer.heartbeat.interval.ms": "5000",
    "group.consumer.min.heartbeat.interval.ms": "5000",
    "group.max.size": "4",
    "group.consumer.max.size": "3",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.max.size": "3",
    "group.share.assignment.interval.ms": "0",
    "group.streams.max.size": "3",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.heartbeat.interval.ms": "5000",
    "group.streams.min.heartbeat.interval.ms": "5000",
    "group.streams.initial.rebalance.delay.ms": "0",
    "num.partitions": "2",
    "transaction.max.timeout.ms": "120000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
}
OURS = {
    "group.share.heartbeat.interval.ms": "5000",
    "group.share.min.heartbeat.interval.ms": "5000",
    "admin.control.enable": "true",
}
"""Kafka would show in the configs of a share group that the intervals were set; waits advance the clock."""
KAFKAS = ((0, "ready?"), (1, "ready?"), (2, "ready?:AAAAAAAAAAAAAAAAAAAAAQ:0"))
RELEASES = {"3.9": "3.9.1"}
"""The patch release that answers a story which sets `emulate`."""
LATER = ("emulate", "group.share.")
"""Settings that it does not get."""
DIALECTS = ("kip-792", "client-side-assignment")


def wait_until_serving(bootstrap: str, looked_up: tuple[tuple[int, str], ...] = ((0, "ready?"), (1, "ready?"))) -> None:
    """Waits for a new Kafka to create its internal topics, or a restarted one to load them; requests fail until then.

    `looked_up`: a key of each type of coordinator that must be there.
    """

    def serves() -> bool:
        with contextlib.suppress(OSError, ConnectionClosed), Connection(bootstrap) as link:
            found = [
                link.call("FindCoordinator", 6, key_type=key_type, coordinator_keys=[key])["coordinators"][0]
                for key_type, key in looked_up
            ]
            if not any(each["error_code"] for each in found):
                (group,) = link.call("DescribeGroups", 5, groups=["ready?"])["groups"]
                producers = [
                    link.call("InitProducerId", 1, transactional_id=transactional_id, transaction_timeout_ms=60_000)
                    for transactional_id in (None, "ready?")
                ]
                return not any(each["error_code"] for each in (group, *producers))
        return False

    wait_until(serves, "a coordinator that answers")


def one_at_a_time(start: Callable[[ExitStack, dict[str, str]], Broker]) -> Iterator[Brokers]:
    """Starts brokers by configuration, stopping the previous one; `start` registers with the stack how to stop its broker."""
    with ExitStack() as stack:
        running: tuple[str, Broker] | None = None

        def broker(settings: dict[str, str], alone: str) -> Broker:
            nonlocal running
            key = repr((sorted(settings.items()), alone))
            if running is None or running[0] != key:
                stack.close()
                running = None
                running = (key, start(stack, SETTINGS | settings))
            return running[1]

        yield broker


@pytest.fixture(scope="session")
def our_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Our server with the given settings."""

    def start(stack: ExitStack, settings: dict[str, str]) -> Broker:
        ports = {dialect: HeldPort() for dialect in DIALECTS}
        for port in ports.values():
            stack.callback(port.release)
        listeners: list[dict[str, str]] = [{"address": "127.0.0.1:0"}]
        listeners += [{"address": port.address, "dialect": dialect} for dialect, port in ports.items()]
        process = ServerProcess(
            tmp_path_factory.mktemp("ours"), settings={"listeners": json.dumps(listeners)} | OURS | settings
        )
        stack.callback(process.stop)
        process.start()

        def restart() -> None:
            process.restart(kill=True)
            wait_until_serving(process.bootstrap)

        wait_until_serving(process.bootstrap)
        dialects = {dialect: port.address for dialect, port in ports.items()}
        return Broker(process.bootstrap, restart, dialects, process.admin)

    yield from one_at_a_time(start)


@pytest.fixture(scope="session")
def kafka_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Kafka 4.4 with the given settings; skips with a reason where it cannot run."""

    def start(stack: ExitStack, settings: dict[str, str]) -> Broker:
        if "emulate" in settings:
            return start_earlier(stack, settings)
        broker = KafkaBroker(tmp_path_factory.mktemp("kafka"), settings)
        stack.callback(broker.stop)
        broker.start()

        def restart() -> None:
            broker.kill()
            broker.start()
            wait_until_serving(broker.bootstrap, KAFKAS)

        wait_until_serving(broker.bootstrap, KAFKAS)
        return Broker(broker.bootstrap, restart)

    def start_earlier(stack: ExitStack, settings: dict[str, str]) -> Broker:
        known = {name: value for name, value in settings.items() if not name.startswith(LATER)}
        broker = EarlierKafka(tmp_path_factory.mktemp("kafka"), RELEASES[settings["emulate"]], known)
        stack.callback(broker.stop)
        broker.start().wait_until_serving()
        return Broker(broker.bootstrap, broker.stop)

    yield from one_at_a_time(start)
