"""Transactions in a partition's log are Kafka's: its tool reads our markers, and either server serves what the other
wrote.
"""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator.protocol.errors import ErrorCode
from tests.scenarios.conftest import wait_until_serving
from tests.support.kafka_broker import KafkaBroker, dump_segments
from tests.support.record_batch import CONTROL, TRANSACTIONAL, Batch, read_batches
from tests.support.server_process import ServerProcess
from tests.support.wire import Connection

pytestmark = pytest.mark.java

SMALL_SEGMENTS = [{"name": "segment.ms", "value": "10"}]
DAY_MS = 86_400_000


def make_transactions(bootstrap: str) -> None:
    """In t-0: plain records, overlapping committed and aborted transactions, and one that stays open, over many
    segments.
    """
    with Connection(bootstrap, "history") as link:
        wanted = {"name": "t", "num_partitions": 1, "replication_factor": 1, "configs": SMALL_SEGMENTS}
        link.call("CreateTopics", 4, topics=[wanted], timeout_ms=10_000)
        while link.call("Metadata", 4, topics=[{"name": "t"}], allow_auto_topic_creation=False)["topics"][0][
            "error_code"
        ]:
            pass
        now_ms = int(time.time() * 1000) - DAY_MS
        producers = {name: Producer(link, name) for name in ("x", "y", "open")}
        for step in range(6):
            for name in ("x", "y"):
                producers[name].send(now_ms + step * 100)
            producers["x"].end(committed=step % 2 == 0)
            produce(link, Batch(values=[b"plain"], timestamp_ms=now_ms + step * 100 + 50))
            producers["y"].end(committed=step % 3 == 0)
        producers["open"].send(now_ms + 1000)
        produce(link, Batch(values=[b"behind"], timestamp_ms=now_ms + 1050))


def produce(link: Connection, batch: Batch, transactional_id: str | None = None) -> None:
    partition = {"index": 0, "records": batch.encode()}
    topics = [{"name": "t", "partition_data": [partition]}]
    while True:
        answer = link.call(
            "Produce", 12, transactional_id=transactional_id, acks=-1, timeout_ms=10_000, topic_data=topics
        )
        error = answer["responses"][0]["partition_responses"][0]["error_code"]
        # The partition has no leader yet, or the markers of the previous transaction are in flight.
        if error not in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.CONCURRENT_TRANSACTIONS):
            break
    assert error == 0


class Producer:
    """For transactions under transaction.version 2."""

    def __init__(self, link: Connection, name: str) -> None:
        self.link, self.name, self.sequence = link, name, 0
        answer = link.call("InitProducerId", 5, transactional_id=name, transaction_timeout_ms=60_000)
        self.id, self.epoch = answer["producer_id"], answer["producer_epoch"]

    def send(self, timestamp_ms: int) -> None:
        batch = Batch(
            values=[self.name.encode()], producer_id=self.id, producer_epoch=self.epoch, base_sequence=self.sequence,
            timestamp_ms=timestamp_ms, attributes=TRANSACTIONAL,
        )  # fmt: skip
        produce(self.link, batch, self.name)
        self.sequence += 1

    def end(self, *, committed: bool) -> None:
        answer = self.link.call(
            "EndTxn", 5, transactional_id=self.name, producer_id=self.id, producer_epoch=self.epoch, committed=committed
        )
        assert answer["error_code"] == 0
        self.id, self.epoch, self.sequence = answer["producer_id"], answer["producer_epoch"], 0
        while self.link.call("DescribeTransactions", 0, transactional_ids=[self.name])["transaction_states"][0][
            "transaction_state"
        ] not in ("CompleteCommit", "CompleteAbort"):
            pass


