"""Fixtures that every folder of tests may use."""

import asyncio
import gc
import os
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.support.kafka_cluster import KafkaCluster
from tests.support.loop import Loop
from tests.support.postgresql import Cluster
from tests.support.recorded_storm import RecordedStorm, record
from tests.support.server_process import ServerProcess
from tests.support.starts import Guard, mark
from tests.support.workers import close_group, divide, turn

# A shell that starts the tests in the background has SIGINT ignored, and every process of a test would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Test runs are repeatable: random cases depend on the test alone. `make explore` draws new ones each time.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", derandomize=False, deadline=None, print_blob=True)
settings.load_profile("repeatable")


GUARD = Guard()


# A wrapper, because pytest-xdist reads the groups in a hook of its own that comes first.
@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, None, None]:
    mark(items)
    if "THOROUGH" not in os.environ and not config.getoption("--rewrite"):
        for item in items:
            if item.get_closest_marker("thorough"):
                item.add_marker(pytest.mark.skip(reason="takes minutes: THOROUGH=1 in the environment runs it"))
    divide(items)
    yield


def pytest_collection_finish() -> None:
    """The modules and tests stay to the end: a test that asks the collector need not wait a second until it has seen them."""
    gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    with turn(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    return (yield from GUARD.watch(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    return (yield from GUARD.watch(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
    result = yield
    close_group(item, nextitem)
    return result


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="replace the answers that are kept, in tests/scenarios, tests/access and tests/security",
    )


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Async tests run on the loop that the server runs on."""
    return {"uvloop": Loop}


@pytest.fixture(scope="session")
def recorded_storm(tmp_path_factory: pytest.TempPathFactory) -> RecordedStorm:
    """Five minutes of a group in trouble, and what was really done to it."""
    return record(tmp_path_factory.mktemp("recorded") / "storm")


@pytest.fixture(scope="session")
def database() -> Iterator[Cluster]:
    """A PostgreSQL without standbys, for clusters of workers with names of their own."""
    found = Cluster(standbys=0)
    yield found
    found.close()


@pytest.fixture(scope="session")
def kafka_cluster() -> Iterator[KafkaCluster]:
    """Three brokers of Kafka, for tests that leave them as they were."""
    with KafkaCluster() as cluster:
        yield cluster


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    """What is entered or called here ends with the test."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def coordinator_process(tmp_path: Path) -> Iterator[Callable[..., ServerProcess]]:
    """A factory of running servers: `coordinator_process(settings={...})`; each is stopped when the test ends.

    Takes what ServerProcess takes. Each call has its own folder under the test's `tmp_path`.
    """
    with ExitStack() as servers:
        count = 0

        def start(**options: Any) -> ServerProcess:
            nonlocal count
            folder = tmp_path / f"server-{count}"
            folder.mkdir()
            count += 1
            server = ServerProcess(folder, **options)
            servers.callback(server.stop)
            return server.start()

        yield start
