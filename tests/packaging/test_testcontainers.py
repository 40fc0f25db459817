"""Testcontainers' own Kafka modules with this server's image: the real modules, where there is Docker.

Each program starts the image with the module as its documentation shows, and prints the bootstrap address; the test then
produces and consumes through the published port. The image must be built: `docker build -t kafka-group-coordinator .`;
COORDINATOR_IMAGE names another one. test_start_scripts.py runs the modules' scripts without Docker.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator_testing.throwaway_server import read_line
from tests.compatibility.foreign_programs import go_program, node_program
from tests.packaging.round_trip import round_trip
from tests.support.java_support import CACHE, compile_java, java, kafka_classpath

PROGRAMS = Path(__file__).with_name("testcontainers")
IMAGE = os.environ.get("COORDINATOR_IMAGE", "kafka-group-coordinator")
TAGGED = "kafka-group-coordinator-tests:8.0.0"
"""Node's module starts a ZooKeeper, and waits for its port, unless the tag is 8.0.0 or newer."""
STARTED_WITHIN_S = 120.0
JAVA_MODULES = ("org.testcontainers:kafka:1.21.3", "org.slf4j:slf4j-nop:1.7.36")


@pytest.fixture(scope="module")
def docker() -> dict[str, str]:
    """The environment of a module. Skips where there is no Docker or no image."""
    if shutil.which("docker") is None:
        pytest.skip("docker is not installed")
    if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode:
        pytest.skip("no Docker engine is running")
    if subprocess.run(["docker", "tag", IMAGE, TAGGED], capture_output=True, check=False).returncode:
        pytest.skip(f"there is no image {IMAGE}; run: docker build -t {IMAGE} .")
    # The module's own helper container, which removes others after a crash, is an image from the internet.
    return {**os.environ, "TESTCONTAINERS_RYUK_DISABLED": "true"}


def java_module() -> list[str]:
    return java(compile_java(PROGRAMS / "java" / "KafkaModules.java", kafka_classpath(JAVA_MODULES)), "KafkaModules")


def python_module() -> list[str]:
    """The Python program, with its packages in the cache folder."""
    requirements = PROGRAMS / "python" / "requirements.txt"
    kept = CACHE / "python-testcontainers-4.15.0"
    if not kept.is_dir():
        making = kept.with_suffix(f".{os.getpid()}")
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--require-hashes",
            "--no-deps",
            "--target",
            str(making),
        ]
        done = subprocess.run([*command, "-r", str(requirements)], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"pip could not get what the program needs: {done.stderr[-500:]}")
        making.rename(kept)
    return ["env", f"PYTHONPATH={kept}", sys.executable, str(PROGRAMS / "python" / "module.py")]


def go_module() -> list[str]:
    return go_program(PROGRAMS / "go")


def node_module() -> list[str]:
    return node_program(PROGRAMS / "node")


@pytest.mark.parametrize(
    ("program", "name", "image"),
    [
        pytest.param(java_module, "apache", IMAGE, id="Java, KafkaContainer", marks=pytest.mark.java),
        pytest.param(java_module, "confluent", IMAGE, id="Java, ConfluentKafkaContainer", marks=pytest.mark.java),
        pytest.param(java_module, "confluent-zookeeper", IMAGE, id="Java, old KafkaContainer", marks=pytest.mark.java),
        pytest.param(python_module, "zookeeper", IMAGE, id="Python"),
        pytest.param(python_module, "kraft", TAGGED, id="Python, with_kraft"),
        pytest.param(node_module, "kafka", TAGGED, id="Node"),
        pytest.param(go_module, "kafka", IMAGE, id="Go"),
    ],
)
def test_a_module_starts_the_image_and_clients_reach_it(
    docker: dict[str, str], program: Callable[[], list[str]], name: str, image: str, tmp_path: Path
):
    command = [*program(), name, image]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=docker)
    try:
        bootstrap = None
        while bootstrap is None:
            line = read_line(process.stdout, STARTED_WITHIN_S).decode()
            assert line.endswith("\n"), f"{name} did not start:\n{(tmp_path / 'log').read_text()[-4000:]}"
            bootstrap = line.split()[1] if line.startswith("bootstrap ") else None
        round_trip(bootstrap)
    finally:
        process.stdin.close()
        process.wait(STARTED_WITHIN_S)
        process.stdout.close()
    assert process.returncode == 0
