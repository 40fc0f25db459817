"""A bank: workers of real clients read transfers and write what they change, while the server, workers and groups die.

A transfer is two entries of the ledger. Whatever happens, the ledger that a careful reader sees has each transfer once, both
entries or none, so all accounts together hold nothing; and a worker that was stopped, replaced and let go again writes nothing.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from compatibility.members import HERE, JAVA_ARTIFACTS
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from java_support import compile_java, kafka_classpath
from server_process import ServerProcess
from wire import Connection

TRANSFERS, PARTITIONS, ACCOUNTS = 300, 4, 10
DISTURBANCES = 6
STARTS_MAX = 40
WITHIN_S = 240.0
SESSION_S = 1.5
SMALL_JAVA = ["-Xmx96m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
SETTINGS = {
    "group.consumer.min.session.timeout.ms": 1500,
    "group.consumer.session.timeout.ms": 1500,
    "group.consumer.min.heartbeat.interval.ms": 300,
    "group.consumer.heartbeat.interval.ms": 300,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
}


class Worker:
    """A worker that is started again, under the same name, whenever it ends."""

    def __init__(self, command: list[str], folder: Path, name: str):
        self._command = command
        self._log = (folder / f"{name}.log").open("ab")
        self.starts = 0
        self._done = threading.Event()
        self._process = self._start()
        self._keeper = threading.Thread(target=self._keep, daemon=True)
        self._keeper.start()

    def _start(self) -> subprocess.Popen[bytes]:
        self.starts += 1
        return subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log)

    def _keep(self) -> None:
        while not self._done.wait(0.05):
            if self._process.poll() is not None:
                self._process = self._start()

    def kill(self) -> None:
        self._process.kill()

    def stop_for(self, seconds: float) -> None:
        """A zombie: it knows nothing of the time that passes."""
        os.kill(self._process.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(self._process.pid, signal.SIGCONT)

    def end(self) -> None:
        self._done.set()
        self._keeper.join()
        self._process.kill()
        self._process.wait()
        self._log.close()


TOPICS = ("transfers", "ledger", "balances")
STREAMS_ARTIFACTS = ("org.apache.kafka:kafka-streams:4.3.1", "org.slf4j:slf4j-nop:1.7.36")
"""Streams of 4.4.0 is not to be had."""


def prepare(server: ServerProcess) -> None:
    with Connection(server.bootstrap) as link:
        topics = [{"name": name, "num_partitions": PARTITIONS, "replication_factor": 1} for name in TOPICS]
        link.call("CreateTopics", 4, topics=topics, timeout_ms=10_000)
    producer = Producer({"bootstrap.servers": server.bootstrap, "enable.idempotence": True})
    chance = random.Random(7)
    for number in range(TRANSFERS):
        source, target = chance.sample(range(ACCOUNTS), 2)
        producer.produce(
            "transfers", f"{number} a{source} a{target} {chance.randint(1, 99)}", partition=number % PARTITIONS
        )
    assert producer.flush(20) == 0


class Reader:
    """What a careful reader of a topic has seen so far. It belongs to no group: nothing makes it read a record twice."""

    def __init__(self, server: ServerProcess, topic: str):
        self.values: list[str] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": server.bootstrap,
                "group.id": "none",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(PARTITIONS)])

    def read(self, seconds: float = 0.3) -> list[str]:
        """Reads on for a moment; everything so far."""
        messages = self._consumer.consume(500, seconds)
        self.values += [message.value().decode() for message in messages if message.error() is None]
        return self.values

    def close(self) -> None:
        self._consumer.close()


def entries(values: list[str]) -> list[tuple[int, str, int]]:
    """Number of the transfer, account, amount."""
    return [(int(number), account, int(amount)) for number, account, amount in (value.split() for value in values)]


def commands(client: str, folder: Path) -> Callable[[str, str, str, str], list[str]]:
    """How a worker is started, by bootstrap, name, group and protocol."""
    if client in ("confluent", "kafka_python"):
        return lambda *words: [sys.executable, str(HERE / "clients" / f"transfers_{client}.py"), *words]
    classes = folder / "classes"
    classes.mkdir()
    program, artifacts = {
        "java": ("TransferWorker", JAVA_ARTIFACTS),
        "streams": ("TransferStreams", STREAMS_ARTIFACTS),
    }[client]
    classpath = compile_java(HERE / "java" / f"{program}.java", kafka_classpath(artifacts), classes)
    return lambda *words: ["java", *SMALL_JAVA, "-cp", classpath, program, *words, str(folder)]


@pytest.fixture
def hired(tmp_path: Path) -> Iterator[Callable[..., list[Worker]]]:
    workers: list[Worker] = []

    def hire(client: str, server: ServerProcess, protocol: str, names: str) -> list[Worker]:
        command = commands(client, tmp_path)
        workers.extend(
            Worker(command(server.bootstrap, f"worker-{name}", "bank", protocol), tmp_path, name) for name in names
        )
        return workers

    yield hire
    for worker in workers:
        worker.end()


def disturb(server: ServerProcess, workers: list[Worker], chance: random.Random) -> None:
    """Something that happens in the life of a server and its workers."""
    what = chance.choice(["server dies", "worker dies", "worker sleeps", "nothing"])
    worker = chance.choice(workers)
    if what == "server dies":
        server.restart(kill=True)
    elif what == "worker dies":
        worker.kill()
    elif what == "worker sleeps":
        worker.stop_for(SESSION_S + 1.0)


@pytest.mark.parametrize(
    ("client", "protocol", "version"),
    [
        ("confluent", "classic", 2),
        ("confluent", "consumer", 1),
        ("kafka_python", "classic", 2),
        pytest.param("java", "classic", 1, marks=pytest.mark.java),
        pytest.param("java", "consumer", 2, marks=pytest.mark.java),
        pytest.param("streams", "classic", 2, marks=pytest.mark.java),
    ],
)
def test_every_transfer_is_made_once(
    client: str,
    protocol: str,
    version: int,
    coordinator_process: Callable[..., ServerProcess],
    hired: Callable[..., list[Worker]],
) -> None:
    server = coordinator_process(settings=SETTINGS | {"transaction.version": version})
    prepare(server)
    workers = hired(client, server, protocol, "ab")
    ledger = Reader(server, "ledger")
    chance = random.Random(f"{client} {protocol} {version}")
    deadline = time.monotonic() + WITHIN_S
    left = DISTURBANCES
    while len({number for number, _, _ in entries(ledger.read())}) < TRANSFERS:
        assert time.monotonic() < deadline, f"{len(ledger.values)} entries\n{server.log[-3000:]}"
        assert all(worker.starts < STARTS_MAX for worker in workers), "workers die of themselves"
        if left:
            left -= 1
            disturb(server, workers, chance)
        for _ in range(4):
            ledger.read()
    if client == "streams":
        wanted = totals(entries(ledger.values))
        reader = Reader(server, "balances")
        while last_words(reader.read()) != wanted:
            assert time.monotonic() < deadline, f"{last_words(reader.values)} is not {wanted}"
    for worker in workers:
        worker.end()
    workers.clear()
    booked = entries(ledger.read(2.0))
    ledger.close()
    assert sum(amount for _, _, amount in booked) == 0
    assert Counter(number for number, _, _ in booked) == dict.fromkeys(range(TRANSFERS), 2)
    if client == "streams":
        assert last_words(reader.read(2.0)) == wanted
        reader.close()
        return
    with Connection(server.bootstrap) as link:
        states = link.call("ListTransactions", 0, state_filters=[], producer_id_filters=[])["transaction_states"]
    names = {each["transactional_id"] for each in states}
    assert names == {"worker-a", "worker-b"}
    if client == "java":
        assert (max(spoken(server, name) for name in names) == 2) is (version == 2), "it speaks what it was told to"


def spoken(server: ServerProcess, transactional_id: str) -> int:
    """The transaction.version of a producer's last transaction."""
    with urllib.request.urlopen(f"{server.admin}/v1/transactions/{transactional_id}", timeout=10) as answer:
        version: int = json.load(answer)["client_transaction_version"]
        return version


def totals(booked: list[tuple[int, str, int]]) -> dict[str, int]:
    held: Counter[str] = Counter()
    for _, account, amount in booked:
        held[account] += amount
    return dict(held)


def last_words(values: list[str]) -> dict[str, int]:
    """The last balance that the streams said of each account."""
    return {account: int(balance) for account, balance in (value.split() for value in values)}
