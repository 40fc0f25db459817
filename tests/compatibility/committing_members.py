"""Members of groups that commit rising offsets of what they are assigned, and note what was acknowledged."""

import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from tests.compatibility.commit_history import History
from tests.compatibility.line_program import LineProgram
from tests.compatibility.members import JAVA_ARTIFACTS
from tests.support.background import Background
from tests.support.java_support import compile_java, java, kafka_classpath

confluent_kafka = pytest.importorskip("confluent_kafka")

HERE = Path(__file__).parent
POLL_S = 0.05


class LibrdkafkaMember:
    """A librdkafka consumer in a thread of this process."""

    def __init__(self, bootstrap: str, group: str, protocol: str, topic: str, history: History) -> None:
        self.group = group
        self.topic = topic
        self.history = history
        self.over = threading.Event()
        self.consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "group.protocol": protocol,
                "enable.auto.commit": False,
                "log_level": 0,
                **({"session.timeout.ms": 10_000} if protocol == "classic" else {}),
            }
        )
        self.consumer.subscribe([topic])
        self.thread = Background(self._work)

    def _work(self) -> None:
        while not self.over.is_set():
            self.consumer.poll(POLL_S)
            for partition in self.consumer.assignment():
                self._commit(partition.partition)
        self.consumer.close()

    def _commit(self, partition: int) -> None:
        offset = self.history.next_offset()
        wanted = confluent_kafka.TopicPartition(self.topic, partition, offset)
        with suppress(confluent_kafka.KafkaException):
            committed = self.consumer.commit(offsets=[wanted], asynchronous=False)
            if committed is not None and committed[0].error is None:
                self.history.acknowledged(self.group, [partition], offset)

    def end(self) -> None:
        self.over.set()
        self.thread.finish()


class JavaMembers(LineProgram):
    """Members of several groups, group -> protocol, in one process."""

    def __init__(self, bootstrap: str, groups: Mapping[str, str], members: int, topic: str, history: History) -> None:
        self.history = history
        classpath = compile_java(HERE / "java" / "CommittingMembers.java", kafka_classpath(JAVA_ARTIFACTS))
        wanted = [f"{group}={protocol}" for group, protocol in groups.items()]
        super().__init__(
            java(classpath, "CommittingMembers", bootstrap, topic, str(members), *wanted, heap_mib=256), self._note
        )

    def _note(self, line: str) -> None:
        group, partition, offset = line.split()
        self.history.acknowledged(group, [int(partition)], int(offset))
