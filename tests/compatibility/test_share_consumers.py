"""Real share consumers against our server: Java's and franz-go's (KIP-932, KIP-1222, KIP-1206).

The console's is in test_console_tools.py.
"""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compatibility.foreign_programs import go_program
from tests.compatibility.members import JAVA_ARTIFACTS
from tests.support.java_support import compile_java, kafka_classpath, run_java
from tests.support.kafka_broker import KafkaBroker
from tests.support.server_process import ServerProcess

HERE = Path(__file__).parent
SOURCE = HERE / "java" / "ShareConsumers.java"
DELIVERIES = """\
implicit: a#1 b#1 c#1 d#1
implicit, after them: e#1
implicit, at the end: e#2
explicit: a#1 b#1 c#1 d#1
committed: [done]
lock: 30000
released, renewed: b#2 d#1
first of two: a#1 b#1
second of two: 2 others
"""


def run(bootstrap: str, *arguments: str) -> str:
    done = run_java(compile_java(SOURCE, kafka_classpath(JAVA_ARTIFACTS)), "ShareConsumers", bootstrap, *arguments)
    assert done.returncode == 0, done.stderr[-3_000:]
    return done.stdout


def delivers(bootstrap: str, name: str) -> None:
    assert run(bootstrap, name) == DELIVERIES
    # A member that dies loses its locks with its connection.
    assert run(bootstrap, f"{name}-crash", "die") == "crash: a#1 b#1 c#1 d#1\n"
    assert run(bootstrap, f"{name}-crash", "die") == "crash: a#2 b#2 c#2 d#2\n"


@pytest.mark.java
def test_records_are_delivered_acknowledged_and_redelivered_after_a_crash(
    server: ServerProcess, fresh: Callable[[str], str]
) -> None:
    delivers(server.bootstrap, fresh("share"))


@pytest.mark.thorough
@pytest.mark.kafka
def test_kafka_delivers_them_so(tmp_path: Path, fresh: Callable[[str], str]) -> None:
    broker = KafkaBroker(tmp_path, {})
    try:
        delivers(broker.start().bootstrap, fresh("share"))
    finally:
        broker.stop()


def test_franz_go_gets_its_records_and_gives_them_back(server: ServerProcess, fresh: Callable[[str], str]) -> None:
    command = [*go_program(HERE / "go"), server.bootstrap, fresh("share")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "first: a#1 b#1 c#1 d#1\nreleased: b#2\ngiven back: b#3\n"
