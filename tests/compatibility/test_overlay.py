"""A server in front of a real Kafka: topics and records are the broker's, groups and offsets are ours."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.compatibility.members import CLIENTS, Program
from tests.compatibility.transaction_programs import Rounds
from tests.support.before_cluster import before, offsets_in
from tests.support.kafka_broker import KafkaBroker
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until
from tests.support.wire import Connection

pytestmark = pytest.mark.java

confluent_kafka = pytest.importorskip("confluent_kafka")
confluent_admin = pytest.importorskip("confluent_kafka.admin")

SOFTWARE = {"client_software_name": "test", "client_software_version": "1"}
NODE_ID = 1_000_000_001
LIBRARIES = ("confluent", "kafka_python", "aiokafka", "java")


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    broker = KafkaBroker(tmp_path_factory.mktemp("kafka"))
    try:
        yield broker.start()
    finally:
        broker.stop()


@pytest.fixture(scope="module")
def overlay(tmp_path_factory: pytest.TempPathFactory, kafka: KafkaBroker) -> Iterator[ServerProcess]:
    settings = {"admin.control.enable": "true", "group.consumer.assignment.interval.ms": 0}
    with before(tmp_path_factory.mktemp("overlay"), kafka.bootstrap, settings) as server:
        yield server


@pytest.fixture
def topic(kafka: KafkaBroker, overlay: ServerProcess, fresh: Callable[[str], str]) -> str:
    """A topic of four partitions that was created on the cluster, and that the server knows."""
    name = fresh("topic")
    make_topic(kafka.bootstrap, name)
    wait_until_known(overlay, name)
    return name


def make_topic(bootstrap: str, name: str, partitions: int = 4) -> None:
    admin = confluent_admin.AdminClient({"bootstrap.servers": bootstrap})
    [created] = admin.create_topics([confluent_admin.NewTopic(name, partitions, 1)]).values()
    created.result(30)


def commit(link: Connection, group: str, topic: str, offset: int) -> int:
    """The error of a plain commit for partition 0."""
    partition = {
        "partition_index": 0,
        "committed_offset": offset,
        "committed_leader_epoch": -1,
        "committed_metadata": None,
    }
    answer = link.call(
        "OffsetCommit", 9, group_id=group, generation_id_or_member_epoch=-1, member_id="", group_instance_id=None,
        topics=[{"name": topic, "partitions": [partition]}],
    )  # fmt: skip
    code: int = answer["topics"][0]["partitions"][0]["error_code"]
    return code


def wait_until_known(server: ServerProcess, topic: str) -> None:
    with Connection(server.bootstrap) as link:
        wait_until(lambda: commit(link, f"probe-{topic}", topic, 1) == 0, f"the server to know {topic}")


def test_clients_learn_no_address_of_the_cluster(overlay: ServerProcess, kafka: KafkaBroker, topic: str) -> None:
    """Metadata, DescribeCluster and FindCoordinator, in the oldest and the newest versions, name this server's listeners."""
    with Connection(overlay.bootstrap) as link:
        nodes: set[tuple[int, str, int]] = set()
        for version in (0, 4, 9, 13):
            asked = [{"name": topic, "topic_id": bytes(16)}]
            found = link.call("Metadata", version, topics=asked)
            assert found["topics"][0]["name"] == topic
            assert len(found["topics"][0]["partitions"]) == 4
            nodes |= {(each["node_id"], each["host"], each["port"]) for each in found["brokers"]}
        described = link.call("DescribeCluster", 2)
        nodes |= {(each["broker_id"], each["host"], each["port"]) for each in described["brokers"]}
        for version in (1, 4, 6):
            keys = {"coordinator_keys": ["t"]} if version >= 4 else {"key": "t"}
            answer = link.call("FindCoordinator", version, key_type=1, **keys)
            wait_until(lambda: True, "")
            each = answer["coordinators"][0] if version >= 4 else answer
            if not each["error_code"]:
                nodes.add((each["node_id"], each["host"], each["port"]))
        group = link.call("FindCoordinator", 6, key_type=0, coordinator_keys=["g"])["coordinators"][0]
    assert (group["node_id"], group["host"], group["port"]) == (NODE_ID, overlay.host, overlay.port)
    assert {node for node, _, _ in nodes} == {1, NODE_ID}
    assert len(nodes) == 2
    assert int(kafka.bootstrap.rpartition(":")[2]) not in {port for _, _, port in nodes}


