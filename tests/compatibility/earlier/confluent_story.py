"""The story by confluent-kafka, 1.9 and later."""

import sys
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from story import PARTITIONS, play

WITHIN_S = 60


class Confluent:
    has_static_members = True
    delete_group = None

    def __init__(self, bootstrap, name):
        self.bootstrap, self.topic, self.group = bootstrap, name + "-topic", name + "-group"
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def make_topic(self, partitions):
        self.admin.create_topics([NewTopic(self.topic, partitions, 1)])[self.topic].result(WITHIN_S)
        return "made"

    def produce(self, values, codec):
        failed = []
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all", "compression.type": codec})
        for partition, value in values:
            producer.produce(
                self.topic, value.encode(), partition=partition, on_delivery=lambda error, _: failed.append(error)
            )
        assert producer.flush(WITHIN_S) == 0
        return len([each for each in failed if each is None])

    def consumer(self, name, **settings):
        given = {
            "bootstrap.servers": self.bootstrap,
            "client.id": name,
            "group.id": self.group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 20_000,
            "heartbeat.interval.ms": 300,
            "partition.assignment.strategy": "range",
        }
        return Consumer(dict(given, **settings))

    def member(self, name, instance, member):
        consumer = self.consumer(name, **({"group.instance.id": instance} if instance else {}))
        consumer.subscribe(
            [self.topic],
            on_assign=lambda _, given: member.assigned(each.partition for each in given),
            on_revoke=lambda _, given: member.revoked(each.partition for each in given),
        )
        return consumer

    def poll(self, consumer):
        found = consumer.consume(100, 0.05)
        return [each.value().decode() for each in found if each.error() is None]

    def commit(self, consumer):
        consumer.commit(asynchronous=False)

    def committed(self, consumer):
        asked = [TopicPartition(self.topic, each) for each in range(PARTITIONS)]
        return [each.offset for each in consumer.committed(asked, timeout=WITHIN_S)]

    def describe(self):
        (found,) = self.admin.list_groups(self.group, WITHIN_S)
        return [found.state, found.protocol, sorted(each.client_id for each in found.members)]

    def commit_of_an_outsider(self):
        consumer = self.consumer("outsider")
        first = TopicPartition(self.topic, 0, 1)
        consumer.assign([first])
        try:
            consumer.commit(offsets=[first], asynchronous=False)
        finally:
            consumer.close()
        return "committed"

    def transactions(self, say):
        settings = {"bootstrap.servers": self.bootstrap, "transactional.id": self.group + "-t"}
        producer = Producer(settings)
        producer.init_transactions(WITHIN_S)
        reader = self.consumer("reader", **{"group.id": self.group + "-reads", "isolation.level": "read_committed"})
        first = TopicPartition(self.topic, 0, OFFSET_BEGINNING)
        reader.assign([first])

        def transaction():
            for commits in (True, False, True):
                producer.begin_transaction()
                producer.produce(self.topic, b"committed" if commits else b"aborted", partition=0)
                offset = TopicPartition(self.topic, 0, 7 if commits else 8)
                producer.send_offsets_to_transaction([offset], reader.consumer_group_metadata(), WITHIN_S)
                if commits:
                    producer.commit_transaction(WITHIN_S)
                else:
                    producer.abort_transaction(WITHIN_S)
            return reader.committed([TopicPartition(self.topic, 0)], timeout=WITHIN_S)[0].offset

        def read():
            values, deadline = [], time.monotonic() + WITHIN_S
            while values.count("committed") < 2 and time.monotonic() < deadline:
                values += self.poll(reader)
            return [values.count("committed"), values.count("aborted")]

        def fenced():
            producer.begin_transaction()
            producer.produce(self.topic, b"zombie", partition=0)
            producer.flush(WITHIN_S)
            Producer(settings).init_transactions(WITHIN_S)
            producer.commit_transaction(WITHIN_S)
            return "committed"

        say("transaction", transaction)
        say("read committed", read)
        say("fenced", fenced)
        reader.close()

    def offsets(self):
        consumer = self.consumer("asks")
        return list(enumerate(self.committed(consumer)))

    def is_listed(self):
        return any(each.id == self.group for each in self.admin.list_groups(timeout=WITHIN_S))


if __name__ == "__main__":
    play(Confluent(sys.argv[1], sys.argv[2]))
