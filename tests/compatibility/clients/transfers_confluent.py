"""One worker of the transfers: confluent-kafka (librdkafka) reads, writes and commits exactly once, or dies trying.

    transfers_confluent.py BOOTSTRAP NAME GROUP PROTOCOL

Whatever goes wrong in a transaction is aborted if that is allowed, and then the process ends: a new one of the same name goes
on from what was committed. That is the simplest loop that is right, and the one that asks most of the server.
"""

import faulthandler
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

BATCH, PAUSE_S, WITHIN_S = 5, 0.05, 30.0


def insist(ask: Callable[[], Any]) -> None:
    """Repeats what may be repeated; raises what must be aborted or is final."""
    deadline = time.monotonic() + WITHIN_S
    while True:
        try:
            ask()
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise
        else:
            return


def main(bootstrap: str, name: str, group: str, protocol: str) -> None:
    common = {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 200, "client.id": name}
    settings = {
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "group.protocol": protocol,
    }
    if protocol == "classic":
        settings |= {"session.timeout.ms": 1500, "heartbeat.interval.ms": 300}
    consumer = Consumer(common | settings)
    producer = Producer(common | {"transactional.id": name, "transaction.timeout.ms": 10_000})
    insist(lambda: producer.init_transactions(10))
    consumer.subscribe(["transfers"])
    while True:
        # A call of this library that does not come back has been seen; then the process ends, and says where it was.
        faulthandler.dump_traceback_later(WITHIN_S + 15, exit=True)
        messages = [each for each in consumer.consume(BATCH, 0.2) if each.error() is None]
        if not messages:
            continue
        # Not later: a member that was thrown out joins again by itself, and its new epoch would vouch for old records.
        metadata = consumer.consumer_group_metadata()
        producer.begin_transaction()
        try:
            following = {}
            for message in messages:
                number, source, target, amount = message.value().decode().split()
                producer.produce("ledger", f"{number} {source} -{amount}", source)
                producer.produce("ledger", f"{number} {target} {amount}", target)
                following[message.topic(), message.partition()] = message.offset() + 1
            offsets = [TopicPartition(*where, offset) for where, offset in following.items()]
            time.sleep(PAUSE_S)
            insist(partial(producer.send_offsets_to_transaction, offsets, metadata, 10))
            insist(lambda: producer.commit_transaction(10))
        except KafkaException as error:
            if error.args[0].txn_requires_abort():
                insist(lambda: producer.abort_transaction(10))
            raise


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KafkaException as error:
        sys.exit(f"gone: {error}")
