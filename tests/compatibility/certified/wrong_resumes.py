"""A wrong program: a zombie. From its first commit on it heartbeats and commits as the member that it is then, also when the
coordinator has removed it, and never joins again.
"""

from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError
from settings import BOOTSTRAP, GROUP, OUTPUT_TOPIC, TOPIC, Stop, classic_only, report

classic_only("kafka-python")
stop = Stop()
consumer = KafkaConsumer(
    TOPIC, bootstrap_servers=BOOTSTRAP, group_id=GROUP, auto_offset_reset="earliest", enable_auto_commit=False
)
producer = KafkaProducer(bootstrap_servers=BOOTSTRAP)
coordinator = consumer._coordinator
reset_generation = coordinator.reset_generation


def keep_generation(member_id: str = "") -> None:
    """Forgets the member only while it has committed nothing."""
    if committed:
        coordinator.rejoin_needed = False
    else:
        reset_generation(member_id)


committed = False
coordinator.reset_generation = keep_generation
while not stop:
    try:
        batches = consumer.poll(timeout_ms=200)
        for records in batches.values():
            for record in records:
                producer.send(OUTPUT_TOPIC, key=record.key, value=record.value)
        producer.flush()
        if consumer.assignment():
            consumer.commit()
            committed = True
    except KafkaError as failure:
        report("commit", failure)
consumer.close()
