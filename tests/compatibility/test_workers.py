"""Real clients over three workers and PostgreSQL, while workers are killed and stopped at random.

The short form runs always. `WORKERS_TEST_S=300` makes it five minutes, with the Java client and with transactions; what it
measured is printed (pytest -s). `WORKERS_TEST_JOURNAL=kafka` runs it over three Kafka brokers.
"""

import json
import os
import random
import time
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from coordinator.operations.client import Client as connected
from tests.compatibility.commit_history import History
from tests.compatibility.committing_members import JavaMembers, LibrdkafkaMember
from tests.compatibility.members import CLIENTS, Program, shared, wait_for_all
from tests.compatibility.three_workers import (
    PARTITIONS,
    create,
    disturb,
    is_spread,
    owners,
    three_workers,
)
from tests.compatibility.transaction_programs import (
    IN_TRANSACTION,
    OffsetReader,
    Transactions,
    check,
    confluent,
    java_command,
)
from tests.support.waiting import wait_until

confluent_kafka = pytest.importorskip("confluent_kafka")
pytest.importorskip("asyncpg")

pytestmark = pytest.mark.database  # the fixture asks for the engine by its name
JOURNAL = {"postgresql": "database", "kafka": "kafka_cluster"}[os.environ.get("WORKERS_TEST_JOURNAL", "postgresql")]
IS_LONG = "WORKERS_TEST_S" in os.environ
SECONDS = float(os.environ.get("WORKERS_TEST_S", "8"))
BETWEEN_FAULTS_S = 6.0 if IS_LONG else 3.0
FAULTS_MIN = 2
"""In the short form a worker is killed, and one is stopped."""
MEMBERS = 2
READ_EVERY_S = 0.2
TOPIC = "numbers"
DEBUG = {"debug": "eos,broker", "log_level": 7}
REPLICATION = {"database": "optional", "kafka_cluster": "required"}
FEW_TOPICS = {
    "journal.beat.timeout.ms": 10_000,
    "journal.append.timeout.ms": 15_000,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 2,
}
"""Brokers on a busy machine take their time to answer, and to make topics."""


