"""A server in front of three brokers: a listener for each, and what happens when one is killed and returns."""

from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.before_cluster import before
from tests.support.kafka_cluster import KafkaCluster
from tests.support.waiting import wait_until
from tests.support.wire import Connection

pytestmark = pytest.mark.java


@pytest.fixture
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster() as cluster:
        yield cluster


def nodes(bootstrap: str) -> dict[int, int]:
    """The port of each broker that clients see."""
    with Connection(bootstrap) as link:
        found = link.call("Metadata", 12, topics=[])["brokers"]
    return {each["node_id"]: each["port"] for each in found if each["node_id"] < 1_000}


def test_a_broker_is_killed_and_returns(cluster: KafkaCluster, tmp_path: Path) -> None:
    """Each broker has a listener, which closes and opens with it; a group reads on from those that are left."""
    with before(tmp_path / "overlay", cluster.bootstrap) as server:
        listeners = nodes(server.bootstrap)
        assert listeners.keys() == {1, 2, 3}
        admin = AdminClient({"bootstrap.servers": server.bootstrap})
        [made] = admin.create_topics([NewTopic("t", 6, 3)]).values()
        made.result(60)
        producer = confluent_kafka.Producer({"bootstrap.servers": server.bootstrap, "enable.idempotence": True})
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": server.bootstrap, "group.id": "g", "group.protocol": "consumer",
             "auto.offset.reset": "earliest"}
        )  # fmt: skip
        consumer.subscribe(["t"])
        read: set[bytes] = set()

        def has_all(count: int) -> bool:
            for message in consumer.consume(100, 0.5):
                if message.error() is None:
                    read.add(message.value())
            return len(read) == count

        for number in range(300):
            producer.produce("t", b"%d" % number)
        assert producer.flush(60) == 0
        wait_until(lambda: has_all(300), "the first records")
        killed = cluster.brokers[1]
        killed.kill()
        wait_until(lambda: nodes(server.bootstrap).keys() == {1, 3}, "the listener to close")
        for number in range(300, 600):
            producer.produce("t", b"%d" % number)
        assert producer.flush(60) == 0
        wait_until(lambda: has_all(600), "the records while a broker is gone")
        consumer.commit(asynchronous=False)
        killed.start()
        wait_until(lambda: nodes(server.bootstrap) == listeners, "the listener on its old port")
        consumer.close()
