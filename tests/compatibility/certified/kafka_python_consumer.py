"""The obvious consumer of kafka-python: it polls, processes the batch, and commits its position.

A commit that fails is reported; the loop goes on, because whoever owns the partition reads the records again.
"""

from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import FencedInstanceIdError, KafkaError
from settings import (
    ARGUMENTS,
    CLIENT_RACK,
    GROUP,
    GROUP_INSTANCE_ID,
    MAX_POLL_INTERVAL_MS,
    OUTPUT_TOPIC,
    TOPIC,
    Stop,
    classic_only,
    report,
)

classic_only("kafka-python")
stop = Stop()
consumer = KafkaConsumer(
    TOPIC,
    **ARGUMENTS,
    group_id=GROUP,
    group_instance_id=GROUP_INSTANCE_ID,
    client_rack=CLIENT_RACK,
    max_poll_interval_ms=MAX_POLL_INTERVAL_MS,
    auto_offset_reset="earliest",
    enable_auto_commit=False,
)
producer = KafkaProducer(**ARGUMENTS)
try:
    while not stop:
        batches = consumer.poll(timeout_ms=1000)
        if not batches:
            continue
        if OUTPUT_TOPIC:
            sent = [
                producer.send(OUTPUT_TOPIC, key=record.key, value=record.value)
                for records in batches.values()
                for record in records
            ]
            for each in sent:
                each.get(timeout=60)
        try:
            consumer.commit()
        except FencedInstanceIdError:
            raise
        except KafkaError as failure:
            report("commit", failure)
finally:
    consumer.close()
    producer.close()
