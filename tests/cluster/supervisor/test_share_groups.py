"""Share groups over several workers: the first leads the share partitions, and any of them has the group and the states."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.client.blocking import Connection
from coordinator.client.conversation import LinkFailed
from coordinator.log.batch_builder import encode_batch
from coordinator.log.record import LogRecord
from coordinator.protocol.messages import (
    AlterShareGroupOffsetsRequest,
    CreateTopicsRequest,
    DescribeShareGroupOffsetsRequest,
    FindCoordinatorRequest,
    IncrementalAlterConfigsRequest,
    MetadataRequest,
    ProduceRequest,
    ShareFetchRequest,
    ShareGroupHeartbeatRequest,
)
from tests.support.admin_client import view
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until

TOPIC, RECORDS = "numbers", 10
ACCEPT, RELEASE = 1, 2
NOT_LEADER_OR_FOLLOWER = 6
GROUP_RESOURCE, SET = 32, 0


class Cluster:
    """Two workers of one data folder, and connections to them by node id."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.topic_id = bytes(16)

    def link(self, node_id: int) -> Connection:
        host, _, port = self.server.bootstrap.rpartition(":")
        with Connection((host, int(port)), 20) as link:
            brokers = {each.node_id: (each.host, each.port) for each in link.ask(MetadataRequest(topics=[])).brokers}
        return Connection(brokers[node_id], 20)

    def coordinator(self, group_id: str) -> int:
        with self.link(1) as link:
            request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group_id])
            return int(link.ask(request).coordinators[0].node_id)

    def ask(self, node_id: int, request: Any) -> Any:
        with self.link(node_id) as link:
            return link.ask(request)

    def lag(self, group_id: str) -> tuple[int, int]:
        """Start offset and lag of the first partition, as the coordinator says."""
        asked = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup(group_id, None)
        response = self.ask(self.coordinator(group_id), DescribeShareGroupOffsetsRequest([asked]))
        (found,) = response.groups[0].topics[0].partitions
        return found.start_offset, found.lag


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    settings = {
        "offsets.topic.num.partitions": 4, "transaction.state.log.num.partitions": 2,
        "share.coordinator.state.topic.num.partitions": 4, "journal.beat.timeout.ms": 5_000,
    }  # fmt: skip
    server = ServerProcess(tmp_path, settings=settings)
    server.arguments = ("--workers", "2")
    server.start()
    yield Cluster(server)
    server.stop()


def fetch(link: Connection, cluster: Cluster, group_id: str, epoch: int, *acknowledged: tuple[int, int, int]) -> Any:
    """The response for the partition: to a fetch with acknowledgements (first and last offset, type)."""
    batches = [ShareFetchRequest.AcknowledgementBatch(first, last, [kind]) for first, last, kind in acknowledged]
    topic = ShareFetchRequest.FetchTopic(cluster.topic_id, [ShareFetchRequest.FetchPartition(0, batches)])
    response = link.ask(
        ShareFetchRequest(
            group_id, "m" * 22, epoch, max_wait_ms=2_000, min_bytes=1, max_bytes=1 << 20, max_records=100, batch_size=100,
            topics=[topic],
        )
    )  # fmt: skip
    assert response.error_code == 0
    return response.responses[0].partitions[0] if response.responses else None


def acquired(data: Any) -> list[tuple[int, int, int]]:
    return [(each.first_offset, each.last_offset, each.delivery_count) for each in data.acquired_records]


def heartbeat(cluster: Cluster, group_id: str, epoch: int) -> Any:
    request = ShareGroupHeartbeatRequest(group_id, "m" * 22, epoch, None, [TOPIC] if epoch >= 0 else None)
    return cluster.ask(cluster.coordinator(group_id), request)


