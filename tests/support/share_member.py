"""A member of a share group on a raw connection: it does what a test says, and nothing by itself."""

from contextlib import ExitStack
from typing import Any

from tests.support.group_members import NONE
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until
from tests.support.wire import Connection
from tests.topics.data_plane import batch

SETTINGS: dict[str, Any] = {
    "admin.control.enable": True,
    "offsets.topic.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 2,
    "group.share.assignment.interval.ms": 0,
    "metrics.groups": "watched",
    "group.share.delivery.count.limit": 2,
    "group.share.record.lock.duration.ms": 60_000,
    "topics": '[{"name": "t", "partitions": 1}, {"name": "u", "partitions": 1}]',
}
"""A server whose share groups are soon at work, with control."""
ACCEPT, RELEASE = 1, 2


class Sharer:
    """A member of a share group that reads topic t from its start, and what it says about itself."""

    def __init__(self, server: ServerProcess, group: str, closing: ExitStack, member_id: str = "m") -> None:
        self.connection = Connection(server.bootstrap, "sharer")
        closing.callback(self.connection.close)
        self.group, self.id, self.epoch, self.session = group, member_id, 0, 0
        [topic] = self.connection.call("Metadata", 12, topics=[{"topic_id": bytes(16), "name": "t"}])["topics"]
        self.topic_id = topic["topic_id"]

    def configure(self) -> None:
        configs = [{"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"}]
        resource = {"resource_type": 32, "resource_name": self.group, "configs": configs}
        answer = self.connection.call("IncrementalAlterConfigs", 1, resources=[resource])
        assert answer["responses"][0]["error_code"] == NONE

    def join(self) -> None:
        """Joins, until it has the partition."""
        self.configure()
        self.beat(topics=["t"])
        wait_until(lambda: self.beat()["assignment"] is not None or self.epoch >= 3)

    def beat(self, topics: list[str] | None = None) -> Any:
        answer = self.connection.call(
            "ShareGroupHeartbeat", 1, group_id=self.group, member_id=self.id, member_epoch=self.epoch,
            subscribed_topic_names=topics,
        )  # fmt: skip
        if answer["error_code"] == NONE:
            self.epoch = answer["member_epoch"]
        return answer

    def produce(self, *values: bytes) -> None:
        data = [{"index": 0, "records": batch(*values)}]
        answer = self.connection.call(
            "Produce", 9, acks=-1, timeout_ms=10_000, topic_data=[{"name": "t", "partition_data": data}]
        )
        assert answer["responses"][0]["partition_responses"][0]["error_code"] == NONE

    def fetch(self, *, named: bool = False) -> Any:
        """The answer to a ShareFetch, of a session that begins with the first one."""
        partitions = [{"partition_index": 0, "acknowledgement_batches": []}]
        topics = [{"topic_id": self.topic_id, "partitions": partitions}] if named or not self.session else []
        answer = self.connection.call(
            "ShareFetch", 1, group_id=self.group, member_id=self.id, share_session_epoch=self.session,
            max_wait_ms=10_000, min_bytes=1, max_bytes=100_000, max_records=100, batch_size=100, topics=topics,
            forgotten_topics_data=[],
        )  # fmt: skip
        self.session += answer["error_code"] == NONE
        return answer

    def acquire(self) -> list[tuple[int, int, int]]:
        [topic] = self.fetch()["responses"]
        [partition] = topic["partitions"]
        return [tuple(each.values()) for each in partition["acquired_records"]]

    def acknowledge(self, first: int, last: int, kind: int) -> int:
        batches = [{"first_offset": first, "last_offset": last, "acknowledge_types": [kind]}]
        partitions = [{"partition_index": 0, "acknowledgement_batches": batches}]
        answer = self.connection.call(
            "ShareAcknowledge", 1, group_id=self.group, member_id=self.id, share_session_epoch=self.session,
            topics=[{"topic_id": self.topic_id, "partitions": partitions}],
        )  # fmt: skip
        self.session += 1
        return answer["error_code"] or answer["responses"][0]["partitions"][0]["error_code"]