class Clients:
    """The clients of a run: groups of each kind, a reader of each group's offsets, and the history of all."""

    def __init__(self, bootstrap: str, *, everything: bool) -> None:
        """`everything`: with the Java client and with transactions."""
        protocols, more = ("classic", "consumer"), range(2 if everything else 0)
        librdkafka = {f"librdkafka-{protocol}-{number}": protocol for protocol in protocols for number in range(3)}
        java = {f"java-{protocol}-{number}": protocol for protocol in protocols for number in more}
        programs = {f"{name}-transactions-{number}": name for name in ("librdkafka", "java") for number in more}
        self.groups = [*librdkafka, *java]
        """Those that have members."""
        every = [*self.groups, *programs]
        partitions = {group: IN_TRANSACTION if group in programs else PARTITIONS for group in every}
        self.history = History({group: group.rpartition("-")[0].replace("-", " ") for group in every}, partitions)
        with ExitStack() as started:
            self.members = [
                LibrdkafkaMember(bootstrap, group, protocol, TOPIC, self.history)
                for group, protocol in librdkafka.items()
                for _ in range(MEMBERS)
            ]
            for member in self.members:
                started.callback(member.end)
            for member in self.members:
                started.callback(member.over.set)
            self.java = [JavaMembers(bootstrap, java, MEMBERS, TOPIC, self.history)] if java else []
            self.programs = [self._program(bootstrap, group, name) for group, name in programs.items()]
            for program in (*self.java, *self.programs):
                started.callback(program.kill)
            self.readers = [
                OffsetReader(
                    bootstrap, group, TOPIC, partitions=partitions[group], every_s=READ_EVERY_S,
                    acknowledged=lambda group=group: self.history.acknowledged_by(group),
                )
                for group in every
            ]  # fmt: skip
            for reader in self.readers:
                started.callback(reader.end)
            self._stack = started.pop_all()

    def _program(self, bootstrap: str, group: str, name: str) -> Transactions:
        command, *settings = (confluent(), json.dumps(DEBUG)) if name == "librdkafka" else (java_command(),)
        return Transactions(
            command, bootstrap, group, TOPIC, *settings,
            on_commit=lambda offset: self.history.acknowledged(group, range(IN_TRANSACTION), offset),
        )  # fmt: skip

    def check_alive(self) -> None:
        for program in (*self.java, *self.programs):
            program.check_alive()

    def all_answered_since(self, at: float) -> bool:
        """Whether every group has had a commit since a time."""
        self.check_alive()
        return not self.history.silent_since(at)

    def end(self) -> None:
        """Lets all finish what they do."""
        for program in (*self.java, *self.programs):
            program.end()
        self.kill()

    def kill(self) -> None:
        self._stack.close()


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
def test_groups_lose_no_acknowledged_offset_while_workers_die(cluster):
    """No acknowledged offset is lost or read too late, no shard or partition has two owners, all groups are Stable again."""
    bootstrap = ",".join(worker.bootstrap for worker in cluster)
    admin = create(bootstrap, TOPIC)
    wait_until(lambda: is_spread(cluster), "an even spread")
    chance = random.Random(os.environ.get("WORKERS_TEST_SEED", "7"))
    clients = Clients(bootstrap, everything=IS_LONG)
    history = clients.history
    try:
        wait_until(lambda: not history.missing(), lambda: f"commits of {history.missing()}")
        end = time.monotonic() + SECONDS
        moves: list[str] = []
        while time.monotonic() < end or len(moves) < FAULTS_MIN:
            fault, victim = ("kill", "stop")[len(moves) % 2], chance.choice(cluster)
            history.begin_fault(fault)
            moves.append(f"{fault} of worker {cluster.index(victim) + 1} {disturb(cluster, victim, fault)}")
            time.sleep(BETWEEN_FAULTS_S)
        wait_until(lambda: is_spread(cluster), lambda: f"an even spread: {owners(cluster)}")
        settled = [("STABLE", list(range(PARTITIONS)))] * len(clients.groups)
        wait_until(
            lambda: described(admin, clients.groups) == settled,
            lambda: f"Stable groups that have every partition once: {described(admin, clients.groups)}",
        )
        at = time.monotonic()
        wait_until(
            lambda: clients.all_answered_since(at),
            lambda: "\n".join(
                [f"{history.silent_since(at)}", *(each.trouble(cluster, 0) for each in clients.programs)]
            ),
        )
        faults = [max(history.silences(number).values()) for number in range(len(moves))]
        report = history.report()
        clients.end()
    finally:
        clients.kill()
    missing = lost(bootstrap, history)
    stale = [read for reader in clients.readers for read in reader.stale]
    print(
        "",
        *(f"{move} silence={seconds:.1f}s" for move, seconds in zip(moves, faults, strict=True)),
        *(program.said() for program in clients.programs),
        f"faults={len(moves)} commits={sum(map(len, history.times.values()))}"
        f" reads={sum(len(reader.read) for reader in clients.readers)} lost={len(missing)} stale={len(stale)}"
        f" load={os.getloadavg()[1]:.0f}",
        "silence of affected groups",
        *report,
        sep="\n",
    )
    assert not missing, missing
    assert not stale, stale
    for program, reader in zip(clients.programs, clients.readers[len(clients.groups) :], strict=True):
        check(program, reader.read)
    zombies = [line for worker in cluster for line in worker.log.splitlines() if "Traceback" in line]
    assert not zombies


def described(admin: Any, groups: list[str]) -> list[tuple[str, list[int]]]:
    """The state of each group, and the partitions that its members have."""
    futures = admin.describe_consumer_groups(groups, request_timeout=10).values()
    found = []
    for future in futures:
        with suppress(confluent_kafka.KafkaException):
            group = future.result()
            owned = [each.partition for member in group.members for each in member.assignment.topic_partitions]
            found.append((group.state.name, sorted(owned)))
    return found


def lost(bootstrap: str, history: History) -> list[tuple[str, list[int], list[int]]]:
    """Group, acknowledged and found offsets, where less than what was acknowledged is found."""
    found = []
    for group in history.kinds:
        highest = history.acknowledged_by(group)
        consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
        partitions = [confluent_kafka.TopicPartition(TOPIC, index) for index in range(len(highest))]
        offsets = [each.offset for each in consumer.committed(partitions, timeout=30)]
        if any(offset < least for offset, least in zip(offsets, highest, strict=True)):
            found.append((group, highest, offsets))
        consumer.close()
    return found


def test_a_stopped_worker_gives_its_shards_back_at_once(tmp_path, fresh, request):
    """After SIGTERM the others have its shards as soon as its process is gone, long before it counts as dead."""
    settings = {"journal.replication": REPLICATION[JOURNAL], "journal.beat.timeout.ms": 30_000}
    with three_workers(tmp_path, request.getfixturevalue(JOURNAL), fresh("cluster"), settings) as workers:
        wait_until(lambda: is_spread(workers), "an even spread")
        assert workers[0].terminate() == 0
        wait_until(lambda: is_spread(workers[1:]), "an even spread over two", within_s=20)


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
