"""Wrong share consumers. The argument says how:

first     accepts what it polled, and processes it then
thread    hands what it polled to a thread that takes its time, while the library accepts it with the next poll
skips     accepts a record that it could not write
never     processes records and acknowledges none
repeats   accepts each record twice
others    accepts all offsets up to the last one that it got, those of other members, too
gives_up  ends at a record that it cannot read, without an acknowledgement
"""

import sys
import threading
import time
from queue import SimpleQueue
from uuid import uuid4

from confluent_kafka import AcknowledgeType, IllegalStateException, KafkaException, Message, Producer, ShareConsumer
from settings import BOOTSTRAP, GROUP, OUTPUT_TOPIC, TOPIC, Stop, report, share_only

from coordinator.log.batch import key_values, read_header
from coordinator.operations.client import Client
from coordinator.protocol.messages import (
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareGroupHeartbeatRequest,
)

share_only()
mistake = sys.argv[1]
stop = Stop()
retries = 0 if mistake == "skips" else 10
producer = Producer({"bootstrap.servers": BOOTSTRAP, "linger.ms": 0, "retries": retries})


def copy(messages: list[Message]) -> None:
    for message in messages:
        producer.produce(OUTPUT_TOPIC, message.value(), message.key())
    producer.flush()


def open_consumer(mode: str) -> ShareConsumer:
    found = ShareConsumer({"bootstrap.servers": BOOTSTRAP, "group.id": GROUP, "share.acknowledgement.mode": mode})
    found.subscribe([TOPIC])
    return found


def accept(consumer: ShareConsumer, messages: list[Message]) -> None:
    for message in messages:
        consumer.acknowledge(message, AcknowledgeType.ACCEPT)
    for place, failure in consumer.commit_sync().items():
        if failure is not None:
            report(f"acknowledgement of {place}", failure)


def explicit() -> None:
    consumer = open_consumer("explicit")
    while not stop:
        try:
            messages = [each for each in consumer.poll(1.0) if not each.error()]
        except (IllegalStateException, KafkaException) as failure:
            report("poll", failure)
            time.sleep(0.2)
            continue
        if mistake == "first":
            accept(consumer, messages)
            time.sleep(0.1)
            copy(messages)
            continue
        if mistake == "gives_up":
            for message in messages:
                message.value().decode()
        copy(messages)
        if mistake != "never":
            accept(consumer, messages)
    consumer.close()


def implicit() -> None:
    work: SimpleQueue[tuple[float, list[Message]]] = SimpleQueue()

    def process() -> None:
        while True:
            polled, messages = work.get()
            time.sleep(max(0.0, polled + 2.0 - time.monotonic()))
            copy(messages)

    threading.Thread(target=process, daemon=True).start()
    consumer = open_consumer("implicit")
    while not stop:
        messages = [each for each in consumer.poll(0.5) if not each.error()]
        if messages:
            work.put((time.monotonic(), messages))
    consumer.close()
    time.sleep(3.0)


class ByHand:
    """Speaks the protocol itself: no library acknowledges what it does not hold."""

    def __init__(self) -> None:
        self.client = Client(BOOTSTRAP, 30)
        self.member, self.epoch, self.session = str(uuid4()), 0, 0
        topic = self.client.metadata([TOPIC]).topics[0]
        self.topic_id, self.partitions = topic.topic_id, [each.partition_index for each in topic.partitions]

    def heartbeat(self) -> None:
        topics = None if self.epoch < 0 else [TOPIC]
        request = ShareGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member, member_epoch=self.epoch, subscribed_topic_names=topics
        )
        self.epoch = self.client.any().ask(request).member_epoch

    def next_session(self) -> int:
        self.session += 1
        return self.session - 1

    def fetch(self) -> list[ShareFetchResponse.PartitionData]:
        session = self.next_session()
        partitions = [ShareFetchRequest.FetchPartition(partition_index=each) for each in self.partitions]
        request = ShareFetchRequest(
            group_id=GROUP,
            member_id=self.member,
            share_session_epoch=session,
            max_wait_ms=200,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=10,
            batch_size=10,
            topics=[] if session else [ShareFetchRequest.FetchTopic(topic_id=self.topic_id, partitions=partitions)],
        )
        answer = self.client.any().ask(request)
        return [each for topic in answer.responses for each in topic.partitions if each.acquired_records]

    def accept(self, partition: int, first: int, last: int) -> None:
        batch = ShareAcknowledgeRequest.AcknowledgementBatch(
            first_offset=first, last_offset=last, acknowledge_types=[AcknowledgeType.ACCEPT]
        )
        part = ShareAcknowledgeRequest.AcknowledgePartition(partition_index=partition, acknowledgement_batches=[batch])
        topics = [ShareAcknowledgeRequest.AcknowledgeTopic(topic_id=self.topic_id, partitions=[part])]
        request = ShareAcknowledgeRequest(
            group_id=GROUP, member_id=self.member, share_session_epoch=self.next_session(), topics=topics
        )
        self.client.any().ask(request)

    def run(self) -> None:
        next_beat = 0.0
        while not stop:
            if time.monotonic() >= next_beat:
                self.heartbeat()
                next_beat = time.monotonic() + 0.5
            for part in self.fetch():
                self.copy(part)
                for each in part.acquired_records:
                    self.accept(part.partition_index, each.first_offset, each.last_offset)
                    if mistake == "repeats":
                        self.accept(part.partition_index, each.first_offset, each.last_offset)
                if mistake == "others":
                    self.accept(part.partition_index, 0, part.acquired_records[-1].last_offset)
        self.epoch = -1
        self.heartbeat()

    def copy(self, part: ShareFetchResponse.PartitionData) -> None:
        held = {offset for each in part.acquired_records for offset in range(each.first_offset, each.last_offset + 1)}
        position = 0
        while position < len(part.records):
            header = read_header(part.records, position)
            for offset, key, value in key_values(part.records, position, header):
                if offset in held:
                    producer.produce(OUTPUT_TOPIC, value, key)
            position += header.size_bytes
        producer.flush()


if mistake == "thread":
    implicit()
elif mistake in ("repeats", "others"):
    ByHand().run()
else:
    explicit()
