"""Programs that commit offsets in transactions, and what readers of the same groups see meanwhile."""

import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compatibility.line_program import ENDS_WITHIN_S, LineProgram
from tests.compatibility.members import JAVA_ARTIFACTS
from tests.support.background import Background
from tests.support.java_support import compile_java, java, kafka_classpath
from tests.support.server_process import ServerProcess
from tests.support.worker_events import worker_events

confluent_kafka = pytest.importorskip("confluent_kafka")

HERE = Path(__file__).parent
TRANSACTIONS_MIN = 5
IN_TRANSACTION = 2
"""Partitions of each transaction."""


def confluent() -> list[str]:
    """The command of librdkafka's program."""
    return [sys.executable, str(HERE / "clients" / "offset_transactions.py")]


def java_command() -> list[str]:
    """The command of the Java client's program."""
    classpath = compile_java(HERE / "java" / "OffsetTransactions.java", kafka_classpath(JAVA_ARTIFACTS))
    return java(classpath, "OffsetTransactions", heap_mib=128)


class Transactions(LineProgram):
    """A program that runs transactions, and what it says became of them. `on_commit` is called with each offset that it
    has committed.
    """

    def __init__(
        self,
        command: list[str],
        bootstrap: str,
        group: str,
        topic: str,
        *settings: str,
        on_commit: Callable[[int], None] | None = None,
    ) -> None:
        self.group = group
        self.topic = topic
        self.on_commit = on_commit
        self.outcomes: dict[str, set[int]] = {"committed": set(), "aborted": set(), "unknown": set()}
        self.mark()
        super().__init__([*command, bootstrap, group, topic, *settings], self._note)

    def _note(self, line: str) -> None:
        outcome, offset = line.split()
        self.outcomes[outcome].add(int(offset))
        if outcome == "committed" and self.on_commit is not None:
            self.on_commit(int(offset))

    def mark(self) -> None:
        """Remembers what it has committed, for `goes_on`."""
        self.last = max(self.outcomes["committed"], default=0) + TRANSACTIONS_MIN

    def goes_on(self) -> bool:
        """Whether it has committed more since the mark."""
        self.check_alive()
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


class OffsetReader:
    """Reads the committed offsets of a group all the time.

    `acknowledged` returns, by partition, the highest offset that is acknowledged. A read that finds less than what was
    acknowledged before it began is kept in `stale`.
    """

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topic: str,
        security: dict[str, str] | None = None,
        *,
        partitions: int = IN_TRANSACTION,
        every_s: float = 0.02,
        acknowledged: Callable[[], list[int]] | None = None,
    ) -> None:
        self.read: list[tuple[int, ...]] = []
        self.stale: list[tuple[str, list[int], tuple[int, ...]]] = []
        self.group = group
        self.acknowledged = acknowledged
        self.partitions = [confluent_kafka.TopicPartition(topic, number) for number in range(partitions)]
        self.every_s = every_s
        self.consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0, **(security or {})}
        )
        self.over = threading.Event()
        self.thread = Background(self._work)

    def _work(self) -> None:
        while not self.over.wait(self.every_s):
            self._read()
        self._read()  # all that was committed before the end

    def _read(self) -> None:
        floor = self.acknowledged() if self.acknowledged is not None else []
        try:
            committed = self.consumer.committed(self.partitions, timeout=ENDS_WITHIN_S)
        except confluent_kafka.KafkaException:
            return
        found = tuple(each.offset for each in committed)
        self.read.append(found)
        if any(offset < least for offset, least in zip(found, floor, strict=False)):
            self.stale.append((self.group, floor, found))

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
