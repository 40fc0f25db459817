"""Real clients over three workers and PostgreSQL, while workers are killed and stopped at random.

The short form runs always. `WORKERS_TEST_S=300` makes it five minutes; what it measured is printed (pytest -s).
"""

import os
import random
import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from itertools import pairwise
from typing import Any

import pytest

from coordinator.operations.client import Client as connected
from tests.compatibility.members import CLIENTS, Program, shared, wait_for_all
from tests.support.postgresql import Cluster
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until

confluent_kafka = pytest.importorskip("confluent_kafka")
confluent_admin = pytest.importorskip("confluent_kafka.admin")
pytest.importorskip("asyncpg")

SECONDS = float(os.environ.get("WORKERS_TEST_S", "20"))
BETWEEN_FAULTS_S = 6.0
STOPPED_S = 5.0
SHARDS = 12
PARTITIONS = 4
GROUPS = {f"{protocol}-{number}": protocol for protocol in ("classic", "consumer") for number in range(3)}
MEMBERS = 2
OWNED_WITHIN_S = 5.0


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
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

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


@pytest.fixture(scope="module")
def database():
    """One PostgreSQL for all tests."""
    database = Cluster(standbys=0)
    yield database
    database.close()


@pytest.fixture
def cluster(tmp_path, database, fresh):
    """Three workers of a cluster of their own in the database."""
    with ExitStack() as stack:
        settings = {
            "journal.cluster": fresh("cluster").replace("-", "_"),
            "offsets.topic.num.partitions": SHARDS,
            "transaction.state.log.num.partitions": SHARDS,
            "journal.replication": "optional",
            "data.plane": "none",
        }
        workers = []
        for node_id in (1, 2, 3):
            folder = tmp_path / f"worker-{node_id}"
            folder.mkdir()
            worker = ServerProcess(
                folder, settings=settings | {"node.id": node_id}, arguments=("--journal", database.url())
            )
            stack.callback(worker.stop)
            workers.append(worker)
        with ThreadPoolExecutor() as threads:
            list(threads.map(ServerProcess.start, workers))
        yield workers


def create(bootstrap: str, topic: str) -> Any:
    """Creates a topic; returns the client."""
    admin = confluent_admin.AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for created in admin.create_topics([confluent_admin.NewTopic(topic, PARTITIONS, 1)]).values():
        created.result()
    return admin


def owners(workers: list[ServerProcess]) -> dict[str, list[int]]:
    """Shard of groups -> the workers that say that they serve it."""
    import urllib.request

    found: dict[str, list[int]] = {}
    for worker in workers:
        with urllib.request.urlopen(f"{worker.admin}/metrics", timeout=5) as response:
            lines = response.read().decode().splitlines()
        prefix = 'coordinator_shard_owned{shard="__consumer_offsets-'
        for line in lines:
            if line.startswith(prefix) and line.endswith(" 1.0"):
                found.setdefault(line.removeprefix(prefix).partition('"')[0], []).append(worker.port)
    return found


def is_spread(workers: list[ServerProcess]) -> bool:
    found = owners(workers)
    counts = [sum(worker.port in each for each in found.values()) for worker in workers]
    return len(found) == SHARDS and all(len(each) == 1 for each in found.values()) and max(counts) - min(counts) <= 1


def disturb(worker: ServerProcess, fault: str) -> None:
    if fault == "kill":
        worker.kill()
        time.sleep(OWNED_WITHIN_S)
        worker.start()
    else:
        worker.pause()
        time.sleep(STOPPED_S)
        worker.resume()


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
    try:
        wait_until(lambda: len(history.highest) == len(GROUPS) * PARTITIONS, lambda: f"commits: {history.highest}")
        end = time.monotonic() + SECONDS
        faults = 0
        while time.monotonic() < end:
            began = time.monotonic()
            disturb(chance.choice(cluster), ("kill", "stop")[faults % 2])
            faults += 1
            time.sleep(BETWEEN_FAULTS_S)
            silences += [history.silence(group, began, time.monotonic()) for group in GROUPS]
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
            member.thread.join()
    assert lost(bootstrap, history) == []
    affected = [silence for silence in silences if silence > 1.0]
    print(
        f"\nfaults={faults} commits={sum(map(len, history.times.values()))} lost=0"
        f" silence of affected groups: n={len(affected)} median={statistics.median(affected or [0]):.1f}s"
        f" worst={max(silences):.1f}s"
    )
    zombies = [line for worker in cluster for line in worker.log.splitlines() if "Traceback" in line]
    assert not zombies


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


@pytest.mark.parametrize("name", [pytest.param("java", marks=pytest.mark.java), "aiokafka"])
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
        assert members[0].call("committed", partitions=[[topic, first]]) == [7]
        wait_for_all(members, lambda: shared(members, partitions), "an assignment")
    finally:
        for member in members:
            member.stop()
