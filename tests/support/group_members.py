"""Members of groups of every kind on raw connections: they do what a test says, and nothing by themselves."""

from typing import Any

from tests.support.server_process import ServerProcess
from tests.support.wire import Connection

NONE = 0
UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS = 25, 22, 27
LOAD_IN_PROGRESS, NOT_COORDINATOR = 14, 16


class Classic:
    """A member of a classic group, alone in it."""

    kind = "classic"

    def __init__(self, server: ServerProcess, group: str, instance_id: str | None = None, **timeouts: int) -> None:
        self.connection = Connection(server.bootstrap)
        self.group, self.instance_id = group, instance_id
        self.timeouts = {"session_timeout_ms": 45_000, "rebalance_timeout_ms": 60_000} | timeouts
        self.id, self.epoch = "", -1

    def send_join(self) -> None:
        self.connection.send(
            "JoinGroup",
            9,
            {
                "group_id": self.group,
                "member_id": self.id,
                "group_instance_id": self.instance_id,
                "protocol_type": "x",
                "protocols": [{"name": "p", "metadata": b""}],
                **self.timeouts,
            },
        )

    def join(self) -> None:
        """Joins, alone, and gets an assignment."""
        answer: dict[str, Any] = {"error_code": 79}
        while answer["error_code"] == 79:  # MEMBER_ID_REQUIRED
            self.send_join()
            answer = self.connection.receive()
            self.id = answer["member_id"]
        assert answer["error_code"] == NONE, answer
        self.epoch = answer["generation_id"]
        assignments = [{"member_id": each["member_id"], "assignment": b"a"} for each in answer["members"]]
        synced = self.connection.call(
            "SyncGroup", 5, group_id=self.group, generation_id=self.epoch, member_id=self.id, protocol_type="x",
            group_instance_id=self.instance_id, protocol_name="p", assignments=assignments,
        )  # fmt: skip
        assert synced["error_code"] == NONE, synced

    def beat(self) -> int:
        """The error that a heartbeat gets."""
        answer = self.connection.call(
            "Heartbeat", 4, group_id=self.group, generation_id=self.epoch, member_id=self.id,
            group_instance_id=self.instance_id,
        )  # fmt: skip
        return int(answer["error_code"])


class Consumer:
    """A member of a consumer group."""

    kind = "consumer"

    def __init__(self, server: ServerProcess, group: str, instance_id: str | None = None) -> None:
        self.connection = Connection(server.bootstrap)
        self.group, self.instance_id = group, instance_id
        self.id, self.epoch = f"member-of-{group}-{instance_id}", 0

    def join(self) -> None:
        """Joins, and reaches its target."""
        assert self._call(
            member_epoch=0, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], topic_partitions=[]
        ) == NONE  # fmt: skip

    def beat(self) -> int:
        """The error that a heartbeat gets."""
        return self._call(member_epoch=self.epoch)

    def _call(self, **values: Any) -> int:
        answer = self.connection.call(
            "ConsumerGroupHeartbeat", 1, group_id=self.group, member_id=self.id, instance_id=self.instance_id, **values
        )
        if answer["error_code"] == NONE:
            self.epoch = answer["member_epoch"]
        return int(answer["error_code"])


class Streams:
    """A member of a streams group."""

    kind = "streams"

    def __init__(self, server: ServerProcess, group: str, instance_id: str | None = None) -> None:
        self.connection = Connection(server.bootstrap)
        self.group, self.instance_id = group, instance_id
        self.id, self.epoch = f"member-of-{group}", 0

    def join(self) -> None:
        """Joins with a topology of one source topic."""
        topology = {"epoch": 1, "subtopologies": [{"subtopology_id": "s", "source_topics": ["t"]}]}
        none: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
        assert self._call(
            member_epoch=0, topology=topology, rebalance_timeout_ms=60_000, process_id="p", client_tags=[], **none
        ) == NONE  # fmt: skip

    def beat(self) -> int:
        """The error that a heartbeat gets."""
        return self._call(member_epoch=self.epoch)

    def _call(self, **values: Any) -> int:
        answer = self.connection.call(
            "StreamsGroupHeartbeat", 0, group_id=self.group, member_id=self.id, instance_id=self.instance_id, **values
        )
        if answer["error_code"] == NONE:
            self.epoch = answer["member_epoch"]
        return int(answer["error_code"])


KINDS = (Classic, Consumer, Streams)
