"""The programs that docs/certification.md is about: the right ones copy and commit, and the wrong ones are found out."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.compatibility.certified.programs import PROGRAMS, SHARE, WRONG
from tests.support.server_process import ServerProcess
from tests.support.waiting import WITHIN_S, wait_until

RECORDS = 40
JAVA_AFTER_SIGTERM = 128 + signal.SIGTERM
"""The JVM's exit code if SIGTERM ends it in an orderly way."""
JAVA = {"java": (), "java_transactions": (pytest.mark.thorough,), "streams": ()}
RIGHT = [
    pytest.param(name, marks=(pytest.mark.java, *JAVA[name]) if name in JAVA else ())
    for name in PROGRAMS
    if name not in WRONG | SHARE
]


def read_committed(server: ServerProcess, topic: str, count: int) -> list[bytes]:
    """The first records of partition 0 that no aborted transaction wrote."""
    settings = {"bootstrap.servers": server.bootstrap, "group.id": "reader", "enable.auto.commit": False}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []

    def complete() -> bool:
        values.extend(message.value() for message in consumer.consume(count, 0.2) if not message.error())
        return len(values) >= count

    wait_until(complete, f"{count} records of {topic}")
    consumer.close()
    return values


@pytest.mark.foreign  # which client is a parameter
@pytest.mark.parametrize("name", RIGHT)
def test_an_obvious_program_copies_every_record_and_commits_what_it_copied(
    server: ServerProcess, make_topic: Callable[..., str], fresh: Callable[[str], str], tmp_path: Path, name: str
):
    program = PROGRAMS[name]
    source, target, group = make_topic(server, 1), make_topic(server, 1, "copies"), fresh("certified")
    environment = {
        "BOOTSTRAP": server.bootstrap,
        "TOPIC": source,
        "GROUP": group,
        "OUTPUT_TOPIC": target,
        "GROUP_PROTOCOL": program.protocols[-1],
        "TRANSACTIONAL_ID": group if program.transactional else "",
    }
    producer = Producer({"bootstrap.servers": server.bootstrap})
    values = [b"%d" % number for number in range(RECORDS)]
    for value in values:
        producer.produce(source, value)
    producer.flush()
    admin = AdminClient({"bootstrap.servers": server.bootstrap})

    def committed() -> int:
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(source, 0)])
        [found] = admin.list_consumer_group_offsets([asked])[group].result(WITHIN_S).topic_partitions
        return int(found.offset)

    with (tmp_path / "output").open("wb") as output:
        process = subprocess.Popen(program.command(), env=os.environ | environment, stdout=output, stderr=output)
        try:
            assert read_committed(server, target, RECORDS) == values
            wait_until(lambda: committed() == RECORDS, "the last commit")
            process.terminate()
            assert process.wait(WITHIN_S) in (0, JAVA_AFTER_SIGTERM), (tmp_path / "output").read_text()
        finally:
            process.kill()
            process.wait()
