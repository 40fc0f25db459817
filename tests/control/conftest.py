"""A server that the tests of the client share, and members of groups of a real library."""

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer

from tests.support.background import Background
from tests.support.server_process import ServerProcess


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("control")) as process:
        yield process


@pytest.fixture
def fresh() -> Callable[[str], str]:
    """Names that no other test has."""
    run = uuid.uuid4().hex[:8]
    return lambda name: f"{name}-{run}"


class Member:
    """A consumer of librdkafka that polls in a thread of its own until the test ends."""

    def __init__(self, bootstrap: str, group: str, client_id: str = "member", topic: str = "events") -> None:
        self.consumer = Consumer({
            "bootstrap.servers": bootstrap, "group.id": group, "client.id": client_id, "heartbeat.interval.ms": 50,
            "session.timeout.ms": 45_000, "enable.auto.commit": False, "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 50, "retry.backoff.ms": 10, "auto.offset.reset": "earliest",
        })  # fmt: skip
        self.consumer.subscribe([topic])
        self._stopped = threading.Event()
        self._thread = Background(self._poll)

    def _poll(self) -> None:
        while not self._stopped.is_set():
            self.consumer.poll(0.02)
        self.consumer.close()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.finish()


@pytest.fixture
def join(server: ServerProcess) -> Iterator[Callable[..., Member]]:
    """`join(group)` starts a member."""
    with ExitStack() as stack:

        def start(group: str, **how: str) -> Member:
            member = Member(server.bootstrap, group, **how)
            stack.callback(member.stop)
            return member

        yield start
