"""Programs that commit offsets in transactions, and what readers of the same groups see meanwhile."""

import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.compatibility.line_program import ENDS_WITHIN_S, LineProgram
from tests.compatibility.members import JAVA_ARTIFACTS
from tests.support.background import Background
from tests.support.java_support import compile_java, java, kafka_classpath
from tests.support.server_process import ServerProcess
from tests.support.wire import Connection
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


CONCURRENT_TRANSACTIONS, COORDINATOR_LOAD_IN_PROGRESS = 51, 14


class Producer:
    """One transactional id, under transaction.version 2."""

    def __init__(self, link: Connection, name: str) -> None:
        self.link, self.name = link, name
        response = link.call("InitProducerId", 5, transactional_id=name, transaction_timeout_ms=600_000)
        assert response["error_code"] == 0, response
        self.id, self.epoch = response["producer_id"], response["producer_epoch"]

    def commits(self, offsets: dict[int, int]) -> None:
        partitions = [
            {"partition_index": partition, "committed_offset": offset, "committed_metadata": self.name}
            for partition, offset in offsets.items()
        ]
        while True:
            response = self.link.call(
                "TxnOffsetCommit", 5, transactional_id=self.name, group_id="g", producer_id=self.id,
                producer_epoch=self.epoch, topics=[{"name": "t", "partitions": partitions}],
            )  # fmt: skip
            errors = {each["error_code"] for each in response["topics"][0]["partitions"]}
            if errors != {CONCURRENT_TRANSACTIONS}:  # the markers of the previous transaction are in flight
                assert errors == {0}
                return

    def ends(self, *, committed: bool) -> None:
        response = self.link.call(
            "EndTxn", 5, transactional_id=self.name, producer_id=self.id, producer_epoch=self.epoch, committed=committed
        )
        assert response["error_code"] == 0, response
        self.id, self.epoch = response["producer_id"], response["producer_epoch"]


GROUP_RESOURCE = 32


NONE, ILLEGAL_GENERATION, UNSTABLE_OFFSET_COMMIT, STALE_MEMBER_EPOCH = 0, 22, 88, 113


VERSIONS = (3, 5, 6)
"""Versions of TxnOffsetCommit, used in turn."""


KEPT, TAKEN = 0, 3
"""Partitions out of four; a second member gets the upper half."""


