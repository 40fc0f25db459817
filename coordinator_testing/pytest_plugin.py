"""A pytest plugin with a server: `def test_orders(kafka_coordinator): ... kafka_coordinator.bootstrap_servers ...`

The first test that uses the fixture starts a server process on free ports, which all tests of the session share (with
pytest-xdist, one per worker). It is ready in a fraction of a second. Its data is in pytest's temporary folder. Tests do not
affect each other because `topic()` and `group()` return names that no other test has. If a test fails, the report has the
lines that the server logged during the test.

`kafka_coordinator.control` injects faults, acts on groups and moves the clock (docs/control.md). It has a scope of its own for
each test, which ends with the test even if that fails: its rules are cleared, what they hold is released, and the clock runs.

The server is a process and not a thread, because client libraries block, and because tests can kill and restart it
(`kafka_coordinator.server.restart()`).

`kafka_coordinator_settings` in pytest's configuration has a line `name=value` for each setting. They override those in
config/test.yaml (no rebalance delay, session timeouts from 100 ms, frequent heartbeats, one partition for groups).
`kafka_coordinator_from` names a folder or HOST:PORT whose groups and offsets the server begins with, as
`coordinator serve --from` does. `kafka_coordinator_emulate` is the release of Kafka that the server is.

`@pytest.mark.kafka_releases("2.8", "3.9", "4.4")` runs a test once for each of these releases; without arguments, for all.
"""

import uuid
from collections.abc import Generator, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Self

import pytest

from coordinator_testing import throwaway_server

if TYPE_CHECKING:
    from coordinator_testing.control import AsyncControl, Control
    from coordinator_testing.control.clock import ClockCommands

_SETTINGS = "kafka_coordinator_settings"
_SOURCE = "kafka_coordinator_from"
_RELEASE = "kafka_coordinator_emulate"
_MARKER = "kafka_releases"


class CoordinatorServer(throwaway_server.ThrowawayServer):
    """A server process with data and log in a folder. It gets free ports and keeps them when it restarts."""

    def start(self) -> Self:
        """Starts the server and waits until it is ready. If it is not, fails the test with the server's log."""
        try:
            return super().start()
        except throwaway_server.DidNotStart as error:
            pytest.fail(str(error), pytrace=False)


class KafkaCoordinator:
    """The server, with names for one test."""

    def __init__(self, server: CoordinatorServer) -> None:
        self.server = server
        self._unique = uuid.uuid4().hex[:8]
        self._clocks: list[ClockCommands] = []

    @property
    def bootstrap_servers(self) -> str:
        """The value of `bootstrap.servers`: "host:port"."""
        return self.server.bootstrap_servers

    @property
    def admin_url(self) -> str:
        """The base URL of /metrics, /health/ready and /v1/groups: "http://host:port"."""
        return self.server.admin_url

    def topic(self, name: str = "topic", *, partitions: int | None = None) -> str:
        """A topic name that no other test has; the same `name` gives the same result.

        With `partitions` the topic is created. Otherwise it is created with one partition when a client uses it.
        """
        unique = f"{name}-{self._unique}"
        if partitions is not None:
            self._create(unique, partitions)
        return unique

    def group(self, name: str = "group") -> str:
        """A group name that no other test has; the same `name` gives the same result."""
        return f"{name}-{self._unique}"

    @cached_property
    def control(self) -> "Control":
        """Faults, groups, time and recordings of the server, in a scope that no other test has. It ends with the test."""
        from coordinator_testing.control import Control  # noqa: PLC0415 - not every test needs it

        control = Control(self.admin_url, self._scope)
        self._clocks.append(control.clock)
        return control

    def async_control(self) -> "AsyncControl":
        """The same for an asyncio test, in the same scope: `async with kafka_coordinator.async_control() as control`."""
        from coordinator_testing.control import AsyncControl  # noqa: PLC0415 - as above

        control = AsyncControl(self.admin_url, self._scope)
        self._clocks.append(control.clock)
        return control

    @property
    def _scope(self) -> str:
        return f"test-{self._unique}"

    def end(self) -> None:
        """Ends the scope of `control`. A server that the test has killed has nothing left to clear."""
        if not self._clocks:
            return
        if self.server.alive:
            self.control.clock.made_manual = any(clock.made_manual for clock in self._clocks)
            self.control.close()
        else:
            self.control.disconnect()

    def _create(self, name: str, partitions: int) -> None:
        from coordinator.operations.client import Client, OperationFailed, refuse_error  # noqa: PLC0415 - not every test needs it
        from coordinator.protocol.messages import CreateTopicsRequest  # noqa: PLC0415 - as above

        topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        try:
            with Client(self.bootstrap_servers, self.server.ready_within_s) as client:
                answer = client.any().ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
                refuse_error(answer.topics[0].error_code, f"cannot create topic {name}", answer.topics[0].error_message)
        except OperationFailed as error:
            pytest.fail(str(error))


