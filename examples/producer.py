"""Sends a record every half second: `producer.py BOOTSTRAP TOPIC`."""

import itertools
import sys
import time

from confluent_kafka import Producer


def main(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in itertools.count():
        producer.produce(topic, key=f"customer-{number % 10}", value=f"order {number}")
        producer.flush()
        time.sleep(0.5)


if __name__ == "__main__":
    main(*sys.argv[1:])
