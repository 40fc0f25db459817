"""Real clients over three workers and PostgreSQL, while workers are killed and stopped at random.

The short form runs always. `WORKERS_TEST_S=300` makes it five minutes; what it measured is printed (pytest -s).
`WORKERS_TEST_JOURNAL=kafka` runs it over three Kafka brokers.
"""

import os
import random
import statistics
import threading
import time
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest

from coordinator.operations.client import Client as connected
from tests.compatibility.members import CLIENTS, Program, shared, wait_for_all
from tests.compatibility.three_workers import (
    OWNED_WITHIN_S,
    PARTITIONS,
    breakdown,
    create,
    disturb,
    is_spread,
    owners,
    three_workers,
)
from tests.support.background import Background
from tests.support.waiting import wait_until

confluent_kafka = pytest.importorskip("confluent_kafka")
confluent_admin = pytest.importorskip("confluent_kafka.admin")
pytest.importorskip("asyncpg")

JOURNAL = {"postgresql": "database", "kafka": "kafka_cluster"}[os.environ.get("WORKERS_TEST_JOURNAL", "postgresql")]
IS_LONG = "WORKERS_TEST_S" in os.environ
SECONDS = float(os.environ.get("WORKERS_TEST_S", "15"))
BETWEEN_FAULTS_S = 6.0 if IS_LONG else 3.0
"""In the short form a worker is killed, and one is stopped."""
GROUPS = {f"{protocol}-{number}": protocol for protocol in ("classic", "consumer") for number in range(3)}
MEMBERS = 2
REPLICATION = {"database": "optional", "kafka_cluster": "required"}
FEW_TOPICS = {
    "journal.beat.timeout.ms": 10_000,
    "journal.append.timeout.ms": 15_000,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 2,
}
"""Brokers on a busy machine take their time to answer, and to make topics."""


class Member:
    """A librdkafka consumer that commits rising offsets of what it is assigned, and remembers what was acknowledged."""

    def __init__(self, bootstrap: str, group: str, history: "History") -> None:
        self.group = group
        self.history = history
        self.over = threading.Event()
        self.consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "group.protocol": GROUPS[group],
                "enable.auto.commit": False,
                "log_level": 0,
                **({"session.timeout.ms": 10_000} if GROUPS[group] == "classic" else {}),
            }
        )
        self.consumer.subscribe(["numbers"])
        self.thread = Background(self.work)

    def work(self) -> None:
        while not self.over.is_set():
            self.consumer.poll(0.05)
            for partition in self.consumer.assignment():
                self.commit(partition.partition)
        self.consumer.close()

    def commit(self, partition: int) -> None:
        offset = self.history.next_offset()
        wanted = confluent_kafka.TopicPartition("numbers", partition, offset)
        with suppress(confluent_kafka.KafkaException):
            committed = self.consumer.commit(offsets=[wanted], asynchronous=False)
            if committed is not None and committed[0].error is None:
                self.history.acknowledged(self.group, partition, offset)