@pytest.mark.parametrize("library", LIBRARIES)
def test_groups_are_ours_and_records_the_brokers(
    overlay: ServerProcess, kafka: KafkaBroker, topic: str, library: str, tmp_path: Path
) -> None:
    """Each library produces, consumes and commits through the server; the broker has the records and no offset."""
    group = f"group-of-{topic}"
    with ExitStack() as stack:
        member = Program(CLIENTS[library], overlay.bootstrap, tmp_path)
        stack.callback(member.stop)
        member.call("produce", topic=topic, partition=0, values=["a", "b", "c"])
        member.join(group, [topic], name="ann")
        member.wait_until(lambda: sorted(member.values()) == ["a", "b", "c"], "the records")
        member.call("commit")
    with Connection(overlay.bootstrap) as link:
        asked = [{"group_id": group, "member_id": None, "member_epoch": -1,
                  "topics": [{"name": topic, "partition_indexes": [0]}]}]  # fmt: skip
        [answer] = link.call("OffsetFetch", 8, groups=asked, require_stable=False)["groups"]
    assert answer["topics"][0]["partitions"][0]["committed_offset"] == 3
    assert group not in offsets_in(kafka)


def test_groups_are_listed_once_by_the_node_that_has_them(overlay: ServerProcess, topic: str) -> None:
    """An administrator asks all nodes: the listeners of brokers list no groups."""
    admin = confluent_admin.AdminClient({"bootstrap.servers": overlay.bootstrap})
    listed = admin.list_consumer_groups().result(30).valid
    assert [each.group_id for each in listed].count(f"probe-{topic}") == 1


def test_a_fetch_passes_unchanged(overlay: ServerProcess, kafka: KafkaBroker, topic: str) -> None:
    """The bytes of a Fetch response through the server are those of the broker's own."""
    producer = confluent_kafka.Producer({"bootstrap.servers": overlay.bootstrap, "compression.type": "lz4"})
    for number in range(500):
        producer.produce(topic, b"x" * number, partition=0)
    assert producer.flush(30) == 0
    partition = {"partition": 0, "fetch_offset": 0, "log_start_offset": -1, "partition_max_bytes": 1 << 20}
    with Connection(overlay.bootstrap) as link:
        nodes = {each["node_id"]: each["port"] for each in link.call("Metadata", 12, topics=[])["brokers"]}
    answers = []
    for address in (kafka.bootstrap, f"127.0.0.1:{nodes[1]}"):
        with Connection(address) as link:
            asked = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1}
            answers.append(link.call("Fetch", 12, **asked, topics=[{"topic": topic, "partitions": [partition]}]))
    assert answers[0] == answers[1]
    assert len(answers[0]["responses"][0]["partitions"][0]["records"]) > 1000


def test_a_fetch_that_would_name_addresses_is_not_offered(overlay: ServerProcess) -> None:
    """ApiVersions leaves out versions of forwarded APIs whose responses carry addresses, and APIs that are not served."""
    with Connection(overlay.bootstrap) as link:
        offered = {each["api_key"]: each["max_version"] for each in link.call("ApiVersions", 4, **SOFTWARE)["api_keys"]}
    assert offered[1] == 15
    assert offered[55] == 1
    assert offered[68] == 1
    assert not {38, 76, 78, 79} & offered.keys()


