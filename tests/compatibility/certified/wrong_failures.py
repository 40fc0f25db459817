"""Wrong programs that are right until something fails. The argument says what they do then:

delivery   commits a record whose copy was not delivered
decode     takes each value for text, and ends at one that is none
impatient  takes 1.5 s without a record for a broken connection, and begins with another consumer
gives_up   reads on after a commit that failed, and commits no more
insists    repeats a commit that failed every five seconds until it succeeds, whatever has happened meanwhile
no_retries ends at the first record that is not delivered
nervous    ends when the client says that it has lost a connection
latest     begins with the records to come where it finds no offset
remembers  begins at the position that it wrote to a file, whatever is committed
repeats    takes an offset that it has seen for a record that it has processed, and copies it no more
old_token  authenticates again with a credential that it does not renew
own_rack   reads only partitions that have a replica in its rack
"""

import os
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from settings import (
    CLIENT_RACK,
    GROUP,
    GROUP_PROTOCOL,
    LIBRDKAFKA,
    MAX_POLL_INTERVAL_MS,
    OUTPUT_TOPIC,
    TOPIC,
    Stop,
    report,
)

PATIENCE_S = 1.5
INSISTS_S = 5.0

mistake = sys.argv[1]
stop = Stop()
# Without retries, each failure of a send reaches the program.
retries = 0 if mistake in ("delivery", "no_retries") else 10
producer = Producer({**LIBRDKAFKA, "linger.ms": 0, "retries": retries})
commits = True
memory = Path(tempfile.gettempdir()) / f"remembered-{os.getppid()}-{GROUP}"
"""A file for each partition. All instances have one parent."""


def remembered(partition: int) -> Path:
    return memory.with_name(f"{memory.name}-{partition}")


def assigned(consumer: Consumer, partitions: list[TopicPartition]) -> None:
    for each in partitions:
        if remembered(each.partition).exists():
            each.offset = int(remembered(each.partition).read_text())
    consumer.assign(partitions)


def delivered(failure: KafkaError | None, message: Message) -> None:
    if failure is not None and mistake == "no_retries":
        raise KafkaException(failure)


def disturbed(failure: KafkaError) -> None:
    report("error", failure)
    if mistake == "nervous":
        os._exit(1)


def begin() -> Consumer:
    begins = "latest" if mistake == "latest" else "earliest"
    settings = {"auto.offset.reset": begins, "enable.auto.commit": False, "group.protocol": GROUP_PROTOCOL}
    settings |= {**LIBRDKAFKA, "group.id": GROUP, "max.poll.interval.ms": MAX_POLL_INTERVAL_MS}
    found = Consumer(settings | {"error_cb": disturbed})
    found.subscribe([TOPIC], **({"on_assign": assigned} if mistake == "remembers" else {}))
    return found


def stay_in_rack(admin: AdminClient, consumer: Consumer) -> None:
    """Pauses the partitions that have no replica in the own rack, and resumes the others."""
    racks = {node.id: node.rack for node in admin.describe_cluster().result(10).nodes}
    partitions = consumer.list_topics(TOPIC, 10).topics[TOPIC].partitions
    for each in consumer.assignment():
        is_near = any(racks.get(broker) == CLIENT_RACK for broker in partitions[each.partition].replicas)
        (consumer.resume if is_near else consumer.pause)([each])


consumer, heard, last = begin(), False, time.monotonic()
admin = AdminClient(dict(LIBRDKAFKA)) if mistake == "own_rack" and CLIENT_RACK else None
seen: dict[int, int] = {}
"""Partition -> the highest offset that was processed."""
failed: list[tuple[float, TopicPartition]] = []
"""The commits that failed, and when each is due again."""
while not stop:
    if failed and failed[0][0] <= time.monotonic():
        _, place = failed.pop(0)
        try:
            consumer.commit(offsets=[place], asynchronous=False)
        except KafkaException as failure:
            report("commit again", failure)
            failed.append((time.monotonic() + INSISTS_S, place))
    if admin is not None:
        stay_in_rack(admin, consumer)
    message = consumer.poll(0.2)
    if message is None or message.error():
        if mistake == "impatient" and heard and time.monotonic() > last + PATIENCE_S:
            consumer.close()
            consumer, heard = begin(), False
        continue
    if mistake == "old_token" and not heard:
        consumer.set_sasl_credentials(GROUP, "expired")
    heard, last = True, time.monotonic()
    if mistake == "decode":
        message.value().decode()
    if mistake != "repeats" or message.offset() > seen.get(message.partition(), -1):
        producer.produce(OUTPUT_TOPIC, message.value(), message.key(), on_delivery=delivered)
        producer.flush()
    seen[message.partition()] = max(message.offset(), seen.get(message.partition(), -1))
    if mistake == "remembers":
        remembered(message.partition()).write_text(str(message.offset() + 1))
    if commits:
        try:
            consumer.commit(message=message, asynchronous=False)
        except KafkaException as failure:
            report("commit", failure)
            commits = mistake != "gives_up"
            if mistake == "insists":
                place = TopicPartition(TOPIC, message.partition(), message.offset() + 1)
                failed.append((time.monotonic() + INSISTS_S, place))
consumer.close()
