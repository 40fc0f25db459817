"""A server for a module of tests, and commands that are given its address."""

from collections.abc import Callable, Iterator

import pytest

from coordinator import cli
from tests.support.kafka_broker import KafkaBroker
from tests.support.server_process import ServerProcess


@pytest.fixture(scope="module", params=["ours", pytest.param("kafka", marks=pytest.mark.java)])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("server")
    server = ServerProcess(folder) if request.param == "ours" else KafkaBroker(folder)
    try:
        server.start()
        yield server.bootstrap
    finally:
        server.stop()


@pytest.fixture
def command(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command; returns what it prints, or why it fails if `expect` is another exit code than 0."""

    def run(*arguments: str, expect: int = 0) -> str:
        code = cli.main([*arguments, "--bootstrap", bootstrap])
        printed = capsys.readouterr()
        assert code == expect, printed.err or printed.out
        return printed.err if expect and printed.err else printed.out

    return run