_LOG_FROM = pytest.StashKey[tuple[CoordinatorServer, int]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option for settings."""
    parser.addini(
        _SETTINGS, "settings of the server of the fixture kafka_coordinator, one name=value per line", type="linelist"
    )
    parser.addini(
        _SOURCE, "folder or HOST:PORT whose groups and offsets the server of kafka_coordinator begins with", default=""
    )
    parser.addini(
        _RELEASE, "release of Kafka that the server of kafka_coordinator is for clients, such as 3.6", default=""
    )


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker."""
    text = "run the test once for each of these releases of Kafka, by default for all; needs kafka_coordinator"
    config.addinivalue_line("markers", f"{_MARKER}(*releases): {text}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test with the marker once for each release."""
    marker = metafunc.definition.get_closest_marker(_MARKER)
    if marker is None:
        return
    if "kafka_coordinator_release" not in metafunc.fixturenames:
        raise pytest.UsageError(f"{metafunc.definition.nodeid}: {_MARKER} needs the fixture kafka_coordinator")
    from coordinator.protocol.releases import NEWEST, releases  # noqa: PLC0415 - not every test needs it

    known = (NEWEST, *releases())
    if unknown := [each for each in marker.args if each not in known]:
        raise pytest.UsageError(
            f"{metafunc.definition.nodeid}: no release {unknown[0]!r}; there are {', '.join(known)}"
        )
    metafunc.parametrize("kafka_coordinator_release", marker.args or known, indirect=True)


@pytest.fixture(scope="session")
def kafka_coordinator_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CoordinatorServer]:
    """The server of the session, for fixtures that have a wider scope than a test."""
    settings: list[str] = request.config.getini(_SETTINGS)
    source: str = request.config.getini(_SOURCE)
    if release := request.config.getini(_RELEASE):
        settings = [*settings, f"emulate={release}"]
    server = CoordinatorServer(tmp_path_factory.mktemp("kafka-coordinator"), settings, source=source or None)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def kafka_coordinator_release(request: pytest.FixtureRequest) -> str | None:
    """The release of Kafka that a test with the marker runs with; None: the one of the server."""
    return getattr(request, "param", None)


@pytest.fixture
def kafka_coordinator(
    request: pytest.FixtureRequest, kafka_coordinator_server: CoordinatorServer, kafka_coordinator_release: str | None
) -> Iterator[KafkaCoordinator]:
    """The server of the session with names for this test, started again if an earlier test killed it."""
    if not kafka_coordinator_server.alive:
        kafka_coordinator_server.start()
    request.node.stash[_LOG_FROM] = (kafka_coordinator_server, kafka_coordinator_server.log_size())
    coordinator = KafkaCoordinator(kafka_coordinator_server)
    try:
        if kafka_coordinator_release is not None:
            coordinator.control.emulate(kafka_coordinator_release)
        yield coordinator
    finally:
        coordinator.end()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the server's log to the report of a failed test."""
    report = yield
    if report.failed and _LOG_FROM in item.stash:
        server, position = item.stash[_LOG_FROM]
        report.sections.append((f"kafka coordinator log ({report.when})", server.log_since(position)))
    return report
