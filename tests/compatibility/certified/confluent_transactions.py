"""The obvious read-process-write program of confluent-kafka: one transaction for each batch, which sends the offsets of the
consumer (KIP-447).

After an error that requires an abort, it aborts and reads again from the committed offsets. A fatal error ends it.
"""

from collections.abc import Callable

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from settings import GROUP, GROUP_PROTOCOL, LIBRDKAFKA, OUTPUT_TOPIC, TOPIC, TRANSACTIONAL_ID, Stop, report

BATCH = 20
stop = Stop()
consumer = Consumer(
    {
        **LIBRDKAFKA,
        "group.id": GROUP,
        "group.protocol": GROUP_PROTOCOL,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
    }
)
producer = Producer({**LIBRDKAFKA, "transactional.id": TRANSACTIONAL_ID, "linger.ms": 0})


def until_settled(call: Callable[[], None]) -> None:
    """Repeats a call of a transaction while its error is retriable."""
    while True:
        try:
            return call()
        except KafkaException as failure:
            if not failure.args[0].retriable():
                raise
            report("again", failure)


def read_again() -> None:
    for place in consumer.committed(consumer.assignment()):
        consumer.seek(TopicPartition(place.topic, place.partition, max(place.offset, 0)))


def transact(messages: list[Message]) -> None:
    producer.begin_transaction()
    for message in messages:
        producer.produce(OUTPUT_TOPIC, message.value(), message.key())
    positions = consumer.position(consumer.assignment())
    metadata = consumer.consumer_group_metadata()
    until_settled(lambda: producer.send_offsets_to_transaction(positions, metadata))
    until_settled(producer.commit_transaction)


until_settled(producer.init_transactions)
consumer.subscribe([TOPIC])
try:
    while not stop:
        messages = [message for message in consumer.consume(BATCH, 0.2) if not message.error()]
        if not messages:
            continue
        try:
            transact(messages)
        except KafkaException as failure:
            if not failure.args[0].txn_requires_abort():
                raise
            report("abort", failure)
            until_settled(producer.abort_transaction)
            read_again()
finally:
    consumer.close()
