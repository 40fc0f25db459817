"""`__share_group_state` is Kafka's: this server goes on with what a broker wrote, and a broker with what this server wrote."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from coordinator import cli
from tests.scenarios.conftest import wait_until_serving
from tests.support.kafka_broker import KafkaBroker
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until
from tests.support.wire import Connection

pytestmark = pytest.mark.java

SHARED = {
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": "5",
}
GROUPS = ("orders", "a:b", "é")


def call(bootstrap: str, api: str, version: int, group: str, topic_id: bytes, **asked: Any) -> dict[str, Any]:
    """The result of partition 0, once the coordinator has loaded."""
    topics = [{"topic_id": topic_id, "partitions": [{"partition": 0} | asked]}]

    def answered() -> dict[str, Any] | None:
        with Connection(bootstrap) as link:
            results = link.call(api, version, group_id=group, topics=topics)["results"]
        result: dict[str, Any] = results[0]["partitions"][0]
        return None if result["error_code"] in {14, 15, 16} else result

    return wait_until(answered, f"an answer to {api}")


def create_topic(bootstrap: str) -> bytes:
    """Creates a topic and, in Kafka, the log of share states; returns the topic's id."""

    def made() -> bytes | None:
        with Connection(bootstrap) as link:
            topic = {"name": "t", "num_partitions": 1, "replication_factor": 1}
            link.call("CreateTopics", 5, topics=[topic], timeout_ms=10_000)
            (found,) = link.call("Metadata", 12, topics=[{"topic_id": bytes(16), "name": "t"}])["topics"]
            keys = ["x:AAAAAAAAAAAAAAAAAAAAAA:0"]
            (share,) = link.call("FindCoordinator", 6, key_type=2, coordinator_keys=keys)["coordinators"]
        return None if found["error_code"] or share["error_code"] else found["topic_id"]

    return wait_until(made, "the topic")


def write(bootstrap: str, topic_id: bytes, begin: int, leader_epoch: int) -> None:
    """Adds twelve writes to the state of each group, as many as make two snapshots."""
    for group in GROUPS:
        read = call(bootstrap, "ReadShareGroupState", 0, group, topic_id, leader_epoch=leader_epoch)
        assert read["error_code"] == 0
        for offset in range(begin, begin + 12):
            batch = {
                "first_offset": offset,
                "last_offset": offset,
                "delivery_state": 2 + 2 * (offset % 2),
                "delivery_count": 1,
            }
            result = call(
                bootstrap, "WriteShareGroupState", 1, group, topic_id, state_epoch=3, leader_epoch=leader_epoch,
                start_offset=begin // 2, delivery_complete_count=offset, state_batches=[batch],
            )  # fmt: skip
            assert result["error_code"] == 0


def states(bootstrap: str, topic_id: bytes, leader_epoch: int) -> list[Any]:
    found = []
    for group in GROUPS:
        found.append(call(bootstrap, "ReadShareGroupStateSummary", 1, group, topic_id, leader_epoch=0))
        found.append(call(bootstrap, "ReadShareGroupState", 0, group, topic_id, leader_epoch=leader_epoch))
        fenced = call(bootstrap, "ReadShareGroupState", 0, group, topic_id, leader_epoch=leader_epoch - 1)
        assert fenced["error_code"] == 74
    return found


def test_share_states_go_from_kafka_to_this_server_and_on(tmp_path: Path) -> None:
    kafka = KafkaBroker(tmp_path / "kafka", SHARED).start()
    try:
        wait_until_serving(kafka.bootstrap)
        topic_id = create_topic(kafka.bootstrap)
        for group in GROUPS:
            call(kafka.bootstrap, "InitializeShareGroupState", 0, group, topic_id, state_epoch=3, start_offset=0)
        write(kafka.bootstrap, topic_id, 0, 4)
        call(kafka.bootstrap, "InitializeShareGroupState", 0, "gone", topic_id, state_epoch=3, start_offset=0)
        call(kafka.bootstrap, "DeleteShareGroupState", 0, "gone", topic_id)
        expected = states(kafka.bootstrap, topic_id, 4)
        kafka.stop()
        (tmp_path / "ours").mkdir()
        shutil.copytree(kafka.data_dir, tmp_path / "ours" / "data")
        with ServerProcess(tmp_path / "ours", settings=SHARED) as server:
            assert states(server.bootstrap, topic_id, 4) == expected
            assert (
                call(server.bootstrap, "ReadShareGroupState", 0, "gone", topic_id, leader_epoch=9)["error_code"] == 42
            )
            write(server.bootstrap, topic_id, 12, 5)
            expected = states(server.bootstrap, topic_id, 5)
            server.kill()
            server.start()
            assert states(server.bootstrap, topic_id, 5) == expected
            assert server.terminate() == 0
        log = "__share_group_state-0"
        assert cli.main(["log", "check", str(tmp_path / "ours" / "data" / log)]) == 0
        shutil.rmtree(kafka.data_dir / log)
        shutil.copytree(tmp_path / "ours" / "data" / log, kafka.data_dir / log)
        kafka.start()
        wait_until_serving(kafka.bootstrap)
        assert states(kafka.bootstrap, topic_id, 5) == expected
        write(kafka.bootstrap, topic_id, 24, 6)
    finally:
        kafka.stop()
