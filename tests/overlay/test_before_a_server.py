"""A server in front of another one of ours, which stands for a cluster: no Java is needed."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import confluent_kafka
import httpx
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from coordinator.protocol.errors import ErrorCode
from coordinator_testing.throwaway_server import DidNotStart
from tests.support.before_cluster import SETTINGS, before
from tests.support.ports import HeldPort
from tests.support.postgresql import Cluster
from tests.support.server_process import ServerProcess
from tests.support.tls import Pem, certificates
from tests.support.waiting import WITHIN_S, wait_until
from tests.support.wire import Connection, ConnectionClosed, api_key

PASSWORD = "right"


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Pem:
    return certificates(tmp_path_factory.mktemp("pem"))


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, pem: Pem) -> Iterator[ServerProcess]:
    """A "cluster" with SASL over TLS."""
    folder = tmp_path_factory.mktemp("secured")
    (folder / "users").write_text(f"alice:{PASSWORD}\n")
    (folder / "both.pem").write_text(pem.key.read_text() + pem.certificate.read_text())
    settings = {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "sasl.users.file": str(folder / "users"),
        "ssl.keystore.location": str(folder / "both.pem"),
    }
    with ServerProcess(folder, settings=settings) as server:
        yield server


def account(pem: Pem, mechanism: str, password: str = PASSWORD) -> dict[str, str]:
    return {
        "data.security.protocol": "SASL_SSL",
        "data.ssl.truststore.location": str(pem.ca),
        "data.sasl.mechanism": mechanism,
        "data.sasl.username": "alice",
        "data.sasl.password": password,
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_one_account_reaches_a_secured_cluster(
    tmp_path: Path, secured: ServerProcess, pem: Pem, mechanism: str
) -> None:
    """A client without credentials produces and consumes; the server has connected for it over TLS and SASL."""
    with before(tmp_path / "overlay", secured.bootstrap, account(pem, mechanism)) as server:
        consume_what_was_produced(server.bootstrap, f"group-{mechanism}")


def consume_what_was_produced(bootstrap: str, group: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    producer.produce("events", group.encode(), partition=0)
    assert producer.flush(30) == 0
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "group.protocol": "consumer",
        }
    )
    consumer.subscribe(["events"])

    def is_there() -> bool:
        message = consumer.poll(0.5)
        return message is not None and message.error() is None and message.value() == group.encode()

    wait_until(is_there, "the record")
    consumer.commit(asynchronous=False)
    consumer.close()


def test_a_wrong_password_is_a_line_at_the_start(tmp_path: Path, secured: ServerProcess, pem: Pem) -> None:
    """A start that the cluster refuses ends, and the line has no secret."""
    with (
        pytest.raises(DidNotStart, match=r"user alice") as refused,
        before(tmp_path / "overlay", secured.bootstrap, account(pem, "PLAIN", "wrongest")),
    ):
        pass
    assert "wrongest" not in str(refused.value)


@pytest.fixture
def starting(tmp_path: Path) -> Iterator[tuple[ServerProcess, ServerProcess, Connection]]:
    """A "cluster" that was not started, a server that waits for it, and a client that waits for an answer of ApiVersions."""
    with ExitStack() as stack:
        for name in ("behind", "overlay"):
            (tmp_path / name).mkdir()
        behind = ServerProcess(tmp_path / "behind")
        stack.callback(behind.stop)
        behind.hold_ports()
        server = ServerProcess(tmp_path / "overlay", settings=SETTINGS | {"data.bootstrap.servers": behind.listens_at})
        stack.callback(server.stop)
        server.begin_to_start()
        link = stack.enter_context(wait_until(lambda: connected(server.listens_at), "the listener"))
        link.send("ApiVersions", 3, {"client_software_name": "early", "client_software_version": "1"})
        yield behind, server, link


def test_a_server_that_starts_names_its_apis_when_it_knows_the_cluster(
    starting: tuple[ServerProcess, ServerProcess, Connection],
) -> None:
    """A client that connects before does not learn that topics cannot be read here, which it would believe forever."""
    behind, server, link = starting
    wait_until(lambda: readiness(server) == (503, ["the cluster is not known yet"]), "the reason")
    behind.start()
    answer = link.receive(WITHIN_S)
    names = {each["api_key"] for each in answer["api_keys"]}
    assert names >= {api_key(name) for name in ("Produce", "Fetch", "Metadata", "OffsetCommit")}
    wait_until(lambda: readiness(server) == (200, []), "a server that is ready")
    behind.stop()
    wait_until(lambda: (readiness(server) or (0,))[0] == 503, "a server without its cluster, which is not ready")
    behind.start()
    wait_until(lambda: readiness(server) == (200, []), "a server that is ready again")


def test_a_start_that_waits_for_its_cluster_can_be_stopped(
    starting: tuple[ServerProcess, ServerProcess, Connection],
) -> None:
    """In an orderly way and not only when it gives up, although a client waits."""
    _, server, link = starting
    assert server.terminate() == 0
    assert "event=stopped" in server.log
    with pytest.raises(ConnectionClosed):
        link.receive()


def readiness(server: ServerProcess) -> tuple[int, list[str]] | None:
    """The status of /health/ready and its reasons; None: admin HTTP does not answer yet."""
    try:
        answer = httpx.get(f"http://{server.admin_listens_at}/health/ready")
    except httpx.TransportError:
        return None
    return answer.status_code, answer.json().get("reasons", [])


def connected(address: str) -> Connection | None:
    try:
        return Connection(address)
    except ConnectionRefusedError:
        return None


# --- several workers --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ServerProcess]]:
    """Two workers in front of one "cluster"."""
    pytest.importorskip("asyncpg")
    folder = tmp_path_factory.mktemp("workers")
    with ExitStack() as stack:
        database = Cluster(standbys=0)
        stack.callback(database.close)
        (folder / "behind").mkdir()
        settings = {"offsets.topic.num.partitions": 8, "transaction.state.log.num.partitions": 2}
        behind = stack.enter_context(ServerProcess(folder / "behind", settings=settings))
        held = HeldPort()
        stack.callback(held.release)
        shared = {
            **settings,
            "data.plane": "none",
            "journal.replication": "optional",
            "data.listener.port": held.port - 1,  # the broker's id is 1
        }
        found = []
        for node_id in (1, 2):
            arguments = ("--journal", database.url(), "--listen", f"127.0.0.{node_id}:0")
            more = {**shared, "node.id": node_id}
            found.append(
                stack.enter_context(before(folder / f"worker-{node_id}", behind.bootstrap, more, arguments=arguments))
            )
        yield found


def coordinators(worker: ServerProcess, groups: list[str]) -> dict[str, tuple[int, str, int]]:
    with Connection(worker.bootstrap) as link:
        answer = link.call("FindCoordinator", 4, key_type=0, coordinator_keys=groups)
    return {each["key"]: (each["node_id"], each["host"], each["port"]) for each in answer["coordinators"]}


def test_workers_name_the_same_nodes_and_coordinators(workers: list[ServerProcess]) -> None:
    """Whichever worker a client asks, a broker has one address, and a group one worker."""
    groups = [f"g{number}" for number in range(20)]

    def are_spread() -> bool:
        return {node for node, _, _ in coordinators(workers[0], groups).values()} == {1_000_000_001, 1_000_000_002}

    wait_until(are_spread, "both workers to have groups")
    wait_until(lambda: coordinators(workers[0], groups) == coordinators(workers[1], groups), "the same answer")
    named = []
    for worker in workers:
        with Connection(worker.bootstrap) as link:
            brokers = link.call("Metadata", 12, topics=[])["brokers"]
        named.append({(each["node_id"], each["host"], each["port"]) for each in brokers})
    assert named[0] == named[1]
    assert {node for node, _, _ in named[0]} == {1, 1_000_000_001, 1_000_000_002}


def test_groups_of_all_workers_commit_in_transactions_of_the_cluster(workers: list[ServerProcess]) -> None:
    """Wherever a group is, its offsets are decided by the cluster's markers."""
    bootstrap = ",".join(worker.bootstrap for worker in workers)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    [made] = admin.create_topics([NewTopic("numbers", 1, 1)]).values()
    made.result(30)
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": "t"})
    producer.init_transactions(30)
    groups = [f"in-transaction-{number}" for number in range(6)]
    assert len({each[0] for each in coordinators(workers[0], groups).values()}) == 2
    consumers = {}
    for group in groups:
        consumers[group] = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
        consumers[group].subscribe(["numbers"])
        wait_until(lambda group=group: bool(consumers[group].poll(0.1) or consumers[group].assignment()), "a member")
    for number, group in enumerate(groups, 1):
        producer.begin_transaction()
        producer.produce("numbers", b"v")
        offsets = [confluent_kafka.TopicPartition("numbers", 0, number)]
        producer.send_offsets_to_transaction(offsets, consumers[group].consumer_group_metadata(), 30)
        if number % 2:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    for number, group in enumerate(groups, 1):
        [found] = consumers[group].committed([confluent_kafka.TopicPartition("numbers", 0)], 30)
        assert (found.offset == number) is (number % 2 == 1)
        consumers[group].close()


