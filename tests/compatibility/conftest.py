"""A server that most tests share, and client programs that end with their test."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.compatibility.members import CLIENTS, Client, Program
from tests.compatibility.shared_groups import Broker
from tests.support.admin_client import check_assignments
from tests.support.server_process import ServerProcess
from tests.support.wire import Connection


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for the tests that do not kill theirs."""
    process = ServerProcess(tmp_path_factory.mktemp("compatibility"))
    with process:
        yield process


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.java if name == "java" else ()) for name in CLIENTS])
def client(request: pytest.FixtureRequest) -> Client:
    return CLIENTS[request.param]


@pytest.fixture(scope="session")
def program_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("programs")


@pytest.fixture
def start(program_folder: Path) -> Iterator[Callable[[Client, Broker], Program]]:
    """Starts a client program against a broker. What real leaders assign is valid: that is verified after each test."""
    servers: set[ServerProcess] = set()
    with ExitStack() as stack:

        def start(client: Client, server: Broker) -> Program:
            program = Program(client, server.bootstrap, program_folder)
            stack.callback(program.stop)
            if isinstance(server, ServerProcess):
                servers.add(server)
            return program

        yield start
        for server in servers:
            if server.alive:
                check_assignments(server)


@pytest.fixture
def fresh() -> Callable[[str], str]:
    """Returns unused names, because tests share a server."""
    run = uuid.uuid4().hex[:8]
    return lambda name: f"{name}-{run}"


@pytest.fixture
def make_topic(fresh: Callable[[str], str]) -> Callable[[Broker, int], str]:
    """Creates a topic with this many partitions."""

    def make(server: Broker, partitions: int, name: str = "topic") -> str:
        topic = fresh(name)
        with Connection(server.bootstrap) as link:
            wanted = {"name": topic, "num_partitions": partitions, "replication_factor": 1}
            (made,) = link.call("CreateTopics", 4, topics=[wanted], timeout_ms=10_000)["topics"]
        assert made["error_code"] == 0, made
        return topic

    return make
