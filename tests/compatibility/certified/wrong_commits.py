"""Wrong programs that read and copy as they should, and commit wrongly. The argument says how:

lost      commits all partitions that it ever had, with its valid generation
back      commits the end of a batch, then once more its beginning
too_far   commits one record more than it has read
outside   copies in transactions, and commits the offsets by itself before the transaction ends
nothing   copies in transactions, and leaves the offsets out
"""

import sys

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from settings import (
    BOOTSTRAP,
    GROUP,
    GROUP_PROTOCOL,
    MAX_POLL_INTERVAL_MS,
    OUTPUT_TOPIC,
    TOPIC,
    TRANSACTIONAL_ID,
    Stop,
    report,
)

mistake = sys.argv[1]
stop = Stop()
consumer = Consumer(
    {
        "bootstrap.servers": BOOTSTRAP,
        "group.id": GROUP,
        "group.protocol": GROUP_PROTOCOL,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "max.poll.interval.ms": MAX_POLL_INTERVAL_MS,
    }
)
in_transactions = mistake in ("outside", "nothing")
own = {"transactional.id": TRANSACTIONAL_ID} if in_transactions else {}
producer = Producer({"bootstrap.servers": BOOTSTRAP, "linger.ms": 0} | own)
if in_transactions:
    producer.init_transactions()
consumer.subscribe([TOPIC])
had: dict[int, int] = {}
"""Partition -> the offset behind the last record that it read, of all partitions that it ever had."""


def commit(offsets: dict[int, int]) -> None:
    found = [TopicPartition(TOPIC, partition, offset) for partition, offset in offsets.items()]
    try:
        consumer.commit(offsets=found, asynchronous=False)
    except KafkaException as failure:
        report("commit", failure)


while not stop:
    messages = [message for message in consumer.consume(20, 0.2) if not message.error()]
    if not messages:
        continue
    begins: dict[int, int] = {}
    ends: dict[int, int] = {}
    if in_transactions:
        producer.begin_transaction()
    for message in messages:
        producer.produce(OUTPUT_TOPIC, message.value(), message.key())
        begins.setdefault(message.partition(), message.offset())
        ends[message.partition()] = message.offset() + 1
    had |= ends
    producer.flush()
    if mistake == "outside":
        commit(ends)
    if in_transactions:
        producer.commit_transaction()
    elif mistake == "lost":
        commit(had)
    elif mistake == "back":
        commit(ends)
        commit(begins)
        commit(ends)
    elif mistake == "too_far":
        commit({partition: offset + 1 for partition, offset in ends.items()})
consumer.close()
