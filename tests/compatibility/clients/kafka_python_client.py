"""kafka-python as a client program."""

import sys
import time
from typing import Any

from commands import POLL_S, SECURITY, Program, say
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import KafkaError, RetriableError
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.structs import OffsetAndMetadata

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}
WITHIN_S = 60
POLL_MS = 500  # with shorter polls 3.0 may fail to report an assignment that arrives just as a poll ends


NAMES = {
    "protocol": "security_protocol",
    "mechanism": "sasl_mechanism",
    "user": "sasl_plain_username",
    "password": "sasl_plain_password",
    "ca": "ssl_cafile",
    "certificate": "ssl_certfile",
    "key": "ssl_keyfile",
}


class Token(AbstractTokenProvider):
    def token(self) -> str:
        return SECURITY["token"]


def secured() -> dict[str, Any]:
    """The settings of SECURITY."""
    settings: dict[str, Any] = {NAMES[name]: value for name, value in SECURITY.items() if name in NAMES}
    if "token" in SECURITY:
        settings["sasl_oauth_token_provider"] = Token()
    return settings


class Listener(ConsumerRebalanceListener):
    def on_partitions_assigned(self, assigned: Any) -> None:
        say(event="assigned", partitions=[list(partition) for partition in assigned])

    def on_partitions_revoked(self, revoked: Any) -> None:
        say(event="revoked", partitions=[list(partition) for partition in revoked])

    def on_partitions_lost(self, lost: Any) -> None:
        say(event="lost", partitions=[list(partition) for partition in lost])


class KafkaPython(Program):
    consumer: KafkaConsumer | None = None
    reports_errors = False

    def poll(self) -> bool:
        if self.consumer is None:
            return False
        try:
            polled = self.consumer.poll(timeout_ms=POLL_MS)
        except RetriableError:  # its poll raises while the broker is away; a user's loop continues
            time.sleep(POLL_S)
            return True
        except KafkaError as error:
            if not self.reports_errors:
                raise
            say(event="error", partitions=[], error=repr(error))
            return True
        for partition, records in polled.items():
            found = [[*partition, record.offset, record.value.decode()] for record in records]
            say(event="records", records=found)
        return True

    def do_join(self, group: str, topics: list[str], **how: Any) -> None:
        self.reports_errors = how.get("report_errors", False)
        self.consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            **secured(),
            client_id=how["client_id"],
            group_id=group,
            group_instance_id=how.get("instance"),
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            partition_assignment_strategy=[ASSIGNORS[name] for name in how["assignors"].split(",")],
            session_timeout_ms=how["session_timeout_ms"],
            heartbeat_interval_ms=how["heartbeat_ms"],
            reconnect_backoff_max_ms=300,
        )
        self.consumer.subscribe(topics, listener=Listener())

    def do_member_id(self) -> str:
        return self.consumer._coordinator._generation.member_id

    def do_commit(self) -> None:
        self.consumer.commit()

    def do_commit_at(self, offsets: list[list[Any]]) -> None:
        self.consumer.commit({TopicPartition(t, p): OffsetAndMetadata(offset, "", -1) for t, p, offset in offsets})

    def do_committed(self, partitions: list[list[Any]]) -> list[int | None]:
        return [self.consumer.committed(TopicPartition(*partition)) for partition in partitions]

    def do_seek(self, topic: str, partition: int, offset: int) -> None:
        self.consumer.seek(TopicPartition(topic, partition), offset)

    def do_leave(self) -> None:
        self.consumer.close()
        self.consumer = None

    def do_produce(self, topic: str, values: list[str], partition: int | None = None, idempotent: bool = False) -> None:
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap, **secured(), enable_idempotence=idempotent, acks="all"
        )
        sent = [producer.send(topic, value.encode(), partition=partition) for value in values]
        for future in sent:
            future.get(WITHIN_S)
        producer.close()

    def do_list_groups(self) -> list[str]:
        with self.admin() as admin:
            return [group["group_id"] for group in admin.list_groups()]

    def do_describe_group(self, group: str) -> dict[str, Any]:
        with self.admin() as admin:
            described = admin.describe_groups([group])[group]
        members = [member["client_id"] for member in described["members"]]
        return {"state": described["group_state"], "members": members}

    def do_end_offsets(self, partitions: list[list[Any]]) -> list[int]:
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap, **secured())
        found = consumer.end_offsets([TopicPartition(*partition) for partition in partitions])
        consumer.close()
        return [found[TopicPartition(*partition)] for partition in partitions]

    def do_group_offsets(self, group: str, partitions: list[list[Any]]) -> list[int | None]:
        with self.admin() as admin:
            found = admin.list_group_offsets([group])[group]
        known = [found.get(TopicPartition(*partition)) for partition in partitions]
        return [None if offset is None else offset.offset for offset in known]

    def do_alter_offsets(self, group: str, offsets: list[list[Any]]) -> None:
        with self.admin() as admin:
            admin.alter_group_offsets(
                group, {TopicPartition(t, p): OffsetAndMetadata(offset, "", -1) for t, p, offset in offsets}
            )

    def do_delete_group(self, group: str) -> None:
        with self.admin() as admin:
            admin.delete_groups([group])

    def admin(self) -> KafkaAdminClient:
        return KafkaAdminClient(bootstrap_servers=self.bootstrap, **secured())


if __name__ == "__main__":
    KafkaPython(sys.argv[1]).run()