def prepare(cluster: Cluster) -> str:
    """A topic with records, and a share group with a state, whose coordinator is the worker without records."""
    topic = CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
    cluster.ask(1, CreateTopicsRequest([topic], 5_000))

    def of_the_second() -> str | None:
        return next((name for name in map("group-{}".format, range(20)) if cluster.coordinator(name) == 2), None)

    group_id = wait_until(of_the_second)
    records = [LogRecord(number, 1_700_000_000_000, None, str(number).encode(), ()) for number in range(RECORDS)]
    data = ProduceRequest.PartitionProduceData(0, encode_batch(records))
    metadata = cluster.ask(1, MetadataRequest([MetadataRequest.MetadataRequestTopic(name=TOPIC)]))
    cluster.topic_id = metadata.topics[0].topic_id
    produced = ProduceRequest.TopicProduceData(name=TOPIC, topic_id=cluster.topic_id, partition_data=[data])
    answer = cluster.ask(1, ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[produced]))
    assert answer.responses[0].partition_responses[0].error_code == 0
    entry = IncrementalAlterConfigsRequest.AlterableConfig("share.auto.offset.reset", SET, "earliest")
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(GROUP_RESOURCE, group_id, [entry])
    assert cluster.ask(1, IncrementalAlterConfigsRequest([resource])).responses[0].error_code == 0

    def is_assigned() -> bool:
        answer = heartbeat(cluster, group_id, 0)
        return bool(answer.assignment is not None and answer.assignment.topic_partitions)

    wait_until(is_assigned)
    return group_id


def test_the_leader_of_a_share_partition_follows_another_worker_and_the_log(cluster):
    """An alteration at another worker fences it, and after kill -9 the next leader goes on from what is durable.

    Its events are where the group is, though the records are not.
    """
    group_id = prepare(cluster)
    with cluster.link(1) as link:
        assert acquired(fetch(link, cluster, group_id, 0)) == [(0, 9, 1)]
        for path in ("", "/why"):
            (shared,) = view(cluster.server, f"/v1/groups/{group_id}{path}")["share_partitions"]
            (held,) = shared["held"]
            assert (held["member_id"], held["first_offset"], held["last_offset"]) == ("m" * 22, 0, 9)
            assert held["client_id"] is not None

    def gave_back() -> list[tuple[str, str, int]]:
        deliveries = view(cluster.server, f"/v1/groups/{group_id}/why")["deliveries"]
        return [(each["type"], each["cause"], each["records"]) for each in deliveries]

    wait_until(lambda: gave_back() == [("RecordsReleased", "the connection of the session ended", 10)])
    with cluster.link(1) as link:
        assert acquired(fetch(link, cluster, group_id, 0)) == [(0, 9, 2)]
        data = fetch(link, cluster, group_id, 1, (0, 2, ACCEPT), (3, 4, RELEASE))
        assert (data.acknowledge_error_code, acquired(data)) == (0, [(3, 4, 3)])
        assert cluster.lag(group_id) == (0, RECORDS - 3)

        kinds = "RecordsAcquired,RecordsAcknowledged"
        page = f"/v1/events/page?group={group_id}&type={kinds}"
        expected = [
            ("RecordsAcquired", 10),
            ("RecordsAcquired", 10),
            ("RecordsAcknowledged", 5),
            ("RecordsAcquired", 2),
        ]
        wait_until(
            lambda: [(each["type"], each["records"]) for each in view(cluster.server, page)["events"]] == expected
        )

        assert heartbeat(cluster, group_id, -1).error_code == 0
        partition = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition(0, 1)
        topic = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic(TOPIC, [partition])
        answer = cluster.ask(2, AlterShareGroupOffsetsRequest(group_id, [topic]))
        assert (answer.error_code, answer.responses[0].partitions[0].error_code) == (0, 0)
        assert fetch(link, cluster, group_id, 2, (3, 9, ACCEPT)).acknowledge_error_code == NOT_LEADER_OR_FOLLOWER
        assert acquired(fetch(link, cluster, group_id, 3)) == [(1, 9, 1)]
        data = fetch(link, cluster, group_id, 4, (1, 5, ACCEPT), (7, 7, ACCEPT), (9, 9, RELEASE))
        assert (data.acknowledge_error_code, acquired(data)) == (0, [(9, 9, 2)])
        assert cluster.lag(group_id) == (1, RECORDS - 1 - 6)
        os.kill(cluster.server.ready["workers"][0], signal.SIGKILL)

    def again() -> list[tuple[int, int, int]]:
        try:
            with cluster.link(1) as link:
                data = fetch(link, cluster, group_id, 0)
                return [] if data is None else acquired(data)
        except (LinkFailed, KeyError, AssertionError):
            return []

    assert wait_until(again) == [(6, 6, 1), (8, 8, 1), (9, 9, 2)], "the release is durable, the locks were not"
