"""The story by kafka-python, 2.0 and later."""

import sys

from kafka import ConsumerRebalanceListener, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.structs import OffsetAndMetadata
from story import PARTITIONS, play


class Listener(ConsumerRebalanceListener):
    def __init__(self, member):
        self.member = member

    def on_partitions_assigned(self, assigned):
        self.member.assigned(each.partition for each in assigned)

    def on_partitions_revoked(self, revoked):
        self.member.revoked(each.partition for each in revoked)


class KafkaPython:
    has_static_members = False
    delete_group = None
    transactions = None

    def __init__(self, bootstrap, name):
        self.bootstrap, self.topic, self.group = bootstrap, name + "-topic", name + "-group"

    def admin(self):
        return KafkaAdminClient(bootstrap_servers=self.bootstrap)

    def make_topic(self, partitions):
        self.admin().create_topics([NewTopic(self.topic, partitions, 1)])
        return "made"

    def produce(self, values, codec):
        compression = None if codec == "none" else codec
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, acks="all", compression_type=compression)
        sent = [producer.send(self.topic, value.encode(), partition=partition) for partition, value in values]
        for each in sent:
            each.get(60)
        producer.close()
        return len(sent)

    def consumer(self, name):
        return KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            client_id=name,
            group_id=self.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=20_000,
            heartbeat_interval_ms=300,
            partition_assignment_strategy=[RangePartitionAssignor],
        )

    def member(self, name, _instance, member):
        consumer = self.consumer(name)
        consumer.subscribe([self.topic], listener=Listener(member))
        return consumer

    def poll(self, consumer):
        return [each.value.decode() for records in consumer.poll(timeout_ms=50).values() for each in records]

    def commit(self, consumer):
        consumer.commit()

    def committed(self, consumer):
        return [consumer.committed(TopicPartition(self.topic, each)) for each in range(PARTITIONS)]

    def describe(self):
        (found,) = self.admin().describe_consumer_groups([self.group])
        return [found.state, found.protocol, sorted(each.client_id for each in found.members)]

    def commit_of_an_outsider(self):
        consumer = self.consumer("outsider")
        first = TopicPartition(self.topic, 0)
        consumer.assign([first])
        try:
            consumer.commit({first: OffsetAndMetadata(1, "")})
        finally:
            consumer.close(autocommit=False)
        return "committed"

    def offsets(self):
        found = self.admin().list_consumer_group_offsets(self.group)
        return sorted((where.partition, given.offset) for where, given in found.items() if where.topic == self.topic)

    def is_listed(self):
        return any(each[0] == self.group for each in self.admin().list_consumer_groups())


if __name__ == "__main__":
    play(KafkaPython(sys.argv[1], sys.argv[2]))
