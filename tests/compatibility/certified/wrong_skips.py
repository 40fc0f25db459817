"""A wrong program: it takes an error of its poll for a bad record, and goes on behind all records that there are."""

from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError
from settings import BOOTSTRAP, GROUP, OUTPUT_TOPIC, TOPIC, Stop, classic_only, report

classic_only("kafka-python")
stop = Stop()
consumer = KafkaConsumer(
    TOPIC, bootstrap_servers=BOOTSTRAP, group_id=GROUP, auto_offset_reset="earliest", enable_auto_commit=False
)
producer = KafkaProducer(bootstrap_servers=BOOTSTRAP)
while not stop:
    try:
        batches = consumer.poll(timeout_ms=1000)
    except KafkaError as failure:
        report("poll", failure)
        consumer.seek_to_end()
        continue
    for records in batches.values():
        for record in records:
            producer.send(OUTPUT_TOPIC, key=record.key, value=record.value).get()
    if batches:
        consumer.commit()
consumer.close()
