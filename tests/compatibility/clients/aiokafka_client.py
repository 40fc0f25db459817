"""aiokafka as a client program. Its methods are coroutines, so each command runs on a loop of the program."""

import asyncio
import sys
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.abc import AbstractTokenProvider
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.helpers import create_ssl_context
from commands import POLL_S, SECURITY, Program, say

WITHIN_S = 60
ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}


NAMES = {
    "protocol": "security_protocol",
    "mechanism": "sasl_mechanism",
    "user": "sasl_plain_username",
    "password": "sasl_plain_password",
}


class Token(AbstractTokenProvider):
    async def token(self) -> str:
        return SECURITY["token"]


def secured() -> dict[str, Any]:
    """The settings of SECURITY."""
    settings: dict[str, Any] = {NAMES[name]: value for name, value in SECURITY.items() if name in NAMES}
    if "ca" in SECURITY:
        files = (SECURITY.get(name) for name in ("ca", "certificate", "key"))
        settings["ssl_context"] = create_ssl_context(**dict(zip(("cafile", "certfile", "keyfile"), files, strict=True)))
    if "token" in SECURITY:
        settings["sasl_oauth_token_provider"] = Token()
    return settings


class Listener(ConsumerRebalanceListener):
    def on_partitions_assigned(self, assigned: Any) -> None:
        say(event="assigned", partitions=[list(partition) for partition in assigned])

    def on_partitions_revoked(self, revoked: Any) -> None:
        say(event="revoked", partitions=[list(partition) for partition in revoked])


class Aiokafka(Program):
    consumer: AIOKafkaConsumer | None = None

    def __init__(self, bootstrap: str):
        super().__init__(bootstrap)
        self.loop = asyncio.new_event_loop()

    def wait(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    def poll(self) -> bool:
        if self.consumer is None:
            return False
        for partition, records in self.wait(self.consumer.getmany(timeout_ms=int(POLL_S * 1000))).items():
            found = [[*partition, record.offset, record.value.decode()] for record in records]
            say(event="records", records=found)
        return True

    def do_join(self, group: str, topics: list[str], **how: Any) -> None:
        self.wait(self.join(group, topics, how))

    async def join(self, group: str, topics: list[str], how: dict[str, Any]) -> None:
        self.consumer = AIOKafkaConsumer(
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
        )
        self.consumer.subscribe(topics, listener=Listener())
        await self.consumer.start()

    def do_member_id(self) -> str:
        return self.consumer._coordinator.member_id

    def do_commit(self) -> None:
        self.wait(self.consumer.commit())

    def do_commit_at(self, offsets: list[list[Any]]) -> None:
        self.wait(self.consumer.commit({TopicPartition(t, p): offset for t, p, offset in offsets}))

    def do_committed(self, partitions: list[list[Any]]) -> list[int | None]:
        return [self.wait(self.consumer.committed(TopicPartition(*partition))) for partition in partitions]

    def do_seek(self, topic: str, partition: int, offset: int) -> None:
        self.consumer.seek(TopicPartition(topic, partition), offset)

    def do_leave(self) -> None:
        self.wait(self.consumer.stop())
        self.consumer = None

    def do_produce(
        self,
        topic: str,
        values: list[str],
        partition: int | None = None,
        idempotent: bool = False,
        codec: str = "none",
        times: list[int] | None = None,
    ) -> None:
        compression = None if codec == "none" else codec

        async def produce() -> None:
            async with AIOKafkaProducer(
                bootstrap_servers=self.bootstrap,
                **secured(),
                enable_idempotence=idempotent,
                acks="all",
                compression_type=compression,
                linger_ms=20,
            ) as producer:
                sent = [
                    await producer.send(topic, value.encode(), partition=partition, timestamp_ms=at)
                    for value, at in zip(values, times or [None] * len(values), strict=True)
                ]
                await asyncio.gather(*sent)

        self.wait(produce())

    def do_read_since(self, topic: str, partition: int, time_ms: int, count: int) -> list[str]:
        """The number of records of a partition from the first with this timestamp or a later one."""

        async def read() -> list[str]:
            where = TopicPartition(topic, partition)
            async with AIOKafkaConsumer(bootstrap_servers=self.bootstrap, **secured()) as consumer:
                consumer.assign([where])
                found = (await consumer.offsets_for_times({where: time_ms}))[where]
                consumer.seek(where, found.offset)
                return [(await consumer.getone()).value.decode() for _ in range(count)]

        return self.wait(asyncio.wait_for(read(), WITHIN_S))

    def do_create_topic(self, topic: str, count: int) -> None:
        self.with_admin(lambda admin: admin.create_topics([NewTopic(topic, count, 1)]))

    def do_list_groups(self) -> list[str]:
        return [group[0] for group in self.with_admin(lambda admin: admin.list_consumer_groups())]

    def do_describe_group(self, group: str) -> dict[str, Any]:
        (answer,) = self.with_admin(lambda admin: admin.describe_consumer_groups([group]))
        (described,) = answer.groups
        _, _, state, _, _, members, *_ = described
        return {"state": state, "members": [member[-4] for member in members]}

    def do_end_offsets(self, partitions: list[list[Any]]) -> list[int]:
        async def ask() -> list[int]:
            consumer = AIOKafkaConsumer(bootstrap_servers=self.bootstrap, **secured())
            await consumer.start()
            try:
                found = await consumer.end_offsets([TopicPartition(*partition) for partition in partitions])
            finally:
                await consumer.stop()
            return [found[TopicPartition(*partition)] for partition in partitions]

        return self.wait(ask())

    def do_group_offsets(self, group: str, partitions: list[list[Any]]) -> list[int | None]:
        found = self.with_admin(lambda admin: admin.list_consumer_group_offsets(group))
        known = [found.get(TopicPartition(*partition)) for partition in partitions]
        return [None if offset is None else offset.offset for offset in known]

    def with_admin(self, ask: Any) -> Any:
        async def run() -> Any:
            admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap, **secured())
            await admin.start()
            try:
                return await ask(admin)
            finally:
                await admin.close()

        return self.wait(run())


Aiokafka(sys.argv[1]).run()
