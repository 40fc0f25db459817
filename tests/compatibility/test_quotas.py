"""Real clients that exceed a quota are slowed down, are answered all the same, and say for how long they were throttled."""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer

from tests.support.server_process import ServerProcess
from tests.support.wire import Connection

VALUE = b"v" * 2_000
NUMBER = 30
BYTES_PER_SECOND = 40_000.0
"""In two windows of a second: the messages of a test are half as much again, so their client waits for about half a second."""


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("limited"), settings={"quota.window.num": 2}) as server:
        yield server


def limit(server: ServerProcess, client_id: str, key: str) -> None:
    entity = [{"entity_type": "client-id", "entity_name": client_id}]
    with Connection(server.bootstrap) as link:
        ops = [{"key": key, "value": BYTES_PER_SECOND, "remove": False}]
        link.call("AlterClientQuotas", 1, entries=[{"entity": entity, "ops": ops}], validate_only=False)


def test_confluent_producer_waits_and_reports_it(limited):
    limit(limited, "producer", "producer_byte_rate")
    throttled: list[float] = []
    producer = Producer(
        {
            "bootstrap.servers": limited.bootstrap,
            "client.id": "producer",
            "throttle_cb": lambda event: throttled.append(event.throttle_time),
            "batch.size": 5_000,
        }
    )
    began = time.monotonic()
    for _ in range(NUMBER):
        producer.produce("from-confluent", VALUE)
    assert producer.flush(60) == 0
    producer.poll(0)
    assert max(throttled) > 0
    assert time.monotonic() - began > max(throttled) * 0.9


def test_confluent_consumer_reads_everything_at_its_rate(limited):
    producer = Producer({"bootstrap.servers": limited.bootstrap, "batch.size": 5_000})
    for _ in range(NUMBER):
        producer.produce("to-confluent", VALUE)
    producer.flush(60)
    limit(limited, "consumer", "consumer_byte_rate")
    throttled: list[float] = []
    consumer = Consumer(
        {
            "bootstrap.servers": limited.bootstrap,
            "client.id": "consumer",
            "group.id": "consumer",
            "auto.offset.reset": "earliest",
            "throttle_cb": lambda event: throttled.append(event.throttle_time),
        }
    )
    consumer.subscribe(["to-confluent"])
    read = 0
    deadline = time.monotonic() + 60
    while read < NUMBER and time.monotonic() < deadline:
        read += len(consumer.consume(NUMBER, 0.2))
    consumer.close()
    assert read == NUMBER
    assert max(throttled) > 0
