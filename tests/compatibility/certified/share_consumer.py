"""The obvious share consumer of confluent-kafka (KIP-932): it polls, processes each record, accepts it, and commits that.

A record that it cannot write is given back; one that another try would not mend, it rejects. An acknowledgement that fails is
reported: the record comes again.
"""

from confluent_kafka import AcknowledgeType, KafkaError, KafkaException, Message, Producer, ShareConsumer
from settings import GROUP, LIBRDKAFKA, OUTPUT_TOPIC, TOPIC, Stop, report, share_only

share_only()
failures: list[KafkaError] = []
"""Why the copy of the current record was not delivered."""


def delivered(failure: KafkaError | None, message: Message) -> None:
    if failure is not None:
        failures.append(failure)


def outcome(message: Message) -> AcknowledgeType:
    """Processes a record."""
    try:
        message.value().decode()
    except (AttributeError, UnicodeDecodeError) as failure:
        report("rejected", failure)
        return AcknowledgeType.REJECT
    if OUTPUT_TOPIC:
        failures.clear()
        producer.produce(OUTPUT_TOPIC, message.value(), message.key(), on_delivery=delivered)
        producer.flush()
        if failures:
            report("given back", failures[0])
            return AcknowledgeType.RELEASE
    return AcknowledgeType.ACCEPT


stop = Stop()
consumer = ShareConsumer({**LIBRDKAFKA, "group.id": GROUP, "share.acknowledgement.mode": "explicit"})
producer = Producer({**LIBRDKAFKA, "enable.idempotence": True, "linger.ms": 0})
consumer.subscribe([TOPIC])
try:
    while not stop:
        for message in consumer.poll(1.0):
            if message.error():
                report("poll", message.error())
                continue
            consumer.acknowledge(message, outcome(message))
        for place, failure in consumer.commit_sync().items():
            if failure is not None:
                report(f"acknowledgement of {place}", failure)
except KafkaException as failure:
    report("fatal", failure)
    raise
finally:
    consumer.close()
