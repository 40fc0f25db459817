"""The procedures of docs/backup.md with a real Kafka: from a broker's folder to this server, and back."""

import shutil
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from coordinator import cli
from tests.scenarios.conftest import wait_until_serving
from tests.support.kafka_broker import KafkaBroker
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.java

REPOSITORY = Path(__file__).resolve().parents[2]
VALUES = [b"letter 1", b"letter 2", b"letter 3"]


def create_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    [created] = admin.create_topics([NewTopic("letters", 2, 1)]).values()
    created.result(60)


def write(bootstrap: str) -> None:
    """Produces records in a topic with two partitions, reads one in a group, and commits."""
    create_topic(bootstrap)
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in VALUES:
        producer.produce("letters", value, partition=0)
    producer.produce("letters", b"other", partition=1)
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "billing", "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition("letters", 0, 1)], asynchronous=False)
    consumer.close()


def continues(bootstrap: str, group_protocol: str = "classic") -> None:
    """The group goes on behind its committed offset, and a producer behind the last record."""
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("letters", b"letter 4", partition=0)
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "billing", "group.protocol": group_protocol,
                         "auto.offset.reset": "earliest"})  # fmt: skip
    consumer.subscribe(["letters"])
    found: list[tuple[int, int, bytes]] = []

    def all_read() -> bool:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found.append((message.partition(), message.offset(), message.value()))
        return len(found) == 4

    wait_until(all_read, lambda: f"the records; there are {found}")
    consumer.close()
    assert sorted(found) == [(0, 1, b"letter 2"), (0, 2, b"letter 3"), (0, 3, b"letter 4"), (1, 0, b"other")]


@pytest.mark.thorough  # from day to day test_log_formats.py has groups that Kafka wrote, test_transactional_logs.py records
def test_a_folder_of_kafka_is_served_here_with_its_records_and_groups(tmp_path, capsys):
    """A copy of the whole folder of a broker that was stopped is the data folder."""
    kafka = KafkaBroker(tmp_path / "kafka").start()
    try:
        wait_until_serving(kafka.bootstrap)
        write(kafka.bootstrap)
    finally:
        kafka.stop()
    (tmp_path / "ours").mkdir()
    shutil.copytree(kafka.data_dir, tmp_path / "ours" / "data")
    with ServerProcess(tmp_path / "ours") as server:
        continues(server.bootstrap)
    assert cli.main(["log", "check", str(tmp_path / "ours" / "data")]) == 0


def test_a_folder_of_this_server_is_served_by_kafka_with_its_records_and_groups(tmp_path, capsys):
    (tmp_path / "ours").mkdir()
    with ServerProcess(tmp_path / "ours") as server:
        write(server.bootstrap)
        assert server.terminate() == 0
    kafka = KafkaBroker(tmp_path / "kafka").start()
    try:
        offsets_folder_appears(kafka, capsys)
        kafka.stop()
        refused = move(server.data_dir, kafka.data_dir)
        assert (refused.returncode, "has no partition letters-" in refused.stderr) == (1, True)
        kafka.start()
        create_topic(kafka.bootstrap)
        kafka.stop()
        moved = move(server.data_dir, kafka.data_dir)
        assert moved.returncode == 0, moved.stderr
        kafka.start()
        wait_until_serving(kafka.bootstrap)
        continues(kafka.bootstrap)
    finally:
        kafka.stop()


def offsets_folder_appears(kafka: KafkaBroker, capsys) -> None:
    """Looks up a group that does not exist, which makes Kafka create `__consumer_offsets`."""

    def exists() -> bool:
        assert cli.main(["groups", "offsets", "any", "--bootstrap", kafka.bootstrap]) == 1
        return "there is no group any" in capsys.readouterr().err

    wait_until(exists, "a coordinator")


def move(ours: Path, theirs: Path) -> subprocess.CompletedProcess[str]:
    script = REPOSITORY / "examples" / "move_to_kafka.sh"
    return subprocess.run(["sh", script, ours, theirs], capture_output=True, text=True, check=False)
