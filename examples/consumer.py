"""Prints records as a member of a group and commits each one: `consumer.py BOOTSTRAP TOPIC GROUP`."""

import signal
import sys

from confluent_kafka import Consumer


def main(bootstrap: str, topic: str, group: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 1000,
        }
    )
    stopped = False

    def stop(*_: object) -> None:
        nonlocal stopped
        stopped = True

    signal.signal(signal.SIGTERM, stop)
    consumer.subscribe([topic])
    while not stopped:
        message = consumer.poll(0.5)
        if message is None:
            continue
        if message.error():
            print(f"error: {message.error()}", file=sys.stderr)
            continue
        print(f"{message.topic()}-{message.partition()}@{message.offset()}: {message.value().decode()}", flush=True)
        consumer.commit(message, asynchronous=False)
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