def test_topics_of_the_cluster_come_and_go(
    overlay: ServerProcess, kafka: KafkaBroker, fresh: Callable[[str], str]
) -> None:
    """A topic deleted on the cluster loses its offsets here; one of the same name that follows begins without."""
    name = fresh("fleeting")
    make_topic(kafka.bootstrap, name)
    wait_until_known(overlay, name)
    admin = confluent_admin.AdminClient({"bootstrap.servers": kafka.bootstrap})

    def offset() -> int:
        asked = [{"group_id": f"probe-{name}", "member_id": None, "member_epoch": -1,
                  "topics": [{"name": name, "partition_indexes": [0]}]}]  # fmt: skip
        with Connection(overlay.bootstrap) as link:
            [answer] = link.call("OffsetFetch", 8, groups=asked, require_stable=False)["groups"]
        found: int = answer["topics"][0]["partitions"][0]["committed_offset"]
        return found

    assert offset() == 1
    [deleted] = admin.delete_topics([name]).values()
    deleted.result(30)
    wait_until(lambda: offset() == -1, "the offsets to be deleted")
    make_topic(kafka.bootstrap, name)
    wait_until_known(overlay, name)
    assert offset() == 1


def test_a_client_that_does_not_read_holds_back_the_broker(overlay: ServerProcess, topic: str) -> None:
    """Fetches of a client that reads none of the responses fill no memory, and others are served meanwhile."""
    producer = confluent_kafka.Producer({"bootstrap.servers": overlay.bootstrap})
    for _ in range(12):
        producer.produce(topic, b"x" * 900_000, partition=1)
        producer.poll(0)
    assert producer.flush(60) == 0
    with Connection(overlay.bootstrap) as link:
        nodes = {each["node_id"]: each["port"] for each in link.call("Metadata", 12, topics=[])["brokers"]}
    partition = {"partition": 1, "fetch_offset": 0, "log_start_offset": -1, "partition_max_bytes": 50 << 20}
    asked = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 50 << 20, "session_epoch": -1}
    before_kib = memory_kib(overlay.pid)
    with Connection(f"127.0.0.1:{nodes[1]}") as idle:
        idle.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for _ in range(30):
            idle.send("Fetch", 12, {**asked, "topics": [{"topic": topic, "partitions": [partition]}]})
        wait_until_known(overlay, topic)
        with Connection(f"127.0.0.1:{nodes[1]}") as link:
            for _ in range(2):
                answer = link.call("Fetch", 12, **asked, topics=[{"topic": topic, "partitions": [partition]}])
                assert len(answer["responses"][0]["partitions"][0]["records"]) > 10_000_000
        assert memory_kib(overlay.pid) - before_kib < 120 << 10


def memory_kib(pid: int) -> int:
    [line] = [each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if each.startswith("VmRSS")]
    return int(line.split()[1])


# --- transactions, which the cluster coordinates ----------------------------------------------------------------------

UNSTABLE_OFFSET_COMMIT = 88


class Transactional:
    """A transactional producer of raw requests, in the protocol with (version 5) or without transaction.version 2."""

    def __init__(self, bootstrap: str, name: str, version: int) -> None:
        self.name = name
        self.version = version
        self.ends_in = 5 if version == 5 else 3
        with Connection(bootstrap) as link:
            wait_until(lambda: self._initialized(link), "a producer id")

    def _initialized(self, link: Connection) -> bool:
        found = link.call(
            "FindCoordinator", 4, key_type=1, coordinator_keys=[self.name]
        )  # it makes `__transaction_state`
        if found["coordinators"][0]["error_code"]:
            return False
        answer = link.call(
            "InitProducerId",
            4,
            transactional_id=self.name,
            transaction_timeout_ms=60_000,
            producer_id=-1,
            producer_epoch=-1,
        )
        self.who = {"producer_id": answer["producer_id"], "producer_epoch": answer["producer_epoch"]}
        return answer["error_code"] == 0

    def commit_offset(self, link: Connection, group: str, topic: str, offset: int) -> int:
        """Begins a transaction with the offset of partition 0; returns the error."""
        if self.version < 5:
            added = link.call("AddOffsetsToTxn", 3, transactional_id=self.name, group_id=group, **self.who)
            while added["error_code"] == 51:  # CONCURRENT_TRANSACTIONS
                added = link.call("AddOffsetsToTxn", 3, transactional_id=self.name, group_id=group, **self.who)
            assert added["error_code"] == 0
        partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
        while True:
            answer = link.call(
                "TxnOffsetCommit", self.version, transactional_id=self.name, group_id=group, **self.who, member_id="",
                generation_id_or_member_epoch=-1, topics=[{"name": topic, "partitions": [partition]}],
            )  # fmt: skip
            code: int = answer["topics"][0]["partitions"][0]["error_code"]
            if code not in (51, 15):  # CONCURRENT_TRANSACTIONS, COORDINATOR_NOT_AVAILABLE: clients try again
                return code

    def end(self, bootstrap: str, *, commits: bool) -> None:
        with Connection(bootstrap) as link:
            answer = link.call("EndTxn", self.ends_in, transactional_id=self.name, committed=commits, **self.who)
        assert answer["error_code"] == 0
        if self.ends_in == 5:
            self.who = {"producer_id": answer["producer_id"], "producer_epoch": answer["producer_epoch"]}


