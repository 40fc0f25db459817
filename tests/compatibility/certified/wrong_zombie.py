"""A wrong program: a zombie. Whatever fatal error the coordinator answers, it keeps its member id and its generation, does not
join again, and goes on to read and to commit.
"""

from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka.coordinator.base import MemberState
from kafka.errors import KafkaError
from settings import BOOTSTRAP, GROUP, OUTPUT_TOPIC, TOPIC, Stop, classic_only, report

classic_only("kafka-python")
stop = Stop()
consumer = KafkaConsumer(
    TOPIC, bootstrap_servers=BOOTSTRAP, group_id=GROUP, auto_offset_reset="earliest", enable_auto_commit=False
)
producer = KafkaProducer(bootstrap_servers=BOOTSTRAP)


coordinator = consumer._coordinator
handle_commit, reset_generation = coordinator._handle_offset_commit_response, coordinator.reset_generation


def keep_generation(member_id: str = "") -> None:
    """Becomes a zombie if the coordinator disowns a member that shares the topic with others: until then they need its join."""
    is_alone = len(consumer.assignment()) == len(consumer.partitions_for_topic(TOPIC) or ())
    if coordinator.state is MemberState.STABLE and not is_alone:
        coordinator.request_rejoin = lambda: None
        coordinator.rejoin_needed = False
    else:
        reset_generation(member_id)


def handle_commit_as_zombie(*answer: Any) -> None:
    """Only a commit makes a zombie. A late heartbeat, while the group begins, must not: the others would wait for its join."""
    coordinator.reset_generation = keep_generation
    try:
        handle_commit(*answer)
    finally:
        coordinator.reset_generation = reset_generation


coordinator._handle_offset_commit_response = handle_commit_as_zombie
while not stop:
    batches = consumer.poll(timeout_ms=200)
    if OUTPUT_TOPIC:
        for records in batches.values():
            for record in records:
                producer.send(OUTPUT_TOPIC, key=record.key, value=record.value)
        producer.flush()
    try:
        if consumer.assignment():
            consumer.commit()
    except KafkaError as failure:
        report("commit", failure)
