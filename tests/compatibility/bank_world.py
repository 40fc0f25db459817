"""A bank whose transfers are transactions, and failures while they run."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.compatibility.bank_report import report
from tests.compatibility.members import CLIENTS
from tests.support.java_support import compile_java, java, kafka_classpath
from tests.support.server_process import ServerProcess
from tests.support.waiting import WITHIN_S
from tests.support.wire import Connection

BANK = Path(__file__).parent / "bank"


GROUP = "bank"


TRANSFER_PARTITIONS, ACCOUNTS, WORKERS = 4, 2, 3


TOPICS = {"transfers": TRANSFER_PARTITIONS, "ledger": ACCOUNTS, "balances": ACCOUNTS}


CHUNK = 120


STREAMS = ("org.apache.kafka:kafka-streams:4.3.1", "org.slf4j:slf4j-nop:1.7.36")
"""The newest version published; 4.4.0 was released without it."""


SETTINGS = {
    "group.consumer.session.timeout.ms": 1_500,
    "group.consumer.min.session.timeout.ms": 1_000,
    "group.consumer.heartbeat.interval.ms": 300,
    "group.consumer.min.heartbeat.interval.ms": 300,
    "group.consumer.assignment.interval.ms": 0,
    "group.streams.session.timeout.ms": 5_000,
    "group.streams.min.session.timeout.ms": 1_000,
    "group.streams.heartbeat.interval.ms": 300,
    "group.streams.min.heartbeat.interval.ms": 300,
    "group.streams.assignment.interval.ms": 0,
    "group.streams.initial.rebalance.delay.ms": 0,
    "group.streams.num.standby.replicas": 1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
}


class Worker:
    """A worker process and its reports."""

    def __init__(self, command: list[str], log: Path) -> None:
        self.events: list[dict[str, Any]] = []
        with log.open("ab") as file:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    def refusals(self) -> set[str]:
        """Why it aborted a transaction, or ended."""
        return {said["why"] for said in list(self.events) if said["event"] in ("aborted", "ended")}

    @property
    def has_begun(self) -> bool:
        return any(said["event"] == "began" for said in list(self.events))

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def is_stopped(self) -> bool:
        return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)
        self._reader.join(60)
        assert self.process.stdout is not None
        self.process.stdout.close()


class Bank:
    """A server, its workers, and the content of the ledger."""

    def __init__(self, server: ServerProcess, command: Callable[[str], list[str]], folder: Path) -> None:
        self.server = server
        self.ended: list[Worker] = []
        self.transfers: dict[int, tuple[int, int, int]] = {}
        self.entries: Counter[str] = Counter()
        self._command = command
        self._folder = folder
        self._producer = Producer({"bootstrap.servers": server.bootstrap, "log_level": 0})
        self._ledger = Consumer(
            {
                "bootstrap.servers": server.bootstrap,
                "group.id": "auditor",
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self.balances: dict[str, int] = {}
        self._ledger.assign(
            [TopicPartition(topic, account, 0) for topic in ("ledger", "balances") for account in range(ACCOUNTS)]
        )
        self.workers = [self._start(index) for index in range(WORKERS)]

    def _start(self, index: int) -> Worker:
        """A successor uses the transactional id of its predecessor, so that the predecessor's open transaction is
        aborted.
        """
        name = f"worker-{index}"
        return Worker(self._command(name), self._folder / f"{name}.log")

    def order(self, count: int) -> None:
        """Produces this many more transfers."""
        for number in range(len(self.transfers), len(self.transfers) + count):
            giver, amount = number % ACCOUNTS, 1 + number % 97
            self.transfers[number] = (giver, 1 - giver, amount)
            text = f"{number}:{giver}:{1 - giver}:{amount}"
            self._producer.produce("transfers", text.encode(), partition=number % TRANSFER_PARTITIONS)
        assert self._producer.flush(WITHIN_S) == 0

    def look(self) -> None:
        """Reads the ledger for a moment; replaces a worker that ended."""
        for message in self._ledger.consume(200, 0.1):
            if message.error() is not None:
                continue
            text = message.value().decode()
            if message.topic() == "ledger":
                self.entries[text] += 1
            else:
                account, balance = text.split(":")
                self.balances[account] = int(balance)
        for index, worker in enumerate(self.workers):
            if not worker.alive:
                worker.kill()
                self.ended.append(worker)
                self.workers[index] = self._start(index)

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not condition():
            assert time.monotonic() < deadline, f"waited in vain for {what}: {self.report()}"
            self.look()

    def report(self) -> str:
        """Where everything stands."""
        said = [worker.events for worker in self.workers]
        names = [f"worker-{index}" for index in range(WORKERS)]
        stands = report(self.server, GROUP, names, TOPICS, self._ledger)
        return f"{self.done} entries of {2 * len(self.transfers)}, workers said {said}\n{stands}"

    @property
    def done(self) -> int:
        """The number of entries in the ledger."""
        return self.entries.total()

    @property
    def expected(self) -> Counter[str]:
        return Counter(
            text
            for number, (giver, taker, amount) in self.transfers.items()
            for text in (f"{number}:{giver}:-{amount}", f"{number}:{taker}:{amount}")
        )

    def wait_until_all_work(self) -> None:
        """Whether each worker has its part of the work, for programs that report their start."""
        self.wait_until(lambda: all(worker.has_begun for worker in self.workers), "all workers")

    def wait_until_all_is_done(self) -> None:
        self.wait_until(lambda: self.done >= 2 * len(self.transfers), "all entries")
        assert self.entries == self.expected

    def wait_until_the_balances_are_right(self) -> None:
        """Waits for the sums that a program keeps of the entries of each account."""
        sums = dict.fromkeys(map(str, range(ACCOUNTS)), 0)
        for giver, taker, amount in self.transfers.values():
            sums[str(giver)] -= amount
            sums[str(taker)] += amount
        self.wait_until(lambda: self.balances == sums, f"the balances to be {sums}")

    def group_position(self) -> int:
        """The number of transfers that the group has committed."""
        with Connection(self.server.bootstrap) as link:
            topics = [{"name": "transfers", "partition_indexes": list(range(TRANSFER_PARTITIONS))}]
            answer = link.call("OffsetFetch", 7, group_id=GROUP, topics=topics, require_stable=False)
        return sum(max(0, place["committed_offset"]) for place in answer["topics"][0]["partitions"])

    def close(self) -> None:
        self._ledger.close()
        for worker in self.workers:
            worker.kill()


def python_program(name: str) -> list[str]:
    return [sys.executable, str(BANK / f"{name}_worker.py")]


def java_program(name: str) -> list[str]:
    # A worker needs the same classes as the client program, and uses its archive of them.
    classpath = kafka_classpath(STREAMS) if name == "BankStreams" else CLIENTS["java"].classpath
    return java(compile_java(BANK / f"{name}.java", classpath), name, heap_mib=160)


def kill_a_worker_and_the_server(bank: Bank) -> None:
    bank.order(CHUNK)
    bank.wait_until(lambda: bank.done > 0, "the first entries")
    bank.workers[0].process.kill()
    bank.wait_until_all_is_done()
    kill_the_server(bank)


def kill_the_server(bank: Bank) -> None:
    before = bank.done
    bank.order(CHUNK)
    bank.wait_until(lambda: bank.done > before, "more entries")
    bank.server.restart(kill=True)
    bank.wait_until_all_is_done()


def make_a_zombie(bank: Bank, stop: Callable[[Worker], None]) -> Worker:
    """Stops a worker until its group has committed everything, then wakes it up."""
    zombie = bank.workers[1]
    stop(zombie)
    deadline = time.monotonic() + WITHIN_S
    while bank.group_position() < len(bank.transfers):
        assert time.monotonic() < deadline, f"the group did not go on: {bank.report()}"
        bank.look()
    os.kill(zombie.process.pid, signal.SIGCONT)
    bank.wait_until_all_is_done()
    return zombie


def at_any_moment(bank: Bank) -> Callable[[Worker], None]:
    def stop(worker: Worker) -> None:
        before = bank.done
        bank.order(CHUNK)
        bank.wait_until(lambda: bank.done > before, "more entries")
        worker.process.send_signal(signal.SIGSTOP)
        bank.order(CHUNK)  # some of which it would have processed

    return stop