class Rounds:
    """One group, whose members are moved step by step, and the producer of the one that turns into a zombie now and
    then.
    """

    def __init__(self, link: Connection, policy: str, topic: str, topic_id: bytes) -> None:
        self.link, self.policy, self.topic, self.topic_id = link, policy, topic, topic_id
        self.group = f"group-{policy}"
        self.epoch = 0
        self.next_offset = 0
        self.accepted = {KEPT: -1, TAKEN: -1}
        self.counts: Counter[tuple[str, bool]] = Counter()
        config = {"name": "consumer.fencing.policy", "config_operation": 0, "value": policy}
        resource = {"resource_type": GROUP_RESOURCE, "resource_name": self.group, "configs": [config]}
        (set_,) = link.call("IncrementalAlterConfigs", 1, resources=[resource])["responses"]
        assert set_["error_code"] == NONE, set_
        self.transactional_id = f"tx-{policy}"
        response = link.call(
            "InitProducerId", 4, transactional_id=self.transactional_id, transaction_timeout_ms=60_000,
            producer_id=-1, producer_epoch=-1,
        )  # fmt: skip
        assert response["error_code"] == NONE, response
        self.producer_id, self.producer_epoch = response["producer_id"], response["producer_epoch"]

    # --- members ---

    def beat(self, member: str, epoch: int, **more: Any) -> dict[str, Any]:
        response = self.link.call(
            "ConsumerGroupHeartbeat", 1, group_id=self.group, member_id=member, member_epoch=epoch, **more
        )
        assert response["error_code"] == NONE, response
        return response

    def join(self, member: str, topic: str) -> None:
        self.beat(member, 0, rebalance_timeout_ms=30_000, subscribed_topic_names=[topic], topic_partitions=[])

    def catch_up(self) -> int:
        """The member confirms its assignment until it no longer changes; then its epoch is up to date."""
        while True:
            response = self.beat("ann", self.epoch)
            if response["assignment"] is not None:
                response = self.beat(
                    "ann", response["member_epoch"], topic_partitions=response["assignment"]["topic_partitions"]
                )
            if response["member_epoch"] == self.epoch and response["assignment"] is None:
                return self.epoch
            self.epoch = response["member_epoch"]

    # --- its producer ---

    def commits(self, what: str, epoch: int, partition: int, *, accepted: bool) -> None:
        """Commits one partition with that epoch, by name or by id in turn; counts whether it was accepted."""
        self.next_offset += 1
        version = VERSIONS[self.next_offset % len(VERSIONS)]
        topic: dict[str, Any] = {"topic_id": self.topic_id} if version == 6 else {"name": self.topic}
        topic["partitions"] = [
            {"partition_index": partition, "committed_offset": self.next_offset, "committed_metadata": what}
        ]
        response = self.link.call(
            "TxnOffsetCommit", version, transactional_id=self.transactional_id, group_id=self.group,
            producer_id=self.producer_id, producer_epoch=self.producer_epoch, member_id="ann",
            generation_id_or_member_epoch=epoch, topics=[topic],
        )  # fmt: skip
        error = response["topics"][0]["partitions"][0]["error_code"]
        stale = STALE_MEMBER_EPOCH if version == 6 else ILLEGAL_GENERATION
        assert error == (NONE if accepted else stale), f"{self.policy}: {what}, epoch {epoch} of {self.epoch}: {error}"
        self.counts[what, accepted] += 1
        if accepted:
            self.accepted[partition] = self.next_offset

    def end(self) -> None:
        response = self.link.call(
            "EndTxn", 5, transactional_id=self.transactional_id, producer_id=self.producer_id,
            producer_epoch=self.producer_epoch, committed=True,
        )  # fmt: skip
        assert response["error_code"] == NONE, response
        self.producer_id, self.producer_epoch = response["producer_id"], response["producer_epoch"]

    def begin(self) -> None:
        """Begins the transaction with a commit that names the member's current epoch (v5 adds the group to it)."""
        self.next_offset += -self.next_offset % len(VERSIONS)
        self.commits("at its epoch", self.epoch, KEPT, accepted=True)

    def visible(self) -> dict[int, int]:
        topics = [{"name": self.topic, "partition_indexes": [KEPT, TAKEN]}]
        while True:
            response = self.link.call(
                "OffsetFetch", 8, groups=[{"group_id": self.group, "topics": topics}], require_stable=True
            )
            partitions = response["groups"][0]["topics"][0]["partitions"]
            if not any(each["error_code"] == UNSTABLE_OFFSET_COMMIT for each in partitions):
                return {each["partition_index"]: each["committed_offset"] for each in partitions}

    # --- a round ---

    def round(self) -> None:
        lenient = self.policy != "strict"
        by_partition = self.policy == "assignment-epoch"
        before = self.catch_up()
        self.begin()
        self.join("guest", "nowhere")
        window = self.catch_up()
        assert window > before
        self.commits("nothing was taken since", before, KEPT, accepted=lenient)
        self.commits("nothing was taken since", before, TAKEN, accepted=lenient)
        self.join("ben", self.topic)
        after = self.catch_up()
        assert after > window
        self.commits("the partition was taken", window, TAKEN, accepted=False)
        self.commits("the partition was taken", before, TAKEN, accepted=False)
        self.commits("another partition was taken", window, KEPT, accepted=by_partition)
        self.beat("ben", -1)
        self.beat("guest", -1)
        self.catch_up()
        self.commits("taken, and given back", window, TAKEN, accepted=False)
        self.commits("at its epoch", self.epoch, TAKEN, accepted=True)
        self.end()
