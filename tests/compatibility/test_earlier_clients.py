"""Clients of the time have the same outcomes with this server, as their release, and with a broker of that release.

Each client plays a story (earlier/story.py): members that share a topic, a static one that returns, commits that are refused,
transactions and a fenced producer, and a member of the consumer protocol. EARLIER_CLIENTS is the Python of an environment with
kafka-python 2.0 and confluent-kafka 1.9, which do not install beside their successors; without it only the Java clients run.
"""

import json
import os
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.earlier_kafka import EarlierKafka
from tests.support.java_support import KAFKA_VERSION, compile_java, java, kafka_classpath
from tests.support.server_process import ServerProcess

TEST_MARKERS = ("kafka",)

PYTHON = os.environ.get("EARLIER_CLIENTS", "")
pytestmark = pytest.mark.thorough

HERE = Path(__file__).parent / "earlier"
RELEASES = ("2.4.1", "2.8.2", "3.6.2", "3.9.1", "4.1.1")
PREVIEW = {"group.coordinator.rebalance.protocols": "classic,consumer"}
"""Switches the preview of consumer groups on."""
JAVA_CLIENTS = ("2.4.1", "2.8.2", "3.6.2", "3.9.1", KAFKA_VERSION)
WITHIN_S = 400
Outcomes = dict[str, Any]


def java_story(version: str) -> Callable[[str, str], list[str]]:
    def command(bootstrap: str, name: str) -> list[str]:
        artifacts = ("com.fasterxml.jackson.core:jackson-databind:2.21.7", "org.slf4j:slf4j-nop:1.7.36")
        classpath = kafka_classpath((f"org.apache.kafka:kafka-clients:{version}", *artifacts))
        return java(compile_java(HERE / "EarlierClient.java", classpath), "EarlierClient", bootstrap, name)

    return command


def python_story(script: str) -> Callable[[str, str], list[str]]:
    return lambda bootstrap, name: [PYTHON, str(HERE / script), bootstrap, name]


NEEDS_PYTHON = pytest.mark.skipif(not PYTHON, reason="EARLIER_CLIENTS is not set")
CLIENTS = {
    **{f"kafka-clients {version}": java_story(version) for version in JAVA_CLIENTS},
    "kafka-python 2.0": python_story("kafka_python_story.py"),
    "confluent-kafka 1.9": python_story("confluent_story.py"),
}


@pytest.fixture(
    scope="module",
    params=[*((release, {}) for release in RELEASES), pytest.param(("3.9.1", PREVIEW), id="3.9.1 with its preview")],
    ids=lambda param: param[0],
)
def brokers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The addresses of this server as a release, and of a broker of the release."""
    version, settings = request.param
    kafka = EarlierKafka(tmp_path_factory.mktemp("kafka"), version, settings)
    try:
        kafka.start()
        kafka.wait_until_serving()
        settings = settings | {"emulate": version.rpartition(".")[0]}
        with ServerProcess(tmp_path_factory.mktemp("ours"), settings=settings) as server:
            yield server.bootstrap, kafka.bootstrap
    finally:
        kafka.stop()


def outcomes(client: str, bootstrap: str) -> Outcomes:
    """What the client's story says, by the name of each step; and the error that ended it."""
    command = CLIENTS[client](bootstrap, f"n{uuid.uuid4().hex[:8]}")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WITHIN_S)
    found = dict(json.loads(line) for line in done.stdout.splitlines())
    last_words = done.stderr.strip().rpartition("\n")[2].partition(":")[0]
    return found if done.returncode == 0 else found | {"ended with": last_words}


@pytest.mark.timeout(2 * WITHIN_S)
@pytest.mark.parametrize(
    "client",
    [pytest.param(name, marks=NEEDS_PYTHON if "kafka-clients" not in name else ()) for name in CLIENTS],
)
def test_a_client_of_the_time_has_the_same_outcomes_with_a_broker_of_the_release(
    client: str, brokers: tuple[str, str]
) -> None:
    ours, kafka = (outcomes(client, bootstrap) for bootstrap in brokers)
    print(json.dumps(kafka))
    assert ours == kafka
    assert "listed" in kafka, "the story ended early"
