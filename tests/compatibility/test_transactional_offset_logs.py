"""Transactional offsets in the groups' log are Kafka's: its tool reads them, and either server continues where the
other stopped.

Together with the transaction log, even an open transaction is ended by the other server.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.compatibility.transaction_programs import COORDINATOR_LOAD_IN_PROGRESS, Producer
from tests.scenarios.conftest import wait_until_serving
from tests.support.kafka_broker import KafkaBroker, dump_segments
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until
from tests.support.wire import Connection

pytestmark = pytest.mark.java

UNSTABLE = "unstable"
LOGS = ("__consumer_offsets-0", "__transaction_state-0")
PARTITIONS = range(6)


def make_history(bootstrap: str) -> tuple[int, int]:
    """Writes committed, aborted and open transactions with plain commits between; returns the producer of the open one."""
    with Connection(bootstrap, "history") as link:
        wanted = {"name": "t", "num_partitions": len(PARTITIONS), "replication_factor": 1}
        link.call("CreateTopics", 4, topics=[wanted], timeout_ms=10_000)
        while link.call("Metadata", 4, topics=[{"name": "t"}], allow_auto_topic_creation=False)["topics"][0][
            "error_code"
        ]:
            pass
        x, y, still_open = (Producer(link, name) for name in ("x", "y", "open"))
        x.commits({0: 1, 1: 2})
        plain(link, {1: 3})
        y.commits({2: 4})
        x.ends(committed=True)
        y.ends(committed=False)
        x.commits({0: 5, 5: 9})
        x.ends(committed=True)
        plain(link, {3: 6})
        still_open.commits({3: 7, 4: 8})
        plain(link, {4: 10})
        assert offsets(bootstrap, unstable=2) == BEFORE
        return still_open.id, still_open.epoch


def plain(link: Connection, offsets: dict[int, int]) -> None:
    partitions = [{"partition_index": each, "committed_offset": offset} for each, offset in offsets.items()]
    response = link.call(
        "OffsetCommit", 8, group_id="g", generation_id_or_member_epoch=-1,
        topics=[{"name": "t", "partitions": partitions}],
    )  # fmt: skip
    assert {each["error_code"] for each in response["topics"][0]["partitions"]} == {0}


def offsets(bootstrap: str, *, unstable: int) -> dict[int, Any]:
    """The stable offsets, once the markers of ended transactions are written and this many partitions remain pending."""
    asked = [{"name": "t", "partition_indexes": list(PARTITIONS)}]
    seen: dict[int, Any] = {}

    def look(link: Connection) -> bool:
        response = link.call("OffsetFetch", 7, group_id="g", topics=asked, require_stable=True)
        assert response["error_code"] in (0, COORDINATOR_LOAD_IN_PROGRESS), response
        for each in response["topics"][0]["partitions"] if response["error_code"] == 0 else ():
            seen[each["partition_index"]] = UNSTABLE if each["error_code"] else each["committed_offset"]
        return bool(seen) and list(seen.values()).count(UNSTABLE) == unstable

    with Connection(bootstrap) as link:
        wait_until(lambda: look(link), lambda: f"{unstable} unstable offsets: {seen}")
    return seen


def end_the_open_one(bootstrap: str, producer: tuple[int, int]) -> None:
    with Connection(bootstrap) as link:
        response = link.call(
            "EndTxn", 5, transactional_id="open", producer_id=producer[0], producer_epoch=producer[1], committed=True
        )
        assert response["error_code"] == 0, response


BEFORE = {0: 5, 1: 3, 2: -1, 3: UNSTABLE, 4: UNSTABLE, 5: 9}
AFTER = {0: 5, 1: 3, 2: -1, 3: 7, 4: 10, 5: 9}


def test_kafkas_own_tool_reads_our_offsets_of_transactions(coordinator_process: Callable[..., ServerProcess]) -> None:
    server = coordinator_process()
    make_history(server.bootstrap)
    server.terminate()
    (segment,) = sorted((server.data_dir / "__consumer_offsets-0").glob("*.log"))
    said = dump_segments(segment, options=("--offsets-decoder", "--print-data-log"))
    assert "isvalid: false" not in said
    assert said.count("endTxnMarker: COMMIT") == 2
    assert said.count("endTxnMarker: ABORT") == 1
    pending = [line for line in said.splitlines() if "isTransactional: true" in line and "isControl: false" in line]
    assert len(pending) == 4
    assert all("baseSequence: 0 " in line for line in pending)
    assert '"metadata":"open"' in said


def test_a_kafka_broker_goes_on_with_our_pending_offsets(tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    with ServerProcess(tmp_path / "ours") as server:
        producer = make_history(server.bootstrap)
        server.terminate()
    kafka = KafkaBroker(tmp_path / "kafka")
    kafka.start()
    try:
        wait_until_serving(kafka.bootstrap)
        kafka.stop()
        for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", ".kafka_cleanshutdown"):
            (kafka.data_dir / name).unlink(missing_ok=True)
        for name in LOGS:
            theirs = kafka.data_dir / name
            for file in theirs.iterdir():
                if file.name != "partition.metadata":
                    file.unlink()
            for segment in (server.data_dir / name).glob("*.log"):
                shutil.copy(segment, theirs)
        kafka.start()
        wait_until_serving(kafka.bootstrap)
        assert offsets(kafka.bootstrap, unstable=2) == BEFORE
        end_the_open_one(kafka.bootstrap, producer)
        assert offsets(kafka.bootstrap, unstable=0) == AFTER
    finally:
        kafka.stop()


def test_our_server_goes_on_with_a_kafka_brokers_pending_offsets(tmp_path: Path) -> None:
    kafka = KafkaBroker(tmp_path / "kafka")
    kafka.start()
    try:
        wait_until_serving(kafka.bootstrap)
        producer = make_history(kafka.bootstrap)
    finally:
        kafka.stop()
    folder = tmp_path / "ours"
    for name in LOGS:
        shutil.copytree(kafka.data_dir / name, folder / "data" / name)
    with ServerProcess(folder) as server:
        assert offsets(server.bootstrap, unstable=2) == BEFORE
        end_the_open_one(server.bootstrap, producer)
        assert offsets(server.bootstrap, unstable=0) == AFTER
        server.restart(kill=True)
        assert offsets(server.bootstrap, unstable=0) == AFTER
