"""Produce and Fetch through a server in front of a Kafka broker, beside the same straight to the broker.

    python -m coordinator_lab.measure overlay --bootstrap HOST:PORT [--records 200000] [--rounds 5]

Both sides are measured in turns with the same client, librdkafka, and medians are printed, because only the ratio means
something. The server is started beside the client, in front of the broker at that address, in which topics are left.
"""

import argparse
import statistics
import tempfile
import time
import uuid
from collections.abc import Sequence

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from coordinator_lab.bench.footprint import running_server

VALUE = b"x" * 1024
WITHIN_S = 120


def make_topic(bootstrap: str) -> str:
    name = f"measured-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    [made] = admin.create_topics([NewTopic(name, 1, 1)]).values()
    made.result(WITHIN_S)
    return name


def produce(bootstrap: str, topic: str, records: int) -> float:
    """Records per second."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "queue.buffering.max.messages": 1_000_000})
    producer.list_topics(topic, WITHIN_S)
    began_s = time.perf_counter()
    for _ in range(records):
        producer.produce(topic, VALUE, partition=0)
        producer.poll(0)
    assert producer.flush(WITHIN_S) == 0
    return records / (time.perf_counter() - began_s)


def fetch(bootstrap: str, topic: str, records: int) -> float:
    """Records per second."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "measure", "enable.auto.commit": False})
    consumer.list_topics(topic, WITHIN_S)
    began_s = time.perf_counter()
    consumer.assign([TopicPartition(topic, 0, 0)])
    left = records
    while left > 0:
        left -= len(consumer.consume(10_000, 1.0))
    taken_s = time.perf_counter() - began_s
    consumer.close()
    return records / taken_s


def round_trip(bootstrap: str, topic: str, count: int) -> float:
    """Milliseconds from one record to its acknowledgement; the median."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    producer.list_topics(topic, WITHIN_S)
    taken_ms = []
    for _ in range(count):
        began_s = time.perf_counter()
        producer.produce(topic, VALUE, partition=0)
        producer.flush(WITHIN_S)
        taken_ms.append((time.perf_counter() - began_s) * 1000)
    return statistics.median(taken_ms)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m coordinator_lab.measure overlay")
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT", help="A broker of the cluster.")
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    settings = ("data.plane=none", f"data.bootstrap.servers={options.bootstrap}", "data.metadata.refresh.ms=200")
    with (
        tempfile.TemporaryDirectory() as folder,
        running_server(folder, *settings) as (port, _process, _admin),
    ):
        sides = {"direct": options.bootstrap, "overlay": f"127.0.0.1:{port}"}
        measure(sides, options.records, options.rounds)


def measure(sides: dict[str, str], records: int, rounds: int) -> None:
    found: dict[tuple[str, str], list[float]] = {}
    for number in range(rounds + 1):
        for side, bootstrap in sides.items():
            topic = make_topic(bootstrap)
            row = {
                "Produce, MB/s": produce(bootstrap, topic, records) * len(VALUE) / 1e6,
                "Fetch, MB/s": fetch(bootstrap, topic, records) * len(VALUE) / 1e6,
                "one record, ms": round_trip(bootstrap, topic, 300),
            }
            if number:  # the first round warms up
                for what, value in row.items():
                    found.setdefault((what, side), []).append(value)
    print(f"{records} records of {len(VALUE)} bytes, medians of {rounds} rounds")
    print("| | direct | overlay | ratio |\n|---|---|---|---|")
    for what in dict.fromkeys(what for what, _ in found):
        direct, through = (statistics.median(found[what, side]) for side in sides)
        print(f"| {what} | {direct:.2f} | {through:.2f} | {through / direct:.2f} |")
