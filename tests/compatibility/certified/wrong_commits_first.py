"""A wrong program: it commits what it polled before it processes it, so whatever an instance holds when it dies is lost."""

import time

from confluent_kafka import Consumer, Producer
from settings import BOOTSTRAP, GROUP, GROUP_PROTOCOL, OUTPUT_TOPIC, TOPIC, Stop

PROCESSING_S = 0.1
stop = Stop()
consumer = Consumer(
    {
        "bootstrap.servers": BOOTSTRAP,
        "group.id": GROUP,
        "group.protocol": GROUP_PROTOCOL,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
)
producer = Producer({"bootstrap.servers": BOOTSTRAP, "linger.ms": 0})
consumer.subscribe([TOPIC])
while not stop:
    messages = [message for message in consumer.consume(20, 0.5) if not message.error()]
    if not messages:
        continue
    consumer.commit(asynchronous=False)
    for message in messages:
        time.sleep(PROCESSING_S)
        if OUTPUT_TOPIC:
            producer.produce(OUTPUT_TOPIC, message.value(), message.key())
            producer.flush()
consumer.close()