class History:
    """What clients know: the highest acknowledged offset of each partition of a group, and when each group had its commits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._offset = 0
        self.highest: dict[tuple[str, int], int] = {}
        self.times: dict[str, list[float]] = {group: [] for group in GROUPS}

    def next_offset(self) -> int:
        with self._lock:
            self._offset += 1
            return self._offset

    def acknowledged(self, group: str, partition: int, offset: int) -> None:
        with self._lock:
            key = group, partition
            self.highest[key] = max(self.highest.get(key, 0), offset)
            self.times[group].append(time.monotonic())

    def silence(self, group: str, begin: float, end: float) -> float:
        """The longest time without an acknowledged commit of a group."""
        with self._lock:
            times = [begin, *(at for at in self.times[group] if begin < at < end), end]
        return max(later - earlier for earlier, later in pairwise(times))


@pytest.fixture
def cluster(tmp_path, fresh, request):
    """Three workers of a cluster of their own in the database, or over Kafka if the test says so."""
    name = getattr(request, "param", JOURNAL)
    engine = request.getfixturevalue(name)
    settings = {"journal.replication": REPLICATION[name]}
    if name == "kafka_cluster" and hasattr(request, "param"):
        settings |= FEW_TOPICS
    with three_workers(tmp_path, engine, fresh("cluster"), settings=settings) as started:
        yield started


@pytest.mark.timeout(SECONDS + 280)
def test_groups_lose_no_acknowledged_offset_while_workers_die(cluster, fresh):
    """No acknowledged offset is lost, no shard has two owners, every group is Stable again, and within seconds."""
    bootstrap = ",".join(worker.bootstrap for worker in cluster)
    admin = create(bootstrap, "numbers")
    wait_until(lambda: is_spread(cluster), "an even spread")
    history = History()
    members = [Member(bootstrap, group, history) for group in GROUPS for _ in range(MEMBERS)]
    chance = random.Random(os.environ.get("WORKERS_TEST_SEED", "7"))
    silences: list[float] = []
    report: list[str] = []
    try:
        wait_until(lambda: len(history.highest) == len(GROUPS) * PARTITIONS, lambda: f"commits: {history.highest}")
        end = time.monotonic() + SECONDS
        faults = 0
        while time.monotonic() < end:
            began, began_at = time.monotonic(), time.time()
            fault, victim = ("kill", "stop")[faults % 2], chance.choice(cluster)
            disturb(victim, fault)
            faults += 1
            time.sleep(BETWEEN_FAULTS_S)
            of_groups = [history.silence(group, began, time.monotonic()) for group in GROUPS]
            silences += of_groups
            report.append(f"{fault} {breakdown(cluster, victim, began_at)} silence={shown(of_groups)}")
        wait_until(lambda: is_spread(cluster), lambda: f"an even spread: {owners(cluster)}")
        wait_until(lambda: states(admin) == ["STABLE"] * len(GROUPS), lambda: f"Stable groups: {states(admin)}")
        at = time.monotonic()
        wait_until(
            lambda: all(any(when > at for when in times) for times in history.times.values()), "commits of every group"
        )
    finally:
        for member in members:
            member.over.set()
        for member in members:
            member.thread.finish()
    assert lost(bootstrap, history) == []
    affected = [silence for silence in silences if silence > 1.0]
    print(
        "",
        *report,
        f"faults={faults} commits={sum(map(len, history.times.values()))} lost=0"
        f" silence of affected groups: n={len(affected)} median={statistics.median(affected or [0]):.1f}s"
        f" worst={max(silences):.1f}s",
        sep="\n",
    )
    zombies = [line for worker in cluster for line in worker.log.splitlines() if "Traceback" in line]
    assert not zombies


def shown(seconds: list[float]) -> str:
    return ",".join(f"{each:.1f}" for each in seconds)


def states(admin: Any) -> list[str]:
    described = admin.describe_consumer_groups(list(GROUPS), request_timeout=10)
    found = []
    for future in described.values():
        with suppress(confluent_kafka.KafkaException):
            found.append(future.result().state.name)
    return found


def lost(bootstrap: str, history: History) -> list[tuple[str, int, int, int]]:
    """Group, partition, acknowledged and found offset, where less than what was acknowledged is found."""
    found = []
    for group in GROUPS:
        consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
        partitions = [confluent_kafka.TopicPartition("numbers", index) for index in range(PARTITIONS)]
        for each in consumer.committed(partitions, timeout=30):
            highest = history.highest[group, each.partition]
            if each.offset < highest:
                found.append((group, each.partition, highest, each.offset))
        consumer.close()
    return found


def test_a_stopped_worker_gives_its_shards_back_at_once(cluster):
    """After SIGTERM the others have its shards as soon as its process is gone."""
    wait_until(lambda: is_spread(cluster), "an even spread")
    assert cluster[0].terminate() == 0
    wait_until(lambda: is_spread(cluster[1:]), "an even spread over two", within_s=OWNED_WITHIN_S)


@pytest.mark.parametrize(
    ("name", "cluster"),
    [
        pytest.param("java", "database", marks=pytest.mark.java),
        ("aiokafka", "database"),
        pytest.param("aiokafka", "kafka_cluster", marks=pytest.mark.java),
    ],
    indirect=["cluster"],
)
def test_a_group_goes_on_when_its_worker_is_killed(cluster, name, server, program_folder, fresh):
    """Members stay, or rejoin, at the worker that takes the group over; what was committed before is there."""
    client = CLIENTS[name]
    client.prepare(server.bootstrap)  # with a server that has records; it does nothing the second time
    bootstrap = ",".join(worker.bootstrap for worker in cluster)
    members = []
    try:
        topic, group = fresh("topic"), fresh("group")
        members = [Program(client, bootstrap, program_folder) for _ in range(2)]
        create(bootstrap, topic)
        for number, member in enumerate(members):
            member.begin_to_join(group, [topic], name=f"member-{number}")
        partitions = {(topic, index) for index in range(PARTITIONS)}
        wait_for_all(members, lambda: shared(members, partitions), "an assignment")
        first = next(iter(members[0].owned))[1]
        members[0].call("commit_at", offsets=[[topic, first, 7]])
        with connected(bootstrap, 30.0) as asking:
            coordinator = asking.coordinator(group).name
        next(worker for worker in cluster if worker.bootstrap == coordinator).kill()
        # aiokafka answers None when its session ends while no worker has the group.
        found = wait_until(lambda: [each for each in members[0].call("committed", partitions=[[topic, first]]) if each])
        assert found == [7]
        wait_for_all(members, lambda: shared(members, partitions), "an assignment")
    finally:
        for member in members:
            member.stop()
