"""Servers for stories: ours and, where Java and Maven are, Kafka itself; one of each per configuration and session."""

import contextlib
import json
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from kafka_broker import KafkaBroker
from ports import HeldPort
from scenarios.conversation import Broker, Brokers
from server_process import ServerProcess
from waiting import wait_until
from wire import Connection, ConnectionClosed

# Small enough that a story can fill a group.
SETTINGS = {"group.max.size": "4", "num.partitions": "2"}
DIALECT = "kip-792"


def wait_until_serving(bootstrap: str) -> None:
    """A new Kafka makes internal topics and ids when first asked, a restarted one loads them; both say "not yet"."""

    def serves() -> bool:
        with contextlib.suppress(OSError, ConnectionClosed), Connection(bootstrap) as link:
            found = [
                link.call("FindCoordinator", 4, key_type=key_type, coordinator_keys=["ready?"])["coordinators"][0]
                for key_type in (0, 1)
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


@pytest.fixture(scope="session")
def our_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Our server with given settings, started once; stories that restart theirs ask under their own name."""
    with ExitStack() as stack:
        known: dict[str, Broker] = {}

        def server(settings: dict[str, str], alone: str) -> Broker:
            key = repr((sorted(settings.items()), alone))
            if key not in known:
                dialect = HeldPort()
                stack.callback(dialect.release)
                listeners = [{"address": "127.0.0.1:0"}, {"address": dialect.address, "dialect": DIALECT}]
                ours = {"listeners": json.dumps(listeners)} | SETTINGS | settings
                process = ServerProcess(tmp_path_factory.mktemp("ours"), settings=ours)
                stack.callback(process.stop)
                process.start()

                def restart() -> None:
                    process.restart(kill=True)
                    wait_until_serving(process.bootstrap)

                wait_until_serving(process.bootstrap)
                known[key] = Broker(process.bootstrap, restart, {DIALECT: dialect.address})
            return known[key]

        yield server


@pytest.fixture(scope="session")
def kafka_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """The same of Kafka 4.4; skips, saying why, where it cannot run."""
    with ExitStack() as stack:
        known: dict[str, Broker] = {}

        def server(settings: dict[str, str], alone: str) -> Broker:
            key = repr((sorted(settings.items()), alone))
            if key not in known:
                broker = KafkaBroker(tmp_path_factory.mktemp("kafka"), SETTINGS | settings)
                stack.callback(broker.stop)
                broker.start()

                def restart() -> None:
                    broker.kill()
                    broker.start()
                    wait_until_serving(broker.bootstrap)

                wait_until_serving(broker.bootstrap)
                known[key] = Broker(broker.bootstrap, restart)
            return known[key]

        yield server
