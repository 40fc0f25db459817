"""A server with several workers, and clients that remember what was acknowledged."""

import os
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import confluent_kafka
import confluent_kafka.admin

from tests.support.background import Background
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until

SHARDS = 6
TOPIC = "numbers"
PARTITIONS = 4
OFFSETS_WITHIN_S = 5
"""How long a producer waits until its offsets are part of the transaction."""
PATIENCE = {
    "transaction.timeout.ms": 20_000,
    # Only a connection that opens or closes wakes a producer whose group's coordinator went away (librdkafka's issue 5511).
    "connections.max.idle.ms": 1_000,
    "reconnect.backoff.max.ms": 1_000,
}
SETTINGS = {
    "offsets.topic.num.partitions": SHARDS,
    "transaction.state.log.num.partitions": SHARDS,
    # A killed worker is dead at once, because its connection ends; no worker of a busy machine shall be taken for a hung one.
    "journal.beat.timeout.ms": 10_000,
}


class Machine:
    """One data folder, served by several workers or by one process in turn."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.server = ServerProcess(folder, settings=SETTINGS | settings)
        self.access: dict[str, Any] = {}
        """How clients authenticate."""

    def serve(self, workers: int) -> ServerProcess:
        """Starts it; 0 workers: without a supervisor."""
        self.server.arguments = ("--workers", str(workers)) if workers else ()
        return self.server.start()

    @property
    def workers(self) -> list[int]:
        """The processes of the workers, as the last ready line has them."""
        return list(self.server.ready["workers"])

    def kill_worker(self, number: int) -> None:
        os.kill(self.workers[number], signal.SIGKILL)

    def kill_all(self) -> None:
        """The supervisor last: it would start the workers again."""
        os.kill(self.server.pid, signal.SIGSTOP)
        for pid in self.workers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.server.kill()

    def admin(self) -> Any:
        return confluent_kafka.admin.AdminClient(self._client)

    @property
    def _client(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.server.bootstrap, "log_level": 0} | self.access

    def create(self, topic: str = TOPIC, partitions: int = PARTITIONS) -> None:
        admin = self.admin()
        for created in admin.create_topics([confluent_kafka.admin.NewTopic(topic, partitions, 1)]).values():
            created.result(20)

    def consumer(self, group: str) -> Any:
        return confluent_kafka.Consumer(
            self._client | {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        )

    def producer(self, **settings: Any) -> Any:
        return confluent_kafka.Producer(self._client | settings)

    def committed(self, group: str, partition: int = 0) -> int:
        """The committed offset. While its shard moves, clients get NOT_COORDINATOR, and ask again."""
        consumer = self.consumer(group)
        wanted = [confluent_kafka.TopicPartition(TOPIC, partition)]

        def ask() -> list[int]:
            with suppress(confluent_kafka.KafkaException):
                return [consumer.committed(wanted, timeout=10)[0].offset]
            return []

        try:
            return wait_until(ask)[0]
        finally:
            consumer.close()

    def nodes(self) -> dict[int, str]:
        return {
            broker.id: f"{broker.host}:{broker.port}"
            for broker in self.admin().list_topics(timeout=20).brokers.values()
        }

    def leaders(self, topic: str) -> list[int]:
        """The node that leads each partition. A worker that has not read yet that the topic was created does not know it."""

        def ask() -> list[int]:
            partitions = self.admin().list_topics(topic, timeout=20).topics[topic].partitions
            return [partitions[number].leader for number in sorted(partitions)]

        return wait_until(ask, f"partitions of {topic}")


class Committer:
    """Commits rising offsets of one group in a thread, and remembers the highest one that was acknowledged."""

    def __init__(self, machine: Machine, group: str) -> None:
        self.group = group
        self.acknowledged = 0
        self._consumer = machine.consumer(group)
        self._over = threading.Event()
        self._thread = Background(self._work)

    def _work(self) -> None:
        offset = 0
        while not self._over.is_set():
            offset += 1
            with suppress(confluent_kafka.KafkaException):
                wanted = confluent_kafka.TopicPartition(TOPIC, 0, offset)
                self._consumer.commit(offsets=[wanted], asynchronous=False)
                self.acknowledged = offset

    def go_on(self, count: int = 20) -> None:
        """Returns when so many more commits are acknowledged."""
        wanted = self.acknowledged + count
        wait_until(lambda: self.acknowledged >= wanted)

    def stop(self) -> None:
        self._over.set()
        self._thread.finish()
        self._consumer.close()


class Transactor:
    """Produces a number in each transaction, and may commit it as an offset; remembers what was acknowledged.

    librdkafka waits for ever with an offset in a transaction if the group's coordinator went away and came back, over any
    server. So this does not wait for long, and goes on with another producer.
    """

    def __init__(self, machine: Machine, name: str, *, commits_offsets: bool) -> None:
        self._commits_offsets = commits_offsets
        self.name = name
        self.acknowledged: list[int] = []
        self.attempted: list[int] = []
        self._machine = machine
        self._consumer = machine.consumer(name)
        self._over = threading.Event()
        self._thread = Background(self._work)

    def _work(self) -> None:
        number = 0
        while not self._over.is_set():
            producer = self._machine.producer(**PATIENCE | {"transactional.id": self.name})
            with suppress(confluent_kafka.KafkaException):
                producer.init_transactions(30)
                while not self._over.is_set():
                    number += 1
                    self._transact(producer, number)

    def _transact(self, producer: Any, number: int) -> None:
        """Raises KafkaException: whether it was committed, nobody knows; the next producer aborts what is open."""
        self.attempted.append(number)
        producer.begin_transaction()
        producer.produce(TOPIC, f"{self.name} {number}", partition=1)
        if self._commits_offsets:
            offsets = [confluent_kafka.TopicPartition(TOPIC, 0, number)]
            producer.send_offsets_to_transaction(offsets, self._consumer.consumer_group_metadata(), OFFSETS_WITHIN_S)
        producer.commit_transaction(30)
        self.acknowledged.append(number)

    def go_on(self, count: int = 5) -> None:
        """Returns when so many more transactions are acknowledged."""
        wanted = len(self.acknowledged) + count
        wait_until(lambda: len(self.acknowledged) >= wanted)

    def stop(self) -> None:
        self._over.set()
        self._thread.finish()
        self._consumer.close()


def committed_numbers(machine: Machine, names: list[str]) -> dict[str, list[int]]:
    """What a reader of committed records finds of each transactor."""
    consumer = machine.consumer("reader")
    found: dict[str, list[int]] = {name: [] for name in names}
    partition = confluent_kafka.TopicPartition(TOPIC, 1, 0)
    _, end = consumer.get_watermark_offsets(partition, timeout=30)
    consumer.assign([partition])
    while consumer.position([partition])[0].offset < end:
        for message in consumer.consume(100, timeout=0.2):
            name, _, number = message.value().decode().partition(" ")
            found[name].append(int(number))
    consumer.close()
    return found
