"""The bank of test_bank_transfers.py in front of a real Kafka, which coordinates the transactions.

Money is neither lost nor created although workers and this server are killed at any moment, also between a TxnOffsetCommit and
the marker that the cluster writes at the end of its transaction.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.compatibility.bank_world import (
    CHUNK,
    GROUP,
    SETTINGS,
    TOPICS,
    Bank,
    at_any_moment,
    java_program,
    kill_a_worker_and_the_server,
    kill_the_server,
    make_a_zombie,
    python_program,
)
from tests.support.before_cluster import before, offsets_in
from tests.support.kafka_broker import KafkaBroker
from tests.support.ports import HeldPort
from tests.support.wire import Connection

pytestmark = pytest.mark.java

OF_THE_CLUSTER = ("transaction.abort.timed.out.transaction.cleanup.interval.ms",)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """The cluster of all tests here; each begins with new topics."""
    settings = {name: str(SETTINGS[name]) for name in OF_THE_CLUSTER}
    broker = KafkaBroker(tmp_path_factory.mktemp("kafka"), settings)
    try:
        yield broker.start()
    finally:
        broker.stop()


@pytest.fixture
def open_bank(tmp_path: Path, broker: KafkaBroker) -> Iterator[Callable[..., Bank]]:
    with ExitStack() as stack:

        def open_bank(program: list[str], protocol: str) -> Bank:
            make_topics(broker.bootstrap)
            held = HeldPort()
            stack.callback(held.release)
            same_port = {"data.listener.port": held.port - 1}  # the broker's id is 1
            server = stack.enter_context(before(tmp_path / "overlay", broker.bootstrap, SETTINGS | same_port))
            bank = Bank(
                server,
                lambda name: [*program, server.bootstrap, GROUP, name, protocol, str(tmp_path / name)],
                tmp_path,
            )
            stack.callback(bank.close)
            return bank

        yield open_bank


def make_topics(bootstrap: str) -> None:
    """Those of the bank, in place of all that a former test and its programs have made."""
    with Connection(bootstrap) as link:
        found = [each["name"] for each in link.call("Metadata", 9, topics=None)["topics"] if not each["is_internal"]]
        link.call("DeleteTopics", 5, topic_names=found, timeout_ms=10_000)
        topics = [{"name": name, "num_partitions": n, "replication_factor": 1} for name, n in TOPICS.items()]
        made = link.call("CreateTopics", 7, topics=topics, timeout_ms=10_000)["topics"]
    assert [each["error_code"] for each in made] == [0] * len(TOPICS), made


@pytest.mark.parametrize(
    ("program", "protocol"),
    [
        pytest.param(lambda: python_program("confluent"), "classic", id="librdkafka"),
        pytest.param(lambda: java_program("BankWorker"), "consumer", id="java", marks=pytest.mark.thorough),
    ],
)
def test_the_sums_are_exact(
    open_bank: Callable[..., Bank], broker: KafkaBroker, program: Callable[[], list[str]], protocol: str
) -> None:
    """With transactions of both protocol versions; the cluster keeps none of the group's offsets."""
    bank = open_bank(program(), protocol)
    kill_a_worker_and_the_server(bank)
    make_a_zombie(bank, at_any_moment(bank))
    assert "COMMIT" in (kept := offsets_in(broker)), "no marker of a transaction"
    assert GROUP not in kept


@pytest.mark.parametrize("protocol", [pytest.param("classic", marks=pytest.mark.thorough), "streams"])
def test_the_balances_of_kafka_streams_are_exact(
    open_bank: Callable[..., Bank], broker: KafkaBroker, protocol: str
) -> None:
    """With exactly_once_v2 and both protocols of Kafka Streams; its repartition topic and changelog are the cluster's."""
    bank = open_bank(java_program("BankStreams"), protocol)
    bank.order(CHUNK)
    kill_the_server(bank)
    bank.wait_until_the_balances_are_right()
    assert GROUP not in offsets_in(broker)
    with Connection(broker.bootstrap) as link:
        names = {each["name"] for each in link.call("Metadata", 9, topics=None)["topics"]}
    assert {f"{GROUP}-kept-changelog", f"{GROUP}-kept-repartition"} <= names