def stable_offset(bootstrap: str, group: str, topic: str) -> tuple[int, int]:
    """The offset and the error of partition 0, for a consumer that asks for stable offsets."""
    asked = [{"group_id": group, "member_id": None, "member_epoch": -1,
              "topics": [{"name": topic, "partition_indexes": [0]}]}]  # fmt: skip
    with Connection(bootstrap) as link:
        [answer] = link.call("OffsetFetch", 8, groups=asked, require_stable=True)["groups"]
    found = answer["topics"][0]["partitions"][0]
    return found["committed_offset"], found["error_code"]


def wait_for_offset(bootstrap: str, group: str, topic: str, offset: int) -> None:
    wait_until(lambda: stable_offset(bootstrap, group, topic) == (offset, 0), f"offset {offset}")


@pytest.mark.parametrize("version", [3, 5])
def test_offsets_are_pending_until_the_cluster_has_ended_the_transaction(
    overlay: ServerProcess, kafka: KafkaBroker, topic: str, version: int
) -> None:
    """Commits and aborts follow one another; each decides the offsets of its own transaction, and none earlier or later."""
    group, producer = f"g-{topic}", Transactional(overlay.bootstrap, f"t-{topic}", version)
    expected = -1
    with Connection(overlay.bootstrap) as link:
        for offset in range(1, 13):
            assert producer.commit_offset(link, group, topic, offset) == 0
            assert stable_offset(overlay.bootstrap, group, topic) == (-1, UNSTABLE_OFFSET_COMMIT)
            commits = offset % 3 != 0
            producer.end(overlay.bootstrap, commits=commits)
            expected = offset if commits else expected
            if offset % 2:  # else the next transaction begins before the marker was read
                wait_for_offset(overlay.bootstrap, group, topic, expected)
    wait_for_offset(overlay.bootstrap, group, topic, expected)
    assert group not in offsets_in(kafka)


@pytest.mark.parametrize(("version", "commits"), [(3, True), (3, False), (5, True)])
def test_a_marker_that_was_written_while_the_server_was_dead_is_found(
    overlay: ServerProcess, kafka: KafkaBroker, topic: str, version: int, commits: bool
) -> None:
    """kill -9 between TxnOffsetCommit and the marker: a new start reads on, and earlier markers of the producer do no harm."""
    group, producer = f"g-{topic}", Transactional(overlay.bootstrap, f"t-{topic}", version)
    with Connection(overlay.bootstrap) as link:
        assert producer.commit_offset(link, group, topic, 1) == 0
        producer.end(overlay.bootstrap, commits=True)
        assert producer.commit_offset(link, group, topic, 2) == 0
        assert stable_offset(overlay.bootstrap, group, topic)[1] == UNSTABLE_OFFSET_COMMIT
    overlay.kill()
    producer.end(kafka.bootstrap, commits=commits)
    overlay.start()
    wait_until(lambda: stable_offset(overlay.bootstrap, group, topic) == (2 if commits else 1, 0), "the outcome")


