"""A server that finds a decided transaction in its log completes it, in data and in groups, before the first request."""

import time
from collections.abc import Callable

import pytest

from coordinator.log.batch_builder import BatchBuilder
from coordinator.log.log import Log, LogSettings
from coordinator.operations import log_settle
from coordinator.protocol.codec import Codec
from coordinator.runtime.serde import Serde
from coordinator.transactions.machine import RECORD_KEYS
from coordinator.transactions.records import transaction_record
from coordinator.transactions.transaction import State, Transaction
from coordinator.world.disk import RealDisk
from tests.support.record_batch import TRANSACTIONAL, Batch
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until
from tests.support.wire import Connection

UNSTABLE_OFFSET_COMMIT = 88
NOW_MS = int(time.time() * 1000)
GONE = ("gone", 0)
"""A partition of a topic that was deleted since."""


def decide(server: ServerProcess, producer_id: int, epoch: int, state: State) -> None:
    """Writes the decision, like a server that was killed right afterwards."""
    log_settle.run(server.data_dir)
    log = Log.open(
        RealDisk(), str(server.data_dir / "__transaction_state-0"), LogSettings(segment_ms=None, retention_ms=None)
    )
    partitions = frozenset({("orders", 1), ("__consumer_offsets", 0), GONE})
    now_ms = int(time.time() * 1000)
    decided = Transaction("tx", producer_id, producer_id, -1, epoch + 1, 60_000, state, partitions, now_ms, now_ms, 2)
    builder = BatchBuilder()
    builder.add(*Serde(Codec.of(None), RECORD_KEYS).encode(transaction_record(decided, 2)))
    log.append(builder.build(log.end_offset, now_ms), builder.count, now_ms)
    log.sync()
    log.close()


def offset_fetched(link: Connection) -> tuple[int, int]:
    """Error and offset of partition 1, for a careful reader."""
    asked = [{"name": "orders", "partition_indexes": [1]}]
    answer = link.call("OffsetFetch", 7, group_id="g", topics=asked, require_stable=True)
    (partition,) = answer["topics"][0]["partitions"]
    return partition["error_code"], partition["committed_offset"]


def stable_offset(link: Connection) -> int:
    """The end of partition 1 for a reader of committed records."""
    wanted = [{"partition_index": 1, "current_leader_epoch": -1, "timestamp": -1}]
    answer = link.call(
        "ListOffsets", 7, replica_id=-1, isolation_level=1, topics=[{"name": "orders", "partitions": wanted}]
    )
    return answer["topics"][0]["partitions"][0]["offset"]


def described(link: Connection) -> tuple[str, int]:
    (described,) = link.call("DescribeTransactions", 0, transactional_ids=["tx"])["transaction_states"]
    return described["transaction_state"], described["producer_epoch"]


@pytest.mark.parametrize("state", [State.PREPARE_COMMIT, State.PREPARE_ABORT])
def test_a_decided_transaction_is_completed(coordinator_process: Callable[..., ServerProcess], state: State) -> None:
    server = coordinator_process()
    with Connection(server.bootstrap) as link:
        given = link.call("InitProducerId", 5, transactional_id="tx", transaction_timeout_ms=60_000)
        producer = {"producer_id": given["producer_id"], "producer_epoch": given["producer_epoch"]}
        batch = Batch(values=[b"one"], base_sequence=0, attributes=TRANSACTIONAL, timestamp_ms=NOW_MS, **producer)
        produced = link.call(
            "Produce", 12, transactional_id="tx", acks=-1, timeout_ms=5_000,
            topic_data=[{"name": "orders", "partition_data": [{"index": 1, "records": batch.encode()}]}],
        )  # fmt: skip
        assert produced["responses"][0]["partition_responses"][0]["error_code"] == 0
        offset = {"partition_index": 1, "committed_offset": 42, "committed_metadata": ""}
        committed = link.call(
            "TxnOffsetCommit", 5, transactional_id="tx", group_id="g", **producer,
            topics=[{"name": "orders", "partitions": [offset]}],
        )  # fmt: skip
        assert committed["topics"][0]["partitions"][0]["error_code"] == 0
        assert (offset_fetched(link), stable_offset(link)) == ((UNSTABLE_OFFSET_COMMIT, -1), 0)
    server.kill()
    decide(server, producer["producer_id"], 0, state)
    server.start()
    commits = state is State.PREPARE_COMMIT
    wanted = "CompleteCommit" if commits else "CompleteAbort", 1
    with Connection(server.bootstrap) as link:
        wait_until(lambda: described(link) == wanted, lambda: f"{wanted}: {described(link)}")
        assert offset_fetched(link) == (0, 42 if commits else -1)
        assert stable_offset(link) == 2, "the record and its marker"
    assert "event=marker_not_needed" in server.log