def what_is_committed(bootstrap: str) -> tuple[int, list[tuple[int, bytes]]]:
    """The last stable offset, and the records that a read_committed consumer extracts from the responses."""
    found: list[tuple[int, bytes]] = []
    offset = 0
    with Connection(bootstrap, "reader") as link:
        while True:
            asked = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
            answer = link.call(
                "Fetch", 11, replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, isolation_level=1,
                session_epoch=-1, topics=[{"topic": "t", "partitions": [asked]}],
            )["responses"][0]["partitions"][0]  # fmt: skip
            assert answer["error_code"] == 0
            batches = read_batches(answer["records"] or b"")
            if not batches:
                return answer["last_stable_offset"], found
            left_out = sorted((one["first_offset"], one["producer_id"]) for one in answer["aborted_transactions"])
            aborting: set[int] = set()
            for batch in batches:
                while left_out and left_out[0][0] <= batch.base_offset:
                    aborting.add(left_out.pop(0)[1])
                if batch.attributes & CONTROL:
                    aborting.discard(batch.producer_id)
                elif not (batch.attributes & TRANSACTIONAL and batch.producer_id in aborting):
                    found += [(batch.base_offset + at, value) for at, value in enumerate(batch.values)]
                offset = batch.base_offset + max(1, len(batch.values))


COMMITTED = [b"x", b"y", b"plain", b"plain", b"x", b"plain", b"y", b"plain", b"x", b"plain", b"plain"]


def test_kafkas_own_tool_reads_our_markers_and_lists(coordinator_process: Callable[..., ServerProcess]) -> None:
    server = coordinator_process()
    make_transactions(server.bootstrap)
    stable_offset, committed = what_is_committed(server.bootstrap)
    assert [value for _, value in committed] == COMMITTED
    server.terminate()
    folder = server.data_dir / "t-0"
    said = dump_segments(*sorted(folder.glob("*.log")))
    assert "endTxnMarker: COMMIT coordinatorEpoch: 0" in said
    assert "endTxnMarker: ABORT coordinatorEpoch: 0" in said
    assert "isvalid: false" not in said
    lists = sorted(folder.glob("*.txnindex"))
    assert "producerId" in dump_segments(lists[0], options=()), "an aborted transaction"
    assert stable_offset == 30


def test_what_kafka_wrote_is_served_here_and_what_was_written_here_by_kafka(tmp_path: Path) -> None:
    kafka = KafkaBroker(tmp_path / "kafka")
    kafka.start()
    try:
        wait_until_serving(kafka.bootstrap)
        make_transactions(kafka.bootstrap)
        wanted = what_is_committed(kafka.bootstrap)
        assert [value for _, value in wanted[1]] == COMMITTED
        kafka.stop()
        (tmp_path / "ours").mkdir()
        server = ServerProcess(tmp_path / "ours")
        with server:
            make_transactions(server.bootstrap)
            ours = what_is_committed(server.bootstrap)
            assert ours == wanted
        kafkas_folder, our_folder = kafka.data_dir / "t-0", server.data_dir / "t-0"
        exchanged = tmp_path / "exchanged"
        shutil.copytree(kafkas_folder, exchanged)
        for folder in (kafkas_folder, our_folder):
            suffixes = (".log", ".txnindex", ".index", ".timeindex", ".snapshot")
            for path in folder.iterdir():
                if path.suffix in suffixes or path.name in ("log-checkpoint", "producer-snapshot"):
                    if folder is kafkas_folder:
                        path.unlink()
                    else:
                        path.rename(kafkas_folder / path.name)
        for path in exchanged.iterdir():
            if path.suffix in (".log", ".txnindex"):
                shutil.copy(path, our_folder / path.name)
        # What says which files should be there would refuse those of another log.
        (our_folder / "segment-list").unlink()
        (server.data_dir / "log-catalog").unlink()
        with server:
            assert what_is_committed(server.bootstrap) == wanted
        kafka.start()
        wait_until_serving(kafka.bootstrap)
        assert what_is_committed(kafka.bootstrap) == ours
    finally:
        kafka.stop()
