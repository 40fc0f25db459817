"""The obvious read-process-write program of kafka-python: one transaction for each batch, which sends the offsets of the
consumer (KIP-447).

After an error that is not fatal, it aborts and reads again from the committed offsets.
"""

from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata
from kafka.errors import KafkaError, ProducerFencedError
from settings import ARGUMENTS, GROUP, OUTPUT_TOPIC, TOPIC, TRANSACTIONAL_ID, Stop, classic_only, report

classic_only("kafka-python")
stop = Stop()
consumer = KafkaConsumer(
    TOPIC,
    **ARGUMENTS,
    group_id=GROUP,
    auto_offset_reset="earliest",
    enable_auto_commit=False,
    isolation_level="read_committed",
)
producer = KafkaProducer(**ARGUMENTS, transactional_id=TRANSACTIONAL_ID)
producer.init_transactions()
try:
    while not stop:
        batches = consumer.poll(timeout_ms=500, max_records=20)
        if not batches:
            continue
        try:
            producer.begin_transaction()
            for records in batches.values():
                for record in records:
                    producer.send(OUTPUT_TOPIC, key=record.key, value=record.value)
            ends = {place: OffsetAndMetadata(records[-1].offset + 1, "", -1) for place, records in batches.items()}
            producer.send_offsets_to_transaction(ends, consumer.group_metadata())
            producer.commit_transaction()
        except ProducerFencedError:
            raise
        except KafkaError as failure:
            report("abort", failure)
            producer.abort_transaction()
            for place in consumer.assignment():
                consumer.seek(place, consumer.committed(place) or 0)
finally:
    consumer.close()
    producer.close()
