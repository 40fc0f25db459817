"""Transactions of real clients over three workers and PostgreSQL, while workers are killed and stopped.

The workers have no records of topics, so the transactions commit offsets only, as those of a consume-process-produce loop do
beside their records.
"""

import json
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path

import pytest

from tests.compatibility.members import JAVA_ARTIFACTS
from tests.compatibility.three_workers import breakdown, create, disturb, is_spread, three_workers
from tests.support.background import Background
from tests.support.java_support import compile_java, java, kafka_classpath
from tests.support.server_process import ServerProcess
from tests.support.tls import certificates
from tests.support.waiting import wait_until
from tests.support.worker_events import worker_events

confluent_kafka = pytest.importorskip("confluent_kafka")
pytest.importorskip("asyncpg")

HERE = Path(__file__).parent
BETWEEN_FAULTS_S = 4.0
TRANSACTIONS_MIN = 5
ENDS_WITHIN_S = 90.0
DEBUG = {"debug": "eos,broker,protocol", "log_level": 7}
LINES_SHOWN = 60
"""Of what a program logged last, if it does not go on."""
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


class Transactions:
    """A program that runs transactions, and what it says became of them."""

    def __init__(self, command: list[str], bootstrap: str, group: str, topic: str, *settings: str) -> None:
        self.group = group
        self.topic = topic
        self.outcomes: dict[str, set[int]] = {"committed": set(), "aborted": set(), "unknown": set()}
        self.process = subprocess.Popen(
            [*command, bootstrap, group, topic, *settings],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.errors: deque[str] = deque(maxlen=LINES_SHOWN)
        self.threads = [Background(self._read), Background(self._read_errors)]

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            outcome, offset = line.split()
            self.outcomes[outcome].add(int(offset))

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if "|TERMINATE|" not in line:  # librdkafka repeats it all the time while it forgets a broker
                self.errors.append(line)

    def goes_on(self) -> bool:
        """Whether it commits more than it has."""
        assert self.process.poll() is None, "".join(self.errors)
        return max(self.outcomes["committed"], default=0) > self.last

    def said(self) -> str:
        """What it has done, for a failure and for the report."""
        return f"{self.group}: {', '.join(f'{len(each)} {name}' for name, each in self.outcomes.items())}"

    def trouble(self, workers: list[ServerProcess], since: float) -> str:
        """Why it may not go on: what it waits for, and what the workers have done since a time."""
        events = [
            f"worker {worker.settings['node.id']} {each.at:.3f} {each.name} {each.fields}"
            for worker in workers
            for each in worker_events([worker], since)
        ]
        return "\n".join([self.said(), *map(str.rstrip, self.errors), *events])

    def mark(self) -> None:
        """Remembers what it has committed, for `goes_on`."""
        self.last = max(self.outcomes["committed"], default=0) + TRANSACTIONS_MIN

    def end(self) -> None:
        """Lets it finish what it does."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.process.wait(ENDS_WITHIN_S)
        for thread in self.threads:
            thread.finish()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for thread in self.threads:
            thread.finish()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()


class Reader:
    """Reads the offsets of both partitions of a group all the time."""

    def __init__(self, bootstrap: str, program: Transactions, security: dict[str, str]) -> None:
        self.read: list[tuple[int, ...]] = []
        self.partitions = [confluent_kafka.TopicPartition(program.topic, number) for number in range(2)]
        self.consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": bootstrap, "group.id": program.group, "log_level": 0, **security}
        )
        self.over = threading.Event()
        self.thread = Background(self._work)

    def _work(self) -> None:
        while not self.over.wait(0.02):
            try:
                found = self.consumer.committed(self.partitions, timeout=ENDS_WITHIN_S)
            except confluent_kafka.KafkaException:
                continue
            self.read.append(tuple(each.offset for each in found))

    def end(self) -> None:
        self.over.set()
        self.thread.finish()
        self.consumer.close()


def check(program: Transactions, read: list[tuple[int, ...]]) -> None:
    """Offsets of a transaction appear together, once, and only if it committed; none that was acknowledged is lost."""
    assert all(first == second for first, second in read), "one transaction's offsets, not those of two"
    offsets = [first for first, _ in read if first >= 0]
    assert offsets == sorted(offsets), "no transaction is undone"
    assert not program.outcomes["aborted"] & set(offsets)
    assert offsets[-1] >= max(program.outcomes["committed"])
    assert offsets[-1] in program.outcomes["committed"] | program.outcomes["unknown"]


def confluent() -> list[str]:
    return [sys.executable, str(HERE / "clients" / "offset_transactions.py")]


def java_command() -> list[str]:
    classpath = compile_java(HERE / "java" / "OffsetTransactions.java", kafka_classpath(JAVA_ARTIFACTS))
    return java(classpath, "OffsetTransactions", heap_mib=128)


def run(workers, programs: list[Transactions], faults: tuple[str, ...], security: dict[str, str]) -> None:
    """Disturbs the workers one after another, and checks what clients see."""
    bootstrap = ",".join(worker.bootstrap for worker in workers)
    readers = [Reader(bootstrap, program, security) for program in programs]
    try:
        for worker, fault in zip(workers, ("", *faults), strict=False):
            began = time.time()
            if fault:
                disturb(worker, fault)
                print(fault, breakdown(workers, worker, began))
            for program in programs:
                program.mark()
            for program in programs:
                wait_until(program.goes_on, lambda program=program, began=began: program.trouble(workers, began))
        for program in programs:
            program.end()
        time.sleep(BETWEEN_FAULTS_S / 4)
    finally:
        for program in programs:
            program.kill()
        for reader in readers:
            reader.end()
    for program, reader in zip(programs, readers, strict=True):
        check(program, reader.read)
        print(program.said(), f"{len(reader.read)} reads")


@pytest.mark.java
@pytest.mark.timeout(300)
def test_transactions_are_all_or_nothing_while_workers_die(tmp_path, database, fresh):
    """Those of the Java client and of librdkafka, whose coordinator and group are at any worker."""
    with three_workers(tmp_path, database, fresh("cluster")) as workers:
        bootstrap = ",".join(worker.bootstrap for worker in workers)
        topic = fresh("topic")
        create(bootstrap, topic)
        wait_until(lambda: is_spread(workers), "an even spread")
        programs = [Transactions(java_command(), bootstrap, fresh("java"), topic)]
        groups = [fresh(f"confluent-{number}") for number in range(2)]
        programs += [Transactions(confluent(), bootstrap, group, topic, json.dumps(DEBUG)) for group in groups]
        run(workers, programs, ("kill", "stop"), {})


@pytest.mark.timeout(300)
def test_transactions_span_workers_whose_listener_has_tls_and_scram(tmp_path, database, fresh):
    """Workers ask each other at that listener, as a user who may do what brokers may."""
    pem = certificates(tmp_path)
    (tmp_path / "keystore.pem").write_text(pem.key.read_text() + pem.certificate.read_text())
    (tmp_path / "users").write_text("worker:worker-secret\nclient:client-secret\n")
    settings = {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "ssl.keystore.location": str(tmp_path / "keystore.pem"),
        "ssl.truststore.location": str(pem.ca),
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "sasl.users.file": str(tmp_path / "users"),
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config":
            f'{SCRAM} required username="worker" password="worker-secret";',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:worker;User:client",
    }  # fmt: skip
    security = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(pem.ca),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "client",
        "sasl.password": "client-secret",
    }
    with three_workers(tmp_path, database, fresh("cluster"), settings) as workers:
        bootstrap = ",".join(worker.bootstrap for worker in workers)
        topic = fresh("topic")
        create(bootstrap, topic, security)
        wait_until(lambda: is_spread(workers), "an even spread")
        groups = [fresh(f"group-{number}") for number in range(2)]
        client = json.dumps(security | DEBUG)
        programs = [Transactions(confluent(), bootstrap, group, topic, client) for group in groups]
        run(workers, programs, ("kill",), security)
