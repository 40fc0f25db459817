"""Many members of one consumer group, of a dozen clients, each as quick as the server."""

from collections.abc import Mapping
from typing import Any

from tests.support.wire import Connection

TOPIC = "busy"
CLIENTS = 12
Owned = dict[bytes, set[int]]


class Crowd:
    """The members of a group that reads one topic. Requests are those of a client with KIP-848's protocol.

    Its server assigns without an interval (`group.consumer.assignment.interval.ms` is 0).
    """

    def __init__(self, coordinator: str, group: str, partitions: int) -> None:
        self.links = [Connection(coordinator, client_id=f"crowd-{number:02}") for number in range(CLIENTS)]
        self.group = group
        self.epochs: dict[str, int] = {}
        self.owned: dict[str, Owned] = {}
        self.topics: dict[bytes, str] = {}
        topic = {"name": TOPIC, "num_partitions": partitions, "replication_factor": 1}
        self.links[0].call("CreateTopics", 7, topics=[topic], timeout_ms=10_000)

    def link(self, member: str) -> Connection:
        """The connection of the client that the member is of."""
        return self.links[int.from_bytes(member.encode()) % CLIENTS]

    def close(self) -> None:
        for link in self.links:
            link.close()

    def join(self, *members: str) -> None:
        """Adds members; nobody owns a partition before `settle`."""
        for member in members:
            self.epochs[member], self.owned[member] = 0, {}
            self.beat(member)

    def beat(self, member: str) -> int:
        """Sends a heartbeat that reports what the member owns. Returns the error."""
        joining = self.epochs[member] == 0
        owned = [{"topic_id": topic, "partitions": sorted(numbers)} for topic, numbers in self.owned[member].items()]
        more: dict[str, Any] = {"subscribed_topic_names": [TOPIC], "rebalance_timeout_ms": 60_000} if joining else {}
        answer = self.link(member).call(
            "ConsumerGroupHeartbeat", 1, group_id=self.group, member_id=member, member_epoch=self.epochs[member],
            topic_partitions=owned, **more,
        )  # fmt: skip
        if answer["error_code"] == 0:
            self.epochs[member] = answer["member_epoch"]
            if answer["assignment"] is not None:
                given = answer["assignment"]["topic_partitions"]
                self.owned[member] = {each["topic_id"]: set(each["partitions"]) for each in given}
        return answer["error_code"]

    def settle(self) -> None:
        """Sends heartbeats until every partition has an owner and nobody's assignment changes."""
        while True:
            before: Mapping[str, tuple[int, Owned]] = {
                each: (self.epochs[each], self.owned[each]) for each in self.epochs
            }
            assert [self.beat(member) for member in self.epochs] == [0] * len(self.epochs)
            if before == {each: (self.epochs[each], self.owned[each]) for each in self.epochs}:
                return

    def leave(self, *members: str) -> None:
        for member in members:
            self.epochs[member] = -1
            self.beat(member)
            del self.epochs[member], self.owned[member]

    def commit(self, member: str, offset: int) -> list[int]:
        """Commits an offset for every partition that the member owns. Returns the errors."""
        partitions = [
            {"partition_index": number, "committed_offset": offset}
            for numbers in self.owned[member].values()
            for number in sorted(numbers)
        ]
        answer = self.link(member).call(
            "OffsetCommit", 9, group_id=self.group, member_id=member, generation_id_or_member_epoch=self.epochs[member],
            topics=[{"name": TOPIC, "partitions": partitions}],
        )  # fmt: skip
        return [each["error_code"] for topic in answer["topics"] for each in topic["partitions"]]