def test_a_transaction_that_the_cluster_aborts_leaves_no_offset(
    overlay: ServerProcess, kafka: KafkaBroker, topic: str
) -> None:
    """A successor with the same transactional id fences the producer; its offset is discarded, and it commits no more."""
    group, producer = f"g-{topic}", Transactional(overlay.bootstrap, f"t-{topic}", 3)
    with Connection(overlay.bootstrap) as link:
        assert producer.commit_offset(link, group, topic, 1) == 0
        Transactional(overlay.bootstrap, f"t-{topic}", 3)
        wait_until(lambda: stable_offset(overlay.bootstrap, group, topic) == (-1, 0), "the abort")
        partition = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
        answer = link.call(
            "TxnOffsetCommit", 3, transactional_id=producer.name, group_id=group, **producer.who, member_id="",
            generation_id_or_member_epoch=-1, topics=[{"name": topic, "partitions": [partition]}],
        )  # fmt: skip
    assert answer["topics"][0]["partitions"][0]["error_code"] == 47  # INVALID_PRODUCER_EPOCH


# --- what this server has over the cluster ----------------------------------------------------------------------------


def test_the_revocation_epoch_fences_a_zombie_on_a_real_clusters_topic(overlay: ServerProcess, topic: str) -> None:
    """In transactions of the cluster, an epoch from before a rebalance is good for what was not taken since."""
    with Connection(overlay.bootstrap) as link:
        [found] = link.call("Metadata", 12, topics=[{"name": topic, "topic_id": bytes(16)}])["topics"]
        group = Rounds(link, "revocation-epoch", topic, found["topic_id"])
        group.join("ann", topic)
        group.epoch = 2
        for _ in range(3):
            group.round()
            assert group.visible() == group.accepted
    assert group.counts["nothing was taken since", True] == 6
    assert group.counts["the partition was taken", False] == 6


def test_a_fault_rule_acts_on_a_consumer_of_a_real_clusters_records(overlay: ServerProcess, topic: str) -> None:
    """The first commit of a group fails as the rule says; the library commits again, and the records are the cluster's."""
    group = f"g-{topic}"
    rule = {
        "match": {"api": "OffsetCommit", "group": group},
        "action": {"error": "NOT_COORDINATOR"},
        "extent": {"times": 1},
    }
    with httpx.Client(base_url=f"{overlay.admin}/v1", timeout=30) as http:
        made = http.post("/faults", json=rule)
        assert made.status_code == 201, made.text
        producer = confluent_kafka.Producer({"bootstrap.servers": overlay.bootstrap})
        producer.produce(topic, b"v", partition=0)
        assert producer.flush(30) == 0
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": overlay.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
        )
        consumer.subscribe([topic])
        wait_until(lambda: consumer.poll(0.5) is not None, "the record")
        consumer.commit(asynchronous=False)
        consumer.close()
        assert http.get(f"/faults/{made.json()['id']}").json()["acted"] == 1
    assert stable_offset(overlay.bootstrap, group, topic) == (1, 0)


def test_groups_go_on_while_the_broker_restarts(overlay: ServerProcess, kafka: KafkaBroker, topic: str) -> None:
    """Offsets are served while there is no broker; records follow when it is back, on the same listener."""
    producer = confluent_kafka.Producer({"bootstrap.servers": overlay.bootstrap})
    producer.produce(topic, b"before", partition=0)
    assert producer.flush(30) == 0
    with Connection(overlay.bootstrap) as link:
        kafka.kill()
        assert commit(link, f"g-{topic}", topic, 1) == 0
        assert stable_offset(overlay.bootstrap, f"g-{topic}", topic) == (1, 0)
    kafka.start()
    producer.produce(topic, b"after", partition=0)
    assert producer.flush(60) == 0
