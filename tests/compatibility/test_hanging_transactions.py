"""Kafka's own tool finds a transaction that hangs in a partition of ours, and ends it."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.java_support import kafka_classpath, run_java
from tests.support.kafka_broker import TOOLS
from tests.support.record_batch import TRANSACTIONAL, Batch
from tests.support.server_process import ServerProcess
from tests.support.wire import Connection

pytestmark = pytest.mark.java

HOUR_MS = 3_600_000
PRODUCER = 7_007


def transactions(bootstrap: str, *arguments: str) -> list[list[str]]:
    """The table that `kafka-transactions.sh` prints, without its heading."""
    tool = ["org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", bootstrap, *arguments]
    done = run_java(kafka_classpath(TOOLS), *tool)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line.split() for line in done.stdout.splitlines() if line.strip()][1:]


def stable_offset(link: Connection) -> int:
    partition = {"partition_index": 0, "timestamp": -1}
    answer: dict[str, Any] = link.call(
        "ListOffsets", 3, replica_id=-1, isolation_level=1, topics=[{"name": "t", "partitions": [partition]}]
    )
    return int(answer["topics"][0]["partitions"][0]["offset"])


def test_a_hanging_transaction_is_found_and_ended(coordinator_process: Callable[..., ServerProcess]) -> None:
    """Without verification a late batch opens a transaction that its coordinator does not know."""
    server = coordinator_process(settings={"transaction.partition.verification.enable": "false", "num.partitions": "1"})
    with Connection(server.bootstrap, "late") as link:
        while link.call("Metadata", 4, topics=[{"name": "t"}], allow_auto_topic_creation=True)["topics"][0][
            "error_code"
        ]:
            pass
        batch = Batch(
            values=[b"late"], producer_id=PRODUCER, producer_epoch=3, base_sequence=0, attributes=TRANSACTIONAL,
            timestamp_ms=int(time.time() * 1000) - HOUR_MS,
        )  # fmt: skip
        topics = [{"name": "t", "partition_data": [{"index": 0, "records": batch.encode()}]}]
        answer = link.call("Produce", 9, transactional_id="gone", acks=-1, timeout_ms=10_000, topic_data=topics)
        assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0
        assert stable_offset(link) == 0
        described = transactions(server.bootstrap, "describe-producers", "--topic", "t", "--partition", "0")
        assert [row[:2] for row in described] == [[str(PRODUCER), "3"]]
        found = transactions(server.bootstrap, "find-hanging", "--broker-id", "1", "--max-transaction-timeout", "15")
        assert [row[:3] for row in found] == [["t", "0", str(PRODUCER)]]
        transactions(server.bootstrap, "abort", "--topic", "t", "--partition", "0", "--start-offset", "0")
        assert stable_offset(link) == 2
        assert transactions(server.bootstrap, "find-hanging", "--broker-id", "1") == []