def test_configs_of_a_group_and_of_a_topic_are_asked_for_one_by_one(workers: list[ServerProcess]) -> None:
    """The cluster has those of topics and a worker those of groups; a request for both is refused, and the connection stays."""
    topic, group = ({"resource_type": kind, "resource_name": "r", "configuration_keys": None} for kind in (2, 32))
    with Connection(workers[0].bootstrap) as link:

        def described(*resources: dict[str, Any]) -> list[tuple[str | None, int]]:
            results = link.call("DescribeConfigs", 4, resources=resources)["results"]
            return [(each["error_message"], each["error_code"]) for each in results]

        refused = "groups and other resources at once; ask for them one by one"
        assert described(topic, group) == [(refused, ErrorCode.INVALID_REQUEST)] * 2
        assert [code for _, code in described(group)] == [0]
        assert [code for _, code in described(topic)] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_client_without_acknowledgements_is_forwarded(workers: list[ServerProcess]) -> None:
    """Produce with acks=0 has no response; the response to the next request on the connection is its own."""
    with Connection(workers[0].bootstrap) as link:
        [node] = [each for each in link.call("Metadata", 12, topics=[])["brokers"] if each["node_id"] == 1]
    with Connection(f"{node['host']}:{node['port']}") as link:
        link.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for version in (3, 9):
            link.send("Produce", version, {"acks": 0, "timeout_ms": 1000, "topic_data": []})
        assert link.call("Metadata", 12, topics=[])["brokers"]
