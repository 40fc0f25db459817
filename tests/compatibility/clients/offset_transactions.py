"""Commits rising offsets of two partitions in transactions, every fifth of which it aborts, until a line of input.

Prints what became of each: "committed N", "aborted N" or "unknown N".

Arguments: bootstrap servers, group, topic, and settings of librdkafka (JSON). The group is also the transactional id.
"""

import json
import select
import sys

import confluent_kafka

ABORTED = 5
WITHIN_S = 60.0
CONNECTIONS = {"connections.max.idle.ms": 1_000, "reconnect.backoff.max.ms": 1_000}
"""A group's coordinator that has left the cluster may stay in librdkafka's cache. Then nothing but a connection that opens or
closes wakes a transaction which waits for it, and its time-out has no effect (librdkafka issues 5511 and 5456). As each
connection that is made doubles the pause before the next one, that pause needs a limit, too: the default is ten seconds."""


def main(bootstrap: str, group: str, topic: str, settings: str) -> None:
    common = {
        "bootstrap.servers": bootstrap, "log_level": 0, **CONNECTIONS, **json.loads(settings),
    }  # fmt: skip
    consumer = confluent_kafka.Consumer({**common, "group.id": group})
    metadata = consumer.consumer_group_metadata()
    producer = started(common, group)
    offset = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        offset += 1
        partitions = [confluent_kafka.TopicPartition(topic, number, offset) for number in range(2)]
        try:
            outcome = transaction(producer, partitions, metadata, offset)
        except confluent_kafka.KafkaException:
            outcome = "unknown"
            producer = started(common, group)
        print(outcome, offset, flush=True)
    consumer.close()


def started(common, group):
    """A producer that has fenced the one before it."""
    while True:
        producer = confluent_kafka.Producer({**common, "transactional.id": group})
        try:
            producer.init_transactions(WITHIN_S)
        except confluent_kafka.KafkaException as error:
            print("init_transactions", error, file=sys.stderr, flush=True)
            continue
        return producer


def transaction(producer, partitions, metadata, offset):
    """What became of it. Raises KafkaException if that is not known."""
    try:
        producer.begin_transaction()
        again(lambda: producer.send_offsets_to_transaction(partitions, metadata, WITHIN_S))
        if offset % ABORTED:
            again(lambda: producer.commit_transaction(WITHIN_S))
            return "committed"
    except confluent_kafka.KafkaException as error:
        if not error.args[0].txn_requires_abort():
            raise
    again(lambda: producer.abort_transaction(WITHIN_S))
    return "aborted"


def again(call):
    """Calls until the error is not one that asks for it."""
    while True:
        try:
            return call()
        except confluent_kafka.KafkaException as error:
            if not error.args[0].retriable():
                raise
            print("again", error, file=sys.stderr, flush=True)


main(*sys.argv[1:])
