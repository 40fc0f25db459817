"""confluent-kafka (librdkafka) as a client program."""

import sys
import time
from functools import cached_property
from typing import Any

from commands import POLL_S, SECURITY, Program, say
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

WITHIN_S = 60


def pairs(partitions: list[TopicPartition]) -> list[list[Any]]:
    return [[partition.topic, partition.partition] for partition in partitions]


def secured() -> dict[str, Any]:
    """The settings of SECURITY."""
    names = {
        "protocol": "security.protocol",
        "mechanism": "sasl.mechanism",
        "user": "sasl.username",
        "password": "sasl.password",
        "ca": "ssl.ca.location",
        "certificate": "ssl.certificate.location",
        "key": "ssl.key.location",
    }
    settings: dict[str, Any] = {names[name]: value for name, value in SECURITY.items() if name in names}
    if "token" in SECURITY:
        settings["oauth_cb"] = lambda _: (SECURITY["token"], time.time() + 3600)
    return settings


class Confluent(Program):
    consumer: Consumer | None = None
    reports_errors = False

    def poll(self) -> bool:
        if self.consumer is None:
            return False
        message = self.consumer.poll(POLL_S)
        if message is not None and message.error() is not None:
            if self.reports_errors:
                say(event="error", partitions=[], error=str(message.error()))
        elif message is not None:
            say(
                event="records",
                records=[[message.topic(), message.partition(), message.offset(), message.value().decode()]],
            )
        return True

    def do_join(self, group: str, topics: list[str], **how: Any) -> None:
        settings = {
            "bootstrap.servers": self.bootstrap,
            **secured(),
            "client.id": how["client_id"],
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "reconnect.backoff.max.ms": 300,
            "topic.metadata.refresh.interval.ms": 1000,
        }
        if how.get("protocol") == "consumer":
            settings["group.protocol"] = "consumer"
        else:
            settings["partition.assignment.strategy"] = how["assignors"]
            settings["session.timeout.ms"] = how["session_timeout_ms"]
            settings["heartbeat.interval.ms"] = how["heartbeat_ms"]
        if "max_poll_ms" in how:
            settings["max.poll.interval.ms"] = how["max_poll_ms"]
        self.reports_errors = how.get("report_errors", False)
        if how.get("instance"):
            settings["group.instance.id"] = how["instance"]
        self.consumer = Consumer(settings)
        self.consumer.subscribe(
            topics,
            on_assign=lambda _, partitions: say(event="assigned", partitions=pairs(partitions)),
            on_revoke=lambda _, partitions: say(event="revoked", partitions=pairs(partitions)),
            on_lost=lambda _, partitions: say(event="lost", partitions=pairs(partitions)),
        )

    def do_member_id(self) -> str:
        return self.consumer.memberid()

    def do_commit(self) -> None:
        self.consumer.commit(asynchronous=False)

    def do_commit_at(self, offsets: list[list[Any]]) -> None:
        self.consumer.commit(offsets=[TopicPartition(*offset) for offset in offsets], asynchronous=False)

    def do_committed(self, partitions: list[list[Any]]) -> list[int | None]:
        found = self.consumer.committed([TopicPartition(*partition) for partition in partitions], timeout=WITHIN_S)
        return [partition.offset if partition.offset >= 0 else None for partition in found]

    def do_stop_polling(self, seconds: float) -> None:
        time.sleep(seconds)

    def do_seek(self, topic: str, partition: int, offset: int) -> None:
        self.consumer.seek(TopicPartition(topic, partition, offset))

    def do_leave(self) -> None:
        self.consumer.close()
        self.consumer = None

    def do_produce(self, topic: str, values: list[str], partition: int | None = None, idempotent: bool = False) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                **secured(),
                "enable.idempotence": idempotent,
                "acks": "all",
                "linger.ms": 5,
            }
        )
        failed = []
        where = {} if partition is None else {"partition": partition}
        for value in values:
            producer.produce(topic, value.encode(), on_delivery=lambda error, _: failed.append(error), **where)
        assert producer.flush(WITHIN_S) == 0, "not delivered in time"
        assert not any(failed), failed

    def do_list_groups(self) -> list[str]:
        return [group.group_id for group in self.admin.list_consumer_groups().result(WITHIN_S).valid]

    def do_describe_group(self, group: str) -> dict[str, Any]:
        described = self.admin.describe_consumer_groups([group])[group].result(WITHIN_S)
        return {"state": described.state.name, "members": [member.client_id for member in described.members]}

    def do_end_offsets(self, partitions: list[list[Any]]) -> list[int]:
        asked = {TopicPartition(*partition): OffsetSpec.latest() for partition in partitions}
        found = self.admin.list_offsets(asked)
        answers = {(where.topic, where.partition): future.result(WITHIN_S).offset for where, future in found.items()}
        return [answers[topic, partition] for topic, partition in partitions]

    def do_group_offsets(self, group: str, partitions: list[list[Any]]) -> list[int | None]:
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(*partition) for partition in partitions])
        found = self.admin.list_consumer_group_offsets([asked])[group].result(WITHIN_S).topic_partitions
        return [partition.offset if partition.offset >= 0 else None for partition in found]

    def do_alter_offsets(self, group: str, offsets: list[list[Any]]) -> None:
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(*offset) for offset in offsets])
        self.admin.alter_consumer_group_offsets([asked])[group].result(WITHIN_S)

    def do_delete_group(self, group: str) -> None:
        self.admin.delete_consumer_groups([group])[group].result(WITHIN_S)

    @cached_property
    def admin(self) -> AdminClient:
        """Kept because a discarded object cancels its requests."""
        return AdminClient({"bootstrap.servers": self.bootstrap, **secured()})


Confluent(sys.argv[1]).run()
