"""The obvious consumer of confluent-kafka (librdkafka): it polls, processes, and commits each message synchronously.

A commit that fails is reported; the loop goes on, because whoever owns the partition reads the message again.
"""

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from settings import (
    CLIENT_RACK,
    GROUP,
    GROUP_INSTANCE_ID,
    GROUP_PROTOCOL,
    LIBRDKAFKA,
    MAX_POLL_INTERVAL_MS,
    OUTPUT_TOPIC,
    TOPIC,
    Stop,
    report,
)


def is_fatal(error: KafkaError) -> bool:
    """Whether the client can only be closed. librdkafka goes on to deliver records meanwhile."""
    return error.fatal() or error.code() == KafkaError._FATAL


failures: list[KafkaError] = []
"""What kept copies from being delivered."""


def delivered(failure: KafkaError | None, message: Message) -> None:
    if failure is not None:
        failures.append(failure)


stop = Stop()
settings = {
    **LIBRDKAFKA,
    "group.id": GROUP,
    "group.protocol": GROUP_PROTOCOL,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "max.poll.interval.ms": MAX_POLL_INTERVAL_MS,
}
if CLIENT_RACK:
    settings["client.rack"] = CLIENT_RACK
if GROUP_INSTANCE_ID:
    settings["group.instance.id"] = GROUP_INSTANCE_ID
consumer = Consumer(settings)
producer = Producer({**LIBRDKAFKA, "enable.idempotence": True, "linger.ms": 0})
consumer.subscribe([TOPIC])
try:
    while not stop:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error():
            if is_fatal(message.error()):
                raise KafkaException(message.error())
            report("poll", message.error())
            continue
        if OUTPUT_TOPIC:
            producer.produce(OUTPUT_TOPIC, message.value(), message.key(), on_delivery=delivered)
            producer.flush()
            if failures:  # a record that was not delivered must not be committed
                raise KafkaException(failures[0])
        try:
            consumer.commit(message=message, asynchronous=False)
        except KafkaException as failure:
            if is_fatal(failure.args[0]):
                raise
            report("commit", failure)
finally:
    consumer.close()
