"""Real clients and three brokers in one process: each client finds the leaders and coordinators by itself."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from coordinator_testing.control import Control
from coordinator_testing.throwaway_server import ThrowawayServer
from tests.compatibility.members import Client, Program, shared, wait_for_all
from tests.support.waiting import wait_until
from tests.support.wire import Connection

confluent_kafka = pytest.importorskip("confluent_kafka")

PARTITIONS = 6
SETTINGS = ("nodes=3", "offsets.topic.num.partitions=7", "transaction.state.log.num.partitions=7")


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThrowawayServer]:
    server = ThrowawayServer(tmp_path_factory.mktemp("brokers"), SETTINGS).start()
    yield server
    server.stop()


def make_topic(server: ThrowawayServer, name: str) -> str:
    wanted = {"name": name, "num_partitions": PARTITIONS, "replication_factor": 3}
    with Connection(first(server)) as link:
        (made,) = link.call("CreateTopics", 7, topics=[wanted], timeout_ms=10_000)["topics"]
    assert made["error_code"] == 0, made
    return name


def first(server: ThrowawayServer) -> str:
    """The address of the first broker."""
    return server.bootstrap_servers.partition(",")[0]


@pytest.fixture
def programs(program_folder: Path, client: Client, brokers: ThrowawayServer) -> Iterator[list[Program]]:
    """Three client programs, which know the first broker."""
    started = [Program(client, first(brokers), program_folder) for _ in range(3)]
    yield started
    for program in started:
        program.stop()


def test_members_share_partitions_and_keep_them_while_leaders_and_their_coordinator_move(
    client: Client, brokers: ThrowawayServer, programs: list[Program]
) -> None:
    topic, group = make_topic(brokers, f"moving-{client.name}"), f"moved-{client.name}"
    for number, program in enumerate(programs):
        program.join(group, [topic], name=f"m{number}")
    partitions = {(topic, index) for index in range(PARTITIONS)}
    wait_for_all(programs, lambda: shared(programs, partitions), "the members to share")
    values = [f"v{number}" for number in range(60)]
    for index in range(PARTITIONS):
        programs[0].call("produce", topic=topic, values=values[index::PARTITIONS], partition=index)
    wait_for_all(programs, lambda: sum(len(each.values()) for each in programs) >= len(values), "all records")
    assert sorted(value for each in programs for value in each.values()) == sorted(values)
    with Control(brokers.admin_url) as control:
        for turn in range(3):
            control.broker(1 + turn).lead(group=group)
            for index in range(PARTITIONS):
                control.broker(1 + (index + turn) % 3).lead(topic=topic, partition=index)
            for index in range(PARTITIONS):
                programs[turn].call("produce", topic=topic, values=[f"{turn}-{index}"], partition=index)
        control.broker(2).down()
        for index in range(PARTITIONS):
            programs[0].call("produce", topic=topic, values=[f"down-{index}"], partition=index)
        values = [f"{turn}-{index}" for turn in (0, 1, 2, "down") for index in range(PARTITIONS)]
        wait_for_all(
            programs, lambda: {value for each in programs for value in each.values()} >= {*values}, "all records"
        )
    wait_for_all(programs, lambda: shared(programs, partitions), "the members to share again")


def committed(consumer: Any, wanted: list[Any]) -> list[int]:
    """The committed offsets. Librdkafka returns NOT_COORDINATOR while it looks for the next coordinator."""

    def ask() -> list[int]:
        with suppress(confluent_kafka.KafkaException):
            return [each.offset for each in consumer.committed(wanted, 30)]
        return []

    return wait_until(ask, "the committed offsets")


def test_transactions_go_on_while_leaders_and_coordinators_move(brokers: ThrowawayServer) -> None:
    topic, group = make_topic(brokers, "moving-in-transactions"), "moved"
    common = {"bootstrap.servers": brokers.bootstrap_servers}
    producer = confluent_kafka.Producer(common | {"transactional.id": "moved", "linger.ms": 0})
    producer.init_transactions(30)
    consumer = confluent_kafka.Consumer(
        common | {"group.id": group, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    )
    with Control(brokers.admin_url) as control:
        for turn in range(4):
            producer.begin_transaction()
            for index in range(PARTITIONS):
                producer.produce(topic, f"{turn}-{index}", partition=index)
            producer.flush(30)
            control.broker(1 + turn % 3).lead(transactional_id="moved")
            control.broker(1 + (turn + 1) % 3).lead(group=group)
            for index in range(PARTITIONS):
                control.broker(1 + (index + turn) % 3).lead(topic=topic, partition=index)
            offsets = [confluent_kafka.TopicPartition(topic, index, turn + 1) for index in range(PARTITIONS)]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
            producer.commit_transaction(30)
    consumer.assign([confluent_kafka.TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    records = [consumer.poll(30) for _ in range(4 * PARTITIONS)]
    assert sorted(each.value().decode() for each in records) == [
        f"{turn}-{index}" for turn in range(4) for index in range(PARTITIONS)
    ]
    assert committed(consumer, offsets) == [4] * PARTITIONS
    consumer.close()


def test_a_transaction_spans_leaders_and_commits_offsets_at_the_coordinator(brokers: ThrowawayServer) -> None:
    topic, group = make_topic(brokers, "in-transactions"), "of-the-transaction"
    common = {"bootstrap.servers": first(brokers)}
    producer = confluent_kafka.Producer(common | {"transactional.id": "t", "linger.ms": 0})
    producer.init_transactions(30)
    consumer = confluent_kafka.Consumer(
        common | {"group.id": group, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    )
    for is_committed in (False, True):
        producer.begin_transaction()
        for index in range(PARTITIONS):
            producer.produce(topic, f"{is_committed}-{index}", partition=index)
        offsets = [confluent_kafka.TopicPartition(topic, index, 1) for index in range(PARTITIONS)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
        producer.commit_transaction(30) if is_committed else producer.abort_transaction(30)
    consumer.assign([confluent_kafka.TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    records = [consumer.poll(30) for _ in range(PARTITIONS)]
    assert sorted(each.value().decode() for each in records) == [f"True-{index}" for index in range(PARTITIONS)]
    assert committed(consumer, offsets) == [1] * PARTITIONS
    consumer.close()
