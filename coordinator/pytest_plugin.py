"""A server for a test suite: `def test_orders(kafka_coordinator): ... kafka_coordinator.bootstrap_servers ...`

One server process per session (per worker with pytest-xdist), on free ports, started by the first test that asks; it is
ready in a fraction of a second, and its data is gone with pytest's temporary folders. Tests share it and do not meet:
`topic()` and `group()` give names that no other test has. When a test fails, what the server wrote to its log meanwhile
is part of the report.

The server is a process of its own, not a thread: client libraries block, and a test may kill and restart it
(`kafka_coordinator.server.restart()`).

Settings: `kafka_coordinator_settings` in pytest's configuration, a line `name=value` each, over those of
config/test.yaml (no rebalance delay, sessions from 100 ms, one partition for groups).
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from coordinator.config.paths import CONFIGS

READY_WITHIN_S = 30.0
STOPPED_WITHIN_S = 10.0
LOG_BYTES_SHOWN = 20_000
_SETTINGS = "kafka_coordinator_settings"
_OWN_VARIABLES = ("COORDINATOR_", "KAFKA_")
"""What a developer's shell says about other servers is not about this one."""


class CoordinatorServer:
    """A server process with its data and log in a folder. Its ports are free ones, and stay over restarts."""

    def __init__(self, folder: Path, settings: Sequence[str]) -> None:
        self.log_path = folder / "server.log"
        self._data_dir = folder / "data"
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._ready: dict[str, Any] = {}
        self._listen = self._admin = "127.0.0.1:0"

    @property
    def bootstrap_servers(self) -> str:
        """ "host:port", as every client library takes it."""
        return str(self._ready["bootstrap"])

    @property
    def admin_url(self) -> str:
        """ "http://host:port": /metrics, /health/ready, /v1/groups."""
        return str(self._ready["admin"])

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts it and waits until it is ready; fails the test with its log if it does not become so."""
        command = [sys.executable, "-m", "coordinator", "serve", "--config", str(CONFIGS / "test.yaml")]
        command += ["--listen", self._listen, "--admin", self._admin, "--data-dir", str(self._data_dir)]
        for setting in self._settings:
            command += ["--set", setting]
        environment = {name: text for name, text in os.environ.items() if not name.startswith(_OWN_VARIABLES)}
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env=environment
            )
        line = self._first_line()
        if not line.endswith(b"\n"):
            self.stop()
            pytest.fail(f"the kafka coordinator did not become ready:\n{self.log_since(0)}", pytrace=False)
        self._ready = json.loads(line)
        self._listen = self.bootstrap_servers
        self._admin = self.admin_url.removeprefix("http://")

    def kill(self) -> None:
        """As a crash does: SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._wait()

    def restart(self) -> None:
        """Stops it if it runs, and starts it on the same ports with the same data."""
        self.stop()
        self.start()

    def stop(self) -> None:
        """An orderly end; nothing if it has none to come to."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOPPED_WITHIN_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._wait()

    def log_size(self) -> int:
        """Bytes of the log so far, for `log_since`."""
        return self.log_path.stat().st_size if self.log_path.exists() else 0

    def log_since(self, position: int) -> str:
        """What was written to the log since, its end if it is long."""
        with self.log_path.open("rb") as log:
            log.seek(max(position, self.log_size() - LOG_BYTES_SHOWN))
            return log.read().decode(errors="replace")

    def _first_line(self) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        deadline = time.monotonic() + READY_WITHIN_S
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n") and selector.select(max(0.0, deadline - time.monotonic())):
                piece = os.read(self._process.stdout.fileno(), 4096)
                if not piece:
                    break
                line += piece
        return line

    def _wait(self) -> None:
        assert self._process is not None
        self._process.wait(STOPPED_WITHIN_S)
        if self._process.stdout is not None:
            self._process.stdout.close()


class KafkaCoordinator:
    """The server as one test sees it."""

    def __init__(self, server: CoordinatorServer) -> None:
        self.server = server
        self._unique = uuid.uuid4().hex[:8]

    @property
    def bootstrap_servers(self) -> str:
        """ "host:port", as every client library takes it."""
        return self.server.bootstrap_servers

    @property
    def admin_url(self) -> str:
        """ "http://host:port": /metrics, /health/ready, /v1/groups."""
        return self.server.admin_url

    def topic(self, name: str = "topic", *, partitions: int | None = None) -> str:
        """A topic's name that no other test has, the same for the same `name`. With `partitions` the topic is made.

        Without, it comes into being when a client asks for it, with one partition.
        """
        unique = f"{name}-{self._unique}"
        if partitions is not None:
            self._create(unique, partitions)
        return unique

    def group(self, name: str = "group") -> str:
        """A group's name that no other test has, the same for the same `name`."""
        return f"{name}-{self._unique}"

    def _create(self, name: str, partitions: int) -> None:
        from coordinator.operations.client import Client, OperationFailed, refuse_error  # noqa: PLC0415 - when asked for
        from coordinator.protocol.messages import CreateTopicsRequest  # noqa: PLC0415 - as above

        topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        try:
            with Client(self.bootstrap_servers, READY_WITHIN_S) as client:
                answer = client.any().ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
                refuse_error(answer.topics[0].error_code, f"cannot create topic {name}", answer.topics[0].error_message)
        except OperationFailed as error:
            pytest.fail(str(error))


_LOG_FROM = pytest.StashKey[tuple[CoordinatorServer, int]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The plugin's one setting."""
    parser.addini(_SETTINGS, "settings of the kafka_coordinator fixture's server, name=value each", type="linelist")


@pytest.fixture(scope="session")
def kafka_coordinator_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CoordinatorServer]:
    """The session's server, for fixtures of a wider scope than a test."""
    settings: list[str] = request.config.getini(_SETTINGS)
    server = CoordinatorServer(tmp_path_factory.mktemp("kafka-coordinator"), settings)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def kafka_coordinator(request: pytest.FixtureRequest, kafka_coordinator_server: CoordinatorServer) -> KafkaCoordinator:
    """The session's server, with names of this test's own. One that an earlier test killed is started again."""
    if not kafka_coordinator_server.alive:
        kafka_coordinator_server.start()
    request.node.stash[_LOG_FROM] = (kafka_coordinator_server, kafka_coordinator_server.log_size())
    return KafkaCoordinator(kafka_coordinator_server)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the server's log to the report of a test that failed."""
    report = yield
    if report.failed and _LOG_FROM in item.stash:
        server, position = item.stash[_LOG_FROM]
        report.sections.append((f"kafka coordinator log ({report.when})", server.log_since(position)))
    return report
