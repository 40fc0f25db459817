"""Three brokers in one server, for tests of what they do to clients."""

from pathlib import Path

from coordinator_testing.control import Control
from coordinator_testing.throwaway_server import ThrowawayServer
from tests.support.wire import Connection, Values
from tests.topics.data_plane import batch

SETTINGS = ["nodes=3", "nodes.racks=a,b,c", "node.id=0", "admin.control.enable=true", "offsets.topic.num.partitions=3"]


class World:
    """Three brokers, whose ids are 0, 1 and 2, and a topic with three replicas."""

    def __init__(self, folder: Path) -> None:
        self.server = ThrowawayServer(folder, SETTINGS).start()
        self.control = Control(self.server.admin_url)
        self.create("orders", 3, {"min.insync.replicas": "2"})

    def close(self) -> None:
        self.control.disconnect()
        self.server.stop()

    def link(self, broker: int) -> Connection:
        return Connection(self.server.bootstrap_servers.split(",")[broker])

    def create(self, name: str, replicas: int, configs: dict[str, str] | None = None) -> None:
        wanted = {"name": name, "num_partitions": 3, "replication_factor": replicas, "assignments": []}
        wanted["configs"] = [{"name": key, "value": value} for key, value in (configs or {}).items()]
        with self.link(0) as link:
            (created,) = link.call("CreateTopics", 7, topics=[wanted], timeout_ms=9000)["topics"]
        assert created["error_code"] == 0, created

    def partition(self, name: str = "orders", index: int = 0, at: int = 0) -> Values:
        with self.link(at) as link:
            asked = [{"name": name, "topic_id": bytes(16)}]
            (topic,) = link.call("Metadata", 12, topics=asked, allow_auto_topic_creation=False)["topics"]
        return next(each for each in topic["partitions"] if each["partition_index"] == index)

    def produce(self, broker: int, acks: int = -1, name: str = "orders", records: bytes = batch()) -> Values:
        data = [{"name": name, "partition_data": [{"index": 0, "records": records}]}]
        with self.link(broker) as link:
            response = link.call("Produce", 10, transactional_id=None, acks=acks, timeout_ms=9000, topic_data=data)
        ((partition,),) = (topic["partition_responses"] for topic in response["responses"])
        return partition

    def epoch_end(self, broker: int, epoch: int, name: str = "orders") -> tuple[int, int, int]:
        asked = [{"topic": name, "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch}]}]
        with self.link(broker) as link:
            (topic,) = link.call("OffsetForLeaderEpoch", 4, replica_id=-1, topics=asked)["topics"]
        (end,) = topic["partitions"]
        return end["error_code"], end["leader_epoch"], end["end_offset"]

    def fetch(
        self,
        link: Connection,
        epoch: int,
        version: int = 12,
        max_wait_ms: int = 0,
        offset: int = 1,
        rack: str = "",
        last_epoch: int = -1,
    ) -> None:
        """Sends a fetch of the first partition. `last_epoch`: that of the record before `offset`."""
        asked = {"partition": 0, "current_leader_epoch": epoch, "fetch_offset": offset, "partition_max_bytes": 1000}
        asked["last_fetched_epoch"] = last_epoch
        request = {
            "replica_id": -1, "max_wait_ms": max_wait_ms, "min_bytes": 1, "max_bytes": 1000, "isolation_level": 0,
            "session_id": 0, "session_epoch": -1, "topics": [{"topic": "orders", "partitions": [asked]}],
        }  # fmt: skip
        link.send("Fetch", version, request | ({"rack_id": rack} if rack else {}))


def fetched(link: Connection) -> Values:
    """The partition of the answer to a fetch."""
    ((partition,),) = (topic["partitions"] for topic in link.receive()["responses"])
    return partition


def next_replica(partition: Values) -> int:
    return partition["replica_nodes"][1]
