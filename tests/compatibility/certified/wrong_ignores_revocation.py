"""A wrong program: it goes on to read and to commit what it was ever assigned, as if nothing could be revoked."""

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from settings import BOOTSTRAP, GROUP, GROUP_PROTOCOL, MAX_POLL_INTERVAL_MS, OUTPUT_TOPIC, TOPIC, Stop, report

Place = tuple[str, int]
stop = Stop()
settings = {"bootstrap.servers": BOOTSTRAP, "auto.offset.reset": "earliest", "enable.auto.commit": False}
own = {"group.id": GROUP, "group.protocol": GROUP_PROTOCOL, "max.poll.interval.ms": MAX_POLL_INTERVAL_MS}
member = Consumer(settings | own)
reader = Consumer(settings | {"group.id": f"{GROUP}-no-member"})
producer = Producer({"bootstrap.servers": BOOTSTRAP, "linger.ms": 0})
positions: dict[Place, int] = {}
"""The next offset of every partition that was ever assigned."""


def keep(consumer: Consumer, assigned: list[TopicPartition]) -> None:
    """Adds the new partitions, at their committed offsets, to those that are read."""
    for place in consumer.committed(assigned):
        positions.setdefault((place.topic, place.partition), max(place.offset, 0))
    reader.assign([TopicPartition(*place, offset) for place, offset in positions.items()])


member.subscribe([TOPIC], on_assign=keep)
while not stop:
    # A member that reads nothing itself: it polls for its assignment, and pauses it.
    member.pause(member.assignment())
    member.poll(0)
    for message in reader.consume(20, 0.1):
        if message.error():
            continue
        if OUTPUT_TOPIC:
            producer.produce(OUTPUT_TOPIC, message.value(), message.key())
        positions[message.topic(), message.partition()] = message.offset() + 1
    producer.flush()
    try:
        member.commit(
            offsets=[TopicPartition(*place, offset) for place, offset in positions.items()], asynchronous=False
        )
    except KafkaException as failure:
        report("commit", failure)
member.close()
