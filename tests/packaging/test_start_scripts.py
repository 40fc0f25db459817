"""The image's start scripts with the starter scripts of Testcontainers' Kafka modules, in a folder instead of a container.

A module runs `sh -c "while [ ! -f SCRIPT ] ..."` in the container, copies SCRIPT there when it knows the published port, and
waits for a line in the log. The scripts, variables and lines here are those of the modules named; paths begin with the test's
folder, and ports are free ones. test_testcontainers.py runs the modules themselves where there is Docker.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.packaging.round_trip import round_trip
from tests.support.ports import HeldPort
from tests.support.waiting import WITHIN_S, wait_until

REPOSITORY = Path(__file__).resolve().parents[2]
CONTAINER = REPOSITORY / "container"
FOLDERS = {"kafka": "etc/kafka/docker", "confluent": "etc/confluent/docker", "bin": "usr/local/bin"}

PATIENT = "while [ ! -f {script} ]; do sleep 0.1; done; "
KRAFT = {
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_NODE_ID": "1",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
    "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
}
ALL = {
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
    "KAFKA_BROKER_ID": "1",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": "9223372036854775807",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
}


class Module(NamedTuple):
    """A module of Testcontainers. `{...}` are a path, an address or a port of the test."""

    name: str
    command: Sequence[str]
    script: str
    line: str
    variables: dict[str, str]
    starter: str = "{root}/tmp/testcontainers_start.sh"


JAVA_COMMAND = ["sh", "-c", PATIENT + "{script}"]
JAVA_SCRIPT = "#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{public},BROKER://{inner}\n"
ZOOKEEPER = (
    "echo 'clientPort=2181' > {root}/tmp/zookeeper.properties\n"
    "echo 'dataDir=/var/lib/zookeeper/data' >> {root}/tmp/zookeeper.properties\n"
    "echo 'dataLogDir=/var/lib/zookeeper/log' >> {root}/tmp/zookeeper.properties\n"
    "zookeeper-server-start {root}/tmp/zookeeper.properties &\n"
)
FORMAT = (
    "sed -i '/KAFKA_ZOOKEEPER_CONNECT/d' {root}/etc/confluent/docker/configure\n"
    "echo 'kafka-storage format --ignore-formatted -t \"4L6g3nShT-eMCtK--X86sw\" -c /etc/kafka/kafka.properties'"
    " >> {root}/etc/confluent/docker/configure\n"
)
RUNNING = r"(?s).*Transitioning from RECOVERY to RUNNING.*"
STARTED = r"(?s).*\[KafkaServer id=\d+\] started.*"

MODULES = [
    Module(
        "Java 2.0.2, org.testcontainers.kafka.KafkaContainer",
        JAVA_COMMAND,
        JAVA_SCRIPT + "{root}/etc/kafka/docker/run \n",
        RUNNING,
        ALL | KRAFT,
    ),
    Module(
        "Java 2.0.2, org.testcontainers.kafka.ConfluentKafkaContainer",
        JAVA_COMMAND,
        JAVA_SCRIPT + "{root}/etc/confluent/docker/run \n",
        RUNNING,
        ALL | KRAFT,
    ),
    Module(
        "Java 1.21.3, org.testcontainers.containers.KafkaContainer, ZooKeeper",
        JAVA_COMMAND,
        JAVA_SCRIPT
        + "echo '' > {root}/etc/confluent/docker/ensure \n"
        + ZOOKEEPER
        + "{root}/etc/confluent/docker/run \n",
        STARTED,
        ALL | {"KAFKA_ZOOKEEPER_CONNECT": "localhost:2181"},
    ),
    Module(
        "Python 4.15.0, ZooKeeper",
        ["sh", "-c", PATIENT + "sh {script}"],
        "#!/bin/bash\n\n" + ZOOKEEPER + "export KAFKA_ZOOKEEPER_CONNECT='localhost:2181'\n\n"
        "export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{public},BROKER://$(hostname -i | cut -d' ' -f1):{inner_port}\n"
        ". {root}/etc/confluent/docker/bash-config\n"
        "{root}/etc/confluent/docker/configure\n"
        "{root}/etc/confluent/docker/launch",
        STARTED,
        ALL,
        "{root}/tc-start.sh",
    ),
    Module(
        "Python 4.15.0, with_kraft",
        ["sh", "-c", PATIENT + "sh {script}"],
        "#!/bin/bash\n\n" + FORMAT + "\n"
        "export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{public},BROKER://$(hostname -i | cut -d' ' -f1):{inner_port}\n"
        ". {root}/etc/confluent/docker/bash-config\n"
        "{root}/etc/confluent/docker/configure\n"
        "{root}/etc/confluent/docker/launch",
        r"(?s).*Kafka Server started.*",
        ALL | KRAFT,
        "{root}/tc-start.sh",
    ),
    Module(
        "Node 11.14.0, tag 7.3.0 with KRaft",
        ["sh", "-c", "echo 'Waiting for script...'; " + PATIENT + "{script}"],
        JAVA_SCRIPT + "echo '' > {root}/etc/confluent/docker/ensure \n" + FORMAT + "{root}/etc/confluent/docker/run \n",
        r"(?s).*\"ready\": true.*",  # the module waits for the port instead
        ALL | KRAFT | {"KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE": "false"},
        "{root}/testcontainers_start.sh",
    ),
    Module(
        "Go 0.40.0",
        ["sh", "-c", PATIENT + "bash {script}"],
        "#!/bin/bash\n"
        "source {root}/etc/confluent/docker/bash-config\n"
        "export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{public},BROKER://{inner}\n"
        "echo Starting Kafka KRaft mode\n"
        "sed -i '/KAFKA_ZOOKEEPER_CONNECT/d' {root}/etc/confluent/docker/configure\n"
        'echo \'kafka-storage format --ignore-formatted -t "$(kafka-storage random-uuid)"'
        " -c /etc/kafka/kafka.properties' >> {root}/etc/confluent/docker/configure\n"
        "echo '' > {root}/etc/confluent/docker/ensure\n"
        "{root}/etc/confluent/docker/configure\n"
        "{root}/etc/confluent/docker/launch",
        RUNNING,
        ALL | KRAFT | {"KAFKA_REST_BOOTSTRAP_SERVERS": "PLAINTEXT://0.0.0.0:9093"},
        "{root}/usr/sbin/testcontainers_start.sh",
    ),
]


@pytest.fixture
def root(tmp_path) -> Path:
    """A folder with the files of the image whose paths the scripts know."""
    for name, place in FOLDERS.items():
        shutil.copytree(CONTAINER / name, tmp_path / place)
    for folder in ("tmp", "usr/sbin", "data", "etc/coordinator"):
        (tmp_path / folder).mkdir()
    config = (REPOSITORY / "config" / "container.yaml").read_text()
    (tmp_path / "etc/coordinator/coordinator.yaml").write_text(
        config.replace("log.dir: /data", f"log.dir: {tmp_path}/data").replace("0.0.0.0:9644", "127.0.0.1:0")
    )
    run = tmp_path / "etc/kafka/docker/run"
    run.write_text(run.read_text().replace(" /etc/", f" {tmp_path}/etc/"))
    program = tmp_path / "usr/local/bin/coordinator"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m coordinator "$@"\n')
    program.chmod(0o755)
    return tmp_path


@pytest.fixture
def started(root) -> Iterator[subprocess.Popen[bytes]]:
    processes = []

    def start(command: Sequence[str], **variables: str) -> subprocess.Popen[bytes]:
        path = f"{root}/usr/local/bin:{os.environ['PATH']}"
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("KAFKA_", "COORDINATOR_"))}
        with (root / "log").open("wb") as log:
            process = subprocess.Popen(
                [str(root / "usr/local/bin/entrypoint"), *command],
                stdout=log, stderr=log, cwd=root / "tmp", start_new_session=True,
                env=kept | {"PATH": path, "PYTHONPATH": str(REPOSITORY)} | variables,
            )  # fmt: skip
        processes.append(process)
        return process

    yield start
    for process in processes:
        os.killpg(process.pid, 9)
        process.wait()


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_a_module_starts_the_server_with_its_own_script_and_sees_its_line(module, root, started):
    held = [HeldPort() for _ in range(2)]
    public, inner = held
    places = {"root": str(root), "public": public.address, "inner": inner.address, "inner_port": str(inner.port)}
    script = Path(filled(module.starter, places))
    listeners = f"PLAINTEXT://127.0.0.1:{public.port},BROKER://127.0.0.1:{inner.port}"
    if "KAFKA_PROCESS_ROLES" in module.variables:
        listeners += ",CONTROLLER://0.0.0.0:9094"
    command = [filled(word, places | {"script": str(script)}) for word in module.command]
    try:
        process = started(command, **module.variables, KAFKA_LISTENERS=listeners)
        whole = root / "script"
        whole.write_text(filled(module.script, places))
        whole.chmod(0o777)
        whole.rename(script)  # at once, or the command that waits for it may run an empty one
        log = root / "log"

        def seen() -> bool:
            assert process.poll() is None, log.read_text()
            return re.match(module.line, log.read_text()) is not None

        wait_until(seen, lambda: f"{module.line}:\n{log.read_text()}")
        round_trip(public.address)
        assert "not found" not in log.read_text()
        assert "No such file" not in log.read_text()
    finally:
        for each in held:
            each.release()


def filled(text: str, places: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda name: places[name[1]], text)


def test_the_entry_point_passes_a_shell_or_a_path_on_and_runs_other_words_as_commands(root):
    def printed(*words: str) -> str:
        done = subprocess.run(
            [root / "usr/local/bin/entrypoint", *words], capture_output=True, text=True, check=False, timeout=WITHIN_S,
            env=os.environ | {"PATH": f"{root}/usr/local/bin:{os.environ['PATH']}", "PYTHONPATH": str(REPOSITORY)},
        )  # fmt: skip
        return done.stdout

    assert printed("sh", "-c", "echo $0 $1", "a", "b") == "a b\n"
    assert printed("bash", "-c", "echo $BASH_VERSION") != "\n"
    assert printed("/bin/echo", "serve") == "serve\n"
    assert printed("--version").startswith("coordinator ")
    assert "Usage: coordinator serve" in printed("serve", "--help")
